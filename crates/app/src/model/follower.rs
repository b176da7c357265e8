//! The state of the session's service that follows the rules for applications, as the preferences show it.

use gtk::{gio, glib};
use scherzo_i18n::gettext;

/// The name of its unit.
pub(crate) const UNIT: &str = "scherzo-applications.service";

/// Whether the rules for applications are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follower {
    /// The session has no systemd.
    Alone,
    /// It is not installed.
    Missing,
    Off,
    /// It starts with the session, as the person or the administrator wants it, but does not run.
    Stopped,
    /// It runs.
    On,
}

impl Follower {
    /// From what `GetUnitFileState` answers, and the unit's `ActiveState`.
    pub(crate) fn of(file_state: Result<&str, &glib::Error>, active_state: &str) -> Self {
        match file_state {
            Ok(_) if matches!(active_state, "active" | "activating" | "reloading") => Self::On,
            Ok("enabled" | "enabled-runtime") => Self::Stopped,
            Ok(_) => Self::Off,
            Err(error) if error.matches(gio::DBusError::FileNotFound) || is_unknown_unit(error) => Self::Missing,
            Err(_) => Self::Alone,
        }
    }

    /// Whether the person can turn it on and off.
    pub(crate) fn is_usable(self) -> bool {
        matches!(self, Self::Off | Self::Stopped | Self::On)
    }

    /// What it is for, or what to do about it.
    pub(crate) fn explanation(self) -> String {
        match self {
            Self::Alone => gettext("This session is not run by systemd: let it start “scherzoctl applications watch”"),
            Self::Missing => gettext("Install Scherzo's command line tool with your package manager"),
            Self::Stopped => gettext("It does not run now, but starts when you log in"),
            Self::Off | Self::On => gettext("A service of your session watches which of them run"),
        }
    }
}

fn is_unknown_unit(error: &glib::Error) -> bool {
    gio::DBusError::remote_error(error).is_some_and(|name| name == "org.freedesktop.systemd1.NoSuchUnit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_counts() {
        assert_eq!(Follower::of(Ok("enabled"), "active"), Follower::On);
        assert_eq!(Follower::of(Ok("disabled"), "activating"), Follower::On);
        assert_eq!(Follower::of(Ok("enabled"), "failed"), Follower::Stopped);
        assert_eq!(Follower::of(Ok("disabled"), "inactive"), Follower::Off);
    }

    #[test]
    fn what_is_not_there_is_told_apart() {
        let of = |name| Follower::of(Err(&gio::DBusError::new_for_dbus_error(name, "so it is")), "");
        assert_eq!(of("org.freedesktop.DBus.Error.ServiceUnknown"), Follower::Alone);
        assert_eq!(of("org.freedesktop.DBus.Error.NoReply"), Follower::Alone);
        assert_eq!(of("org.freedesktop.DBus.Error.FileNotFound"), Follower::Missing);
        assert_eq!(of("org.freedesktop.systemd1.NoSuchUnit"), Follower::Missing);
        let no_bus = glib::Error::new(gio::IOErrorEnum::NotFound, "no bus");
        assert_eq!(Follower::of(Err(&no_bus), ""), Follower::Alone);
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        assert!(!Follower::Alone.is_usable() && Follower::Alone.explanation().contains("watch"));
        assert!(!Follower::Missing.is_usable() && Follower::Missing.explanation().contains("Install"));
    }
}
