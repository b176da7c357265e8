//! Where the value of each setting goes. What there is to know about a setting is in `scherzo-model`.

use std::fmt;

use scherzo_model::settings::{self as model, SettingFacts, SettingRight, SettingType};
use scherzo_model::{LoadSettings, Mode, PolicyId, SliceTimer};
pub use scherzo_policy::POLICIES;

use crate::Rules;

/// All settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What the engine is loaded with. Mode and preemption in it are not settings; they are decided elsewhere.
    pub tunables: LoadSettings,
    /// What the arbiter goes by.
    pub rules: Rules,
    /// How long after the system has started loading waits at most for someone to log in.
    pub boot_delay_s: u32,
    /// A standby engine waits while one schedules.
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
    /// Whether timers end slices.
    SliceTimer(SliceTimer),
    /// A policy.
    Policy(PolicyId),
}

/// The name of a policy.
#[must_use]
pub fn policy_name(id: PolicyId) -> &'static str {
    POLICIES.get(usize::from(id.0)).copied().unwrap_or_default()
}

/// The policy of that name.
fn policy_by_name(name: &str) -> Option<PolicyId> {
    POLICIES.iter().position(|known| *known == name).map(|id| PolicyId(id as u8))
}

impl fmt::Display for Value {
    /// As TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Mode(mode) => write!(f, "\"{}\"", mode.name()),
            Self::SliceTimer(choice) => write!(f, "\"{}\"", choice.name()),
            Self::Policy(policy) => write!(f, "\"{}\"", policy_name(*policy)),
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

/// A setting.
#[derive(Debug)]
pub struct SettingEntry {
    /// Its name in files and on the bus.
    pub key: &'static str,
    place: fn(&mut Settings) -> SettingPlace<'_>,
}

/// Where a value is kept.
enum SettingPlace<'a> {
    Number(&'a mut u32),
    Flag(&'a mut bool),
    Mode(&'a mut Mode),
    SliceTimer(&'a mut SliceTimer),
    Policy(&'a mut PolicyId),
}

macro_rules! places {
    ($($variant:ident($type:ty),)+) => {
        $(impl<'a> From<&'a mut $type> for SettingPlace<'a> {
            fn from(place: &'a mut $type) -> Self {
                Self::$variant(place)
            }
        })+
    };
}

places! { Number(u32), Flag(bool), Mode(Mode), SliceTimer(SliceTimer), Policy(PolicyId), }

const fn service(key: &'static str, place: fn(&mut Settings) -> SettingPlace<'_>) -> SettingEntry {
    SettingEntry { key, place }
}

macro_rules! settings {
    (
        scheduler { $($heading:literal { $(
            $key:ident: $type:ty = $default:expr, $values:ident $(($low:literal, $high:literal))?, $effect:ident, $text:literal;
        )+ })+ }
        service $service:tt
    ) => {
        /// Every setting there is, in the model's order.
        pub const ALL: &[SettingEntry] = &[
            $($(SettingEntry { key: stringify!($key), place: |all| (&mut all.tunables.$key).into() },)+)+
            service("default_mode", |all| (&mut all.rules.default_mode).into()),
            service("battery_mode", |all| (&mut all.rules.battery_mode).into()),
            service("choice_ends_with_source", |all| (&mut all.rules.choice_ends_with_source).into()),
            service("follow_holds", |all| (&mut all.rules.holds).into()),
            service("follow_low_battery", |all| (&mut all.rules.low_battery).into()),
            service("follow_profile_changes", |all| (&mut all.rules.profile_change).into()),
            service("follow_power_source", |all| (&mut all.rules.power_source).into()),
            service("follow_power_profile", |all| (&mut all.rules.power_profile).into()),
            service("drive_power_profile", |all| (&mut all.drive_power_profile).into()),
            service("power_saver_mode", |all| (&mut all.rules.on_mains.power_saver).into()),
            service("balanced_mode", |all| (&mut all.rules.on_mains.balanced).into()),
            service("performance_mode", |all| (&mut all.rules.on_mains.performance).into()),
            service("power_saver_mode_on_battery", |all| (&mut all.rules.on_battery.power_saver).into()),
            service("balanced_mode_on_battery", |all| (&mut all.rules.on_battery.balanced).into()),
            service("performance_mode_on_battery", |all| (&mut all.rules.on_battery.performance).into()),
            service("boot_delay_s", |all| (&mut all.boot_delay_s).into()),
            service("standby", |all| (&mut all.standby).into()),
        ];
    };
}

scherzo_model::for_each_setting!(settings);

/// The setting of that name, or of the name that it had in 0.1.0, with a checked value.
pub fn checked(key: &str, raw: &Raw) -> Result<(&'static SettingEntry, Value), String> {
    let (key, raw) = match (key, raw) {
        (MINIMAL_POLICY, Raw::Flag(true)) => (POLICY, &Raw::Text("fifo".to_owned())),
        (MINIMAL_POLICY, Raw::Flag(false)) => (POLICY, &Raw::Text("scherzo".to_owned())),
        (MINIMAL_POLICY, _) => return Err(format!("{MINIMAL_POLICY} takes true or false")),
        _ => (key, raw),
    };
    let setting = find(key)?;
    Ok((setting, setting.check(raw)?))
}

/// Refuses a policy that is named in the old way and in the new way, and not the same one.
pub fn agree(minimal_policy: Option<Value>, policy: Option<Value>) -> Result<(), String> {
    match (minimal_policy, policy) {
        (Some(old), Some(new)) if old != new => Err(format!(
            "{MINIMAL_POLICY} (now policy = {old}) and policy = {new} contradict each other: keep the second"
        )),
        _ => Ok(()),
    }
}

/// What version 0.1.0 called the choice of the policy.
pub const MINIMAL_POLICY: &str = "minimal_policy";
/// What it is called now.
pub const POLICY: &str = "policy";

/// Names of the settings that two have different values of.
#[must_use]
pub fn differing(some: Settings, others: Settings) -> Vec<&'static str> {
    let differ = |setting: &&SettingEntry| setting.get(some) != setting.get(others);
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
pub fn find(key: &str) -> Result<&'static SettingEntry, String> {
    ALL.iter().find(|setting| setting.key == key).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|setting| setting.key).collect();
        format!("there is no setting {}; there are {}", quoted(key), known.join(", "))
    })
}

