"""The toggle and its menu, for people who want to know what they get."""

from gnome_shell import GnomeShell
from stage import Stage, output_of, wait_for

stage = Stage()
stage.serve()
stage.call("SetEnabled", "(b)", True)
shell = GnomeShell(stage, size="1024x640")
wait_for("the toggle", lambda: shell.value("rig.toggle()?.visible", default=False))
shell.open_menu()
output_of("mogrify", "-crop", "512x576+512+0", "+repage", "-strip", shell.picture("quick-settings"))
