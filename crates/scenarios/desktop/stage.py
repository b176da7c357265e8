"""What every scenario stands on: buses of its own, the real service with a simulated kernel, and ways to wait.

A scenario is a script of its own process namespace: whatever it starts ends with it, so nothing is cleaned up here.
"""

import os
import shutil
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

# The same that the tests on a private bus have.
BUS_CONFIG = os.path.join(os.path.dirname(__file__), "bus.conf")
SERVICES = "/tmp/services"
# What is answered with an error, as dbus-monitor writes it.
REFUSALS = "/tmp/refusals"
ACTIVATION_FILE = f"{SERVICES}/org.scherzo.Scheduler1.service"


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


class Kernel:
    """The files of a pretended kernel, which the service reads."""

    def __init__(self, path, has_sched_ext=True):
        self.path = path
        write(f"{path}/proc/sys/kernel/osrelease", "6.18.0-simulated\n")
        write(f"{path}/proc/sys/vm/compact_unevictable_allowed", "1\n")
        write(f"{path}/proc/stat", "cpu  1 0 1 100 0 0 0 0 0 0\n")
        if has_sched_ext:
            self.show(state="disabled", enable_seq="0", switch_all="0", nr_rejected="0")

    def show(self, **values):
        """Files of /sys/kernel/sched_ext, whole at every moment."""
        for name, value in values.items():
            path = f"{self.path}/sys/kernel/sched_ext/{name}"
            os.rename(write(f"{path}.new", f"{value}\n"), path)

    def load(self, ops):
        """Somebody's scheduler."""
        write(f"{self.path}/sys/kernel/sched_ext/root/ops", f"{ops}\n")
        self.show(enable_seq="1", switch_all="1", state="enabled")

    def unload(self):
        """Whatever is loaded is ejected."""
        self.show(state="disabled", switch_all="0")
        shutil.rmtree(f"{self.path}/sys/kernel/sched_ext/root")


def output_of(*arguments):
    """Runs a program to its end."""
    return subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def system_bus():
    """The configuration of a system bus that can start services."""
    with open(BUS_CONFIG, encoding="utf-8") as file:
        return file.read().replace("</busconfig>", f"<servicedir>{SERVICES}</servicedir></busconfig>")


def start_bus(*arguments):
    """A bus daemon: its process, and its address."""
    reader, writer = os.pipe()
    process = spawn("dbus-daemon", "--nofork", f"--print-address={writer}", *arguments, pass_fds=[writer])
    os.close(writer)
    return process, os.read(reader, 1000).decode().strip()


class Stage:
    """A session of an ordinary user with a system bus of its own."""

    def __init__(self, locale="C.UTF-8"):
        os.environ.update(LANG=locale, LC_ALL=locale, NO_AT_BRIDGE="0")
        write(ACTIVATION_FILE, ACTIVATION)
        config = "--config-file=" + write("/tmp/system.conf", system_bus())
        self._system_bus, os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = start_bus(config)
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = start_bus("--session")[1]
        self.system = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        self.session = Gio.bus_get_sync(Gio.BusType.SESSION)
        self.system.set_exit_on_close(False)
        self.daemon = None

    def serve(self, kernel=None):
        """Starts the service, turned off as after its installation, and waits until it answers. `kernel` is the
        directory of a pretended kernel; a usual one if none is given."""
        address = os.environ["DBUS_SYSTEM_BUS_ADDRESS"]
        root = ["--simulate-root", kernel.path] if kernel else []
        self.daemon = spawn("/usr/libexec/scherzod", "--simulate", "--address", address, *root)
        wait_for("the service", lambda: has_owner(self.system, NAME))

    def serve_0_1_0(self):
        """Starts the service of version 0.1.0, which lacks what was added since, turned off. It is an error to call what it
        lacks: see `expect_nothing_lacked`."""
        address = os.environ["DBUS_SYSTEM_BUS_ADDRESS"]
        with open(REFUSALS, "w", encoding="utf-8") as file:
            spawn("dbus-monitor", "--address", address, "type='error'", stdout=file)
        wait_for("the monitor", lambda: os.path.getsize(REFUSALS) > 0)
        self.daemon = spawn("/product/of_0_1_0/scherzod-of-0-1-0", address)
        wait_for("the service", lambda: has_owner(self.system, NAME))

    def expect_nothing_lacked(self):
        """No client has called a method or asked for a property that the service of 0.1.0 does not have."""
        with open(REFUSALS, encoding="utf-8") as file:
            lacked = [line for line in file if "org.freedesktop.DBus.Error.Unknown" in line]
        expect("calls of what the service lacks", lacked, [])

    def uninstall(self):
        """The bus can no longer start the service."""
        os.remove(ACTIVATION_FILE)
        bus_call(self.system, "ReloadConfig", "()")

    def lose_bus(self):
        """The system bus ends, and with it the service's connection."""
        self._system_bus.kill()
        self._system_bus.wait()
        self.daemon.kill()
        self.daemon.wait()

    def leave(self):
        """Ends the service as systemd would."""
        self.daemon.terminate()
        self.daemon.wait(PATIENCE_S)

    def was_activated(self):
        """Whether somebody has made the bus start the service."""
        return os.path.exists("/tmp/was-activated")

    def expect_not_activated(self):
        """Nobody has."""
        expect("a client starts the service", self.was_activated(), False)

    def pause(self):
        """The service stops, and answers nobody until it goes on."""
        self.daemon.send_signal(signal.SIGSTOP)

    def go_on(self):
        """It does."""
        self.daemon.send_signal(signal.SIGCONT)

    def silence_engine(self):
        """The pretended engine stops answering, or answers again."""
        self.daemon.send_signal(signal.SIGUSR2)

    def kill_engine(self):
        """The pretended engine dies: the scheduler is ejected. The service knows by the end, and replaces it at once."""
        before = self.nr_ejections()
        self.daemon.send_signal(signal.SIGUSR1)
        wait_for("the ejection", lambda: self.nr_ejections() > before)

    def eject(self, kernel):
        """A pretended kernel ejects the scheduler. It is loaded again after 1 s, then after 2 s, then after 4 s."""
        self.wait_until("State", "running")
        kernel.unload()
        self.wait_until("State", "fallback")

    def nr_ejections(self):
        """Those that the service remembers."""
        return [event for _, event, _ in self.call("GetHistory", "(u)", 0)[0]].count("ejected")

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


class Installed(Stage):
    """A session on a machine that has a system bus, and the service installed."""

    def __init__(self):
        os.environ.update(LANG="C.UTF-8", LC_ALL="C.UTF-8", NO_AT_BRIDGE="0")
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = start_bus("--session")[1]
        self.system = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        self.session = Gio.bus_get_sync(Gio.BusType.SESSION)


def has_owner(bus, name):
    """Whether somebody owns a name."""
    return bus_call(bus, "NameHasOwner", "(s)", name)


def bus_call(bus, method, signature, *arguments):
    """Asks the bus itself for something."""
    driver = "org.freedesktop.DBus"
    variant = GLib.Variant(signature, arguments)
    call = bus.call_sync
    answer = call(driver, "/org/freedesktop/DBus", driver, method, variant, None, NO_AUTO_START, -1, None).unpack()
    return answer[0] if answer else None
