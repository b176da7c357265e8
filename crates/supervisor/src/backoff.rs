//! When to try again after a failure, and when to stop trying.
//!
//! A failure is the scheduler's own: ejected, crashed, not loadable. Each doubles the delay, and six in a row end the
//! trying. An engine that someone killed says nothing about the scheduler: it is started again at once, however often that
//! happens, unless it had only just loaded; and only if it dies before it has loaded does the delay grow.

use std::time::Duration;

use super::event::Time;

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_mins(1);
pub(super) const MAX_FAILURES: u32 = 6;
/// Waking up this much later than asked for means that there is no CPU. Even then one wake-up in twenty may be prompt,
/// thanks to the kernel's deadline server for ordinary tasks.
const LATE: Duration = Duration::from_millis(200);
const NR_PROMPT: u32 = 3;
/// Between an engine that has loaded and the next one if somebody kills it: the machine should not wait, and whoever kills
/// should not meet a storm. One that has run for longer is replaced at once.
const KILLED_DELAY: Duration = Duration::from_millis(100);
/// An engine that ran this long was well; what happened before no longer counts.
pub(super) const GOOD_RUN: Duration = Duration::from_mins(5);

/// Failures in a row and what follows from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    nr_failures: u32,
    /// Engines in a row that were killed before they had loaded.
    nr_killed_early: u32,
    not_before: Time,
    gave_up: bool,
    /// After starvation: how many more times in a row this service must get a CPU in time.
    nr_prompt_wanted: u32,
}

impl Backoff {
    /// Counts a failure of an engine that had been loaded for `ran`, if at all. True if it was one too many.
    pub(super) fn failed(&mut self, now: Time, ran: Option<Duration>) -> bool {
        if ran.is_some_and(|ran| ran >= GOOD_RUN) {
            self.nr_failures = 0;
        }
        self.nr_failures += 1;
        self.not_before = now + doubled(FIRST_DELAY, self.nr_failures - 1);
        self.gave_up |= self.nr_failures >= MAX_FAILURES;
        self.gave_up
    }

    /// Someone killed an engine that had been loaded for `ran`, if at all. That is no failure.
    pub(super) fn killed(&mut self, now: Time, ran: Option<Duration>) {
        self.nr_killed_early = if ran.is_some() { 0 } else { self.nr_killed_early + 1 };
        let delay = doubled(KILLED_DELAY, self.nr_killed_early);
        self.not_before = now + delay.saturating_sub(ran.unwrap_or_default());
    }

    /// Waits a little, without counting a failure.
    pub(super) fn hold_off(&mut self, now: Time) {
        self.not_before = now + FIRST_DELAY;
    }

    /// Real-time programs left no CPU to anybody else. Waits until they do, without counting a failure.
    pub(super) fn starved(&mut self, now: Time) {
        self.not_before = now + FIRST_DELAY;
        self.nr_prompt_wanted = NR_PROMPT;
    }

    /// When the delay is over: whether a CPU is free for ordinary tasks. After starvation the service looks at itself: as
    /// long as it wakes up late, other tasks do as well.
    pub(super) fn finds_a_cpu(&mut self, now: Time) -> bool {
        if self.nr_prompt_wanted == 0 {
            return true;
        }
        let late = now > self.not_before + LATE;
        self.nr_prompt_wanted = if late { NR_PROMPT } else { self.nr_prompt_wanted - 1 };
        self.not_before = now + FIRST_DELAY;
        self.nr_prompt_wanted == 0
    }

    /// Stops trying until someone asks.
    pub(super) fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// When to try next; `None` after giving up.
    pub(super) fn retry_at(&self) -> Option<Time> {
        (!self.gave_up).then_some(self.not_before)
    }
}

fn doubled(first: Duration, nr_times: u32) -> Duration {
    first.saturating_mul(1 << nr_times.min(16)).min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_a_minute() {
        let seconds: Vec<_> = (0..8).map(|nr| doubled(FIRST_DELAY, nr).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(doubled(FIRST_DELAY, u32::MAX).as_secs(), 60);
    }

    #[test]
    fn six_in_a_row_are_enough() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            assert!(!backoff.failed(SECOND, None));
        }
        assert!(backoff.failed(SECOND, Some(SECOND)));
        assert_eq!(backoff.retry_at(), None);
    }

    #[test]
    fn a_good_run_forgives() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            backoff.failed(SECOND, None);
        }
        assert!(!backoff.failed(GOOD_RUN, Some(GOOD_RUN)));
        assert_eq!(backoff.retry_at(), Some(GOOD_RUN + FIRST_DELAY));
    }

    #[test]
    fn being_killed_is_no_failure_and_costs_a_moment_at_most() {
        let mut backoff = Backoff::default();
        for _ in 0..200 {
            backoff.killed(SECOND, Some(KILLED_DELAY));
            assert_eq!(backoff.retry_at(), Some(SECOND));
        }
        for _ in 0..200 {
            backoff.killed(SECOND, Some(Duration::ZERO));
            assert_eq!(backoff.retry_at(), Some(SECOND + KILLED_DELAY), "it had only just loaded");
        }
        for _ in 0..200 {
            backoff.killed(SECOND, None);
        }
        assert_eq!(backoff.retry_at(), Some(SECOND + LONGEST_DELAY), "it cannot even load: memory may be short");
        backoff.killed(SECOND, Some(SECOND));
        assert_eq!(backoff.retry_at(), Some(SECOND));
    }
}
