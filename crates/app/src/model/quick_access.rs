//! The state of the GNOME Shell extension as the preferences show it, and reasons why the tray's icon cannot be shown.

use std::io;

use gtk::glib::VariantDict;
use gtk::{gio, glib};
use scherzo_i18n::{fill, gettext};

/// The extension's UUID.
pub(crate) const EXTENSION: &str = "scherzo@scherzo.org";

/// Whether the toggle can be in the quick settings, and is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toggle {
    /// The extension is not installed, or was after GNOME Shell had started.
    Missing,
    /// The person has turned all extensions off.
    Blocked,
    /// It does not run on this version.
    Unfit,
    Off,
    On,
}

impl Toggle {
    /// From what `GetExtensionInfo` answers, which is empty for an extension that is not known.
    pub(crate) fn of(info: &VariantDict, extensions_are_on: bool) -> Self {
        let Ok(Some(state)) = info.lookup::<f64>("state") else { return Self::Missing };
        // As in js/misc/extensionUtils.js: 1 active, 2 inactive, 3 error, 4 out of date, 6 never turned on, 7 and 8 on
        // the way.
        match state as u32 {
            3 | 4 => Self::Unfit,
            _ if !extensions_are_on => Self::Blocked,
            1 | 8 => Self::On,
            2 | 6 | 7 => Self::Off,
            _ => Self::Missing,
        }
    }

    /// Whether the person can turn it on and off.
    pub(crate) fn is_usable(self) -> bool {
        matches!(self, Self::Off | Self::On)
    }

    /// What it is for, or what to do about it.
    pub(crate) fn explanation(self) -> String {
        match self {
            Self::Missing => {
                gettext("Install Scherzo's extension for GNOME Shell with your package manager, then log in again")
            }
            Self::Blocked => gettext("Extensions are turned off; turn them on in the Extensions app"),
            Self::Unfit => gettext("The extension does not work with this version of GNOME Shell"),
            Self::Off | Self::On => gettext("On, off and mode at the top of the screen"),
        }
    }
}

/// What was not done, and why.
pub(crate) fn nothing_changed(problem: &dyn std::fmt::Display) -> String {
    fill(&gettext("Nothing was changed: {problem}"), &[("problem", problem)])
}

/// Why the icon cannot come after each login.
pub(crate) fn no_autostart(problem: &io::Error) -> String {
    if problem.kind() == io::ErrorKind::NotFound { missing_icon() } else { nothing_changed(problem) }
}

/// Why the icon does not come now.
pub(crate) fn no_start(problem: &glib::Error) -> String {
    use gio::DBusError::{ServiceUnknown, SpawnExecFailed, SpawnServiceNotFound};
    if [ServiceUnknown, SpawnExecFailed, SpawnServiceNotFound].into_iter().any(|missing| problem.matches(missing)) {
        missing_icon()
    } else {
        gettext("The icon does not start. Run “scherzo-tray” in a terminal to see why.")
    }
}

fn missing_icon() -> String {
    gettext("Install Scherzo's icon for the panel with your package manager.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toggle(state: f64, extensions_are_on: bool) -> Toggle {
        let info = VariantDict::new(None);
        info.insert("state", state);
        Toggle::of(&info, extensions_are_on)
    }

    #[test]
    fn the_shell_knows_it_or_not() {
        assert_eq!(Toggle::of(&VariantDict::new(None), true), Toggle::Missing);
        assert_eq!(
            [1.0, 2.0, 6.0, 8.0].map(|state| toggle(state, true)),
            [Toggle::On, Toggle::Off, Toggle::Off, Toggle::On]
        );
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        for (toggle, word) in [
            (toggle(4.0, true), "version"),
            (toggle(3.0, false), "version"),
            (toggle(1.0, false), "Extensions app"),
            (Toggle::Missing, "Install"),
        ] {
            assert!(!toggle.is_usable() && toggle.explanation().contains(word), "{toggle:?}");
        }
    }

    #[test]
    fn an_icon_that_is_missing_is_to_be_installed() {
        let said = |name: &str| no_start(&gio::DBusError::new_for_dbus_error(name, "so it is"));
        for name in ["ServiceUnknown", "Spawn.ExecFailed", "Spawn.ServiceNotFound"] {
            assert!(said(&format!("org.freedesktop.DBus.Error.{name}")).starts_with("Install"), "{name}");
        }
        assert!(said("org.freedesktop.DBus.Error.Spawn.ChildExited").contains("scherzo-tray"));
        assert!(no_autostart(&io::ErrorKind::NotFound.into()).starts_with("Install"));
        assert!(no_autostart(&io::ErrorKind::StorageFull.into()).starts_with("Nothing was changed"));
    }
}
