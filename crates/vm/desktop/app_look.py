"""Pictures of every page in a language, a style and a width, for people to look at; and that nothing is cut off.

Arguments: locale, light or dark, width.
"""

import sys
import time

import a11y
from app import App
from stage import Stage, expect, wait_for

# By so much the coordinates of things on a page and of the window differ at most.
SHADOW = 12

locale, style, width = sys.argv[1:]
stage = Stage(locale)
stage.serve()
stage.call("SetEnabled", "(b)", True)
stage.call("HoldMode", "(sss)", "low-power", "Plays a film", "org.example.Player")
app = App(width=int(width), height=760, dark=style == "dark")
wait_for("the controls", lambda: a11y.find_all(app.root, "radio button"))


def picture(page):
    time.sleep(1.0)
    app.screen.picture(f"app-{locale[:2]}-{style}-{width}-{page}", app.window)
    x, _, extent, _ = a11y.extents(app.frame())
    expect(f"width of {page}", extent, int(width))
    outside = [(node.get_name(), a11y.extents(node)) for node in a11y.walk(app.root) if cut_off(node, x, x + extent)]
    expect(f"what is cut off in {page}", outside, [])


def cut_off(node, left, right):
    """Whether a control that is shown reaches out of the window."""
    if not a11y.is_shown(node) or node.get_role_name() not in ("button", "check box", "radio button", "combo box"):
        return False
    x, _, width, _ = a11y.extents(node)
    return x < left - SHADOW or x + width > right + SHADOW


picture("overview")
app.screen.keys("alt+2")
time.sleep(3.0)
picture("statistics")
app.screen.keys("alt+3")
picture("history")
app.screen.keys("ctrl+d")
picture("diagnosis")
app.screen.keys("alt+Left")
app.screen.keys("ctrl+k")
picture("compare")
app.screen.keys("alt+Left")
app.screen.keys("ctrl+comma")
picture("preferences")
app.expect_running()
