"""The tray in xfce4-panel: icon, tooltip, every entry of the menu used, panel and service restarted under it."""

import os
import subprocess
import sys
import time

from gi.repository import Gio, GLib

from stage import Stage, expect, has_owner, spawn, wait_for, within_a_second, write
from x11 import X11

APP_NAME = "org.scherzo.Scherzo"
APP_PATH = "/org/scherzo/Scherzo"
PANEL_HEIGHT = 32
SCREEN = "/tmp/screen.png"
PANEL_CONFIG = """<?xml version="1.0" encoding="UTF-8"?>
<channel name="xfce4-panel" version="1.0">
  <property name="configver" type="int" value="2"/>
  <property name="panels" type="array">
    <value type="int" value="1"/>
    <property name="dark-mode" type="bool" value="DARK"/>
    <property name="panel-1" type="empty">
      <property name="position" type="string" value="p=6;x=0;y=0"/>
      <property name="length" type="uint" value="100"/>
      <property name="position-locked" type="bool" value="true"/>
      <property name="icon-size" type="uint" value="16"/>
      <property name="size" type="uint" value="32"/>
      <property name="plugin-ids" type="array"><value type="int" value="1"/></property>
    </property>
  </property>
  <property name="plugins" type="empty">
    <property name="plugin-1" type="string" value="systray"/>
  </property>
</channel>
"""


class Tray:
    """The applet's item on the session bus: what it says is compared with what the panel shows."""

    def __init__(self, session):
        self.session = session
        spawn("/usr/bin/scherzo-tray")
        wait_for("the tray is on the bus", lambda: has_owner(session, "org.scherzo.Tray"))
        self.name = wait_for("its item", self.find)

    def find(self):
        names = self.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ListNames")[0]
        return next((name for name in names if name.startswith("org.kde.StatusNotifierItem-")), None)

    def call(self, name, path, interface, method, signature="()", *arguments):
        variant = GLib.Variant(signature, arguments)
        flags = Gio.DBusCallFlags.NO_AUTO_START
        return self.session.call_sync(name, path, interface, method, variant, None, flags, -1, None).unpack()

    def get(self, name):
        arguments = ("org.kde.StatusNotifierItem", name)
        interface = "org.freedesktop.DBus.Properties"
        return self.call(self.name, "/StatusNotifierItem", interface, "Get", "(ss)", *arguments)[0]

    def entries(self):
        """The labels that can be chosen, in order; a separator has none."""
        menu = self.call(self.name, "/MenuBar", "com.canonical.dbusmenu", "GetLayout", "(iias)", 0, -1, [])[1]
        return [(child[1].get("label", ""), child[1].get("enabled", True)) for child in menu[2]]


class Panel:
    """xfce4-panel with nothing but a tray, and a person in front of it."""

    def __init__(self, x11, is_dark):
        self.x11 = x11
        config = os.path.join(os.environ["HOME"], ".config/xfce4/xfconf/xfce-perchannel-xml/xfce4-panel.xml")
        write(config, PANEL_CONFIG.replace("DARK", "true" if is_dark else "false"))
        self.start()

    def start(self):
        self.process = spawn("xfce4-panel", "--disable-wm-check", stderr=subprocess.DEVNULL)

    def restart(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def has_icon(self):
        """Where the icon is, as long as there is one: the only thing in the panel that has contrast."""
        subprocess.run(["import", "-window", "root", SCREEN], check=True)
        crop = ["-crop", f"1280x{PANEL_HEIGHT - 4}+0+2", "+repage", "-fuzz", "20%", "-trim"]
        command = ["convert", SCREEN, *crop, "-format", "%w %h %X %Y", "info:"]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        values = result.stdout.split()
        if len(values) != 4 or not 6 <= int(values[0]) <= 40:
            return None
        width, height, left, top = (int(value) for value in values)
        return left + width / 2, 2 + top + height / 2

    def icon(self):
        return wait_for("the icon in the panel", self.has_icon)

    def choose(self, tray, label):
        """Opens the menu by a click, and walks to an entry by keys."""
        choices = [text for text, enabled in tray.entries() if text and enabled]
        self.x11.click(*self.icon(), button=3)
        time.sleep(0.5)
        self.x11.keys(*["Down"] * (choices.index(label) + 1), "Return")


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
    panel.choose(tray, "Preemption")
    stage.wait_until("Preemption", not before)
    panel.choose(tray, "Open Scherzo")
    wait_for("the app", lambda: has_owner(stage.session, APP_NAME))
    # Its window lies over the panel, since there is no window manager.
    tray.call(APP_NAME, APP_PATH, "org.freedesktop.Application", "ActivateAction", "(sava{sv})", "quit", [], {})
    wait_for("the app has ended", lambda: not has_owner(stage.session, APP_NAME))
    panel.choose(tray, "Use Scherzo")
    stage.wait_until("State", "stopped")


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
    x11.click(x, y, button=3)
    time.sleep(0.7)
    x11.picture(f"tray-{style}-menu")
    x11.keys("Escape")


def measure():
    """Resident memory, and how often it wakes up while nothing happens."""
    pid = subprocess.run(["pgrep", "-x", "scherzo-tray"], stdout=subprocess.PIPE, text=True).stdout.split()[-1]

    def switches():
        total = 0
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as file:
                total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
        return total

    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        resident = next(line for line in file if line.startswith("VmRSS"))
    before = switches()
    time.sleep(10)
    print(f"NOTE tray: {' '.join(resident.split())}, {switches() - before} wake-ups in 10 s of rest")


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
        measure()
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
