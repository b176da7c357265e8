//! Waking up at a certain time.

use std::io;
use std::time::Duration;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::time::Instant;

use crate::readiness::ReadySocket;

/// One alarm, which costs one wake-up each time it rings.
///
/// A timer of the runtime costs up to three: it wakes up to sort itself into ever finer slots. On an idle machine that
/// is most of what the service does.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: ReadySocket,
    set_to: Option<Instant>,
}

impl Alarm {
    /// An alarm that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer: ReadySocket::new(timer)?, set_to: None })
    }

    /// Waits until then; `None` is for ever. What was waited for earlier no longer counts.
    pub(crate) async fn ring_at(&mut self, at: Option<Instant>) -> io::Result<()> {
        self.set(at)?;
        self.timer.read(|timer| Ok(rustix::io::read(timer, &mut [0; 8])?)).await?;
        self.set_to = None;
        Ok(())
    }

    fn set(&mut self, at: Option<Instant>) -> io::Result<()> {
        if at == self.set_to {
            return Ok(());
        }
        // What is due already rings at once: a time of zero would turn the alarm off.
        let left = at.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        let value = Timespec::try_from(left.unwrap_or_default()).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.set_to = at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_rings_when_it_was_set_to_and_only_then() {
        let mut alarm = Alarm::new().unwrap();
        let started = Instant::now();
        let soon = started + Duration::from_millis(30);
        alarm.ring_at(Some(soon)).await.unwrap();
        assert!(Instant::now() >= soon);
        alarm.ring_at(Some(started)).await.unwrap();
        let patience = Duration::from_millis(50);
        assert!(tokio::time::timeout(patience, alarm.ring_at(None)).await.is_err(), "it was not set");
        let late = Instant::now() + Duration::from_hours(1);
        assert!(tokio::time::timeout(patience, alarm.ring_at(Some(late))).await.is_err(), "that is in an hour");
        alarm.ring_at(Some(Instant::now())).await.unwrap();
    }
}
