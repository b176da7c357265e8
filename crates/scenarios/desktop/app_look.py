"""Pictures of every page in a language, a style and a width, for people to look at; and that nothing is cut off.

Arguments: locale, light or dark, width.
"""

import sys
import time

import a11y
from app import App
from stage import Stage, wait_for

locale, style, width = sys.argv[1:]
stage = Stage(locale)
stage.serve()
stage.call("SetEnabled", "(b)", True)
stage.call("HoldMode", "(sss)", "low-power", "Plays a film", "org.example.Player")
app = App(width=int(width), height=760, dark=style == "dark")
wait_for("the controls", lambda: a11y.find_all(app.root, "radio button"))


def look(page):
    app.look(f"{locale[:2]}-{style}-{width}-{page}")


look("overview")
app.screen.keys("alt+2")
time.sleep(3.0)
look("statistics")
app.screen.keys("alt+3")
look("history")
app.screen.keys("ctrl+d")
look("diagnosis")
app.screen.keys("alt+Left")
app.screen.keys("ctrl+k")
look("compare")
app.screen.keys("alt+Left")
app.screen.keys("ctrl+comma")
look("preferences")
app.expect_running()
