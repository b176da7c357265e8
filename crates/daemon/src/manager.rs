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
        Self { period: limit.map(|limit| limit / 2), next_at: Instant::now() }
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

    #[test]
    fn signs_of_life_come_twice_in_the_time_allowed() {
        let mut watchdog = Watchdog::every(Some(Duration::from_secs(30)));
        let now = Instant::now();
        assert!(watchdog.feed(now), "the first one is due at once");
        assert!(!watchdog.feed(now));
        assert_eq!(watchdog.due_at(), Some(now + Duration::from_secs(15)));
        assert!(watchdog.feed(now + Duration::from_secs(16)));
        assert_eq!(Watchdog::every(None).due_at(), None, "nobody waits");
    }
}
