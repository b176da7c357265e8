//! Settings: key, type, range, default, who may change it, when a change takes effect, and what it means.
//!
//! [`for_each_setting`] is the table. A setting of the section `scheduler` becomes a field of [`LoadSettings`], which
//! the service sends to the engine and which policies read; one of the section `service` is the service's own.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use crate::{Mode, Seat, SliceTimer};

/// Expands `$callback! { … }` over every setting: sections, headings, and rows of key, type, default, allowed values,
/// when a change takes effect (`scheduler`) or the right that it needs (`service`), and meaning.
#[macro_export]
macro_rules! for_each_setting {
    ($callback:path) => {
        $callback! {
            scheduler {
                "The scheduler. These change at once, while it runs." {
                    base_slice_us: u32 = 5_000, Number(250, 20_000), AtOnce, "How long a task runs while few others wait, in microseconds: 250 to 20000.";
                    min_slice_us: u32 = 250, Number(100, 20_000), AtOnce, "How long it runs at least, in microseconds: 100 up to the above. Only the policy \"classes\" goes by this.";
                    slice_timer: SliceTimer = SliceTimer::Auto, SliceTimer, AtOnce, "Whether a timer ends a slice that is over between two ticks of the kernel, while others wait: \"on\", \"off\", or \"auto\", for slices shorter than a quarter of the time between two ticks. Only while the kernel side applies the policy.";
                    starvation_ms: u32 = 100, Number(5, 1_000), AtOnce, "How long background work waits in low-power before a CPU takes it that is kept asleep, in milliseconds: 5 to 1000. With the policy \"classes\", in every mode: background work that has waited longer gets every other turn.";
                    slice_boost_ms: u32 = 20, Number(0, 1_000), AtOnce, "How much earlier interactive work is taken than its fair share says, in milliseconds: 0 to 1000. 0 leaves plain virtual runtime. Only the policy \"classes\" goes by this.";
                    auto_fifo: bool = true, Flag, AtOnce, "The mode \"interactive\" serves in order of arrival while the machine is under-used. Only the policy \"classes\" goes by this.";
                }
                "The application in front, where the desktop says which that is. This changes at once as well." {
                    foreground_percent: u32 = 400, Number(100, 1_000), AtOnce, "What its control group weighs, in percent of its own weight: 100 to 1000. 100 gives it nothing more.";
                }
                "Where the policy is applied. This changes at once as well." {
                    kernel_seat: bool = true, Flag, AtOnce, "The kernel side applies the policy by itself. Without it the engine decides, in user space. `scherzoctl engine` chooses as well; that lasts until this is changed.";
                }
                "Where a task runs. These change at once as well." {
                    builtin_idle: bool = true, Flag, AtOnce, "The kernel's built-in selection finds idle CPUs. Without it Scherzo searches by itself, as the next two say.";
                    whole_cores: bool = true, Flag, AtOnce, "Prefer cores of which every thread is idle; only without builtin_idle can this be false.";
                    numa_local: bool = true, Flag, AtOnce, "Look in a task's own NUMA node first; only without builtin_idle can this be false.";
                    full_user: bool = false, Flag, AtOnce, "Every decision is made by the policy in user space, without shortcuts in the kernel. For studying the policy: latency is worse. Only without builtin_idle.";
                }
                "Fixed while the scheduler is loaded: changing one of these loads it anew." {
                    partial: bool = false, Flag, Reload, "Schedule only the tasks that chose the scheduling policy SCHED_EXT, and leave the others to the kernel.";
                    per_node_idle: bool = false, Flag, Reload, "Keep track of idle CPUs per NUMA node, for machines with many.";
                    watchdog_s: u32 = 30, Number(1, 30), Reload, "The kernel's own watchdog takes the scheduler away when a task waits so long, in seconds: 1 to 30. Real-time programs that hold every CPU look like that to it.";
                    policy: PolicyId = PolicyId(0), Policy, Reload, "The policy: \"scherzo\"; or for study, and in user space only, \"fifo\", arrival order and the least policy there can be, or \"classes\", that of version 0.1.0.";
                }
            }
            service {
                "The mode, where nobody chose one by hand: one of those in modes.md, but for \"auto\"." {
                    default_mode: Mode = Mode::Interactive, Mode, Automation, "Where nothing else decides.";
                    battery_mode: Mode = Mode::LowPower, Mode, Automation, "On battery.";
                }
                "Which rules apply, the most important first." {
                    choice_ends_with_source: bool = true, Flag, Automation, "A choice made by hand ends when the computer is plugged in or unplugged.";
                    follow_holds: bool = true, Flag, Automation, "Programs may hold a mode while they run.";
                    follow_low_battery: bool = true, Flag, Automation, "A low battery asks for low-power.";
                    follow_profile_changes: bool = true, Flag, Automation, "Changing the power profile counts more than running on battery, until the computer is plugged in or unplugged.";
                    follow_power_source: bool = true, Flag, Automation, "Running on battery asks for battery_mode.";
                    follow_power_profile: bool = true, Flag, Automation, "The power profile asks for the mode that is set for it below.";
                    drive_power_profile: bool = false, Flag, Automation, "The other way round: while low-power is in effect, hold the power profile power-saver. Choosing a profile ends that until low-power is entered again.";
                }
                "The mode that a power profile asks for, when the computer is plugged in and when it runs on battery." {
                    power_saver_mode: Mode = Mode::LowPower, Mode, Automation, "The profile power-saver.";
                    balanced_mode: Mode = Mode::Interactive, Mode, Automation, "The profile balanced.";
                    performance_mode: Mode = Mode::Interactive, Mode, Automation, "The profile performance.";
                    power_saver_mode_on_battery: Mode = Mode::LowPower, Mode, Automation, "The profile power-saver on battery.";
                    balanced_mode_on_battery: Mode = Mode::Interactive, Mode, Automation, "The profile balanced on battery. Running on battery asks for battery_mode first, unless the profile was changed since.";
                    performance_mode_on_battery: Mode = Mode::Interactive, Mode, Automation, "The profile performance on battery, likewise.";
                }
                "When the scheduler is loaded, and what waits to replace it." {
                    boot_delay_s: u32 = 30, Number(0, 600), Configure, "After a start of the system the scheduler is loaded when someone logs in, or after so many seconds: 0 to 600.";
                    standby: bool = true, Flag, Configure, "A standby engine waits, with everything prepared, to replace one that is killed without the time that loading takes. It costs 11 to 13 MB of memory while the scheduler is loaded.";
                }
            }
        }
    };
}

