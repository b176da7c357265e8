//! Modes: what a person may choose.

use crate::gettext_noop;

macro_rules! modes {
    ($(
        $variant:ident = $number:literal {
            name: $name:literal,
            text: $text:literal,
            title: $title:expr,
            summary: $summary:expr,
            short_title: $short_title:expr,
            suits: $suits:literal,
            effect: $effect:literal,
            cost: $cost:literal,
        }
    )+) => {
        /// What the scheduler does with contended tasks; the numbers are part of the layout.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Mode {
            #[default]
            $(#[doc = $text] $variant = $number,)+
        }

        impl Mode {
            /// Every mode, in wire order.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$variant),+];

            /// The stable name used on D-Bus, on the command line, and for the mode's icon
            /// (`scherzo-NAME-symbolic`).
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it does, in a line for programmers.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// What it is called; to be translated.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// What it is for, in one line; to be translated.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)+ }
            }

            /// A word where the title is too long; the same in every language.
            #[must_use]
            pub const fn short_title(self) -> Option<&'static str> {
                match self { $(Self::$variant => $short_title,)+ }
            }

            /// For the documentation: work that it suits, what it does, and what that costs.
            #[must_use]
            pub const fn documentation(self) -> [&'static str; 3] {
                match self { $(Self::$variant => [$suits, $effect, $cost],)+ }
            }
        }
    };
}

modes! {
    Interactive = 0 {
        name: "interactive",
        text: "Those with credit first, by deadline; the others by weighted virtual runtime.",
        title: gettext_noop("Interactive"),
        summary: gettext_noop("What you use reacts first, whatever else runs"),
        short_title: None,
        suits: "everyday work",
        effect: "A task that sleeps for a third of its time or more runs as soon as it wakes, for up to 100 ms in one go. The others take turns by nice level, SCHED_IDLE and the CPU time that they have used, and keep at least half of their share. The more tasks wait, the shorter their turns; see [design/policy.md](design/policy.md)",
        cost: "some throughput under loads that switch constantly between programs, see [benchmarks.md](benchmarks.md)",
    }
    Fifo = 1 {
        name: "fifo",
        text: "Arrival order with a fixed slice.",
        title: gettext_noop("First Come, First Served"),
        summary: gettext_noop("Tasks run in the order in which they come, with the least overhead"),
        short_title: Some("FIFO"),
        suits: "compiling, rendering, serving",
        effect: "First come, first served, each for the same time",
        cost: "background work waits for its turn, however short it is; with preemption off, so does any task that wakes up",
    }
    LowPower = 2 {
        name: "low-power",
        text: "As interactive, but batch work packs onto few CPUs and the others sleep.",
        title: gettext_noop("Low Power"),
        summary: gettext_noop("Background work shares few processor cores, the others rest"),
        short_title: None,
        suits: "battery, quiet fans",
        effect: "Work in the background packs onto few CPUs and lets the others sleep; interactive work still starts at once",
        cost: "background work takes longer, on purpose",
    }
}

impl Mode {
    /// The mode of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Reads an untrusted number.
    #[must_use]
    pub const fn from_wire(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions() {
        for (number, mode) in Mode::ALL.into_iter().enumerate() {
            assert_eq!(mode as usize, number, "{}", mode.name());
            assert_eq!(Mode::from_wire(number as u8), Some(mode));
            assert_eq!(Mode::from_name(mode.name()), Some(mode));
        }
        assert_eq!(Mode::from_wire(Mode::ALL.len() as u8), None);
        assert_eq!(Mode::from_name("Interactive"), None);
    }

    #[test]
    fn names_of_released_modes_are_stable() {
        assert_eq!([0, 1, 2].map(|number| Mode::ALL[number].name()), ["interactive", "fifo", "low-power"]);
    }
}
