//! The monotonic clock, in nanoseconds.

use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Now.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}

/// CPU time that this thread has had.
pub(crate) fn cpu_time_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * SECOND_NS + used.tv_nsec as u64
}

/// Sleeps until that time, however often a signal interrupts.
pub(crate) fn sleep_until(at_ns: u64) {
    let at = Timespec { tv_sec: (at_ns / SECOND_NS) as i64, tv_nsec: (at_ns % SECOND_NS) as i64 };
    while rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &at) == Err(Errno::INTR) {}
}

/// The time in which is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredTime {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
}

impl MeasuredTime {
    /// After so many seconds, for so many seconds.
    pub(crate) fn start(warmup_s: u64, duration_s: u64) -> Self {
        let begin_ns = now_ns() + warmup_s * SECOND_NS;
        Self { begin_ns, end_ns: begin_ns + duration_s * SECOND_NS }
    }

    pub(crate) const fn duration_ns(self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_ends_at_the_time_and_not_before() {
        let at_ns = now_ns() + 3_000_000;
        sleep_until(at_ns);
        assert!(now_ns() >= at_ns);
        sleep_until(at_ns - SECOND_NS);
    }
}
