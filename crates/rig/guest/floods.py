"""Floods the scheduler's service with calls, as one user with many connections, and measures what another user gets.

    floods.py [--kill-each]
    floods.py --for SECONDS

Prints a line for each flood, of which the first is none: its name; the median and the longest time until `State` is answered,
in ms; for how long a killed engine was away, in ms (`-` if none was killed); how many calls were sent each second; the memory of
the service in KiB (PSS). Without `--kill-each` the engine is killed beside some of the floods only: a standby engine has to
be prepared each time. With `--for` all calls are poured for so long, and nothing is measured.
"""

import os
import pwd
import signal
import socket
import statistics
import struct
import sys
import time
import warnings

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

from kills import NAME, PATH, PROPERTIES, Service, kernel, read  # noqa: E402

USER = "nobody"
NR_CONNECTIONS = 8
# Where a message has its serial number.
SERIAL = slice(8, 12)
NR_CALLS_AT_ONCE = 64
# Before anything is measured, and for how long `State` is asked for.
BEGIN_S = 0.2
ASK_S = 0.8
ASK_EVERY_S = 0.01
# What preparing a standby engine takes at most where the kernel's checks are emulated.
STANDBY_S = 4
HOLD = ("(sss)", ("fifo", "a flood", "org.example.Flood"))
SETTINGS = {"battery_mode": GLib.Variant("s", "fifo")}
METHODS = {
    "GetStats": None,
    "GetWaitHistogram": None,
    "GetHistory": ("(u)", (0,)),
    "GetHistorySince": ("(t)", (0,)),
    "DescribeSettings": None,
    "Diagnose": None,
    "Subscribe": None,
    "Unsubscribe": None,
    "InspectHolds": None,
    "SetEnabled": ("(b)", (False,)),
    "SetMode": ("(s)", ("fifo",)),
    "SetModeFor": ("(su)", ("fifo", 60)),
    "SetPreemption": ("(b)", (True,)),
    "SetEngine": ("(s)", ("user",)),
    "HoldMode": HOLD,
    "OpenHold": ("(sssu)", (*HOLD[1], 60)),
    "ReleaseMode": ("(u)", (7,)),
    "Configure": ("(a{sv})", (SETTINGS,)),
    "ResetSettings": ("(as)", (["battery_mode"],)),
}
# The properties of the object are asked for as well.
GET_ALL = ("(s)", (NAME,))
# The engine is killed beside these, if not beside each: the longest answers, what polkit is asked about, and all in turn.
KILLED_BESIDE = {"none", "GetHistory", "SetMode", "all"}


def message(member, arguments, interface=NAME, name=NAME, path=PATH):
    call = Gio.DBusMessage.new_method_call(name, path, interface, member)
    if arguments:
        call.set_body(GLib.Variant(*arguments))
    call.set_serial(1)
    return call.to_blob(Gio.DBusCapabilityFlags.NONE)


def calls():
    one = {member: [message(member, arguments)] for member, arguments in METHODS.items()}
    one["GetAll"] = [message("GetAll", GET_ALL, PROPERTIES)]
    return {"none": [], **one, "all": [call for of_one in one.values() for call in of_one]}


def connect():
    """Says hello by hand: no library sends without reading."""
    bus = socket.socket(socket.AF_UNIX)
    bus.connect("/run/dbus/system_bus_socket")
    uid = str(os.getuid()).encode().hex().encode()
    bus.sendall(b"\0AUTH EXTERNAL " + uid + b"\r\n")
    bus.recv(256)
    dbus = "org.freedesktop.DBus"
    bus.sendall(b"BEGIN\r\n" + message("Hello", None, dbus, dbus, "/org/freedesktop/DBus"))
    return bus


def pour(kind, counter):
    """Sends the calls in turn and reads nothing, for ever. A bus may end such a connection: then there is another one."""
    serial, batch = 1, bytearray()
    starts = []
    for number in range(NR_CALLS_AT_ONCE):
        starts.append(len(batch))
        batch += kind[number % len(kind)]
    while True:
        try:
            bus = connect()
            while True:
                for start in starts:
                    serial = serial % 0x7FFFFFFF + 1
                    struct.pack_into("=I", batch, start + SERIAL.start, serial)
                bus.sendall(batch)
                os.write(counter, b"." * NR_CALLS_AT_ONCE)
        except OSError:
            time.sleep(0.01)


class Flood:
    """Processes of another user that pour calls."""

    def __init__(self, kind):
        self.counted, counter = os.pipe()
        os.set_blocking(self.counted, False)
        self.children = [self.start(kind, counter) for _ in range(NR_CONNECTIONS if kind else 0)]
        self.started = time.monotonic()

    def start(self, kind, counter):
        child = os.fork()
        if child == 0:
            user = pwd.getpwnam(USER)
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            pour(kind, counter)
        return child

    def nr_calls(self):
        """Counted since the last time."""
        count = 0
        try:
            while dots := os.read(self.counted, 65536):
                count += len(dots)
        except BlockingIOError:
            pass
        return count

    def end(self):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(self.counted)


class Probe(Service):
    """Another user: asks for `State`, and kills the engine."""

    def state_ms(self):
        started = time.monotonic()
        self.call(NAME, PATH, PROPERTIES, "Get", GLib.Variant("(ss)", (NAME, "State")))
        return (time.monotonic() - started) * 1000

    def back_ms(self):
        before = int(kernel()[2])
        victim, started = self.kill()
        self.wait_until_running(victim, started)
        took_ms = (time.monotonic() - started) * 1000
        if int(kernel()[2]) <= before:
            sys.exit(f"the service says running, the kernel {kernel()}")
        return round(took_ms)

    def pss_kib(self):
        pid = self.children.split("/")[2]
        lines = read(f"/proc/{pid}/smaps_rollup").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def measure(probe, kind, kills):
    if kills:
        time.sleep(STANDBY_S)
    flood = Flood(kind)
    time.sleep(BEGIN_S)
    flood.nr_calls()
    began, times_ms, pss_kib, nr_calls = time.monotonic(), [], 0, 0
    while time.monotonic() < began + ASK_S:
        times_ms.append(probe.state_ms())
        pss_kib = max(pss_kib, probe.pss_kib())
        nr_calls += flood.nr_calls()
        time.sleep(ASK_EVERY_S)
    per_s = round(nr_calls / (time.monotonic() - began))
    back_ms = probe.back_ms() if kills else "-"
    flood.end()
    return round(statistics.median(times_ms)), round(max(times_ms)), back_ms, per_s, pss_kib


def main():
    # The children use nothing of the other threads.
    warnings.simplefilter("ignore", DeprecationWarning)
    if "--for" in sys.argv:
        flood = Flood(calls()["all"])
        time.sleep(float(sys.argv[-1]))
        return flood.end()
    kills_each, probe = "--kill-each" in sys.argv, Probe()
    for name, kind in calls().items():
        print(name, *measure(probe, kind, kills_each or name in KILLED_BESIDE), flush=True)


if __name__ == "__main__":
    main()
