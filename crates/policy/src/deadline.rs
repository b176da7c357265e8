//! Virtual runtime and the deadline.
//!
//! Problem: order tasks so that CPU time is shared by weight, short work goes before long work, and no task starves;
//! with one `u64` per task, because the kernel's own queues order by one `u64` and never look at it again.
//!
//! Approach: a task's *lag* is how far its virtual runtime lies ahead of (positive) or behind (negative) a virtual
//! clock, as in fair queueing and EEVDF. Its *burst term* is how long it tends to run between two sleeps (the idea of
//! BORE and of scx_rustland's deadlines). Both, each within half the bound, and the boost of interactive tasks shift the
//! time of arrival, together by no more than the bound:
//!
//! ```text
//! deadline = now + clamp(lag + burst term − boost, −bound, +bound)        bound = starvation / 2
//! ```
//!
//! The deadline lies in the time domain of "now", so waiting makes a task older than newcomers without anyone touching it.
//! And since no deadline is off by more than the bound, a task precedes every task that arrives more than 2 × bound
//! after it. Plain fair queueing by virtual runtime has neither property.
//!
//! All arithmetic is `u64` (wrapping) and `i64`, without floating point or wider products, so that the same formulas
//! can be evaluated in BPF.

use crate::time::signed_diff;

/// The longest CPU time charged at once: more comes from a fault, not from running.
const MAX_CHARGE_NS: u64 = 10_000_000_000;
/// A task that sleeps so often gets the base credit once more, in voluntary switches per 1000 s.
const CREDIT_RATE_MILLI: u64 = 16_000;
/// The most base credits for sleeping often.
const MAX_CREDIT_FACTOR: u64 = 8;

/// Load weight in hundredths of an ordinary task's, 1..=1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskWeight(u64);

impl TaskWeight {
    /// Of an ordinary task (nice 0).
    pub const NORMAL: Self = Self(100);

    /// The nearest weight there is.
    #[must_use]
    pub fn new(weight: u32) -> Self {
        Self(u64::from(weight).clamp(1, 1000))
    }

    /// `ns` as virtual time: the heavier the task, the slower it passes. For `ns` up to 2⁵⁶.
    const fn virtual_ns(self, ns: u64) -> u64 {
        ns * Self::NORMAL.0 / self.0
    }

    /// `ns` in proportion to the weight. For `ns` up to 2⁵⁴.
    const fn proportion_ns(self, ns: u64) -> u64 {
        ns * self.0 / Self::NORMAL.0
    }
}

/// Virtual runtime after having run for `run_ns`.
#[must_use]
pub fn charge(vruntime_ns: u64, run_ns: u64, weight: TaskWeight) -> u64 {
    vruntime_ns.wrapping_add(weight.virtual_ns(run_ns.min(MAX_CHARGE_NS)))
}

/// How far behind the virtual clock a task may come back: the heavier it is and the more often it sleeps, the further.
///
/// `base_ns` is the base slice, `rate_milli` its voluntary switches per 1000 s.
#[must_use]
pub fn credit_ns(base_ns: u64, rate_milli: u64, weight: TaskWeight) -> u64 {
    let factor = (1 + rate_milli / CREDIT_RATE_MILLI).min(MAX_CREDIT_FACTOR);
    weight.proportion_ns(base_ns * factor)
}

/// Virtual runtime brought within `credit_ns` behind and `debt_ns` ahead of the virtual clock, so that neither a long
/// sleep nor a long run is remembered for ever.
#[must_use]
pub fn place(vruntime_ns: u64, clock_ns: u64, credit_ns: u64, debt_ns: u64) -> u64 {
    let lag = signed_diff(vruntime_ns, clock_ns).clamp(-(credit_ns as i64), debt_ns as i64);
    clock_ns.wrapping_add_signed(lag)
}

/// How much later a task is taken because it tends to run for `burst_ns` in one go: half the bound at most, so that lag
/// counts beside it.
#[must_use]
pub fn burst_term_ns(burst_ns: u64, weight: TaskWeight, bound_ns: u64) -> u64 {
    weight.virtual_ns(burst_ns).min(bound_ns / 2)
}

/// The deadline: `now_ns` shifted by `offset_ns`, but by no more than `bound_ns` either way.
#[must_use]
pub fn deadline_ns(now_ns: u64, offset_ns: i64, bound_ns: u64) -> u64 {
    let bound = bound_ns as i64;
    now_ns.wrapping_add_signed(offset_ns.clamp(-bound, bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn weight_slows_virtual_time() {
        assert_eq!(charge(0, 6 * MS, TaskWeight::NORMAL), 6 * MS);
        assert_eq!(charge(0, 6 * MS, TaskWeight::new(300)), 2 * MS);
        assert_eq!(charge(0, 6 * MS, TaskWeight::new(0)), 600 * MS);
        assert_eq!(charge(0, 10 * MS, TaskWeight::new(10_000)), MS);
    }

    #[test]
    fn charging_wraps_and_is_bounded() {
        assert_eq!(charge(u64::MAX, 1, TaskWeight::NORMAL), 0);
        assert_eq!(charge(0, u64::MAX, TaskWeight::NORMAL), MAX_CHARGE_NS);
    }

    #[test]
    fn credit_grows_with_sleeping_and_weight() {
        let credit = |rate_milli, weight| credit_ns(5 * MS, rate_milli, TaskWeight::new(weight));
        assert_eq!(credit(0, 100), 5 * MS);
        assert_eq!(credit(32_000, 100), 15 * MS);
        assert_eq!(credit(u64::MAX, 100), 40 * MS);
        assert_eq!(credit(0, 200), 10 * MS);
    }

    #[test]
    fn a_light_task_with_long_bursts_waits_half_the_bound_longer_at_most() {
        assert_eq!(burst_term_ns(4 * MS, TaskWeight::new(50), 100 * MS), 8 * MS);
        assert_eq!(burst_term_ns(4 * MS, TaskWeight::new(1), 100 * MS), 50 * MS);
    }

    #[test]
    fn placement_forgets_long_sleeps_and_long_runs() {
        let clock = u64::MAX - 10;
        assert_eq!(place(clock.wrapping_add(100), clock, 5, 20), clock.wrapping_add(20));
        assert_eq!(place(clock.wrapping_sub(100), clock, 5, 20), clock - 5);
        assert_eq!(place(clock.wrapping_add(11), clock, 5, 20), 0);
    }

    proptest! {
        /// The starvation bound, from the formula alone.
        #[test]
        fn later_arrivals_never_overtake(
            now: u64, first: i64, second: i64, bound in 0u64..10_000_000_000, later in 1u64..1 << 60,
        ) {
            let waiting = deadline_ns(now, first, bound);
            let newcomer = deadline_ns(now.wrapping_add(2 * bound).wrapping_add(later), second, bound);
            prop_assert!(signed_diff(waiting, newcomer) < 0);
        }
    }
}
