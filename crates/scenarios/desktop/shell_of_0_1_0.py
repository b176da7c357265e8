"""The quick-settings toggle in a real GNOME Shell with the service of version 0.1.0: it shows and switches what was there."""

from gnome_shell import ACTIVE, GnomeShell
from stage import Stage, expect, wait_for, within_a_second

stage = Stage()
shell = GnomeShell(stage)


def toggle(expression):
    return shell.value(f"rig.toggle()?.{expression} ?? null", default=None)


def messages():
    """But for what the shell itself says about a system without a login manager."""
    titles = "source.notifications.map(message => message.title)"
    found = shell.value(f"Main.messageTray.getSources().flatMap(source => {titles})")
    return [title for title in found if title != "Screen Lock disabled"]


wait_for("the extension", lambda: shell.extension("state") == ACTIVE)
wait_for("the toggle", lambda: shell.value("rig.toggle() !== null"))
stage.serve_0_1_0()
within_a_second("the toggle appears", lambda: toggle("visible"))
expect("subtitle", toggle("subtitle"), "Turned off")
shell.click("rig.quickSettings()")
shell.click("rig.toggle()")
stage.wait_until("State", "running")
within_a_second("the toggle is on", lambda: toggle("checked") and toggle("subtitle") == "FIFO")
for mode, text in [("low-power", "Low Power"), ("auto", "Automatic")]:
    shell.choose(text)
    stage.wait_until("RequestedMode", mode)
shell.choose("Interrupt Background Work")
stage.wait_until("Preemption", False)
shell.open_menu()
shell.picture(f"shell-{shell.major}-of-0.1.0")
shell.choose("Automatic")
shell.click("rig.toggle()")
stage.wait_until("State", "stopped")
within_a_second("the toggle is off", lambda: toggle("subtitle") == "Turned off")
expect("messages", messages(), [])
shell.expect_no_errors()
stage.expect_nothing_lacked()
