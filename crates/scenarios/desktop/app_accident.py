"""The app is killed while it compares: afterwards the scheduler is on or off as before, unless somebody has decided otherwise."""

import time

from app import NAME, App
from stage import Stage, expect, has_owner, wait_for

# Within this time an app that has started would have asked for what it remembers.
SETTLED_S = 1.0


def kill_while_it_compares():
    """Starts a comparison in a new app, and kills it in the first round, which is without Scherzo."""
    app = App()
    app.screen.keys("ctrl+k")
    app.choose("Duration", "1 minute")
    app.use("Measure", "button")
    app.expect_text("Measuring Without Scherzo")
    stage.wait_until("Enabled", False)
    app.process.kill()
    app.process.wait()
    wait_for("the end of the app", lambda: not has_owner(stage.session, NAME))


stage = Stage()
stage.serve()
stage.call("SetEnabled", "(b)", True)
stage.wait_until("State", "running")

# Left turned off, it is turned on when the app starts again.
kill_while_it_compares()
app = App()
stage.wait_until("Enabled", True)
app.process.terminate()
app.process.wait()

# Somebody turns it on after the accident, where it was off before: the app leaves that alone.
stage.call("SetEnabled", "(b)", False)
kill_while_it_compares()
stage.call("SetEnabled", "(b)", True)
app = App()
wait_for("the controls", lambda: app.is_on("Use Scherzo"))
time.sleep(SETTLED_S)
expect("what somebody has chosen", stage.get("Enabled"), True)
app.expect_running()
