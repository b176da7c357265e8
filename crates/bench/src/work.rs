//! Work: a loop that touches no memory, so that a given number of iterations always costs the same CPU time.

use std::fmt;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::clock::{cpu_time_ns, now_ns};

/// How long to run before believing a measurement: an emulator translates code, a real CPU raises its clock.
const SETTLE_NS: u64 = 300_000_000;
const NR_BATCHES: usize = 50;
const BATCH_NS: u64 = 1_000_000;

/// Works for so many iterations.
pub(crate) fn work(iterations: u64) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..iterations {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

/// The clock is looked at about so often.
const SIP_US: u64 = 20;

/// Works until this thread has had the CPU for so long, however much it gets done: an emulator with one thread for all its
/// CPUs makes each slower while the others are busy.
pub(crate) fn occupy(ns: u64, calibration: Calibration) {
    let end_ns = cpu_time_ns() + ns;
    while let left_ns @ 1.. = end_ns.saturating_sub(cpu_time_ns()) {
        sip(left_ns, calibration);
    }
}

/// Works for a moment, which is shorter towards the end: it may take four times as long as calibrated.
pub(crate) fn sip(left_ns: u64, calibration: Calibration) {
    work(calibration.iterations((left_ns / 4_000).clamp(1, SIP_US)));
}

/// Iterations per microsecond of an undisturbed CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calibration(NonZeroU32);

impl Calibration {
    /// Measures. The fastest of several batches was disturbed the least.
    pub(crate) fn measure() -> Self {
        let settled_ns = now_ns() + SETTLE_NS;
        let mut iterations = 1_000;
        while now_ns() < settled_ns {
            let elapsed_ns = time_ns(iterations);
            if elapsed_ns < BATCH_NS {
                iterations += iterations / 2;
            }
        }
        let fastest_ns = (0..NR_BATCHES).map(|_| time_ns(iterations)).min().unwrap_or(BATCH_NS);
        let per_us = iterations.saturating_mul(1_000) / fastest_ns.max(1);
        Self(NonZeroU32::new(u32::try_from(per_us).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN))
    }

    /// Iterations that take so long.
    pub(crate) fn iterations(self, us: u64) -> u64 {
        us * u64::from(self.0.get())
    }

    /// Iterations per microsecond.
    pub(crate) const fn per_us(self) -> u32 {
        self.0.get()
    }
}

impl FromStr for Calibration {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn time_ns(iterations: u64) -> u64 {
    let begin_ns = now_ns();
    work(iterations);
    now_ns() - begin_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_about_as_long_as_calibrated() {
        let calibration = Calibration::measure();
        let fastest_ns = (0..20).map(|_| time_ns(calibration.iterations(1_000))).min().unwrap();
        assert!((500_000..2_000_000).contains(&fastest_ns), "{fastest_ns}");
    }

    #[test]
    fn a_cpu_is_occupied_for_so_long_and_little_longer() {
        let begin_ns = cpu_time_ns();
        occupy(2_000_000, Calibration::measure());
        assert!(cpu_time_ns() - begin_ns >= 2_000_000);
    }

    #[test]
    fn zero_is_no_calibration() {
        assert!("0".parse::<Calibration>().is_err());
        assert_eq!("7".parse::<Calibration>().unwrap().iterations(200), 1_400);
    }
}
