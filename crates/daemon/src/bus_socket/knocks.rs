//! A question to the bus that is always under way while somebody floods it, so that it reads from the service in each round.
//!
//! dbus-daemon asks the kernel which connections have something to be read, reads some KiB from each of these, and only then
//! passes on what it has read. Beside a flood such a round takes long. An answer of the service that comes while the bus reads
//! from the others is taken along if the service's connection was one of those, and else waits for the round after the next.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;
use zbus::Message;

use super::BUS;

/// Where the bus is quick, calls wait for people or for the service: it is not to be kept busy with questions then.
const PERIOD: Duration = Duration::from_millis(20);
/// A question that has no answer by then has been lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// The questions.
#[derive(Debug, Default)]
pub(super) struct Knocks {
    last: Option<Knock>,
}

#[derive(Debug)]
struct Knock {
    serial: NonZeroU32,
    at: Instant,
    is_answered: bool,
}

impl Knock {
    fn next_at(&self) -> Instant {
        self.at + if self.is_answered { PERIOD } else { PATIENCE }
    }
}

impl Knocks {
    /// What the bus is to be asked now.
    pub(super) fn question(&mut self, is_flooded: bool, now: Instant) -> zbus::Result<Option<Message>> {
        if !is_flooded || self.last.as_ref().is_some_and(|last| now < last.next_at()) {
            return Ok(None);
        }
        let call = Message::method_call("/org/freedesktop/DBus", "Ping").destination(BUS);
        let question = call.interface("org.freedesktop.DBus.Peer").build(&())?;
        self.last = Some(Knock { serial: question.primary_header().serial_num(), at: now, is_answered: false });
        Ok(Some(question))
    }

    /// The bus answers something; returns whether it was this.
    pub(super) fn note_answer(&mut self, serial: NonZeroU32) -> bool {
        let Some(last) = self.last.as_mut().filter(|last| last.serial == serial) else { return false };
        last.is_answered = true;
        true
    }

    /// Waits until there is something to ask.
    pub(super) async fn due(&self, is_flooded: bool) {
        match &self.last {
            Some(last) if is_flooded => sleep_until(last.next_at().into()).await,
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(knocks: &mut Knocks, is_flooded: bool, now: Instant) -> Option<NonZeroU32> {
        Some(knocks.question(is_flooded, now).unwrap()?.primary_header().serial_num())
    }

    #[test]
    fn one_question_is_under_way_during_a_flood() {
        let (mut knocks, now) = (Knocks::default(), Instant::now());
        assert_eq!(asked(&mut knocks, false, now), None);
        let first = asked(&mut knocks, true, now).unwrap();
        assert_eq!(asked(&mut knocks, true, now + PERIOD), None, "it is not answered");
        assert!(!knocks.note_answer(first.checked_add(1).unwrap()) && knocks.note_answer(first));
        assert_eq!(asked(&mut knocks, true, now + PERIOD / 2), None);
        assert_eq!(asked(&mut knocks, false, now + PERIOD), None);
        assert!(asked(&mut knocks, true, now + PERIOD).is_some());
        assert!(asked(&mut knocks, true, now + PERIOD + PATIENCE).is_some(), "the last one was lost");
    }
}
