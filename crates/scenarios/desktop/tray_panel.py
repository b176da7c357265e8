"""The tray in xfce4-panel: icon, tooltip, every entry of the menu used, panel and service restarted under it."""

import os
import sys
import time

from costs import pid_of, tell_costs
from panel import AUTOSTART, NAME, Panel, Tray
from stage import Stage, expect, has_owner, wait_for, within_a_second
from x11 import X11

APP_NAME = "org.scherzo.Scherzo"
APP_PATH = "/org/scherzo/Scherzo"


def use_every_entry(stage, panel, tray):
    """Each changes the service."""
    panel.choose(tray, "Use Scherzo")
    stage.wait_until("State", "running")
    for label, mode in [("Interactive", "interactive"), ("First Come, First Served", "fifo"), ("Low Power", "low-power")]:
        panel.choose(tray, label)
        stage.wait_until("RequestedMode", mode)
        wait_for(f"the icon of {mode}", lambda mode=mode: tray.get("IconName") == f"scherzo-{mode}-symbolic")
    panel.choose(tray, "Automatic")
    stage.wait_until("RequestedMode", "auto")
    before = stage.get("Preemption")
    wait_for("the automatic mode in the menu", lambda: ("Automatic (Interactive)", True) in tray.entries())
    panel.choose(tray, "Interrupt Background Work")
    stage.wait_until("Preemption", not before)
    panel.choose(tray, "Open Scherzo")
    wait_for("the app", lambda: has_owner(stage.session, APP_NAME))
    # Its window lies over the panel, since there is no window manager.
    tray.call(APP_NAME, APP_PATH, "org.freedesktop.Application", "ActivateAction", "(sava{sv})", "quit", [], {})
    wait_for("the app has ended", lambda: not has_owner(stage.session, APP_NAME))
    panel.choose(tray, "Use Scherzo")
    stage.wait_until("State", "stopped")


def start_after_login(panel, tray):
    """The person's own choice, in the menu."""
    expect("starts after login at first", os.path.exists(AUTOSTART), False)
    for wanted in [True, False]:
        panel.choose(tray, "Show After Login")
        wait_for(f"the file is there: {wanted}", lambda wanted=wanted: os.path.exists(AUTOSTART) == wanted)
        wait_for(f"the tick: {wanted}", lambda wanted=wanted: tray.is_ticked("Show After Login") == wanted)


def photograph_modes(stage, x11, panel, tray, style):
    """Icon, tooltip and menu, as they look."""
    stage.call("SetEnabled", "(b)", True)
    for mode in ["interactive", "fifo", "low-power"]:
        stage.call("SetMode", "(s)", mode)
        within_a_second(f"the icon of {mode}", lambda mode=mode: tray.get("IconName") == f"scherzo-{mode}-symbolic")
        time.sleep(0.5)
        x11.picture(f"tray-{style}-{mode}")
    x, y = panel.icon()
    x11.hover(x, y)
    time.sleep(1.5)
    x11.picture(f"tray-{style}-tooltip")
    panel.open_menu()
    x11.picture(f"tray-{style}-menu")
    x11.keys("Escape")


def main():
    style = sys.argv[1] if len(sys.argv) > 1 else "light"
    stage = Stage()
    stage.serve()
    x11 = X11()
    panel = Panel(x11, style == "dark")
    wait_for("the watcher", lambda: has_owner(stage.session, "org.kde.StatusNotifierWatcher"))
    tray = Tray(stage.session)
    panel.icon()
    if style == "light":
        use_every_entry(stage, panel, tray)
        start_after_login(panel, tray)
        tell_costs("tray", pid_of(stage.session, NAME))
    photograph_modes(stage, x11, panel, tray, style)

    panel.restart()
    time.sleep(1)
    panel.icon()
    stage.leave()
    wait_for("no service in the menu", lambda: not dict(tray.entries())["Low Power"])
    stage.serve()
    wait_for("the service in the menu", lambda: dict(tray.entries())["Low Power"])
    panel.choose(tray, "Low Power")
    stage.wait_until("RequestedMode", "low-power")

    panel.choose(tray, "Remove From Panel")
    wait_for("the tray has left", lambda: not has_owner(stage.session, "org.scherzo.Tray"))
    expect("the icon", bool(wait_for("an empty panel", lambda: panel.has_icon() is None)), True)
    stage.expect_not_activated()


main()
