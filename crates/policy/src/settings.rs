//! What the person may turn.

pub use scherzo_model::{LoadSettings, Mode};

/// Every tunable. All may change at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// The settings as people know them. What a policy needs in another unit, or within other bounds, is below.
    pub load: LoadSettings,
    /// Slice where no more than one task waits per CPU.
    pub base_slice_ns: u64,
    /// Shortest slice.
    pub min_slice_ns: u64,
    /// How much earlier an interactive task is taken than it would be otherwise; 0 leaves plain virtual runtime.
    pub slice_boost_ns: u64,
    /// No waiting task is overtaken by one that arrives so much later.
    pub starvation_ns: u64,
    /// Shortest time between two samples of a task's voluntary switches.
    pub sample_interval_ns: u64,
}

impl From<LoadSettings> for PolicySettings {
    fn from(load: LoadSettings) -> Self {
        Self {
            base_slice_ns: u64::from(load.base_slice_us) * 1_000,
            min_slice_ns: u64::from(load.min_slice_us) * 1_000,
            slice_boost_ns: u64::from(load.slice_boost_ms) * 1_000_000,
            starvation_ns: u64::from(load.starvation_ms) * 1_000_000,
            sample_interval_ns: 100_000_000,
            load,
        }
    }
}

impl Default for PolicySettings {
    fn default() -> Self {
        LoadSettings::default().into()
    }
}

/// Bound of every time in [`PolicySettings`]: with it no product in this crate can overflow.
const MAX_TIME_NS: u64 = 10_000_000_000;
/// Slices below this would be spent on switching.
const MIN_SLICE_NS: u64 = 100_000;

impl PolicySettings {
    /// The nearest settings the policy can work with. Ranges for people are the daemon's business.
    #[must_use]
    pub fn clamped(self) -> Self {
        let base_slice_ns = self.base_slice_ns.clamp(MIN_SLICE_NS, MAX_TIME_NS);
        Self {
            base_slice_ns,
            min_slice_ns: self.min_slice_ns.clamp(MIN_SLICE_NS, base_slice_ns),
            slice_boost_ns: self.slice_boost_ns.min(MAX_TIME_NS),
            starvation_ns: self.starvation_ns.min(MAX_TIME_NS),
            sample_interval_ns: self.sample_interval_ns.clamp(1_000_000, MAX_TIME_NS),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_need_no_clamping() {
        assert_eq!(PolicySettings::default().clamped(), PolicySettings::default());
    }

    #[test]
    fn nonsense_is_clamped() {
        let zeroes =
            PolicySettings { base_slice_ns: 0, min_slice_ns: 0, sample_interval_ns: 0, ..PolicySettings::default() };
        assert_eq!(zeroes.clamped().base_slice_ns, MIN_SLICE_NS);
        assert_eq!(zeroes.clamped().min_slice_ns, MIN_SLICE_NS);
        let huge = PolicySettings { base_slice_ns: u64::MAX, min_slice_ns: u64::MAX, ..PolicySettings::default() };
        assert_eq!(huge.clamped().min_slice_ns, MAX_TIME_NS);
    }
}
