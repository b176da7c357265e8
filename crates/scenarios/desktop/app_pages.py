"""Every page of the app, opened as people do: by actions, by keys and by clicks; and every state that the app can be in.

Arguments: light or dark, width.
"""

import os
import sys
import time

import a11y
from app import App
from stage import Kernel, Stage, expect, fail, has_owner, pump, wait_for
from user_manager import UserManager

# Until a menu is there, or the next entry in it.
REST_S = 0.5
NR_ATTEMPTS = 3
LONGEST_OPENING_S = 15.0

MOST_EJECTIONS = 6
MENU = ["Compare With and Without…", "Diagnosis", "Preferences", "Keyboard Shortcuts", "About Scherzo"]
RULES_DIR = "/home/person/.config/scherzo"
FOLLOW = "Follow Applications"
IN_FRONT = "In Front"
START = "let it start “scherzoctl applications watch”"

style, width = sys.argv[1:]
stage = Stage()
app = App(width=int(width), height=760, dark=style == "dark")


def look(page):
    app.look(f"{style}-{width}-{page}")


def expect_page(title, *buttons):
    """A page that says why there is nothing to control, and which ways lead out."""
    app.expect_text(title)
    for button in buttons:
        a11y.find(app.root, "button", button)
    expect(f"modes to choose from while {title!r} is shown", a11y.find_all(app.root, "radio button"), [])


def height_of(text):
    """Of the first label that says this; 0 if it cannot be seen. A banner keeps its text when it closes."""
    labels = a11y.find_all(app.root, "label", text)
    return a11y.extents(labels[0])[3] if labels else 0


def go_back():
    app.use("Back", "button")


def obstacles():
    """Why there is nothing to control, each with its way forward."""
    expect_page("The Service Is Not Running", "Start Service")
    look("not-running")
    stage.expect_not_activated()
    app.use("Start Service", "button")
    wait_for("the bus was asked to start the service", stage.was_activated)

    app.screen.keys("alt+3")
    app.expect_text("No History")
    look("history-unknown")
    app.screen.keys("alt+1")

    stage.uninstall()
    expect_page("The Service Is Missing", "Try Again")
    look("missing")
    app.use("Try Again", "button")
    expect_page("The Service Is Missing", "Try Again")

    stage.serve(Kernel("/tmp/old-kernel", has_sched_ext=False))
    expect_page("This Kernel Is Not Supported", "Diagnosis")
    look("unsupported")
    app.use("Diagnosis", "button")
    app.expect_text("has no sched_ext")
    look("diagnosis-of-a-problem")
    go_back()
    stage.leave()

    kernel = Kernel("/tmp/taken-kernel")
    kernel.load("lavd_1.0.5")
    stage.serve(kernel)
    expect_page("Another Scheduler Is Running", "Diagnosis")
    app.expect_text("lavd_1.0.5")
    look("foreign")
    stage.leave()


def first_run(kernel):
    """What it is, before it was ever turned on."""
    stage.serve(kernel)
    expect_page("Keep Your Desktop Responsive", "Turn On")
    look("first-run")
    for view, text in [("alt+2", "No Statistics"), ("alt+3", "Nothing Has Happened Yet")]:
        app.screen.keys(view)
        app.expect_text(text)
        look(text.split()[-1].lower())
    app.screen.keys("alt+1")
    app.use("Turn On", "button")
    stage.wait_until("State", "running")
    wait_for("the controls", lambda: app.is_on("Use Scherzo") and app.is_on("Automatic"))
    app.expect_text("Interactive")
    look("overview")


def troubles(kernel):
    """What goes wrong while it runs."""
    stage.silence_engine()
    stage.wait_until("State", "degraded")
    app.expect_text("The engine does not answer; nothing is lost")
    look("degraded")
    stage.silence_engine()
    stage.wait_until("State", "running")
    app.expect_text("It is the default; nobody chose another mode.")
    wait_for("the end of the banner", lambda: height_of("The engine does not answer; nothing is lost") == 0)

    # One ejection is made good at once; after six in a row the service waits for the person.
    for _ in range(MOST_EJECTIONS):
        stage.eject(kernel)
    app.expect_text("The Kernel's Scheduler Has Taken Over")
    a11y.find(app.root, "button", "Turn On")
    look("ejected")
    app.use("Turn On", "button")
    stage.wait_until("State", "running")
    app.expect_text("It is the default; nobody chose another mode.")


def views():
    """The other views, and what is pushed over them."""
    app.screen.keys("alt+2")
    app.expect_text("Wait for a Processor")
    wait_for("charts", lambda: len(a11y.find_all(app.root, "image")) >= 2)
    app.click(a11y.find(app.root, None, "Compare With and Without"))
    app.expect_text("Does It Help Here?")
    look("compare")
    app.choose("Duration", "5 minutes")
    app.use("Measure", "button")
    app.expect_text("Measuring Without Scherzo")
    stage.wait_until("Enabled", False)
    look("compare-under-way")
    app.use("Cancel", "button")
    app.expect_text("Does It Help Here?")
    stage.wait_until("State", "running")
    go_back()
    app.expect_text("Wait for a Processor")

    app.screen.keys("alt+3")
    app.expect_text("Turned on.")
    app.expect_text("The kernel ejected the scheduler")
    look("history")
    app.screen.keys("ctrl+d")
    app.expect_text("Diagnosis")
    app.use("Look Again", "button")
    app.use("Copy Report", "button")
    app.expect_text("Report copied")
    look("diagnosis")
    # A page that is there already is gone back to, and one that is on its way out is no hindrance.
    app.screen.keys("ctrl+k")
    app.expect_text("Does It Help Here?")
    app.screen.keys("ctrl+d")
    app.expect_gone("Does It Help Here?")
    a11y.find(app.root, "button", "Look Again")
    app.screen.keys("alt+Left", "ctrl+d")
    a11y.find(app.root, "button", "Look Again")
    app.screen.keys("alt+Left")
    app.expect_text("Turned on.")


