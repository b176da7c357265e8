//! When to try again after a failure, and when to stop trying.

use std::time::Duration;

use super::event::Time;

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_mins(1);
const MAX_FAILURES: u32 = 6;
/// An engine that ran this long was well; what happened before no longer counts.
pub(super) const GOOD_RUN: Duration = Duration::from_mins(5);

/// Failures in a row and what follows from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    nr_failures: u32,
    not_before: Time,
    gave_up: bool,
}

impl Backoff {
    /// Counts a failure of an engine that had been loaded for `ran`, if at all.
    pub(super) fn failed(&mut self, now: Time, ran: Option<Duration>) {
        if ran.is_some_and(|ran| ran >= GOOD_RUN) {
            self.nr_failures = 0;
        }
        self.nr_failures += 1;
        self.gave_up |= self.nr_failures >= MAX_FAILURES;
        self.not_before = now + delay(self.nr_failures);
    }

    /// Waits a little, without counting a failure.
    pub(super) fn hold_off(&mut self, now: Time) {
        self.not_before = now + FIRST_DELAY;
    }

    /// Stops trying until someone asks.
    pub(super) fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// Whether it stopped trying.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// When to try next; `None` after giving up.
    pub(super) fn retry_at(&self) -> Option<Time> {
        (!self.gave_up).then_some(self.not_before)
    }
}

fn delay(nr_failures: u32) -> Duration {
    FIRST_DELAY.saturating_mul(1 << (nr_failures - 1).min(16)).min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_a_minute() {
        let seconds: Vec<_> = (1..=8).map(|nr| delay(nr).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(delay(u32::MAX).as_secs(), 60);
    }

    #[test]
    fn six_in_a_row_are_enough() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            backoff.failed(SECOND, None);
            assert!(!backoff.gave_up());
        }
        backoff.failed(SECOND, Some(SECOND));
        assert_eq!(backoff.retry_at(), None);
    }

    #[test]
    fn a_good_run_forgives() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            backoff.failed(SECOND, None);
        }
        backoff.failed(GOOD_RUN, Some(GOOD_RUN));
        assert_eq!(backoff.retry_at(), Some(GOOD_RUN + FIRST_DELAY));
    }
}
