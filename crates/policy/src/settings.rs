//! What the person may turn.

/// What the scheduler does with contended tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Deadline order, interactive tasks first; arrival order while the machine is under-used.
    #[default]
    Interactive,
    /// Arrival order with a fixed slice.
    Fifo,
    /// As [`Mode::Interactive`], without the arrival order; the kernel side leaves idle CPUs asleep.
    LowPower,
}

/// Every tunable. All may change at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The mode.
    pub mode: Mode,
    /// A woken interactive task that finds no idle CPU takes one.
    pub preemption: bool,
    /// [`Mode::Interactive`] turns itself into arrival order while the machine is under-used.
    pub auto_fifo: bool,
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Interactive,
            preemption: true,
            auto_fifo: true,
            base_slice_ns: 5_000_000,
            min_slice_ns: 250_000,
            slice_boost_ns: 20_000_000,
            starvation_ns: 100_000_000,
            sample_interval_ns: 100_000_000,
        }
    }
}

/// Bound of every time in [`Settings`]: with it no product in this crate can overflow.
const MAX_TIME_NS: u64 = 10_000_000_000;
/// Slices below this would be spent on switching.
const MIN_SLICE_NS: u64 = 100_000;

impl Settings {
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
        assert_eq!(Settings::default().clamped(), Settings::default());
    }

    #[test]
    fn nonsense_is_clamped() {
        let zeroes = Settings { base_slice_ns: 0, min_slice_ns: 0, sample_interval_ns: 0, ..Settings::default() };
        assert_eq!(zeroes.clamped().base_slice_ns, MIN_SLICE_NS);
        assert_eq!(zeroes.clamped().min_slice_ns, MIN_SLICE_NS);
        let huge = Settings { base_slice_ns: u64::MAX, min_slice_ns: u64::MAX, ..Settings::default() };
        assert_eq!(huge.clamped().min_slice_ns, MAX_TIME_NS);
    }
}