def dialogs():
    """What opens over the pages, by its key and from the menu."""
    app.screen.keys("alt+1")
    app.screen.keys("ctrl+question")
    app.expect_text("Compare with and without")
    # A window of its own, which GTK makes as wide as it wants.
    app.screen.picture(f"app-{style}-{width}-shortcuts")
    app.screen.keys("Escape")
    app.expect_gone("Compare with and without")
    app.screen.focus(app.window)
    for entry, text in [("Keyboard Shortcuts", "Compare with and without"), ("About Scherzo", "The Scherzo contributors")]:
        choose_from_menu(entry, text)
        if entry == "About Scherzo":
            look("about")
        app.screen.keys("Escape")
        app.expect_gone(text)
        app.screen.focus(app.window)


def choose_from_menu(entry, text):
    """With the keyboard, until what it opens is seen. What is in the menu cannot be told from outside, and on a busy machine
    a menu that is still coming in misses keys: then another entry was chosen, and it is tried again."""
    for _ in range(NR_ATTEMPTS):
        app.use("Main Menu")
        time.sleep(REST_S)
        for _ in range(MENU.index(entry)):
            app.screen.keys("Down")
            time.sleep(REST_S)
        app.screen.keys("Return")
        deadline = time.monotonic() + LONGEST_OPENING_S
        while time.monotonic() < deadline:
            pump()
            if app.shows(text):
                return
        app.screen.keys("Escape")
        app.screen.focus(app.window)
    fail(f"{entry} in the menu did not open {text!r}")


def rules():
    """The preferences, with a rule for an application made, changed and removed; it is gone by from the first one on."""
    app.screen.keys("ctrl+comma")
    a11y.find(app.root, "dialog", "Preferences")
    look("preferences")
    wait_for("what to do without systemd", lambda: app.shows(f"This session is not run by systemd: {START}"))
    close_preferences()
    manager = UserManager(stage.session)
    app.screen.keys("ctrl+comma")
    a11y.find(app.root, "dialog", "Preferences")
    app.use("Add an Application", "button")
    a11y.find(app.root, "dialog", "Add an Application")
    # The entry that is typed into takes keys first.
    app.screen.keys("s", "c", "Escape")
    wait_for("the end of the list", lambda: not a11y.find_all(app.root, "dialog", "Add an Application"))
    app.use("Add an Application", "button")
    a11y.find(app.root, "dialog", "Add an Application")
    look("applications")
    app.screen.keys("s", "c", "h", "e", "r")
    app.click(a11y.find(app.root, "list item", "Scherzo"))
    # A rule that was just made is open.
    app.choose("Mode", "Low Power")
    wait_for("the rule", lambda: "low-power" in rules_file())
    os.chmod(RULES_DIR, 0o500)
    app.click(a11y.find(app.root, "combo box", "Mode"))
    app.click(wait_for("another mode", lambda: app.options("Interactive"))[-1])
    app.expect_text("Permission denied")
    wait_for("the mode as it is", lambda: "Low Power" in a11y.texts(a11y.find(app.root, "combo box", "Mode")))
    os.chmod(RULES_DIR, 0o700)
    app.use(IN_FRONT, "check box")
    wait_for("the application in front", lambda: "foreground = true" in rules_file())
    app.expect_text("Low Power, in front")
    wait_for("somebody who goes by it", lambda: manager.is_enabled and manager.runs and app.is_on(FOLLOW))
    look("preferences-with-a-rule")
    for wanted in [False, True]:
        app.use(FOLLOW, "check box")
        wait_for(f"{FOLLOW}: {wanted}", lambda: (manager.is_enabled, manager.runs) == (wanted, wanted))
        wait_for("the switch", lambda: app.is_on(FOLLOW) == wanted)
    app.use(IN_FRONT, "check box")
    wait_for("not in front any more", lambda: "foreground" not in rules_file() and "low-power" in rules_file())
    app.use("Remove Scherzo", "button")
    wait_for("no rule", lambda: "low-power" not in rules_file())
    # The button that was used is gone; the keyboard goes on from what is next to it.
    wait_for("the focus", lambda: a11y.has_state(a11y.find(app.root, "button", "Add an Application"), "focused"))
    # While a message is shown, Escape ends that.
    app.expect_gone("Permission denied")
    close_preferences()


def close_preferences():
    app.screen.keys("Escape")
    wait_for("the end of the preferences", lambda: not a11y.find_all(app.root, "dialog", "Preferences"))


def rules_file():
    try:
        with open(f"{RULES_DIR}/applications.toml", encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def another_scheduler(kernel):
    """Somebody else's scheduler comes while Scherzo is wanted, and Scherzo is not to return after it."""
    kernel.unload()
    stage.wait_until("State", "fallback")
    kernel.load("lavd_1.0.5")
    stage.wait_until("State", "foreign")
    expect_page("Another Scheduler Is Running", "Diagnosis", "Turn Off")
    look("foreign-in-the-way")
    app.use("Turn Off", "button")
    stage.wait_until("Enabled", False)
    app.expect_text("Scherzo is turned off")
    wait_for("one button", lambda: not a11y.find_all(app.root, "button", "Turn Off"))


def lost_bus():
    """The system bus goes."""
    stage.lose_bus()
    expect_page("Not Connected", "Try Again")
    look("no-bus")


obstacles()
usual = Kernel("/tmp/usual-kernel")
first_run(usual)
troubles(usual)
views()
dialogs()
rules()
another_scheduler(usual)
lost_bus()
app.expect_running()