/// A policy, by its place in the registry of `scherzo-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyId(pub u8);

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingType {
    /// A whole number from the first to the second.
    Number(u32, u32),
    /// On or off.
    Flag,
    /// A mode.
    Mode,
    /// Whether timers end slices.
    SliceTimer,
    /// The name of a policy.
    Policy,
}

/// When a changed setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingEffect {
    /// Without loading anew.
    AtOnce,
    /// The scheduler is loaded anew.
    Reload,
}

/// The polkit action that changing a setting needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingRight {
    /// `configure`: what concerns the scheduler and its loading.
    Configure,
    /// `configure-automation`: what decides the mode.
    Automation,
}

/// What there is to know about a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingFacts {
    /// Its name in files and on the bus.
    pub key: &'static str,
    /// The values that it takes.
    pub values: SettingType,
    /// When a change takes effect.
    pub effect: SettingEffect,
    /// What changing it needs.
    pub right: SettingRight,
    /// What it means.
    pub text: &'static str,
}

/// Settings that are described together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingGroup {
    /// What they have in common.
    pub heading: &'static str,
    /// The settings.
    pub settings: &'static [SettingFacts],
}

/// A value of [`LoadSettings`] as a word of a message.
trait Word: Sized {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Option<Self>;
}

impl Word for u32 {
    fn to_word(self) -> u64 {
        self.into()
    }
    fn from_word(word: u64) -> Option<Self> {
        word.try_into().ok()
    }
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(word)
    }
}

impl Word for bool {
    fn to_word(self) -> u64 {
        self.into()
    }
    fn from_word(word: u64) -> Option<Self> {
        (word < 2).then_some(word == 1)
    }
}

impl Word for Mode {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Option<Self> {
        Self::from_wire(word.try_into().ok()?)
    }
}

impl Word for SliceTimer {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| *choice as u64 == word)
    }
}

impl Word for PolicyId {
    fn to_word(self) -> u64 {
        self.0.into()
    }
    fn from_word(word: u64) -> Option<Self> {
        word.try_into().ok().map(Self)
    }
}

