"""Every control of the app's pages, found through the accessibility tree and used; and what others change."""

import a11y
from app import NAME, App
from stage import Stage, expect, has_owner, spawn, wait_for, within_a_second

MODES = [
    ("interactive", "Interactive"),
    ("fifo", "First Come, First Served"),
    ("low-power", "Low Power"),
    ("auto", "Automatic"),
]
PREEMPTION = "Interrupt Background Work"
SWITCHES = {
    "Let Programs Ask": "follow_holds",
    "Change Mode on Battery": "follow_power_source",
    "Save Power When the Battery Is Low": "follow_low_battery",
    "Plugging In or Out Ends a Choice": "choice_ends_with_source",
    "Go with the Power Profile": "follow_power_profile",
    "Prefer a Profile Just Chosen": "follow_profile_changes",
    "Low Power Sets the Profile": "drive_power_profile",
}

stage = Stage()
stage.serve()
app = App()

# The first page explains, and turns on.
app.expect_text("Keep Your Desktop Responsive")
app.use("Turn On", "button")
stage.wait_until("State", "running")
wait_for("the controls", lambda: app.is_on("Use Scherzo") and app.is_on("Automatic"))

# Each mode is chosen, and each choice can be taken back.
before = "auto"
for mode, title in MODES:
    app.use(title, "radio button")
    stage.wait_until("RequestedMode", mode)
    app.expect_text(f"Mode: {title}")
    # The one before fades out, and its button does nothing any more.
    wait_for("one offer to undo", lambda: len(a11y.find_all(app.root, "button", "Undo")) == 1)
    app.use("Undo", "button")
    stage.wait_until("RequestedMode", before)
    wait_for("the choice is shown as taken back", lambda: not app.is_on(title) or before == mode)
    app.use(title, "radio button")
    stage.wait_until("RequestedMode", mode)
    before = mode

# Only the last choice can be taken back, however quickly they follow each other.
for title in ["Interactive", "Low Power"]:
    app.use(title, "radio button")
    wait_for(f"{title} is chosen", lambda: app.is_on(title))
app.expect_text("Mode: Low Power")
app.expect_gone("Mode: Interactive")
app.use("Undo", "button")
stage.wait_until("RequestedMode", "interactive")
app.use("Automatic", "radio button")
stage.wait_until("RequestedMode", "auto")

# Switches, there and back.
value = stage.get("Preemption")
for wanted in [not value, value]:
    app.use(PREEMPTION, "check box")
    stage.wait_until("Preemption", wanted)
for wanted in [False, True]:
    app.use("Use Scherzo", "check box")
    stage.wait_until("Enabled", wanted)
    stage.wait_until("State", "running" if wanted else "stopped")
within_a_second("the end of the offer to turn it on", lambda: not app.shows("Scherzo is turned off"))

# What others change.
stage.call("SetMode", "(s)", "fifo")
within_a_second("a mode chosen elsewhere", lambda: app.is_on("First Come, First Served"))
stage.call("SetPreemption", "(b)", not value)
within_a_second("preemption chosen elsewhere", lambda: app.is_on(PREEMPTION) != value)
stage.call("SetEnabled", "(b)", False)
within_a_second("turned off elsewhere", lambda: not app.is_on("Use Scherzo"))
stage.call("SetEnabled", "(b)", True)
within_a_second("turned on elsewhere", lambda: app.is_on("Use Scherzo"))
stage.call("SetMode", "(s)", "auto")

# A program's hold appears, says who and why, and is released.
stage.call("HoldMode", "(sss)", "low-power", "Plays a film", "org.example.Player")
within_a_second("a program's hold", lambda: app.shows("Plays a film"))
app.use("Release", "button")
stage.wait_until("Holds", [])
within_a_second("the hold is gone", lambda: not app.shows("Plays a film"))

# A comparison with and without ends when somebody turns the scheduler off meanwhile, and does not turn it on again.
app.screen.keys("ctrl+k")
app.choose("Duration", "1 minute")
app.use("Measure", "button")
app.expect_text("Measuring With Scherzo")
stage.wait_until("State", "running")
stage.call("SetEnabled", "(b)", False)
app.expect_text("Something else changed the scheduler meanwhile")
expect("what somebody else has chosen", stage.get("Enabled"), False)
stage.call("SetEnabled", "(b)", True)
stage.wait_until("State", "running")
app.screen.keys("alt+Left")

# The settings of the automatic mode. Without GNOME Shell and a tray neither is offered.
app.screen.keys("ctrl+comma")
a11y.find(app.root, "dialog", "Preferences")
for absent in ["Quick Access", "Toggle in the Quick Settings", "Icon in the Panel"]:
    expect(f"{absent} is offered", app.shows(absent), False)
for title, key in SWITCHES.items():
    value = stage.get("Settings")[key]
    for wanted in [not value, value]:
        app.use(title, "check box")
        wait_for(f"{key} is {wanted}", lambda: stage.get("Settings")[key] == wanted)
for wanted in ["user", "kernel"]:
    app.use("Decide in the Kernel", "check box")
    stage.wait_until("Engine", wanted)
stage.call("SetEngine", "(s)", "user")
within_a_second("an engine chosen elsewhere", lambda: not app.is_on("Decide in the Kernel"))
app.choose("Usual Mode", "First Come, First Served")
wait_for("the usual mode", lambda: stage.get("Settings")["default_mode"] == "fifo")
app.choose("Mode on Battery", "Interactive")
wait_for("the mode on battery", lambda: stage.get("Settings")["battery_mode"] == "interactive")
for row, suffix in [("Modes When Plugged In", ""), ("Modes on Battery", "_on_battery")]:
    app.click(a11y.find(app.root, "list item", row))
    for profile in ["power_saver", "balanced", "performance"]:
        app.choose(profile.replace("_", " ").title(), "First Come, First Served")
        key = f"{profile}_mode{suffix}"
        wait_for(key, lambda: stage.get("Settings")[key] == "fifo")
    app.look(f"preferences{suffix.replace('_', '-')}")
    app.click(a11y.find(app.root, "list item", row))
    app.expect_gone("Performance")
spin = a11y.find(app.root, "spin button", "Longest Wait for a Login")
expect("setting the wait", a11y.set_value(spin, 60), True)
wait_for("the wait", lambda: stage.get("Settings")["boot_delay_s"] == 60)
stage.call("Configure", "(a{sv})", {"follow_holds": stage.variant("b", False)})
within_a_second("a setting changed elsewhere", lambda: not app.is_on("Let Programs Ask"))
app.screen.keys("Escape")
wait_for("the end of the preferences", lambda: not a11y.find_all(app.root, "dialog", "Preferences"))
app.expect_running()

# Started at a page, it asks once it knows whom.
app.process.terminate()
app.process.wait()
wait_for("the app has ended", lambda: not has_owner(stage.session, NAME))
spawn("/usr/bin/scherzo", "--view", "diagnosis")
root = a11y.application("scherzo")
wait_for("a report to copy", lambda: a11y.has_state(a11y.find(root, "button", "Copy Report"), "sensitive"))
