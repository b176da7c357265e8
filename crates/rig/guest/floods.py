"""Floods the scheduler's service with calls, as one user with many connections, and measures what another user gets.

    floods.py [--kill-each] [NAME...]
    floods.py --for SECONDS

Prints a line for each flood, all of them if none is named: its name; what half of the answers to `State` took at most, and the
longest, in ms; for how long a killed engine was away, in ms (`-` if none was killed); how many calls were sent each second; the
memory of the service in KiB (PSS). The first two are for comparison: no flood, and one of a program that throws away whatever it
reads, but for the calls of another user, whose answers are measured instead of `State`. With `--kill-each` the engine is killed
beside each, when a standby engine has been prepared. With `--for` all calls are poured for so long, and nothing is measured.
"""

import itertools
import os
import pwd
import re
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

from kills import NAME, PATH, POLL_S, PROPERTIES, Service, kernel, read  # noqa: E402

USER = "nobody"
NR_CONNECTIONS = 8
# Where a message has its serial number.
SERIAL = slice(8, 12)
NR_CALLS_AT_ONCE = 64
# Asking takes longer while the bus has calls of an earlier flood.
CALM_MS = 50
# Before anything is measured, and for how long `State` is asked for: some answers take half a second, and the first ones are the
# quickest.
BEGIN_S = 0.2
ASK_S = 1.6
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
    "SetForeground": ("(s)", ("/user.slice",)),
    "SetHoldForeground": ("(us)", (7, "/user.slice")),
    "NoSuchMethod": None,
    "HoldMode": HOLD,
    "OpenHold": ("(sssu)", (*HOLD[1], 60)),
    "ReleaseMode": ("(u)", (7,)),
    "Configure": ("(a{sv})", (SETTINGS,)),
    "ResetSettings": ("(as)", (["battery_mode"],)),
}
PROPERTIES_READ = ["State", "Mode", "Holds", "ModeDetails"]
BUS = "org.freedesktop.DBus"
BUS_PATH = "/org/freedesktop/DBus"
SINK = "org.example.Sink"
SINK_POLICY = f"""<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <policy user="root"><allow own="{SINK}"/></policy>
  <policy context="default"><allow send_destination="{SINK}"/></policy>
</busconfig>
"""
# What the sink is asked: with which number, and by whom.
QUESTION = re.compile(rb"question (\d+) of (:[0-9.]+);")
MAX_QUESTION_BYTES = 64
FIRST_QUESTION = 1 << 30
PEER = "org.freedesktop.DBus.Peer"
INTROSPECTABLE = "org.freedesktop.DBus.Introspectable"


def message(member, arguments, interface=NAME, name=NAME, path=PATH, flags=Gio.DBusMessageFlags.NONE):
    call = Gio.DBusMessage.new_method_call(name, path, interface, member)
    call.set_flags(flags)
    if arguments:
        call.set_body(GLib.Variant(*arguments))
    call.set_serial(1)
    return call.to_blob(Gio.DBusCapabilityFlags.NONE)


def calls():
    one = {member: [message(member, arguments)] for member, arguments in METHODS.items()}
    for name in PROPERTIES_READ:
        one[f"Get.{name}"] = [message("Get", ("(ss)", (NAME, name)), PROPERTIES)]
    one["GetAll"] = [message("GetAll", ("(s)", (NAME,)), PROPERTIES)]
    one["Set"] = [message("Set", ("(ssv)", (NAME, "Mode", GLib.Variant("s", "fifo"))), PROPERTIES)]
    one["Introspect"] = [message("Introspect", None, INTROSPECTABLE)]
    one["Ping"] = [message("Ping", None, PEER)]
    one["unanswered"] = [message("GetStats", None, flags=Gio.DBusMessageFlags.NO_REPLY_EXPECTED)]
    sink = [message("GetStats", None, SINK, SINK)]
    return {"none": [], "Sink": sink, **one, "all": [call for of_one in one.values() for call in of_one]}


def connect():
    """Says hello by hand: no library sends without reading."""
    bus = socket.socket(socket.AF_UNIX)
    bus.connect("/run/dbus/system_bus_socket")
    uid = str(os.getuid()).encode().hex().encode()
    bus.sendall(b"\0AUTH EXTERNAL " + uid + b"\r\n")
    bus.recv(256)
    bus.sendall(b"BEGIN\r\n" + message("Hello", None, BUS, BUS, BUS_PATH))
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


