//! Whether timers end slices.

/// Whether a timer ends a slice that is over between two ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SliceTimer {
    /// Where it makes a difference.
    #[default]
    Auto,
    /// Always, as long as others wait.
    On,
    /// Never: slices end at ticks.
    Off,
}

impl SliceTimer {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::On, Self::Off];

    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// The choice of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// Slices shorter than this are ended by a timer where ticks are so far apart.
    #[must_use]
    pub const fn longest_timed_ns(self, tick_ns: u64) -> u64 {
        /// At 1000 Hz slices end as they should without help.
        const FINE_TICK_NS: u64 = 1_000_000;
        match self {
            Self::On => u64::MAX,
            Self::Auto if tick_ns > FINE_TICK_NS => tick_ns / 2,
            Self::Auto | Self::Off => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for choice in SliceTimer::ALL {
            assert_eq!(SliceTimer::from_name(choice.name()), Some(choice));
        }
        assert_eq!(SliceTimer::from_name("perhaps"), None);
    }

    #[test]
    fn fine_ticks_need_no_timer() {
        assert_eq!(SliceTimer::Auto.longest_timed_ns(1_000_000), 0);
        assert_eq!(SliceTimer::Auto.longest_timed_ns(4_000_000), 2_000_000);
        assert_eq!(SliceTimer::On.longest_timed_ns(1_000_000), u64::MAX);
        assert_eq!(SliceTimer::Off.longest_timed_ns(10_000_000), 0);
    }
}
