"""The quick-settings toggle in a real GNOME Shell: seen, clicked, followed, left and turned off."""

import time

from gnome_shell import ACTIVE, GnomeShell
from stage import Kernel, Stage, bus_call, expect, has_owner, wait_for, within_a_second

MODES = ["Automatic", "Interactive", "First Come, First Served", "Low Power"]
APP = "org.scherzo.Scherzo"
NOTIFIER = "org.scherzo.Notifier"
# An ejection that lasts as long as this is told, and a little later the message is there.
TELL_AFTER_S = 2.0
LATE_S = 0.5

stage = Stage()
kernel = Kernel("/tmp/kernel")
shell = GnomeShell(stage)


def toggle(expression):
    return shell.value(f"rig.toggle()?.{expression} ?? null", default=None)


def shows(subtitle):
    return lambda: toggle("subtitle") == subtitle


def checked_items():
    marked = "item._ornamentIcon?.icon_name === 'ornament-check-symbolic'"
    return shell.value(f"rig.toggle().menu._getMenuItems().filter(item => {marked}).map(item => item.label.text)")


def messages():
    ours = "Main.messageTray.getSources().filter(source => source.title === 'Scherzo')"
    return shell.value(f"{ours}.map(source => source.count)")


def expect_no_message(when):
    time.sleep(TELL_AFTER_S + LATE_S)
    expect(f"messages {when}", messages(), [])


# Without the service the toggle is there and hidden, and following has started nothing.
wait_for("the extension", lambda: shell.extension("state") == ACTIVE)
wait_for("the toggle", lambda: shell.value("rig.toggle() !== null"))
expect("visible without the service", toggle("visible"), False)
stage.expect_not_activated()

# The service comes.
stage.serve(kernel)
within_a_second("the toggle appears", lambda: toggle("visible"))
expect("subtitle", toggle("subtitle"), "Turned off")
expect("checked", toggle("checked"), False)

# Turned on with the pointer, and the shell shows what the service says.
shell.click("rig.quickSettings()")
shell.click("rig.toggle()")
stage.wait_until("State", "running")
within_a_second("the toggle is on", lambda: toggle("checked") and toggle("subtitle") == "Interactive")

# Each mode is chosen in the menu.
for mode, text in [("fifo", "First Come, First Served"), ("low-power", "Low Power"), ("interactive", "Interactive"), ("auto", "Automatic")]:
    shell.choose(text)
    stage.wait_until("RequestedMode", mode)
    wait_for(f"the mark at {text}", lambda: checked_items() == [text])
expect("items", [text for text in MODES if shell.value(f"!!rig.item('{text}')")], MODES)

# Preemption is switched there and back.
before = stage.get("Preemption")
for wanted in [not before, before]:
    shell.choose("Interrupt Background Work")
    stage.wait_until("Preemption", wanted)
wait_for("the switch", lambda: shell.value("rig.item('Interrupt Background Work').state") == before)

# Who thinks better of it before the service has answered has the last word.
stage.pause()
for _ in range(2):
    # As the space bar does, which leaves the menu open.
    shell.run("rig.item('Interrupt Background Work').toggle()")
stage.go_on()
time.sleep(LATE_S)
expect("preemption after second thoughts", stage.get("Preemption"), before)
wait_for("the switch after second thoughts", lambda: shell.value("rig.item('Interrupt Background Work').state") == before)

# What others change shows.
stage.call("SetMode", "(s)", "fifo")
within_a_second("a mode chosen elsewhere", lambda: toggle("subtitle") == "FIFO" and checked_items() == ["First Come, First Served"])
stage.call("SetPreemption", "(b)", not before)
within_a_second("preemption chosen elsewhere", lambda: shell.value("rig.item('Interrupt Background Work').state") != before)
shell.open_menu()
shell.picture(f"shell-{shell.major}-menu")

# The engine is killed, and another one takes over: nobody is told.
expect("messages", messages(), [])
stage.kill_engine()
stage.wait_until("State", "running")
expect_no_message("what mended itself")

# The scheduler is ejected for longer: told once, and shown in the panel until it runs again.
for _ in range(3):
    stage.eject(kernel)
wait_for("the message", lambda: messages() == [1])
stage.wait_until("State", "running")
# The mode was new, and is taken back.
within_a_second("running again", shows("Interactive"))
shell.picture(f"shell-{shell.major}-ejected")
shell.dismiss_messages()

# While the app is there, it is the app that tells.
bus_call(stage.session, "RequestName", "(su)", APP, 0)
# What the shell answers now, it answers after having heard of the name.
expect("messages before", messages(), [])
stage.eject(kernel)
expect_no_message("while the app is there")
bus_call(stage.session, "ReleaseName", "(s)", APP)

# The service goes and comes.
stage.leave()
within_a_second("the toggle hides", lambda: toggle("visible") is False)
stage.expect_not_activated()
stage.serve(kernel)
within_a_second("the toggle returns", lambda: toggle("visible"))

# Turned off and on again it leaves nothing behind; and a tray that was there first is the one to tell, until it leaves.
nr_menus = shell.value("rig.quickSettings().menu._overlay.get_n_children()")
shell.enable(False)
expect("the toggle of a disabled extension", shell.value("rig.toggle() !== null"), False)
expect("menus of a disabled extension", shell.value("rig.quickSettings().menu._overlay.get_n_children()"), nr_menus - 1)
expect("the name of a disabled extension", has_owner(stage.session, NOTIFIER), False)
bus_call(stage.session, "RequestName", "(su)", NOTIFIER, 0)
shell.enable(True)
wait_for("the toggle after turning on again", lambda: toggle("visible"))
stage.call("SetEnabled", "(b)", True)
for _ in range(3):
    stage.eject(kernel)
expect_no_message("while a tray is there")
bus_call(stage.session, "ReleaseName", "(s)", NOTIFIER)
wait_for("the extension's turn", lambda: has_owner(stage.session, NOTIFIER))
expect("messages before the extension's first", messages(), [])
stage.eject(kernel)
wait_for("the message after the tray has left", lambda: messages() == [1])
shell.expect_no_errors()
