//! Settings as the preferences show them.

use scherzo_api::types::Mode;
use scherzo_api::{Setting, Snapshot};

/// The setting, if the service has it and it is on or off.
pub(crate) fn flag(service: &Snapshot, key: &str) -> Option<bool> {
    match service.settings.get(key)? {
        Setting::Flag(flag) => Some(*flag),
        _ => None,
    }
}

/// The setting, if the service has it and it is a number.
pub(crate) fn number(service: &Snapshot, key: &str) -> Option<u32> {
    match service.settings.get(key)? {
        Setting::Number(number) => Some(*number),
        _ => None,
    }
}

/// Which mode the setting names, as its place in [`Mode::ALL`].
pub(crate) fn mode(service: &Snapshot, key: &str) -> Option<u32> {
    match service.settings.get(key)? {
        Setting::Text(name) => Mode::ALL.iter().position(|mode| mode.name() == name).map(|place| place as u32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_by_their_type() {
        let settings = [
            ("follow_holds", Setting::Flag(true)),
            ("boot_delay_s", Setting::Number(30)),
            ("battery_mode", Setting::Text("low-power".into())),
        ];
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let service = Snapshot { settings, ..Snapshot::default() };
        assert_eq!(flag(&service, "follow_holds"), Some(true));
        assert_eq!(number(&service, "boot_delay_s"), Some(30));
        assert_eq!(mode(&service, "battery_mode").map(|place| Mode::ALL[place as usize]), Some(Mode::LowPower));
        assert_eq!(
            (flag(&service, "boot_delay_s"), mode(&service, "follow_holds"), number(&service, "new")),
            (None, None, None)
        );
    }
}
