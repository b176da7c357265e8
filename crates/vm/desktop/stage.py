"""What every scenario stands on: buses of its own, the real service with a simulated kernel, and ways to wait.

A scenario is a script of its own process namespace: whatever it starts ends with it, so nothing is cleaned up here.
"""

import os
import signal
import subprocess
import sys
import time

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

NAME = "org.scherzo.Scheduler1"
PATH = "/org/scherzo/Scheduler1"
PICTURES = "/pictures"

NO_AUTO_START = Gio.DBusCallFlags.NO_AUTO_START

# Longer than anything here takes on a busy machine.
PATIENCE_S = 90.0

SYSTEM_BUS = """<busconfig>
  <type>system</type>
  <servicedir>/tmp/services</servicedir>
  <listen>unix:tmpdir=/tmp</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/>
    <allow send_type="method_call"/><allow send_type="signal"/>
    <allow send_type="method_return"/><allow send_type="error"/>
    <allow receive_type="method_call"/><allow receive_type="signal"/>
    <allow receive_type="method_return"/><allow receive_type="error"/>
  </policy>
</busconfig>"""


# Whoever makes the bus start the service leaves a mark. No client may, unless a person asks for it.
ACTIVATION = """[D-BUS Service]
Name=org.scherzo.Scheduler1
Exec=/usr/bin/touch /tmp/was-activated
"""


# Called before a scenario ends as failed: what can be seen then says most.
on_failure = []


def fail(text):
    """Ends the scenario."""
    for show in on_failure:
        show()
    sys.exit(text)


def pump():
    """Lets replies and signals in."""
    while GLib.MainContext.default().iteration(False):
        pass


def wait_for(what, condition, patience_s=PATIENCE_S):
    """Asks until the answer is true, and returns it; fails when it never comes."""
    started = time.monotonic()
    while True:
        pump()
        try:
            answer = condition()
        except GLib.Error as error:
            # Something went away while it was looked at, as messages do: what is there now counts.
            if "does not exist" not in error.message:
                raise
            answer = None
        if answer:
            return answer
        if time.monotonic() - started > patience_s:
            fail(f"never came within {patience_s} s: {what}")
        time.sleep(0.02)


def within_a_second(what, condition):
    """A change from outside shows at once. Times are told, so that a slow one is seen before it fails."""
    started = time.monotonic()
    wait_for(what, condition, 1.0)
    print(f"{what}: {1000 * (time.monotonic() - started):.0f} ms")


def expect(what, value, wanted):
    """Both are the same, or the scenario fails."""
    if value != wanted:
        fail(f"{what}: {value!r} instead of {wanted!r}")


def spawn(*arguments, **options):
    """Starts a program; what it prints is in the log that is shown when the scenario fails."""
    return subprocess.Popen(arguments, **options)


def write(path, text):
    """Writes a file, and returns its path."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def output_of(*arguments):
    """Runs a program to its end."""
    return subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def start_bus(*arguments):
    """A bus daemon; its address."""
    reader, writer = os.pipe()
    spawn("dbus-daemon", "--nofork", f"--print-address={writer}", *arguments, pass_fds=[writer])
    return os.read(reader, 1000).decode().strip()


class Stage:
    """A session of an ordinary user with a system bus of its own."""

    def __init__(self, locale="C.UTF-8"):
        os.environ.update(LANG=locale, LC_ALL=locale, NO_AT_BRIDGE="0")
        write("/tmp/services/org.scherzo.Scheduler1.service", ACTIVATION)
        os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = start_bus("--config-file=" + write("/tmp/system.conf", SYSTEM_BUS))
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = start_bus("--session")
        self.system = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        self.session = Gio.bus_get_sync(Gio.BusType.SESSION)
        self.daemon = None

    def serve(self):
        """Starts the service, turned off as after its installation, and waits until it answers."""
        address = os.environ["DBUS_SYSTEM_BUS_ADDRESS"]
        self.daemon = spawn("/usr/libexec/scherzod", "--simulate", "--address", address)
        wait_for("the service", lambda: has_owner(self.system, NAME))

    def leave(self):
        """Ends the service as systemd would."""
        self.daemon.terminate()
        self.daemon.wait(PATIENCE_S)

    def expect_not_activated(self):
        """Nobody has made the bus start the service."""
        expect("a client starts the service", os.path.exists("/tmp/was-activated"), False)

    def kill_engine(self):
        """The pretended engine dies: the scheduler is ejected."""
        self.daemon.send_signal(signal.SIGUSR1)

    def call(self, method, signature="()", *arguments):
        """A call from outside, as any other client makes it."""
        variant = GLib.Variant(signature, arguments)
        return self.system.call_sync(NAME, PATH, NAME, method, variant, None, NO_AUTO_START, -1, None).unpack()

    variant = staticmethod(GLib.Variant)

    def get(self, name):
        """A property of the service."""
        variant = GLib.Variant("(ss)", (NAME, name))
        call = self.system.call_sync
        return call(NAME, PATH, "org.freedesktop.DBus.Properties", "Get", variant, None, NO_AUTO_START, -1, None).unpack()[0]

    def wait_until(self, name, value):
        """A property has this value."""
        wait_for(f"{name} is {value!r}", lambda: self.get(name) == value)


def has_owner(bus, name):
    """Whether somebody owns a name."""
    return bus_call(bus, "NameHasOwner", "(s)", name)


def bus_call(bus, method, signature, *arguments):
    """Asks the bus itself for something."""
    driver = "org.freedesktop.DBus"
    variant = GLib.Variant(signature, arguments)
    call = bus.call_sync
    return call(driver, "/org/freedesktop/DBus", driver, method, variant, None, NO_AUTO_START, -1, None).unpack()[0]
