"""Two real-time tasks hand a byte to and fro on one CPU, while ordinary pinned tasks and a kernel thread wait there.

    ping_pong.py CPU ROUNDS SECONDS PAUSE

Each round lasts SECONDS, with a pause in which the CPU is free. Prints, as JSON: how often the byte changed hands, the
longest time in ms from the moment in which the CPU was free until each of the waiting tasks ran again, and how long a
kernel thread of each CPU took to answer when it was asked for in that moment.
"""

import json
import os
import select
import signal
import sys
import threading
import time

NR_HOGS = 3
RT_PRIORITY = 50
# What a hog notes as time in which it did not run.
GAP_S = 0.02
# Writing to it runs work in a kernel thread of every CPU, and waits for all of them.
ASK_EVERY_CPU = "/proc/sys/vm/stat_refresh"


def hog(cpu, results):
    """Computes until it is told to end; then reports every gap in which it did not run."""
    os.sched_setaffinity(0, {cpu})
    ended = False

    def end(*_):
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    gaps = []
    before = time.monotonic()
    while not ended:
        now = time.monotonic()
        if now - before > GAP_S:
            gaps.append((before, now))
        before = now
    os.write(results, json.dumps(gaps).encode() + b"\n")
    os._exit(0)


def start_hog(cpu):
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        hog(cpu, write_end)
    os.close(write_end)
    return child, read_end


def play(read_end, write_end, until, begins):
    """One of the two: passes the byte on. Returns how often it did."""
    nr_passed = 0
    if begins:
        os.write(write_end, b"x")
    while time.monotonic() < until:
        if select.select([read_end], [], [], 0.1)[0]:
            os.read(read_end, 1)
            os.write(write_end, b"x")
            nr_passed += 1
    return nr_passed


def ping_pong(cpu, seconds):
    """Returns how often the byte changed hands, and when both players were gone."""
    there, back = os.pipe(), os.pipe()
    until = time.monotonic() + seconds
    child = os.fork()
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(RT_PRIORITY))
    if child == 0:
        play(there[0], back[1], until, False)
        os._exit(0)
    nr_passed = play(back[0], there[1], until, True)
    os.waitpid(child, 0)
    for descriptor in there + back:
        os.close(descriptor)
    free_at = time.monotonic()
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return 2 * nr_passed, free_at


def ask_every_cpu():
    """How long the kernel threads of all CPUs take to do a piece of work, in ms."""
    started = time.monotonic()
    with open(ASK_EVERY_CPU, "w") as file:
        file.write("1")
    return (time.monotonic() - started) * 1000


def resumed_after(gaps, free_at):
    """How long after that moment the task ran again, in ms; 0 if it was running."""
    return max((end - free_at) * 1000 for start, end in gaps + [(free_at, free_at)] if start <= free_at <= end)


def main():
    cpu, rounds, seconds, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    everywhere = os.sched_getaffinity(0)
    hogs = [start_hog(cpu) for _ in range(NR_HOGS)]
    nr_switches, free_moments, answers_ms = 0, [], []
    for _ in range(rounds):
        # Asked for meanwhile: the kernel thread of this CPU waits for the real-time tasks as well.
        asking = threading.Thread(target=ask_every_cpu)
        asking.start()
        nr_passed, free_at = ping_pong(cpu, seconds)
        os.sched_setaffinity(0, everywhere)
        nr_switches += nr_passed
        free_moments.append(free_at)
        asking.join()
        answers_ms.append(ask_every_cpu())
        time.sleep(pause)
    worst_resume_ms = 0
    for child, results in hogs:
        os.kill(child, signal.SIGTERM)
        gaps = json.loads(os.fdopen(results).readline())
        os.waitpid(child, 0)
        worst_resume_ms = max([worst_resume_ms] + [resumed_after(gaps, free_at) for free_at in free_moments])
    print(json.dumps({
        "nr_switches": nr_switches,
        "worst_resume_ms": round(worst_resume_ms),
        "worst_answer_ms": round(max(answers_ms)),
    }))


main()
