//! What calls carry, checked; and what they are refused with.

use std::collections::HashMap;

use scherzo_api::Error;
use scherzo_api::catalogue::gettext_noop;
use scherzo_api::names::{ACTION_CONFIGURE, ACTION_CONFIGURE_AUTOMATION};
use scherzo_api::types::{Mode, RequestedMode, Seat};
use scherzo_supervisor::Refusal;
use zbus::OwnedVariant;

use crate::config::Change;
use crate::settings;

/// The error of the bus for a refusal.
pub(crate) fn error_of(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotSupported(text) => Error::NotSupported(text),
        Refusal::NotRunning(text) => Error::NotRunning(text),
        Refusal::NoSuchHold(text) => Error::NoSuchHold(text),
        Refusal::LoadFailed(text) => Error::LoadFailed(text),
        Refusal::Busy(text) => Error::Busy(text),
        Refusal::Conflict(text) => Error::Conflict(text),
        Refusal::LimitReached(text) => Error::LimitReached(text),
        Refusal::AccessDenied(text) => Error::AccessDenied(text),
        Refusal::InvalidArgs(text) => Error::InvalidArgs(text),
    }
}

/// The polkit action for changing these settings.
pub(super) fn right_to_change(changes: &[Change]) -> &'static str {
    let is_automation = changes.iter().all(|(setting, _)| setting.is_automation());
    if is_automation { ACTION_CONFIGURE_AUTOMATION } else { ACTION_CONFIGURE }
}

pub(crate) fn check_changes(settings: &HashMap<String, OwnedVariant>) -> Result<Vec<Change>, Error> {
    let check = |(key, value): (&String, &OwnedVariant)| settings::checked(key, &settings::from_variant(value));
    let named = |key: &str| settings.get_key_value(key).and_then(|pair| Some(check(pair).ok()?.1));
    let agreed = settings::agree(named(settings::MINIMAL_POLICY), named(settings::POLICY));
    let change = |pair| check(pair).map(|(setting, value)| (setting, Some(value)));
    let checked: Result<_, String> = agreed.and_then(|()| settings.iter().map(change).collect());
    checked.map_err(|problem| Error::InvalidSetting(format!("{problem}.")))
}

pub(crate) fn parse_mode(mode: &str) -> Result<RequestedMode, Error> {
    mode.parse().map_err(|_| {
        let known = RequestedMode::ALL.map(RequestedMode::name).join(", ");
        Error::InvalidMode(format!("There is no mode {}. Choose one of {known}.", settings::quoted(mode)))
    })
}

/// What is said about `auto` where a mode in particular is needed.
pub(super) const HOLD_NEEDS_MODE: &str = gettext_noop("A hold needs a mode of its own, not auto.");
pub(super) const END_NEEDS_MODE: &str = gettext_noop("A choice with an end needs a mode of its own, not auto.");

/// A mode, but not `auto`, about which `complaint` is said.
pub(super) fn parse_mode_of_its_own(mode: &str, complaint: &str) -> Result<Mode, Error> {
    match parse_mode(mode)? {
        RequestedMode::Mode(mode) => Ok(mode),
        RequestedMode::Auto => Err(Error::InvalidMode(complaint.into())),
    }
}

pub(crate) fn parse_engine(engine: &str) -> Result<Seat, Error> {
    Seat::from_name(engine).ok_or_else(|| {
        let known = Seat::ALL.map(Seat::name).join(" or ");
        Error::InvalidArgs(format!("There is no engine {}. Choose {known}.", settings::quoted(engine)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_mode_is_not_repeated_at_length() {
        let long = "\"ü".repeat(1 << 20);
        assert!(parse_mode(&long).unwrap_err().to_string().len() < 500);
        assert!(parse_engine(&long).unwrap_err().to_string().len() < 500);
    }
}
