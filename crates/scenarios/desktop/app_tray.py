"""The app offers the icon in the panel where there is a panel, shows it, and takes it away again."""

import os

import a11y
from app import App
from panel import AUTOSTART, PANEL_HEIGHT, Panel, Tray
from stage import Stage, expect, wait_for, within_a_second

ICON = "Icon in the Panel"

stage = Stage()
stage.serve()
# The panel lies over the window's place otherwise: nothing here arranges windows.
app = App(height=800, top=PANEL_HEIGHT + 8)
app.screen.keys("ctrl+comma")
a11y.find(app.root, "dialog", "Preferences")
expect("offered without a panel", app.shows(ICON), False)

panel = Panel(app.screen, is_dark=False)
app.expect_text(ICON)
expect("on at first", app.is_on(ICON), False)
app.look("preferences-panel")

# Where nobody had such a directory yet, what happens right after it has come is seen as well.
expect("a directory at first", os.path.exists(os.path.dirname(AUTOSTART)), False)
app.use(ICON, "check box")
wait_for("the file", lambda: os.path.exists(AUTOSTART))
os.remove(AUTOSTART)
within_a_second("the file is removed by somebody else", lambda: not app.is_on(ICON))

# It is there at once, and after every login.
app.use(ICON, "check box")
wait_for("the file", lambda: os.path.exists(AUTOSTART))
tray = Tray(stage.session, is_there=True)
panel.icon()
wait_for("the tick in the menu", lambda: tray.is_ticked("Show After Login"))

# The menu changes the same; the icon stays for now.
panel.choose(tray, "Show After Login")
wait_for("the file is gone", lambda: not os.path.exists(AUTOSTART))
within_a_second("the choice made in the menu", lambda: not app.is_on(ICON))
expect("the tray", tray.is_there(), True)

# It goes at once, and stays away.
for wanted in [True, False]:
    app.use(ICON, "check box")
    wait_for(f"the file is there: {wanted}", lambda wanted=wanted: os.path.exists(AUTOSTART) == wanted)
    wait_for(f"the tray is there: {wanted}", lambda wanted=wanted: tray.is_there() == wanted)

# A panel that goes takes the offer with it.
panel.process.kill()
panel.process.wait()
app.expect_gone(ICON)
app.expect_running()
