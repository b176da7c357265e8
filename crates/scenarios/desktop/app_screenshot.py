"""The app's pages, for README and AppStream metadata."""

import time

import a11y
from app import App
from stage import Stage, output_of, wait_for

# Long enough for curves that say something.
LIVE_S = 20.0

stage = Stage()
stage.serve()
stage.call("SetEnabled", "(b)", True)
app = App(width=900, height=760)
wait_for("the controls", lambda: a11y.find_all(app.root, "radio button"))


def picture(page):
    time.sleep(1.0)
    output_of("mogrify", "-strip", app.screen.picture(f"app-{page}", app.window))


# Out of the window: what the pointer is over would be described in place of its figures.
app.screen.hover(1270, 890)
picture("overview")
app.screen.keys("alt+2")
time.sleep(LIVE_S)
picture("statistics")