def question(serial, sender):
    call = Gio.DBusMessage.new_method_call(SINK, PATH, SINK, "Ask")
    call.set_body(GLib.Variant("(s)", (f"question {serial} of {sender};",)))
    call.set_serial(serial)
    return call


def answer(serial, to):
    answer = Gio.DBusMessage()
    answer.set_message_type(Gio.DBusMessageType.METHOD_RETURN)
    answer.set_destination(to)
    answer.set_reply_serial(serial)
    answer.set_serial(serial)
    return answer.to_blob(Gio.DBusCapabilityFlags.NONE)


def drain():
    """Owns a name of the bus that may be called, and throws away what comes but for questions."""
    with open(f"/etc/dbus-1/system.d/{SINK}.conf", "w") as policy:
        policy.write(SINK_POLICY)
    bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
    bus.call_sync(BUS, BUS_PATH, BUS, "ReloadConfig", None, None, Gio.DBusCallFlags.NONE, -1, None)
    sink = connect()
    sink.sendall(message("RequestName", ("(su)", (SINK, 0)), BUS, BUS, BUS_PATH))
    rest = b""
    while read := sink.recv(1 << 18):
        read = rest + read
        for asked in QUESTION.finditer(read):
            # Those that end in the rest have been answered.
            if asked.end() > len(rest):
                sink.sendall(answer(int(asked[1]), asked[2].decode()))
        rest = read[-MAX_QUESTION_BYTES:]


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
    """Another user: asks for `State`, or the sink, and kills the engine."""

    def __init__(self):
        super().__init__()
        self.serials = itertools.count(FIRST_QUESTION)

    def wait_for_calm(self):
        started = time.monotonic()
        while self.state_ms() > CALM_MS:
            self.ensure_in_time("calm", started)
            time.sleep(ASK_EVERY_S)

    def sink_ms(self):
        asked = question(next(self.serials), self.bus.get_unique_name())
        started = time.monotonic()
        self.bus.send_message_with_reply_sync(asked, Gio.DBusSendMessageFlags.PRESERVE_SERIAL, -1, None)
        return (time.monotonic() - started) * 1000

    def state_ms(self):
        started = time.monotonic()
        self.call(NAME, PATH, PROPERTIES, "Get", GLib.Variant("(ss)", (NAME, "State")))
        return (time.monotonic() - started) * 1000

    def back_ms(self):
        """By the kernel: what the service says of it comes through the flooded bus, and is waited for besides."""
        before = int(kernel()[2])
        victim, started = self.kill()
        while kernel()[0] != "enabled" or int(kernel()[2]) <= before:
            self.ensure_in_time("the scheduler", started)
            time.sleep(POLL_S)
        took_ms = (time.monotonic() - started) * 1000
        self.wait_until_running(victim, started)
        return round(took_ms)

    def pss_kib(self):
        pid = self.children.split("/")[2]
        lines = read(f"/proc/{pid}/smaps_rollup").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def measure(probe, ask_ms, kind, kills):
    if kills:
        time.sleep(STANDBY_S)
    probe.wait_for_calm()
    flood = Flood(kind)
    time.sleep(BEGIN_S)
    began, times_ms, pss_kib, nr_calls = time.monotonic(), [], 0, 0
    while time.monotonic() < began + ASK_S:
        times_ms.append(ask_ms())
        pss_kib = max(pss_kib, probe.pss_kib())
        nr_calls += flood.nr_calls()
        time.sleep(ASK_EVERY_S)
    # From its beginning, where the bus takes most.
    per_s = round(nr_calls / (time.monotonic() - flood.started))
    back_ms = probe.back_ms() if kills else "-"
    flood.end()
    return round(statistics.median_low(times_ms)), round(max(times_ms)), back_ms, per_s, pss_kib


def measure_all(names, kills):
    sink = os.fork()
    if sink == 0:
        drain()
    time.sleep(BEGIN_S)
    kinds, probe = calls(), Probe()
    for name in names or kinds:
        ask_ms = probe.sink_ms if name == "Sink" else probe.state_ms
        print(name, *measure(probe, ask_ms, kinds[name], kills), flush=True)
    os.kill(sink, signal.SIGKILL)


def main():
    # The children use nothing of the other threads.
    warnings.simplefilter("ignore", DeprecationWarning)
    if sys.argv[1:2] == ["--for"]:
        flood = Flood(calls()["all"])
        time.sleep(float(sys.argv[2]))
        return flood.end()
    kills = sys.argv[1:2] == ["--kill-each"]
    measure_all(sys.argv[2 if kills else 1 :], kills)


if __name__ == "__main__":
    main()
