"""What a program costs while nothing happens."""

import os
import time

from stage import bus_call

REST_S = 10


def pid_of(bus, name):
    """Who owns a name."""
    return bus_call(bus, "GetConnectionUnixProcessID", "(s)", name)


def wake_ups(pid):
    """How often each of its threads has run since it was there."""
    counts = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as file:
            counts[task] = sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return counts


def kibibytes(pid, file, key):
    """A line of one of the kernel's files about it."""
    with open(f"/proc/{pid}/{file}", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def tell_costs(what, pid):
    """Prints memory and wake-ups of a program that nobody uses; how many wake-ups there were."""
    before = wake_ups(pid)
    time.sleep(REST_S)
    # A thread that has ended meanwhile takes its count with it.
    woken = sum(count - before.get(task, 0) for task, count in wake_ups(pid).items())
    resident, share = kibibytes(pid, "status", "VmRSS") / 1024, kibibytes(pid, "smaps_rollup", "Pss") / 1024
    print(f"NOTE {what}: {resident:.0f} MiB resident ({share:.0f} MiB its share), {woken} wake-ups in {REST_S} s of rest")
    return woken
