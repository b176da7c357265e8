use zbus::DBusError;

/// Every error the service replies with. Each carries one English sentence that says what to do.
///
/// The prefix is the part that our own names and the two standard ones have in common.
#[derive(Clone, Debug, DBusError, PartialEq)]
#[zbus(prefix = "org", impl_display = false)]
pub enum Error {
    /// Any other error of the bus.
    #[zbus(error)]
    Bus(zbus::Error),
    /// This kernel cannot do it.
    #[zbus(name = "scherzo.Scheduler1.Error.NotSupported")]
    NotSupported(String),
    /// It needs a loaded scheduler, and none is loaded.
    #[zbus(name = "scherzo.Scheduler1.Error.NotRunning")]
    NotRunning(String),
    /// There is no such mode.
    #[zbus(name = "scherzo.Scheduler1.Error.InvalidMode")]
    InvalidMode(String),
    /// There is no such hold.
    #[zbus(name = "scherzo.Scheduler1.Error.NoSuchHold")]
    NoSuchHold(String),
    /// There is no such setting, or it does not take that value.
    #[zbus(name = "scherzo.Scheduler1.Error.InvalidSetting")]
    InvalidSetting(String),
    /// What is to last could not be written, so nothing was changed.
    #[zbus(name = "scherzo.Scheduler1.Error.NotStored")]
    NotStored(String),
    /// Loading was tried and failed.
    #[zbus(name = "scherzo.Scheduler1.Error.LoadFailed")]
    LoadFailed(String),
    /// Not now: another change is under way, or the engine does not answer.
    #[zbus(name = "scherzo.Scheduler1.Error.Busy")]
    Busy(String),
    /// Someone else's scheduler is in the way.
    #[zbus(name = "scherzo.Scheduler1.Error.Conflict")]
    Conflict(String),
    /// A bound was reached.
    #[zbus(name = "scherzo.Scheduler1.Error.LimitReached")]
    LimitReached(String),
    /// An argument makes no sense.
    #[zbus(name = "freedesktop.DBus.Error.InvalidArgs")]
    InvalidArgs(String),
    /// The caller may not do it.
    #[zbus(name = "freedesktop.DBus.Error.AccessDenied")]
    AccessDenied(String),
    /// The caller may do it after authenticating, which needs a call that allows interaction.
    #[zbus(name = "freedesktop.DBus.Error.InteractiveAuthorizationRequired")]
    InteractiveAuthorizationRequired(String),
    /// Nobody has answered in time, see [`crate::patience`].
    #[zbus(name = "freedesktop.DBus.Error.TimedOut")]
    NoAnswer(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bus(error) => error.fmt(f),
            other => f.write_str(other.description().unwrap_or("no description")),
        }
    }
}

impl Error {
    /// True if nobody offers the service on this bus.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        use zbus::fdo::Error as Fdo;
        match self {
            Self::Bus(zbus::Error::FDO(error)) => matches!(
                **error,
                Fdo::ServiceUnknown(_)
                    | Fdo::NameHasNoOwner(_)
                    | Fdo::NoReply(_)
                    | Fdo::Disconnected(_)
                    | Fdo::SpawnServiceNotFound(_)
                    | Fdo::SpawnChildExited(_)
                    | Fdo::SpawnFailed(_)
            ),
            Self::Bus(error) => matches!(error, zbus::Error::InputOutput(_) | zbus::Error::Connection(..)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_contract() {
        let name = |error: &Error| error.name().to_string();
        assert_eq!(name(&Error::NotRunning(String::new())), "org.scherzo.Scheduler1.Error.NotRunning");
        assert_eq!(name(&Error::Conflict(String::new())), "org.scherzo.Scheduler1.Error.Conflict");
        assert_eq!(name(&Error::AccessDenied(String::new())), "org.freedesktop.DBus.Error.AccessDenied");
    }

    #[test]
    fn standard_errors_are_recognised() {
        let refused = zbus::fdo::Error::AccessDenied("no".into());
        let error = Error::from(zbus::Error::FDO(Box::new(refused)));
        assert_eq!(error, Error::AccessDenied("no".into()));
        assert_eq!(error.to_string(), "no");
    }

    #[test]
    fn a_missing_service_is_told_apart() {
        let unknown = zbus::fdo::Error::ServiceUnknown("org.scherzo.Scheduler1".into());
        assert!(Error::from(zbus::Error::FDO(Box::new(unknown))).is_unreachable());
        assert!(!Error::Busy("later".into()).is_unreachable());
    }
}