impl SettingEntry {
    /// What there is to know about it.
    ///
    /// # Panics
    ///
    /// If the model does not list the setting, which a test excludes.
    #[must_use]
    pub fn facts(&self) -> &'static SettingFacts {
        model::find(self.key).expect("every setting is in the model")
    }

    /// Whether changing it needs the right `configure-automation` only, not `configure`.
    #[must_use]
    pub fn is_automation(&self) -> bool {
        self.facts().right == SettingRight::Automation
    }

    /// Checks a value by itself; the sentence names the setting and what it takes.
    pub fn check(&self, raw: &Raw) -> Result<Value, String> {
        let key = self.key;
        match (self.facts().values, raw) {
            (SettingType::Number(low, high), Raw::Number(number)) => u32::try_from(*number)
                .ok()
                .filter(|number| (low..=high).contains(number))
                .map(Value::Number)
                .ok_or_else(|| format!("{key} is {number}, allowed is {low} to {high}")),
            (SettingType::Number(low, high), _) => Err(format!("{key} takes a whole number from {low} to {high}")),
            (SettingType::Flag, Raw::Flag(flag)) => Ok(Value::Flag(*flag)),
            (SettingType::Flag, _) => Err(format!("{key} takes true or false")),
            (SettingType::Mode, Raw::Text(name)) if let Some(mode) = Mode::from_name(name) => Ok(Value::Mode(mode)),
            (SettingType::Mode, _) => Err(one_of(key, &Mode::ALL.map(Mode::name))),
            (SettingType::SliceTimer, Raw::Text(name)) if let Some(choice) = SliceTimer::from_name(name) => {
                Ok(Value::SliceTimer(choice))
            }
            (SettingType::SliceTimer, _) => Err(one_of(key, &SliceTimer::ALL.map(SliceTimer::name))),
            (SettingType::Policy, Raw::Text(name)) if let Some(id) = policy_by_name(name) => Ok(Value::Policy(id)),
            (SettingType::Policy, _) => Err(one_of(key, POLICIES)),
        }
    }

    /// Puts in a value that was checked.
    pub fn set(&self, settings: &mut Settings, value: Value) {
        match ((self.place)(settings), value) {
            (SettingPlace::Number(place), Value::Number(number)) => *place = number,
            (SettingPlace::Flag(place), Value::Flag(flag)) => *place = flag,
            (SettingPlace::Mode(place), Value::Mode(mode)) => *place = mode,
            (SettingPlace::SliceTimer(place), Value::SliceTimer(choice)) => *place = choice,
            (SettingPlace::Policy(place), Value::Policy(policy)) => *place = policy,
            // `check` gives no other value.
            _ => {}
        }
    }

    /// The value.
    #[must_use]
    pub fn get(&self, mut settings: Settings) -> Value {
        match (self.place)(&mut settings) {
            SettingPlace::Number(number) => Value::Number(*number),
            SettingPlace::Flag(flag) => Value::Flag(*flag),
            SettingPlace::Mode(mode) => Value::Mode(*mode),
            SettingPlace::SliceTimer(choice) => Value::SliceTimer(*choice),
            SettingPlace::Policy(policy) => Value::Policy(*policy),
        }
    }
}

fn one_of(key: &str, names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("{key} takes one of {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_word_is_not_repeated_at_length() {
        assert_eq!(quoted("turbo"), r#""turbo""#);
        let long = "\"ü".repeat(1 << 20);
        assert!(quoted(&long).len() < 200 && find(&long).unwrap_err().len() < 2_000);
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
                Value::SliceTimer(_) => Value::SliceTimer(SliceTimer::Off),
                Value::Policy(PolicyId(id)) => Value::Policy(PolicyId(id + 1)),
            };
            setting.set(&mut settings, other);
            assert_eq!(setting.get(settings), other, "{}", setting.key);
            assert_eq!(find(setting.key).unwrap().key, setting.key);
        }
    }

    #[test]
    fn settings_are_those_of_the_model_with_its_defaults() {
        assert!(ALL.iter().map(|setting| setting.key).eq(model::all().map(|facts| facts.key)));
        macro_rules! defaults {
            (scheduler $scheduler:tt service { $($heading:literal { $(
                $key:ident: $type:ty = $default:expr, $values:ident $(($low:literal, $high:literal))?, $right:ident, $text:literal;
            )+ })+ }) => {
                $($({
                    let mut settings = Settings::default();
                    let place: &mut $type = &mut $default;
                    let expected = SettingPlace::from(place);
                    let real = (find(stringify!($key)).unwrap().place)(&mut settings);
                    match (expected, real) {
                        (SettingPlace::Number(some), SettingPlace::Number(other)) => assert_eq!(some, other),
                        (SettingPlace::Flag(some), SettingPlace::Flag(other)) => assert_eq!(some, other),
                        (SettingPlace::Mode(some), SettingPlace::Mode(other)) => assert_eq!(some, other),
                        _ => panic!("{} is of another type", stringify!($key)),
                    }
                })+)+
            };
        }
        scherzo_model::for_each_setting!(defaults);
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
