//! What the service manager is told: that the service is ready, reads its configuration again or ends, and, from the loop
//! itself, that the loop still turns. Without systemd no one is told.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::Instant;
use tracing::debug;

/// Serves by now, or again after [`reloading`].
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Reads its configuration again.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => debug!("cannot tell the service manager that the configuration is read again: {error}"),
    }
}

/// Unloads and ends.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!("cannot tell the service manager: {error}");
    }
}

/// So often the loop shows that it lives within the time allowed. What it may be kept from a CPU, by real-time programs, is the
/// rest of that time: of the unit's 90 s at least 75, which is longer than any such storm that the scheduler itself is tried with.
const NR_SIGNS_OF_LIFE: u32 = 6;

/// The unit's `WatchdogSec=`: a service that does not show in time that it lives is ended and started again.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Time between signs of life, if anybody waits for them.
    period: Option<Duration>,
    next_at: Instant,
}

impl Watchdog {
    /// As the environment says; the first sign of life is due at once.
    pub(crate) fn new() -> Self {
        Self::every(sd_notify::watchdog_enabled())
    }

    fn every(limit: Option<Duration>) -> Self {
        Self { period: limit.map(|limit| limit / NR_SIGNS_OF_LIFE), next_at: Instant::now() }
    }

    /// When [`Self::feed`] has something to do.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.period.map(|_| self.next_at)
    }

    /// Shows that the loop turns, if that is due; returns whether it was.
    pub(crate) fn feed(&mut self, now: Instant) -> bool {
        let Some(period) = self.period.filter(|_| now >= self.next_at) else { return false };
        self.next_at = now + period;
        tell(&[NotifyState::Watchdog]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed_by_unit() -> Duration {
        let unit = include_str!("../../../data/scherzod.service.in");
        let seconds = unit.lines().find_map(|line| line.strip_prefix("WatchdogSec=")).unwrap();
        Duration::from_secs(seconds.parse().unwrap())
    }

    #[test]
    fn a_loop_that_gets_no_cpu_for_a_minute_is_not_late() {
        let mut watchdog = Watchdog::every(Some(allowed_by_unit()));
        let now = Instant::now();
        assert!(watchdog.feed(now), "the first one is due at once");
        assert!(!watchdog.feed(now));
        let due_at = watchdog.due_at().unwrap();
        assert!(due_at + Duration::from_mins(1) < now + allowed_by_unit());
        assert!(watchdog.feed(due_at));
        assert_eq!(watchdog.due_at(), Some(due_at + (due_at - now)));
        assert_eq!(Watchdog::every(None).due_at(), None, "nobody waits");
    }
}
