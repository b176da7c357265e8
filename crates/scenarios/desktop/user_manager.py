"""A stand-in for the session's systemd, which the tests' session has not: it knows one unit, and whether it is enabled and
runs. Answers while the scenario waits for something."""

from gi.repository import Gio, GLib

NAME = "org.freedesktop.systemd1"
UNIT = "scherzo-applications.service"
JOB_MS = 200

# As systemd describes itself, of the methods that are used.
INTERFACE = f"""<node><interface name="{NAME}.Manager">
<method name="GetUnitFileState"><arg type="s" direction="in"/><arg type="s" direction="out"/></method>
<method name="EnableUnitFiles"><arg type="as" direction="in"/><arg type="b" direction="in"/><arg type="b" direction="in"/>
<arg type="b" direction="out"/><arg type="a(sss)" direction="out"/></method>
<method name="DisableUnitFiles"><arg type="as" direction="in"/><arg type="b" direction="in"/>
<arg type="a(sss)" direction="out"/></method>
<method name="LoadUnit"><arg type="s" direction="in"/><arg type="o" direction="out"/></method>
<method name="Reload"/>
<method name="StartUnit"><arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="o" direction="out"/></method>
<method name="StopUnit"><arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="o" direction="out"/></method>
</interface><interface name="{NAME}.Unit"><property name="ActiveState" type="s" access="read"/>
<property name="Job" type="(uo)" access="read"/></interface></node>"""
PATH = "/org/freedesktop/systemd1"
UNIT_PATH = f"{PATH}/unit/scherzo_2dapplications_2eservice"


class UserManager:
    """Owns systemd's name on a bus."""

    def __init__(self, bus):
        self.is_enabled = False
        self.runs = False
        self.job = 0
        manager, unit = Gio.DBusNodeInfo.new_for_xml(INTERFACE).interfaces
        bus.register_object(PATH, manager, self._called, None, None)
        bus.register_object(UNIT_PATH, unit, None, self._property, None)
        Gio.bus_own_name_on_connection(bus, NAME, Gio.BusNameOwnerFlags.NONE, None, None)

    def _called(self, _bus, _sender, _path, _interface, method, arguments, invocation):
        arguments = arguments.unpack()
        job = GLib.Variant("(o)", (f"{PATH}/job/1",))
        answers = {
            ("GetUnitFileState", UNIT): lambda: GLib.Variant("(s)", ("enabled" if self.is_enabled else "disabled",)),
            ("EnableUnitFiles", (UNIT,), False, False): lambda: self._enable(True) or GLib.Variant("(ba(sss))", (True, [])),
            ("DisableUnitFiles", (UNIT,), False): lambda: self._enable(False) or GLib.Variant("(a(sss))", ([],)),
            ("LoadUnit", UNIT): lambda: GLib.Variant("(o)", (UNIT_PATH,)),
            ("Reload",): lambda: None,
            ("StartUnit", UNIT, "replace"): lambda: self._run(True) or job,
            ("StopUnit", UNIT, "replace"): lambda: self._run(False) or job,
        }
        asked = (method, *(tuple(value) if isinstance(value, list) else value for value in arguments))
        if asked in answers:
            invocation.return_value(answers[asked]())
        else:
            invocation.return_dbus_error(f"{NAME}.NoSuchUnit", f"{asked} is not for this stand-in")

    def _property(self, _bus, _sender, _path, _interface, name):
        if name == "Job":
            return GLib.Variant("(uo)", (self.job, PATH))
        return GLib.Variant("s", "active" if self.runs else "inactive")

    def _enable(self, on):
        self.is_enabled = on

    def _run(self, on):
        """Asked for now, and done later."""
        self.job = 1
        GLib.timeout_add(JOB_MS, self._ran, on)

    def _ran(self, on):
        self.job, self.runs = 0, on
        return GLib.SOURCE_REMOVE
