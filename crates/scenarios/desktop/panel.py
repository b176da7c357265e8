"""xfce4-panel with a tray, and our item in it."""

import os
import subprocess
import time

from gi.repository import Gio, GLib

from stage import has_owner, spawn, wait_for, write

NAME = "org.scherzo.Tray"
AUTOSTART = os.path.expanduser("~/.config/autostart/org.scherzo.Tray.desktop")
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

    def __init__(self, session, is_there=False):
        self.session = session
        if not is_there:
            spawn("/usr/bin/scherzo-tray")
        wait_for("the tray is on the bus", self.is_there)
        self.name = wait_for("its item", self.find)

    def is_there(self):
        return has_owner(self.session, NAME)

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

    def menu(self):
        """The properties of each entry, in order, as a panel finds them when it opens the menu."""
        self.call(self.name, "/MenuBar", "com.canonical.dbusmenu", "AboutToShow", "(i)", 0)
        menu = self.call(self.name, "/MenuBar", "com.canonical.dbusmenu", "GetLayout", "(iias)", 0, -1, [])[1]
        return [child[1] for child in menu[2]]

    def entries(self):
        """The labels, and whether they can be chosen; a separator has none."""
        return [(entry.get("label", ""), entry.get("enabled", True)) for entry in self.menu()]

    def is_ticked(self, label):
        return any(entry.get("label") == label and entry.get("toggle-state") == 1 for entry in self.menu())


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
        menu = self.open_menu()
        self.x11.keys(*["Down"] * (choices.index(label) + 1), "Return")
        wait_for("the menu has closed", lambda: not menu & self.x11.windows())

    def open_menu(self):
        """A click with the right button; returns the ids of the windows that this opens."""
        x, y = self.icon()
        before = self.x11.windows()
        self.x11.click(x, y, button=3)
        menu = wait_for("the menu", lambda: self.x11.windows() - before)
        # The panel asks for the entries once more while it opens.
        time.sleep(0.5)
        return menu
