//! How much is logged, as `systemctl service-log-level scherzod` and others ask: the interface
//! `org.freedesktop.LogControl1`, see its manual page.

// The interface macro wants a method for each property, also for those that never change.
#![allow(clippy::unused_self)]

use zbus::Connection;
use zbus::message::Header;

use crate::authorize::sender_uid;
use crate::log;

/// Where the interface is expected.
pub const PATH: &str = "/org/freedesktop/LogControl1";

/// The object at [`PATH`].
#[derive(Debug)]
pub struct LogControl {
    /// The user beside root that may change something: none, but for a service that is simulated.
    pub trusted_uid: Option<u32>,
}

impl LogControl {
    async fn check(&self, bus: &Connection, call: Option<Header<'_>>) -> zbus::fdo::Result<()> {
        let uid = match call {
            Some(call) => sender_uid(bus, &call).await,
            None => None,
        };
        if uid.is_some() && (uid == Some(0) || uid == self.trusted_uid) {
            return Ok(());
        }
        Err(zbus::fdo::Error::AccessDenied("Only root may change what is logged.".into()))
    }
}

#[zbus::interface(name = "org.freedesktop.LogControl1", introspection_docs = false)]
impl LogControl {
    #[zbus(property(emits_changed_signal = "false"))]
    fn log_level(&self) -> String {
        log::level().to_owned()
    }

    #[zbus(property)]
    async fn set_log_level(
        &self,
        level: String,
        #[zbus(header)] call: Option<Header<'_>>,
        #[zbus(connection)] bus: &Connection,
    ) -> zbus::fdo::Result<()> {
        self.check(bus, call).await?;
        log::set_level(&level).ok_or_else(|| {
            zbus::fdo::Error::InvalidArgs("There is no such level. Choose err, warning, notice, info or debug.".into())
        })
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn log_target(&self) -> &'static str {
        // Standard error, which the service manager connects with it.
        "console"
    }

    #[zbus(property)]
    async fn set_log_target(
        &self,
        target: String,
        #[zbus(header)] call: Option<Header<'_>>,
        #[zbus(connection)] bus: &Connection,
    ) -> zbus::fdo::Result<()> {
        self.check(bus, call).await?;
        if target == self.log_target() {
            return Ok(());
        }
        Err(zbus::fdo::Error::NotSupported("The service logs to where the service manager puts its output.".into()))
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn syslog_identifier(&self) -> &'static str {
        "scherzod"
    }
}
