//! Modes, states and reasons as the strings that cross the bus.

use std::fmt;
use std::str::FromStr;

pub use scherzo_model::{Mode, Seat};

/// A string that is none of those expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(
    /// The string.
    pub String,
);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown name {:?}", self.0)
    }
}

impl std::error::Error for UnknownName {}

/// An enum whose variants are stable strings.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every variant.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable string.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|known| known.name() == name).ok_or_else(|| UnknownName(name.into()))
            }
        }
    };
}

named! {
    /// What runs: the property `State`.
    State {
        /// Scherzo schedules.
        Running = "running",
        /// BPF schedules alone, because user space does not answer.
        Degraded = "degraded",
        /// On its way: loading, or waiting until it may load.
        Starting = "starting",
        /// Turned off: the kernel's own scheduler runs.
        Stopped = "stopped",
        /// Wanted, but ejected or not loadable: the kernel's own scheduler runs.
        Fallback = "fallback",
        /// This kernel cannot load any scheduler.
        Unsupported = "unsupported",
        /// Someone else's sched_ext scheduler runs; it is left alone.
        Foreign = "foreign",
    }
}

named! {
    /// Why it is so: the property `Reason`, and the first argument of `EngineExited`.
    Reason {
        /// Nobody chose: the default mode.
        Default = "default",
        /// A person chose this mode: the user `uid`.
        Choice = "choice",
        /// A program of the user `uid` holds this mode, as hold `cookie`; which program it is (`application`) is told to this
        /// user only.
        Hold = "hold",
        /// The battery is low.
        BatteryLow = "battery-low",
        /// The power profile was changed to `profile` since the machine was last plugged or unplugged.
        PowerProfileChanged = "power-profile-changed",
        /// The machine runs on battery.
        OnBattery = "on-battery",
        /// The power profile is `profile`.
        PowerProfile = "power-profile",
        /// Turned off, or never turned on.
        Disabled = "disabled",
        /// Being loaded.
        Loading = "loading",
        /// Waiting for someone to log in, or for a while, after the system has started.
        BootDelay = "boot-delay",
        /// The system went down soon after loading, more than once.
        UncleanBoots = "unclean-boots",
        /// It is not wanted any more, or of an earlier run of the service, and still being unloaded.
        Leftover = "leftover",
        /// The engine was killed by the signal `signal`.
        EngineKilled = "engine-killed",
        /// The engine crashed, with the signal `signal`.
        EngineCrashed = "engine-crashed",
        /// The engine ended by itself with exit code `code`.
        EngineEnded = "engine-ended",
        /// The engine and the service do not understand each other: `text`.
        EngineMismatch = "engine-mismatch",
        /// The engine could not be started: `text`.
        EngineMissing = "engine-missing",
        /// The engine did not finish `what` in time.
        EngineTimeout = "engine-timeout",
        /// Someone asked the kernel to unload it, for example with SysRq-S: `text`.
        KernelUnloaded = "kernel-unloaded",
        /// The kernel found an error in the scheduler: `text`, `code`.
        KernelError = "kernel-error",
        /// A task waited too long and the kernel stepped in: `text`.
        Stall = "stall",
        /// Real-time programs held CPUs for so long that the kernel stepped in: `text`.
        RtStarvation = "rt-starvation",
        /// A task was re-enqueued too often without running, and the kernel stepped in: `text`.
        ReenqueueLimit = "reenqueue-limit",
        /// The kernel had to run too many tasks in the scheduler's place, and ended it: `text`.
        RescueOverload = "rescue-overload",
        /// Loading failed: `text`.
        LoadFailed = "load-failed",
        /// Rights or limits are missing: `text`.
        Permission = "permission",
        /// `version` of Scherzo failed too often on the kernel `kernel`, lastly because of `cause`, whose arguments are
        /// there too.
        Quarantined = "quarantined",
        /// User space does not answer.
        UserSpaceSilent = "user-space-silent",
        /// The kernel has no sched_ext.
        NoSchedExt = "no-sched-ext",
        /// The kernel's type information is malformed: `text`.
        MalformedBtf = "malformed-btf",
        /// Another scheduler is loaded: `ops`.
        ForeignScheduler = "foreign-scheduler",
    }
}

