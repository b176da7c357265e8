"""Kills the engine again and again, at random moments, and waits each time until the scheduler is back.

    kills.py TIMES SEED

There is a pause before each kill that a standby engine can be prepared in. One time in ten the next engine is killed as well,
while it starts: it may be the standby engine, which then leaves none, or one that is not prepared yet. Prints a line for
each recovery: how many engines were killed, how long it took from the last kill until the service said `running`
again, and how much of that the engine says it has spent on loading, in ms. The kernel must agree each time.
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
ENGINE = "scherzo-engine"
# Between a recovery and the next kill. Where the kernel's checks are emulated a standby engine takes most of two seconds.
PAUSE_S = (2, 6)
EARLY_SHARE = 0.1
# How long a start goes on that is cut short, at most.
MAX_START_S = 0.3
GIVE_UP_S = 30
# While the next engine is waited for, which tells nobody that it is there.
POLL_S = 0.005


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kernel():
    return [read(SCHED_EXT + name) for name in ("state", "root/ops", "enable_seq")]


class Service:
    """The service, its State as its signals say it, and its engine."""

    def __init__(self):
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        arguments = (NAME, PROPERTIES, "PropertiesChanged", PATH, None, Gio.DBusSignalFlags.NONE)
        self.bus.signal_subscribe(*arguments, self.changed)
        self.context = GLib.MainContext.default()
        self.state = None
        bus = "org.freedesktop.DBus"
        pid = self.call(bus, "/org/freedesktop/DBus", bus, "GetConnectionUnixProcessID", GLib.Variant("(s)", (NAME,)))
        self.children = f"/proc/{pid}/task/{pid}/children"

    def call(self, name, path, interface, member, arguments=None):
        flags = Gio.DBusCallFlags.NONE
        return self.bus.call_sync(name, path, interface, member, arguments, None, flags, -1, None).unpack()[0]

    def changed(self, _bus, _sender, _path, _interface, _signal, parameters):
        self.state = parameters.unpack()[1].get("State", self.state)

    def load_ms(self):
        """What the engine that runs says of its own loading."""
        return self.call(NAME, PATH, NAME, "GetStats")["load_us"] / 1000

    def engine(self, victim=None):
        """The process id of the engine that schedules or loads, if there is one besides a victim's. It is the oldest of that
        name: a standby engine is called otherwise, but for the moment in which it is started."""
        children = [int(child) for child in read(self.children).split()]
        engines = (child for child in children if child != victim and read(f"/proc/{child}/comm") == ENGINE)
        return next(engines, None)

    def kill(self):
        """Kills the engine; gives its process id and the time. What the service said before counts no more."""
        # Its answer comes after all that it has said before.
        self.call(NAME, PATH, PROPERTIES, "Get", GLib.Variant("(ss)", (NAME, "State")))
        while self.context.iteration(False):
            pass
        victim, self.state = self.engine(), None
        started = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        return victim, started

    def wait_for_next_engine(self, victim):
        started = time.monotonic()
        while not self.engine(victim):
            self.ensure_in_time("the next engine", started)
            time.sleep(POLL_S)

    def wait_until_running(self, victim, started):
        # Wakes a wait that nothing else would end.
        timer = GLib.timeout_add_seconds(GIVE_UP_S + 1, lambda: True)
        while self.state != "running" or not self.engine(victim):
            self.ensure_in_time("the scheduler", started)
            self.context.iteration(True)
        GLib.source_remove(timer)

    def ensure_in_time(self, what, started):
        if time.monotonic() > started + GIVE_UP_S:
            sys.exit(f"{what} is not back within {GIVE_UP_S} s; the service says {self.state}, the kernel {kernel()}")


def recover(service, chance):
    """Kills once or twice; gives how often, and the ms from the last kill until everything is as before."""
    nr_kills, before = 1, int(read(SCHED_EXT + "enable_seq"))
    victim, started = service.kill()
    if chance.random() < EARLY_SHARE:
        service.wait_for_next_engine(victim)
        time.sleep(chance.uniform(0, MAX_START_S))
        victim, started = service.kill()
        nr_kills += 1
    service.wait_until_running(victim, started)
    took_ms = (time.monotonic() - started) * 1000
    state, ops, sequence = kernel()
    if state != "enabled" or not ops.startswith("scherzo") or int(sequence) <= before:
        sys.exit(f"the service says running, the kernel {kernel()}")
    return nr_kills, took_ms


def main():
    nr_wanted, chance = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    service, nr_killed = Service(), 0
    while nr_killed < nr_wanted:
        time.sleep(chance.uniform(*PAUSE_S))
        nr_kills, took_ms = recover(service, chance)
        nr_killed += nr_kills
        print(nr_kills, round(took_ms), round(service.load_ms()), flush=True)


if __name__ == "__main__":
    main()
