//! Every setting, once: its name, its range, its default, where its value goes.

use std::fmt;

use scherzo_api::types::Mode;
use scherzo_wire::message::LoadSettings;
use zbus::{OwnedVariant, Variant};

use crate::core::Rules;

/// All settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What the engine is loaded with. Mode and preemption in it are not settings; they are decided elsewhere.
    pub tunables: LoadSettings,
    /// What the arbiter goes by.
    pub rules: Rules,
    /// How long after the system has started loading waits at most for someone to log in.
    pub boot_delay_s: u32,
    /// A spare engine waits while one schedules.
    pub standby: bool,
    /// Hold the power profile power-saver while the mode is low-power.
    pub drive_power_profile: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tunables: LoadSettings::default(),
            rules: Rules::default(),
            boot_delay_s: 30,
            standby: true,
            drive_power_profile: false,
        }
    }
}

/// A value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, in the unit that the setting's name ends in.
    Number(u32),
    /// On or off.
    Flag(bool),
    /// A mode.
    Mode(Mode),
}

impl fmt::Display for Value {
    /// As TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Mode(mode) => write!(f, "\"{}\"", mode.name()),
        }
    }
}

/// A value of any type, as it comes from a file or from the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A whole number.
    Number(i64),
    /// On or off.
    Flag(bool),
    /// A text.
    Text(String),
    /// No setting takes it.
    Other,
}

impl From<&Variant<'_>> for Raw {
    fn from(value: &Variant<'_>) -> Self {
        match value {
            Variant::Bool(flag) => Self::Flag(*flag),
            Variant::U8(number) => Self::Number((*number).into()),
            Variant::I16(number) => Self::Number((*number).into()),
            Variant::U16(number) => Self::Number((*number).into()),
            Variant::I32(number) => Self::Number((*number).into()),
            Variant::U32(number) => Self::Number((*number).into()),
            Variant::I64(number) => Self::Number(*number),
            Variant::U64(number) => i64::try_from(*number).map_or(Self::Other, Self::Number),
            Variant::Str(text) => Self::Text(text.to_string()),
            _ => Self::Other,
        }
    }
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name in files and on the bus.
    pub key: &'static str,
    /// Who changes it needs the right `configure-automation` only, not `configure`.
    pub automation: bool,
    access: Access,
}

#[derive(Debug)]
enum Access {
    Number { low: u32, high: u32, get: fn(&mut Settings) -> &mut u32 },
    Flag(fn(&mut Settings) -> &mut bool),
    Mode(fn(&mut Settings) -> &mut Mode),
}

const fn number(key: &'static str, low: u32, high: u32, get: fn(&mut Settings) -> &mut u32) -> Setting {
    Setting { key, automation: false, access: Access::Number { low, high, get } }
}

const fn option(key: &'static str, get: fn(&mut Settings) -> &mut bool) -> Setting {
    Setting { key, automation: false, access: Access::Flag(get) }
}

const fn flag(key: &'static str, get: fn(&mut Settings) -> &mut bool) -> Setting {
    Setting { key, automation: true, access: Access::Flag(get) }
}

const fn mode(key: &'static str, get: fn(&mut Settings) -> &mut Mode) -> Setting {
    Setting { key, automation: true, access: Access::Mode(get) }
}

/// Every setting there is. Ranges are those of [`LoadSettings::validate`].
pub const ALL: &[Setting] = &[
    number("base_slice_us", 250, 20_000, |all| &mut all.tunables.base_slice_us),
    number("min_slice_us", 100, 20_000, |all| &mut all.tunables.min_slice_us),
    number("starvation_ms", 5, 1_000, |all| &mut all.tunables.starvation_ms),
    number("slice_boost_ms", 0, 1_000, |all| &mut all.tunables.slice_boost_ms),
    option("auto_fifo", |all| &mut all.tunables.auto_fifo),
    option("builtin_idle", |all| &mut all.tunables.placement.builtin_idle),
    option("whole_cores", |all| &mut all.tunables.placement.whole_cores),
    option("numa_local", |all| &mut all.tunables.placement.numa_local),
    option("full_user", |all| &mut all.tunables.placement.full_user),
    option("partial", |all| &mut all.tunables.fixed.partial),
    option("per_node_idle", |all| &mut all.tunables.fixed.per_node_idle),
    number("watchdog_s", 1, 30, |all| &mut all.tunables.fixed.watchdog_s),
    option("minimal_policy", |all| &mut all.tunables.fixed.minimal_policy),
    mode("default_mode", |all| &mut all.rules.default_mode),
    mode("battery_mode", |all| &mut all.rules.battery_mode),
    flag("choice_ends_with_source", |all| &mut all.rules.choice_ends_with_source),
    flag("follow_holds", |all| &mut all.rules.holds),
    flag("follow_low_battery", |all| &mut all.rules.low_battery),
    flag("follow_profile_changes", |all| &mut all.rules.profile_change),
    flag("follow_power_source", |all| &mut all.rules.power_source),
    flag("follow_power_profile", |all| &mut all.rules.power_profile),
    flag("drive_power_profile", |all| &mut all.drive_power_profile),
    number("boot_delay_s", 0, 600, |all| &mut all.boot_delay_s),
    option("standby", |all| &mut all.standby),
];

