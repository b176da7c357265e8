"""GNOME Shell without a display or a graphics card: asked through its debugging interface, clicked with a real pointer."""

import json
import os
import re
import time

from gi.repository import GLib

from stage import PICTURES, expect, has_owner, on_failure, output_of, spawn, wait_for

SHELL = "org.gnome.Shell"
EXTENSION = "scherzo@scherzo.org"
ACTIVE, INACTIVE = 1, 2
# What the shell prints is kept here.
LOG = "/tmp/gnome-shell.log"
# What it prints where a handler or a promise fails; the lines that follow say where.
FAILURE = re.compile(r"JS ERROR|Unhandled promise rejection|Gjs-CRITICAL")
NR_LINES_OF_A_FAILURE = 12

# Kept in the shell from the first use: where things are, and the pointer.
HELPERS = """
globalThis.rig ??= (() => {
    const Clutter = imports.gi.Clutter;
    const seat = global.stage.context?.get_backend().get_default_seat() ?? Clutter.get_default_backend().get_default_seat();
    const pointer = seat.create_virtual_device(Clutter.InputDeviceType.POINTER_DEVICE);
    return {
        quickSettings: () => Main.panel.statusArea.quickSettings,
        toggle: () => rig.quickSettings().menu._grid.get_children()
            .find(child => child.title === 'Scherzo') ?? null,
        item: text => rig.toggle().menu._getMenuItems().find(item => item.label?.text === text),
        move: (x, y) => pointer.notify_absolute_motion(imports.gi.GLib.get_monotonic_time(), x, y),
        press: down => pointer.notify_button(imports.gi.GLib.get_monotonic_time(), 1,
            down ? Clutter.ButtonState.PRESSED : Clutter.ButtonState.RELEASED),
    };
})();
"""


class GnomeShell:
    """A running shell with the extension turned on."""

    def __init__(self, stage, size="1280x800", dark=False):
        self.bus = stage.session
        self.version = output_of("gnome-shell", "--version").split()[-1]
        self.major = self.version.split(".")[0]
        self._settings(dark)
        with open(LOG, "w", encoding="utf-8") as log:
            options = ["--headless", "--wayland", "--no-x11", "--unsafe-mode", "--virtual-monitor", size]
            spawn("gnome-shell", *options, stdout=log, stderr=log)
        on_failure.append(lambda: print(*self._printed()[-40:], sep="\n"))
        wait_for("the shell on the bus", lambda: has_owner(self.bus, SHELL))
        wait_for("the shell's start", self._has_started)
        on_failure.append(lambda: self.picture("failed"))
        self.run("Main.overview.hide()")
        self.dismiss_messages()

    def _settings(self, dark):
        listed = json.load(open(f"/usr/share/gnome-shell/extensions/{EXTENSION}/metadata.json"))["shell-version"]
        values = {
            "org.gnome.shell enabled-extensions": f"['{EXTENSION}']",
            "org.gnome.shell welcome-dialog-last-shown-version": f"'{self.version}'",
            "org.gnome.desktop.interface color-scheme": "'prefer-dark'" if dark else "'default'",
        }
        if self.major not in listed:
            print(f"NOTE: the extension does not list GNOME Shell {self.major}, on which it was tested just now")
            values["org.gnome.shell disable-extension-version-validation"] = "true"
        for key, value in values.items():
            output_of("gsettings", "set", *key.split(), value)

    def _has_started(self):
        try:
            return self.value("!Main.layoutManager._startingUp", default=False)
        except GLib.Error:
            # It has its name before it has its objects.
            return False

    def call(self, interface, method, signature="()", *arguments, path="/org/gnome/Shell", name=SHELL):
        """A call to one of the shell's interfaces."""
        variant = GLib.Variant(signature, arguments)
        return self.bus.call_sync(name, path, interface, method, variant, None, 0, -1, None).unpack()

    def value(self, expression, default=None):
        """What an expression is worth inside the shell; `default` if it cannot be told."""
        done, answer = self.call(SHELL, "Eval", "(s)", f"{HELPERS}({expression})")
        if not done and default is None:
            raise RuntimeError(f"{expression}: {answer}")
        return json.loads(answer) if done and answer else default

    def run(self, statement):
        """Does something inside the shell."""
        self.value(f"(() => {{ {statement}; return true; }})()")

    def dismiss_messages(self):
        """What the shell itself has to say about a system without a login manager."""
        self.run("Main.messageTray.getSources().forEach(source => source.destroy())")

    def extension(self, key):
        """What the shell knows about the extension."""
        interface = "org.gnome.Shell.Extensions"
        return self.call(interface, "GetExtensionInfo", "(s)", EXTENSION)[0].get(key)

    def enable(self, on):
        """Turns the extension on or off as the Extensions app does."""
        method = "EnableExtension" if on else "DisableExtension"
        self.call("org.gnome.Shell.Extensions", method, "(s)", EXTENSION)
        wait_for("the extension's state", lambda: self.extension("state") == (ACTIVE if on else INACTIVE))

    def expect_no_errors(self):
        """The extension has failed nowhere."""
        errors = self.call("org.gnome.Shell.Extensions", "GetExtensionErrors", "(s)", EXTENSION)[0]
        expect("errors of the extension", errors, [])
        lines = self._printed()
        failures = ["\n".join(lines[at : at + NR_LINES_OF_A_FAILURE]) for at, line in enumerate(lines) if FAILURE.search(line)]
        expect("failures that the shell has printed", [failure for failure in failures if EXTENSION in failure], [])

    @staticmethod
    def _printed():
        with open(LOG, encoding="utf-8", errors="replace") as log:
            return log.read().splitlines()

    def click(self, actor):
        """Moves the pointer to the middle of an actor that has come to rest, and clicks."""
        place = f"""(() => {{
            const actor = {actor};
            if (!actor?.mapped) return null;
            const [x, y] = actor.get_transformed_position(), [width, height] = actor.get_transformed_size();
            return [Math.round(x + width / 2), Math.round(y + height / 2)];
        }})()"""
        x, y = self._settled(actor, place)

        def arrived():
            self.run(f"rig.move({x}, {y})")
            return self.value("global.get_pointer().slice(0, 2)") == [x, y]

        wait_for("the pointer", arrived)
        self.run("rig.press(true)")
        self.run("rig.press(false)")

    def open_menu(self):
        """Opens the quick settings and the toggle's menu in them, as somebody with a mouse does."""
        if not self.value("rig.quickSettings().menu.isOpen"):
            self.click("rig.quickSettings()")
            wait_for("the quick settings", lambda: self.value("rig.quickSettings().menu.isOpen"))
        if not self.value("rig.toggle().menu.isOpen"):
            self.click("rig.toggle()._menuButton")
            wait_for("the menu", lambda: self.value("rig.toggle().menu.isOpen"))

    def choose(self, text):
        """Clicks an item of the toggle's menu."""
        self.open_menu()
        self.click(f"rig.item('{text}')")

    def _settled(self, what, place):
        """A place that is the same twice."""
        last = [None]

        def same():
            before, last[0] = last[0], self.value(place, default=[])
            return before if before and before == last[0] else None

        return wait_for(f"{what} at rest", same)

    def picture(self, name):
        """A screenshot, once nothing moves any more."""
        time.sleep(1.0)
        path = os.path.join(PICTURES, f"{name}.png")
        interface = "org.gnome.Shell.Screenshot"
        self.call(interface, "Screenshot", "(bbs)", False, False, path, path="/org/gnome/Shell/Screenshot", name=interface)
        return path