named! {
    /// What has happened: the second field of an entry of `GetHistory`.
    HistoryEvent {
        /// The user `uid` turned it on.
        TurnedOn = "turned-on",
        /// The user `uid` turned it off.
        TurnedOff = "turned-off",
        /// Loaded, in the mode `mode`.
        Loaded = "loaded",
        /// Unloaded as asked.
        Unloaded = "unloaded",
        /// Loading failed because of `reason`.
        NotLoaded = "not-loaded",
        /// It ended by itself after `seconds`, because of `reason`.
        Ejected = "ejected",
        /// The scheduler failed soon after `settings` were changed, because of `reason`; those of before are back.
        Reverted = "reverted",
        /// It failed too often and is no longer tried: `kernel`, `version`, `cause` and its arguments.
        Quarantined = "quarantined",
        /// It may be tried again: someone asked, or kernel or version have changed.
        QuarantineLifted = "quarantine-lifted",
        /// Settings were changed, by the user `uid` or in a file.
        Configured = "configured",
        /// The mode is `mode` from now on, because of `reason`.
        Mode = "mode",
        /// The user `uid` chose the engine `engine`.
        Engine = "engine",
    }
}

/// What a person asked for: the property `RequestedMode`, the argument of `SetMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestedMode {
    /// Whatever the service decides.
    #[default]
    Auto,
    /// This one.
    Mode(Mode),
}

impl RequestedMode {
    /// Every choice, the automatic first.
    pub const ALL: [Self; Mode::ALL.len() + 1] = {
        let mut all = [Self::Auto; Mode::ALL.len() + 1];
        let mut at = 0;
        while at < Mode::ALL.len() {
            all[at + 1] = Self::Mode(Mode::ALL[at]);
            at += 1;
        }
        all
    };

    /// The stable string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mode(mode) => mode.name(),
        }
    }
}

impl fmt::Display for RequestedMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RequestedMode {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| UnknownName(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for state in State::ALL {
            assert_eq!(state.name().parse(), Ok(*state));
        }
        for reason in Reason::ALL {
            assert_eq!(reason.name().parse(), Ok(*reason));
        }
        for mode in RequestedMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
    }

    #[test]
    fn strangers_are_refused() {
        assert_eq!("Running".parse::<State>(), Err(UnknownName("Running".into())));
        assert_eq!("".parse::<RequestedMode>(), Err(UnknownName(String::new())));
    }

    const CONTRACT: &str = include_str!("../../../dbus/org.scherzo.Scheduler1.xml");

    /// The text of the contract between two phrases.
    fn contract(from: &str, to: &str) -> &'static str {
        let (_, rest) = CONTRACT.split_once(from).unwrap_or_else(|| panic!("the contract does not say {from:?}"));
        rest.split_once(to).unwrap_or_else(|| panic!("the contract does not say {to:?}")).0
    }

    #[test]
    fn the_contract_lists_every_state() {
        let listed: Vec<_> = contract("State: what runs, as the kernel says.", "-->")
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(listed, State::ALL.iter().map(|state| state.name()).collect::<Vec<_>>());
    }

    #[test]
    fn the_contract_lists_every_reason() {
        let listed = contract("as a stable id: default", ". Ids may be added.").split(',').map(str::trim);
        let listed: Vec<_> = listed.filter(|name| !name.is_empty()).collect();
        let known: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!((known[0], &known[1..]), ("default", &listed[..]));
    }

    #[test]
    fn the_contract_lists_every_event() {
        let text = contract("      Ids: turned-on", "Ids may be added. The history").trim().trim_end_matches('.');
        // Arguments are in parentheses, which are not nested.
        let mut depth = 0;
        let without_arguments: String = text
            .chars()
            .filter(|letter| {
                depth += i32::from(*letter == '(') - i32::from(*letter == ')');
                depth == 0 && *letter != ')'
            })
            .collect();
        let listed = without_arguments.split([',', ';']).map(str::trim).filter(|name| !name.is_empty());
        let known = HistoryEvent::ALL.iter().map(|event| event.name()).filter(|name| *name != "turned-on");
        assert_eq!(listed.collect::<Vec<_>>(), known.collect::<Vec<_>>());
    }

    #[test]
    fn the_contract_names_every_mode() {
        let names = |all: &[&str]| match all {
            [first @ .., last] => format!("{} or {last}.", first.join(", ")),
            [] => String::new(),
        };
        let requested = RequestedMode::ALL.map(RequestedMode::name);
        assert!(CONTRACT.contains(&format!("@mode: {}", names(&requested))), "SetMode");
        assert!(CONTRACT.contains(&format!("@mode: {}", names(&Mode::ALL.map(Mode::name)))), "HoldMode");
    }

    #[test]
    fn the_contract_names_every_engine() {
        assert!(CONTRACT.contains(&format!("@engine: {}.", Seat::ALL.map(Seat::name).join(" or "))), "SetEngine");
    }

    /// In the GNOME Shell extension the last case stands for a scheduler that is turned off.
    #[test]
    fn the_extension_has_words_for_every_state() {
        let display = include_str!("../../../data/gnome-shell/scherzo@scherzo.org/display.js");
        for state in State::ALL.iter().filter(|state| **state != State::Stopped) {
            assert!(display.contains(&format!("case '{state}':")), "{state}");
        }
    }
}