macro_rules! tables {
    (
        scheduler { $($heading:literal { $(
            $key:ident: $type:ty = $default:expr, $values:ident $(($low:literal, $high:literal))?, $effect:ident, $text:literal;
        )+ })+ }
        service { $($service_heading:literal { $(
            $service_key:ident: $service_type:ty = $service_default:expr,
            $service_values:ident $(($service_low:literal, $service_high:literal))?, $right:ident, $service_text:literal;
        )+ })+ }
    ) => {
        /// Every setting, as it is described to people.
        pub const GROUPS: &[SettingGroup] = &[
            $(SettingGroup { heading: $heading, settings: &[$(SettingFacts {
                key: stringify!($key),
                values: SettingType::$values $(($low, $high))?,
                effect: SettingEffect::$effect,
                right: SettingRight::Configure,
                text: $text,
            },)+] },)+
            $(SettingGroup { heading: $service_heading, settings: &[$(SettingFacts {
                key: stringify!($service_key),
                values: SettingType::$service_values $(($service_low, $service_high))?,
                effect: SettingEffect::AtOnce,
                right: SettingRight::$right,
                text: $service_text,
            },)+] },)+
        ];

        /// How the scheduler is loaded, and what it goes by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct LoadSettings {
            /// Mode to start in.
            pub mode: Mode,
            /// Preemption on or off.
            pub preemption: bool,
            /// The number of the control group in front, in the default hierarchy; 0 if there is none.
            pub foreground_cgroup: u64,
            $($(#[doc = $text] pub $key: $type,)+)+
        }

        impl Default for LoadSettings {
            fn default() -> Self {
                Self { mode: Mode::Interactive, preemption: true, foreground_cgroup: 0, $($($key: $default,)+)+ }
            }
        }

        impl LoadSettings {
            /// Words of the encoded form.
            pub const NR_WORDS: usize = 3 + [$($(stringify!($key)),+),+].len();

            /// One word for each field, in order.
            #[must_use]
            pub fn to_words(&self) -> [u64; Self::NR_WORDS] {
                [self.mode.to_word(), self.preemption.to_word(), self.foreground_cgroup.to_word(), $($(self.$key.to_word(),)+)+]
            }

            /// Reads untrusted words; `None` if one makes no sense for its field.
            #[must_use]
            pub fn from_words(words: &[u64]) -> Option<Self> {
                let mut words = words.iter().copied();
                Some(Self {
                    mode: Mode::from_word(words.next()?)?,
                    preemption: bool::from_word(words.next()?)?,
                    foreground_cgroup: u64::from_word(words.next()?)?,
                    $($($key: <$type>::from_word(words.next()?)?,)+)+
                })
            }

            /// Whether something that only loading can change is wanted otherwise.
            #[must_use]
            pub fn must_reload_for(&self, wanted: &Self) -> bool {
                $($((SettingEffect::$effect == SettingEffect::Reload && self.$key != wanted.$key) ||)+)+ false
            }

            /// Names the first number out of its own range, with the range.
            fn validate_ranges(&self) -> Result<(), String> {
                $($(tables!(@check self, $key $(, $low, $high)?);)+)+
                Ok(())
            }
        }
    };
    (@check $all:ident, $key:ident) => {};
    (@check $all:ident, $key:ident, $low:literal, $high:literal) => {
        check_range(stringify!($key), $all.$key, $low, $high)?;
    };
}

for_each_setting!(tables);

fn check_range(key: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(format!("{key} is {value}, allowed is {low} to {high}")) }
}

impl LoadSettings {
    /// The setting because of which the policy is applied in user space, whatever `kernel_seat` says.
    #[must_use]
    pub fn needs_user_seat(&self) -> Option<&'static str> {
        match self {
            Self { full_user: true, .. } => Some("full_user"),
            Self { policy: PolicyId(1..), .. } => Some("policy"),
            _ => None,
        }
    }

    /// Where the policy is applied.
    #[must_use]
    pub fn seat(&self) -> Seat {
        if self.needs_user_seat().is_some() { Seat::User } else { self.kernel_seat.into() }
    }

    /// Names the first setting out of range, with the range, or two that contradict each other.
    ///
    /// # Errors
    ///
    /// A sentence for people.
    pub fn validate(&self) -> Result<(), String> {
        self.validate_ranges()?;
        check_range("min_slice_us", self.min_slice_us, 100, self.base_slice_us)?;
        let problem = match self {
            Self { builtin_idle: false, .. } => return Ok(()),
            Self { full_user: true, .. } => {
                "full_user = true needs builtin_idle = false: the built-in selection decides in the kernel"
            }
            Self { whole_cores: false, .. } => {
                "whole_cores = false needs builtin_idle = false: the built-in selection always prefers them"
            }
            Self { numa_local: false, .. } => {
                "numa_local = false needs builtin_idle = false: the built-in selection always looks near first"
            }
            _ => return Ok(()),
        };
        Err(problem.to_owned())
    }
}

