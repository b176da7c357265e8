"""Kills the engine again and again, at random moments, and waits each time until the scheduler is back.

    kills.py TIMES SEED

Prints the median and the longest time from a kill until the service says `running` again and the kernel agrees, in ms.
"""

import os
import random
import signal
import subprocess
import sys
import time

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

NAME = "org.scherzo.Scheduler1"
PATH = "/org/scherzo/Scheduler1"
SCHED_EXT = "/sys/kernel/sched_ext/"
# Between two kills, at most: before, while and long after the next one loads.
MAX_PAUSE_S = 0.5
GIVE_UP_S = 30.0


def read(name):
    try:
        with open(SCHED_EXT + name) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def engines():
    return [int(pid) for pid in subprocess.run(["pidof", "scherzo-engine"], stdout=subprocess.PIPE).stdout.split()]


class Service:
    def __init__(self):
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)

    def state(self):
        get = GLib.Variant("(ss)", (NAME, "State"))
        flags = Gio.DBusCallFlags.NONE
        answer = self.bus.call_sync(NAME, PATH, "org.freedesktop.DBus.Properties", "Get", get, None, flags, -1, None)
        return answer.unpack()[0]


def kill_once(service):
    """Seconds until everything is as before."""
    seq = int(read("enable_seq"))
    [engine] = engines()
    started = time.monotonic()
    os.kill(engine, signal.SIGKILL)
    while True:
        loaded = read("state") == "enabled" and int(read("enable_seq")) > seq
        if loaded and read("root/ops").startswith("scherzo") and service.state() == "running":
            return time.monotonic() - started
        if time.monotonic() > started + GIVE_UP_S:
            sys.exit(f"not back after {GIVE_UP_S} s: the kernel says {read('state')}, the service {service.state()}")
        time.sleep(0.01)


def main():
    times, seed = int(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(seed)
    service = Service()
    took = []
    for _ in range(times):
        time.sleep(chance.uniform(0, MAX_PAUSE_S))
        took.append(kill_once(service))
    took.sort()
    print(round(took[len(took) // 2] * 1000), round(took[-1] * 1000))


if __name__ == "__main__":
    main()
