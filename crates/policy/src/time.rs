//! Wrap-safe time.
//!
//! All times are `u64` nanoseconds of the kernel side's clock. They wrap, so they are compared by signed difference,
//! which is right as long as the two lie within 292 years of each other.

/// The furthest one record may move the clock while tasks wait.
pub(crate) const MAX_STEP_NS: u64 = 1_000_000_000;

/// `a − b`, negative where `a` lies before `b`.
#[must_use]
pub const fn signed_diff(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

/// How far `to` lies ahead of `from`; 0 where it seems to have gone backwards. For times and for counters.
#[must_use]
pub const fn advance(to: u64, from: u64) -> u64 {
    let diff = signed_diff(to, from);
    if diff < 0 { 0 } else { diff as u64 }
}

/// The policy's idea of "now", told by the records.
///
/// While tasks wait, their keys must stay comparable, so one absurd record moves the clock by [`MAX_STEP_NS`] at the
/// most. While none waits any time is believed: the machine may have slept for a month.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    now_ns: u64,
}

impl Clock {
    /// Takes in the time of a record and returns the one to reckon with.
    pub(crate) fn observe(&mut self, now_ns: u64, tasks_wait: bool) -> u64 {
        let max_step = MAX_STEP_NS as i64;
        self.now_ns = if tasks_wait {
            let step = signed_diff(now_ns, self.now_ns).clamp(-max_step, max_step);
            self.now_ns.wrapping_add_signed(step)
        } else {
            now_ns
        };
        self.now_ns
    }

    pub(crate) const fn now_ns(self) -> u64 {
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_survive_the_wrap() {
        assert_eq!(signed_diff(5, u64::MAX - 4), 10);
        assert_eq!(signed_diff(u64::MAX - 4, 5), -10);
        assert_eq!(advance(5, u64::MAX - 4), 10);
        assert_eq!(advance(u64::MAX - 4, 5), 0);
    }

    #[test]
    fn an_absurd_record_moves_the_clock_one_step_only() {
        let mut clock = Clock::default();
        assert_eq!(clock.observe(1 << 60, false), 1 << 60);
        assert_eq!(clock.observe(7, true), (1 << 60) - MAX_STEP_NS);
        assert_eq!(clock.observe(1 << 60, true), 1 << 60);
        assert_eq!(clock.observe(7, false), 7);
    }
}
