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

    /// Slices shorter than so many microseconds are ended by a timer where ticks are so far apart.
    #[must_use]
    pub const fn timed_slice_us(self, tick_us: u32) -> u32 {
        match self {
            Self::On => u32::MAX,
            // One of 1 ms, the shortest, is left to the ticks up to 4 ms apart: what has long work to do beside many others is
            // done sooner if it is interrupted less often.
            Self::Auto => tick_us / 4,
            Self::Off => 0,
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
    fn slices_end_at_ticks_that_are_not_much_further_apart() {
        assert_eq!(SliceTimer::Auto.timed_slice_us(4_000), 1_000, "and no slice is shorter");
        assert_eq!(SliceTimer::Auto.timed_slice_us(10_000), 2_500);
        assert_eq!(SliceTimer::On.timed_slice_us(1_000), u32::MAX);
        assert_eq!(SliceTimer::Off.timed_slice_us(10_000), 0);
    }
}
