"""The app in GNOME Shell: it puts the toggle into the quick settings, costs little while its window is hidden, and tells of
an ejection."""

import os

from gi.repository import GLib

import a11y
from costs import pid_of, tell_costs
from gnome_shell import ACTIVE, INACTIVE, GnomeShell
from stage import NO_AUTO_START, Kernel, Stage, expect, output_of, spawn, wait_for, within_a_second

APP = "org.scherzo.Scherzo"
TOGGLE = "Toggle in the Quick Settings"
# How often a hidden app may run in ten seconds: not by itself.
MOST_WAKE_UPS = 5

stage = Stage()
kernel = Kernel("/tmp/kernel")
stage.serve(kernel)
shell = GnomeShell(stage)
shell.enable(False)
os.environ.update(GDK_BACKEND="wayland", WAYLAND_DISPLAY="wayland-0", GSK_RENDERER="cairo", ADW_DISABLE_PORTAL="1")
spawn("/usr/bin/scherzo")
app = a11y.application("scherzo")


def activate(action):
    """One of the app's actions, as launchers use them."""
    arguments = GLib.Variant("(sava{sv})", (action, [], {}))
    path, interface = "/" + APP.replace(".", "/"), "org.freedesktop.Application"
    stage.session.call_sync(APP, path, interface, "ActivateAction", arguments, None, NO_AUTO_START, -1, None)


def is_on():
    return any(a11y.has_state(node, "checked") for node in a11y.find_all(app, None, TOGGLE))


def can_be_used():
    return all(a11y.has_state(node, "sensitive") for node in a11y.find_all(app, "check box", TOGGLE))


def messages():
    ours = "Main.messageTray.getSources().filter(source => source.title === 'Scherzo')"
    return sum(shell.value(f"{ours}.map(source => source.count)"))


# The toggle is put into the quick settings, and taken out again.
activate("preferences")
wait_for("the row", lambda: a11y.find_all(app, "check box", TOGGLE))
expect("on at first", is_on(), False)
for wanted in [True, False]:
    expect("the switch has an action", any(a11y.act(node) for node in a11y.find_all(app, "check box", TOGGLE)), True)
    wait_for("the extension", lambda wanted=wanted: shell.extension("state") == (ACTIVE if wanted else INACTIVE))
    wait_for("the toggle", lambda wanted=wanted: shell.value("rig.toggle() !== null") == wanted)
    wait_for("the switch", lambda wanted=wanted: is_on() == wanted)
shell.picture("shell-app-preferences")

# What others do to it shows.
shell.enable(True)
within_a_second("turned on elsewhere", is_on)
output_of("gsettings", "set", "org.gnome.shell", "disable-user-extensions", "true")
wait_for("all extensions are off", lambda: any("Extensions are turned off" in text for text in a11y.texts(app)))
wait_for("a switch that cannot be used", lambda: not can_be_used())
output_of("gsettings", "set", "org.gnome.shell", "disable-user-extensions", "false")
wait_for("extensions are on again", is_on)

# Hidden, it does nothing by itself.
stage.call("SetEnabled", "(b)", True)
shell.run("global.get_window_actors().forEach(actor => actor.meta_window.minimize())")
# GNOME Shell says so to a window only after three seconds.
GLib.usleep(5_000_000)
woken = tell_costs("app, hidden", pid_of(stage.session, APP))
expect(f"more than {MOST_WAKE_UPS} wake-ups ({woken})", woken > MOST_WAKE_UPS, False)

# While it is there, it tells of an ejection itself, and the extension does not.
for _ in range(3):
    stage.eject(kernel)
wait_for("the app's message", lambda: messages() == 1)
shell.picture("shell-app-ejected")
