"""The app with the service of version 0.1.0: everything that was there works, what was added since is not offered, and
nothing is called that the service does not have."""

import a11y
from app import App
from stage import Stage, expect, wait_for, within_a_second
from user_manager import UserManager

MODES = [("interactive", "Interactive"), ("low-power", "Low Power"), ("auto", "Automatic")]
PREEMPTION = "Interrupt Background Work"
# What the preferences offer with a service of today, and the title above it.
ADDED = {"In Front", "Scheduler", "Decide in the Kernel"}

stage = Stage()
stage.serve_0_1_0()
app = App()


def look(page):
    """A picture of a page, on which nothing has been refused."""
    stage.expect_nothing_lacked()
    app.look(f"of-0.1.0-{page}")


def controls():
    """The first page: on, off, modes, preemption, holds."""
    app.expect_text("Keep Your Desktop Responsive")
    look("first-run")
    app.use("Turn On", "button")
    stage.wait_until("State", "running")
    wait_for("the controls", lambda: app.is_on("Use Scherzo") and app.is_on("Automatic"))
    app.expect_text("First Come, First Served")
    app.expect_text("It is the default; nobody chose another mode.")
    for mode, title in MODES:
        app.use(title, "radio button")
        stage.wait_until("RequestedMode", mode)
        app.expect_text(f"Mode: {title}")
    for wanted in [False, True]:
        app.use(PREEMPTION, "check box")
        stage.wait_until("Preemption", wanted)
    for wanted in [False, True]:
        app.use("Use Scherzo", "check box")
        stage.wait_until("Enabled", wanted)
    stage.call("HoldMode", "(sss)", "low-power", "Plays a film", "org.example.Player")
    within_a_second("a program's hold", lambda: app.shows("Plays a film"))
    look("overview")
    app.use("Release", "button")
    stage.wait_until("Holds", [])
    within_a_second("the hold is gone", lambda: not app.shows("Plays a film"))


def views():
    """The other views, and what is pushed over them."""
    app.screen.keys("alt+2")
    app.expect_text("Wait for a Processor")
    wait_for("charts", lambda: len(a11y.find_all(app.root, "image")) >= 2)
    wait_for("readings", lambda: app.shows("of memory"))
    look("statistics")
    app.bring_into_view(a11y.find(app.root, "label", "Cost of the Engine"))
    look("statistics-end")
    app.screen.keys("ctrl+k")
    app.expect_text("Does It Help Here?")
    look("compare")
    app.screen.keys("alt+Left", "alt+3")
    app.expect_text("Turned on.")
    # This service does not tell of an entry, but of the change that it is about.
    stage.call("SetMode", "(s)", "fifo")
    app.expect_text("The mode is First Come, First Served. It was chosen by hand.")
    stage.call("SetMode", "(s)", "auto")
    look("history")
    app.screen.keys("ctrl+d")
    app.expect_text("The kernel can load schedulers.")
    look("diagnosis")
    app.screen.keys("alt+Left", "alt+1")


def preferences():
    """Settings change. Neither the engine nor who is in front can be chosen, so neither is offered."""
    manager = UserManager(stage.session)
    app.screen.keys("ctrl+comma")
    a11y.find(app.root, "dialog", "Preferences")
    value = stage.get("Settings")["follow_holds"]
    for wanted in [not value, value]:
        app.use("Let Programs Ask", "check box")
        wait_for(f"follow_holds is {wanted}", lambda wanted=wanted: stage.get("Settings")["follow_holds"] == wanted)
    app.choose("Usual Mode", "Interactive")
    wait_for("the usual mode", lambda: stage.get("Settings")["default_mode"] == "interactive")
    app.use("Add an Application", "button")
    a11y.find(app.root, "dialog", "Add an Application")
    app.screen.keys("s", "c", "h", "e", "r")
    app.click(a11y.find(app.root, "list item", "Scherzo"))
    app.choose("Mode", "Low Power")
    wait_for("somebody who goes by the rule", lambda: manager.is_enabled and manager.runs)
    expect("what is offered in vain", ADDED.intersection(a11y.texts(app.root)), set())
    look("preferences")
    app.bring_into_view(a11y.find(app.root, "spin button", "Longest Wait for a Login"))
    look("preferences-end")
    app.screen.keys("Escape")
    wait_for("the end of the preferences", lambda: not a11y.find_all(app.root, "dialog", "Preferences"))


controls()
views()
preferences()
app.expect_running()
stage.expect_nothing_lacked()
