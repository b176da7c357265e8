"""Kills the engine again and again, at random moments, and waits each time until the scheduler is back.

    kills.py TIMES SEED

One time in four the next engine is killed as well, while it starts. Prints how many were killed, and the median and the
longest time from a kill until the service says `running` again, in ms. The kernel must agree each time.
"""

import os
import random
import signal
import sys
import time

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

NAME = "org.scherzo.Scheduler1"
PATH = "/org/scherzo/Scheduler1"
PROPERTIES = "org.freedesktop.DBus.Properties"
SCHED_EXT = "/sys/kernel/sched_ext/"
# Between a recovery and the next kill, at most.
MAX_PAUSE_S = 0.5
EARLY_SHARE = 0.25
# How long a start goes on that is cut short, at most.
MAX_START_S = 0.3
GIVE_UP_S = 30.0
POLL_S = 0.01


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


class Service:
    """The service, its State as its signals say it, and its engine."""

    def __init__(self):
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        arguments = (NAME, PROPERTIES, "PropertiesChanged", PATH, None, Gio.DBusSignalFlags.NONE)
        self.bus.signal_subscribe(*arguments, self.changed)
        self.state = self.call(NAME, PATH, PROPERTIES, "Get", GLib.Variant("(ss)", (NAME, "State")))
        bus = "org.freedesktop.DBus"
        pid = self.call(bus, "/org/freedesktop/DBus", bus, "GetConnectionUnixProcessID", GLib.Variant("(s)", (NAME,)))
        self.children = f"/proc/{pid}/task/{pid}/children"

    def call(self, name, path, interface, member, arguments):
        flags = Gio.DBusCallFlags.NONE
        return self.bus.call_sync(name, path, interface, member, arguments, None, flags, -1, None).unpack()[0]

    def changed(self, _bus, _sender, _path, _interface, _signal, parameters):
        self.state = parameters.unpack()[1].get("State", self.state)

    def engine(self):
        """The engine's process id, if there is one."""
        children = read(self.children).split()
        return int(children[0]) if children else None

    def kill(self):
        """Kills the engine; gives its process id and the time."""
        victim, now = self.engine(), time.monotonic()
        os.kill(victim, signal.SIGKILL)
        return victim, now

    def has_engine_after(self, victim):
        return self.engine() not in (None, victim)

    def wait(self, what, is_so, started):
        context = GLib.MainContext.default()
        while True:
            while context.iteration(False):
                pass
            if is_so():
                return
            if time.monotonic() > started + GIVE_UP_S:
                sys.exit(f"{what}: not within {GIVE_UP_S} s; it says {self.state}, the kernel {kernel()}")
            time.sleep(POLL_S)


def kernel():
    return [read(SCHED_EXT + name) for name in ("state", "root/ops", "enable_seq")]


def recover(service, chance):
    """Kills once or twice; gives how often, and the ms from the last kill until everything is as before."""
    nr_kills, before = 1, int(read(SCHED_EXT + "enable_seq"))
    victim, started = service.kill()
    if chance.random() < EARLY_SHARE:
        service.wait("the next engine starts", lambda: service.has_engine_after(victim), started)
        time.sleep(chance.uniform(0, MAX_START_S))
        victim, started = service.kill()
        nr_kills += 1
    is_back = lambda: service.state == "running" and service.has_engine_after(victim)  # noqa: E731
    service.wait("the scheduler is back", is_back, started)
    took_ms = round((time.monotonic() - started) * 1000)
    state, ops, sequence = kernel()
    if state != "enabled" or not ops.startswith("scherzo") or int(sequence) <= before:
        sys.exit(f"the service says running, the kernel {kernel()}")
    return nr_kills, took_ms


def main():
    nr_wanted, chance = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    service, nr_kills, took_ms = Service(), 0, []
    while nr_kills < nr_wanted:
        time.sleep(chance.uniform(0, MAX_PAUSE_S))
        nr, ms = recover(service, chance)
        nr_kills += nr
        took_ms.append(ms)
    took_ms.sort()
    print(nr_kills, took_ms[len(took_ms) // 2], took_ms[-1])


if __name__ == "__main__":
    main()