/// Every setting, in the order in which they are described.
pub fn all() -> impl Iterator<Item = &'static SettingFacts> {
    GROUPS.iter().flat_map(|group| group.settings)
}

/// The setting of that name.
#[must_use]
pub fn find(key: &str) -> Option<&'static SettingFacts> {
    all().find(|setting| setting.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_named() {
        let bad = LoadSettings { min_slice_us: 9_000, ..LoadSettings::default() };
        assert_eq!(bad.validate().unwrap_err(), "min_slice_us is 9000, allowed is 100 to 5000");
        assert_eq!(LoadSettings::default().validate(), Ok(()));
        let bad = LoadSettings { watchdog_s: 31, ..LoadSettings::default() };
        assert_eq!(bad.validate().unwrap_err(), "watchdog_s is 31, allowed is 1 to 30");
    }

    #[test]
    fn placements_that_contradict_themselves_are_named() {
        let builtin = LoadSettings::default();
        let refused = |settings: LoadSettings| settings.validate().unwrap_err();
        assert!(refused(LoadSettings { full_user: true, ..builtin }).starts_with("full_user"));
        assert!(refused(LoadSettings { whole_cores: false, ..builtin }).starts_with("whole_cores"));
        assert!(refused(LoadSettings { numa_local: false, ..builtin }).starts_with("numa_local"));
        let own =
            LoadSettings { full_user: true, builtin_idle: false, whole_cores: false, numa_local: false, ..builtin };
        assert_eq!(own.validate(), Ok(()));
    }

    #[test]
    fn policies_for_study_and_full_user_need_the_user_seat() {
        let kernel = LoadSettings::default();
        assert_eq!((kernel.seat(), kernel.needs_user_seat()), (Seat::Kernel, None));
        assert_eq!(LoadSettings { kernel_seat: false, ..kernel }.seat(), Seat::User);
        for (settings, key) in [
            (LoadSettings { full_user: true, builtin_idle: false, ..kernel }, "full_user"),
            (LoadSettings { policy: PolicyId(1), ..kernel }, "policy"),
        ] {
            assert_eq!((settings.seat(), settings.needs_user_seat()), (Seat::User, Some(key)));
        }
    }

    #[test]
    fn only_what_is_fixed_at_load_needs_a_reload() {
        let loaded = LoadSettings::default();
        let live = LoadSettings { base_slice_us: 1_000, slice_boost_ms: 0, auto_fifo: false, ..loaded };
        assert!(!loaded.must_reload_for(&live));
        assert!(loaded.must_reload_for(&LoadSettings { partial: true, ..loaded }));
        assert!(loaded.must_reload_for(&LoadSettings { policy: PolicyId(1), ..loaded }));
    }

    #[test]
    fn words_come_back_and_nonsense_does_not() {
        let settings = LoadSettings { mode: Mode::Fifo, watchdog_s: 7, full_user: true, ..LoadSettings::default() };
        assert_eq!(LoadSettings::from_words(&settings.to_words()), Some(settings));
        let mut words = settings.to_words();
        words[1] = 2;
        assert_eq!(LoadSettings::from_words(&words), None);
        assert_eq!(LoadSettings::from_words(&words[..3]), None);
    }

    #[test]
    fn keys_are_unique_and_numbers_carry_their_unit() {
        for (at, setting) in all().enumerate() {
            assert!(all().take(at).all(|other| other.key != setting.key), "{}", setting.key);
            let has_unit = ["_us", "_ms", "_s", "_percent"].iter().any(|unit| setting.key.ends_with(unit));
            assert_eq!(has_unit, matches!(setting.values, SettingType::Number(..)), "{}", setting.key);
        }
    }
}
