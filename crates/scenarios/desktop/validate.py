"""What other programs read about the app is as they expect it."""

import subprocess

from stage import fail

METAINFO = "/usr/share/metainfo/org.scherzo.Scherzo.metainfo.xml"
# The project has no home page that could be named.
NO_HOMEPAGE = "--override=url-homepage-missing=info"
CHECKS = [
    ["appstreamcli", "validate", "--no-net", "--explain", NO_HOMEPAGE, METAINFO],
    ["desktop-file-validate", "/usr/share/applications/org.scherzo.Scherzo.desktop"],
    ["desktop-file-validate", "/usr/share/applications/org.scherzo.Tray.desktop"],
]

for command in CHECKS:
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # desktop-file-validate warns without failing.
    if result.returncode != 0 or (command[0] == "desktop-file-validate" and result.stdout):
        fail(f"{' '.join(command)}:\n{result.stdout}")