/// Names of the settings that two have different values of.
#[must_use]
pub fn differing(some: Settings, others: Settings) -> Vec<&'static str> {
    let differ = |setting: &&Setting| setting.get(some) != setting.get(others);
    ALL.iter().filter(differ).map(|setting| setting.key).collect()
}

/// A caller's word in a sentence for the caller: shortened, as an answer longer than the bus allows would end the connection.
#[must_use]
pub fn quoted(word: &str) -> String {
    const MAX_CHARS: usize = 40;
    match word.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{:?}…", &word[..end]),
        None => format!("{word:?}"),
    }
}

/// The setting of that name.
pub fn find(key: &str) -> Result<&'static Setting, String> {
    ALL.iter().find(|setting| setting.key == key).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|setting| setting.key).collect();
        format!("there is no setting {}; there are {}", quoted(key), known.join(", "))
    })
}

impl Setting {
    /// Checks a value by itself; the sentence names the setting and what it takes.
    pub fn check(&self, raw: &Raw) -> Result<Value, String> {
        let key = self.key;
        match (&self.access, raw) {
            (Access::Number { low, high, .. }, Raw::Number(number)) => u32::try_from(*number)
                .ok()
                .filter(|number| (*low..=*high).contains(number))
                .map(Value::Number)
                .ok_or_else(|| format!("{key} is {number}, allowed is {low} to {high}")),
            (Access::Number { low, high, .. }, _) => Err(format!("{key} takes a whole number from {low} to {high}")),
            (Access::Flag(_), Raw::Flag(flag)) => Ok(Value::Flag(*flag)),
            (Access::Flag(_), _) => Err(format!("{key} takes true or false")),
            (Access::Mode(_), Raw::Text(name)) if let Some(mode) = Mode::from_name(name) => Ok(Value::Mode(mode)),
            (Access::Mode(_), _) => {
                Err(format!("{key} takes one of {}", Mode::ALL.map(|mode| format!("{:?}", mode.name())).join(", ")))
            }
        }
    }

    /// Puts in a value that was checked.
    pub fn set(&self, settings: &mut Settings, value: Value) {
        match (&self.access, value) {
            (Access::Number { get, .. }, Value::Number(number)) => *get(settings) = number,
            (Access::Flag(get), Value::Flag(flag)) => *get(settings) = flag,
            (Access::Mode(get), Value::Mode(mode)) => *get(settings) = mode,
            // `check` gives no other value.
            _ => {}
        }
    }

    /// The value.
    #[must_use]
    pub fn get(&self, mut settings: Settings) -> Value {
        match &self.access {
            Access::Number { get, .. } => Value::Number(*get(&mut settings)),
            Access::Flag(get) => Value::Flag(*get(&mut settings)),
            Access::Mode(get) => Value::Mode(*get(&mut settings)),
        }
    }
}

impl From<Value> for OwnedVariant {
    fn from(value: Value) -> Self {
        match value {
            Value::Number(number) => number.into(),
            Value::Flag(flag) => flag.into(),
            Value::Mode(mode) => zbus::Str::from(mode.name()).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_word_is_not_repeated_at_length() {
        assert_eq!(quoted("turbo"), r#""turbo""#);
        let long = "\"ü".repeat(1 << 20);
        assert!(quoted(&long).len() < 200 && find(&long).unwrap_err().len() < 2_000);
        assert!(crate::bus::parse_mode(&long).unwrap_err().to_string().len() < 500);
    }

    #[test]
    fn values_end_where_they_are_read() {
        let mut settings = Settings::default();
        for setting in ALL {
            let before = setting.get(settings);
            let other = match before {
                Value::Number(number) => Value::Number(number + 1),
                Value::Flag(flag) => Value::Flag(!flag),
                Value::Mode(_) => Value::Mode(Mode::Fifo),
            };
            setting.set(&mut settings, other);
            assert_eq!(setting.get(settings), other, "{}", setting.key);
            assert_eq!(find(setting.key).unwrap().key, setting.key);
        }
    }

    #[test]
    fn refusals_name_the_setting_and_its_range() {
        let refused = |key: &str, raw| find(key).unwrap().check(&raw).unwrap_err();
        assert_eq!(refused("base_slice_us", Raw::Number(7)), "base_slice_us is 7, allowed is 250 to 20000");
        assert_eq!(refused("base_slice_us", Raw::Number(i64::MIN)).matches("allowed").count(), 1);
        assert!(refused("follow_holds", Raw::Number(1)).contains("true or false"));
        assert!(refused("battery_mode", Raw::Text("auto".into())).contains("\"fifo\""));
        assert!(find("speed").unwrap_err().contains("base_slice_us"));
    }
}
