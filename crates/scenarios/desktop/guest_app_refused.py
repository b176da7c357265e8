"""The app on a kernel that cannot: why, and what the doctor says. In a guest, in a person's session.

Arguments: a part of the reason, and parts of what the diagnosis finds.
"""

import sys

import a11y
from app import App
from stage import Installed, on_failure

reason, *findings = sys.argv[1:]
stage = Installed()
stage.wait_until("State", "unsupported")
app = App(width=760)
# There is nothing here that takes pictures.
on_failure[:] = [lambda: print(a11y.describe(app.root))]
app.expect_text("This Kernel Is Not Supported")
app.expect_text(reason)
shown = next(text for text in a11y.texts(app.root) if reason in text)
print(f"NOTE the app says: {shown}")
app.use("Diagnosis", "button")
for finding in findings:
    app.expect_text(finding)
app.expect_running()
