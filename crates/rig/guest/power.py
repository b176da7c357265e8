"""A laptop's power supply for a machine that has none: the real UPower over a /sys that can be unplugged.

Runs under `umockdev-wrapper`. Reads commands from a named pipe, one a line, and answers each in another one:

    plug, unplug, charge PERCENT [MODE]

With a MODE it waits until the scheduler's service is in it; the answer is how many milliseconds that took, or `late`.
"""

import os
import subprocess
import sys
import time

import gi

gi.require_version("Gio", "2.0")
gi.require_version("UMockdev", "1.0")
from gi.repository import Gio, GLib, UMockdev  # noqa: E402

NAME = "org.scherzo.Scheduler1"
PATH = "/org/scherzo/Scheduler1"
PIPES = "/run/scherzo-rig"
DROP_IN = "/run/systemd/system/upower.service.d/supply.conf"
FULL_UWH = 60_000_000
# Longer than a promise may take, shorter than anyone's patience.
LATE_S = 20.0

# UPower's own restrictions stay, but for the directory in which its part of the mock opens a socket.
UPOWER = """[Service]
Environment=LD_PRELOAD=libumockdev-preload.so.0 UMOCKDEV_DIR={root}
ReadWritePaths={root}
"""


class Supply:
    """A battery and a mains adapter."""

    def __init__(self):
        self.testbed = UMockdev.Testbed.new()
        self.mains = self.add("AC", {"type": "Mains", "online": "1"})
        self.battery = self.add(
            "BAT0",
            {
                "type": "Battery",
                "present": "1",
                "status": "Charging",
                "technology": "Li-ion",
                "energy_full": str(FULL_UWH),
                "energy_full_design": str(FULL_UWH),
                "energy_now": str(FULL_UWH * 80 // 100),
                "power_now": "10000000",
                "voltage_now": "12000000",
            },
        )

    def add(self, name, attributes):
        flat = [word for pair in attributes.items() for word in pair]
        return self.testbed.add_device("power_supply", name, None, flat, [])

    def plug(self, plugged):
        self.testbed.set_attribute(self.mains, "online", "1" if plugged else "0")
        self.testbed.set_attribute(self.battery, "status", "Charging" if plugged else "Discharging")
        self.tell()

    def charge(self, percent):
        self.testbed.set_attribute(self.battery, "energy_now", str(FULL_UWH * percent // 100))
        self.tell()

    def tell(self):
        for device in (self.battery, self.mains):
            self.testbed.uevent(device, "change")


class Mode:
    """The service's Mode, as its signals say it."""

    def __init__(self):
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        self.mode = None
        arguments = (NAME, "org.freedesktop.DBus.Properties", "PropertiesChanged", PATH, None, Gio.DBusSignalFlags.NONE)
        self.bus.signal_subscribe(*arguments, self.changed)

    def changed(self, _bus, _sender, _path, _interface, _signal, parameters):
        self.mode = parameters.unpack()[1].get("Mode", self.mode)

    def ask(self):
        get = GLib.Variant("(ss)", (NAME, "Mode"))
        flags = Gio.DBusCallFlags.NONE
        answer = self.bus.call_sync(NAME, PATH, "org.freedesktop.DBus.Properties", "Get", get, None, flags, -1, None)
        self.mode = answer.unpack()[0]

    def wait(self, wanted, started):
        """Milliseconds since `started` when the mode came."""
        context = GLib.MainContext.default()
        while self.mode != wanted and time.monotonic() < started + LATE_S:
            context.iteration(False)
            time.sleep(0.001)
        return round((time.monotonic() - started) * 1000) if self.mode == wanted else None


def serve_upower(root):
    os.makedirs(os.path.dirname(DROP_IN), exist_ok=True)
    with open(DROP_IN, "w") as file:
        file.write(UPOWER.format(root=root))
    # They are the machine's own and must see the machine's own /sys.
    plain = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "UMOCKDEV_DIR")}
    for command in (["daemon-reload"], ["restart", "upower.service"]):
        subprocess.run(["systemctl", *command], env=plain, check=True)


def act(supply, words):
    """Does a command; gives the mode that it waits for, if any."""
    command, *rest = words
    if command == "charge":
        supply.charge(int(rest.pop(0)))
    else:
        supply.plug({"plug": True, "unplug": False}[command])
    return rest[0] if rest else None


def main():
    supply = Supply()
    serve_upower(supply.testbed.get_root_dir())
    mode = Mode()
    os.makedirs(PIPES, exist_ok=True)
    requests, answers = (os.path.join(PIPES, name) for name in ("supply.in", "supply.out"))
    for pipe in (answers, requests):
        os.mkfifo(pipe)
    while True:
        with open(requests) as file:
            words = file.readline().split()
        mode.ask()
        started = time.monotonic()
        wanted = act(supply, words)
        took_ms = mode.wait(wanted, started) if wanted else 0
        with open(answers, "w") as file:
            print("late" if took_ms is None else took_ms, file=file)


if __name__ == "__main__":
    sys.exit(main())
