//! Other programs on the session bus. Calling them never starts them.

use gtk::prelude::*;
use gtk::{gio, glib};

/// An interface on the session bus.
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) path: &'a str,
    pub(crate) interface: &'a str,
}

impl Place<'_> {
    /// A proxy for signals. It does not start the program.
    pub(crate) async fn proxy(&self) -> Result<gio::DBusProxy, glib::Error> {
        let flags = gio::DBusProxyFlags::DO_NOT_AUTO_START;
        let bus = gio::bus_get_future(gio::BusType::Session).await?;
        gio::DBusProxy::new_future(&bus, flags, None, Some(self.name), self.path, self.interface).await
    }

    /// Calls a method, without starting the program.
    pub(crate) async fn call(&self, method: &str, arguments: &glib::Variant) -> Result<glib::Variant, glib::Error> {
        self.call_on(self.interface, method, arguments).await
    }

    async fn call_on(
        &self,
        interface: &str,
        method: &str,
        arguments: &glib::Variant,
    ) -> Result<glib::Variant, glib::Error> {
        let bus = gio::bus_get_future(gio::BusType::Session).await?;
        let flags = gio::DBusCallFlags::NO_AUTO_START;
        bus.call_future(Some(self.name), self.path, interface, method, Some(arguments), None, flags, -1).await
    }

    pub(crate) async fn property<T: glib::variant::FromVariant>(&self, name: &str) -> Result<T, glib::Error> {
        let arguments = (self.interface, name).to_variant();
        let answer = self.call_on("org.freedesktop.DBus.Properties", "Get", &arguments).await?;
        let value = answer.child_value(0).as_variant().and_then(|value| value.get());
        value.ok_or_else(|| glib::Error::new(gio::IOErrorEnum::InvalidData, name))
    }

    /// Starts it by its name.
    pub(crate) async fn start(&self) -> Result<(), glib::Error> {
        let bus = gio::bus_get_future(gio::BusType::Session).await?;
        let (driver, path, arguments) =
            ("org.freedesktop.DBus", "/org/freedesktop/DBus", (self.name, 0u32).to_variant());
        let flags = gio::DBusCallFlags::NONE;
        let started =
            bus.call_future(Some(driver), path, driver, "StartServiceByName", Some(&arguments), None, flags, -1).await;
        started.map(drop)
    }
}
