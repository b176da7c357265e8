//! Connections that go while their calls wait: the bus is asked to tell of them, as long as calls wait and for a while longer.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;
use zbus::Message;
use zbus::message::{Flags, Header};

use super::BUS;

/// Of every connection that goes, and every name that nobody has any more.
const RULE: &str = "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',\
                    interface='org.freedesktop.DBus',member='NameOwnerChanged',arg2=''";
/// How long the bus goes on telling when no call waits any more. The next one often comes soon.
const LISTENED_FOR: Duration = Duration::from_secs(10);

/// Whether the bus tells.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// It does, until then at least.
    until: Option<Instant>,
}

impl Departures {
    /// What the bus is to be asked now.
    pub(super) fn request(&mut self, is_waiting: bool, now: Instant) -> zbus::Result<Option<Message>> {
        let was_told = self.until.is_some();
        if is_waiting {
            self.until = Some(now + LISTENED_FOR);
        } else if self.until.is_some_and(|until| until <= now) {
            self.until = None;
        }
        match (was_told, self.until.is_some()) {
            (false, true) => ask_the_bus("AddMatch").map(Some),
            (true, false) => ask_the_bus("RemoveMatch").map(Some),
            _ => Ok(None),
        }
    }

    /// Waits until there may be something to ask.
    pub(super) async fn due(&self) {
        match self.until {
            Some(until) => sleep_until(until.into()).await,
            None => std::future::pending().await,
        }
    }
}

fn ask_the_bus(member: &str) -> zbus::Result<Message> {
    let request = Message::method_call("/org/freedesktop/DBus", member).destination(BUS).interface(BUS);
    request.with_flags(Flags::NO_REPLY_EXPECTED).build(&RULE)
}

/// The name that nobody has any more, if a signal says that.
pub(super) fn name_that_has_gone(signal: &Message, header: &Header<'_>) -> Option<String> {
    let is_of_the_bus = header.sender().is_some_and(|sender| sender == BUS);
    if !is_of_the_bus || header.member().is_none_or(|member| member != "NameOwnerChanged") {
        return None;
    }
    let (name, _, new_owner): (String, String, String) = signal.body().deserialize().ok()?;
    new_owner.is_empty().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(departures: &mut Departures, is_waiting: bool, now: Instant) -> Option<String> {
        let request = departures.request(is_waiting, now).unwrap()?;
        Some(request.header().member().unwrap().to_string())
    }

    #[test]
    fn the_bus_tells_while_calls_wait_and_a_little_longer() {
        let (mut departures, now) = (Departures::default(), Instant::now());
        assert_eq!(asked(&mut departures, false, now), None);
        assert_eq!(asked(&mut departures, true, now).as_deref(), Some("AddMatch"));
        let later = now + LISTENED_FOR / 2;
        assert_eq!(asked(&mut departures, true, later), None);
        assert_eq!(asked(&mut departures, false, now + LISTENED_FOR), None, "one has waited since");
        assert_eq!(asked(&mut departures, false, later + LISTENED_FOR).as_deref(), Some("RemoveMatch"));
        assert_eq!(asked(&mut departures, false, later + LISTENED_FOR), None);
    }

    #[test]
    fn only_the_bus_says_who_has_gone() {
        let signal = |sender: &str, owner: &str| {
            let signal = Message::signal("/org/freedesktop/DBus", BUS, "NameOwnerChanged");
            signal.sender(sender).build(&(":1.7", ":1.7", owner)).unwrap()
        };
        let gone = |signal: Message| name_that_has_gone(&signal, &signal.header());
        assert_eq!(gone(signal(BUS, "")).as_deref(), Some(":1.7"));
        assert_eq!(gone(signal(BUS, ":1.8")), None);
        assert_eq!(gone(signal(":1.9", "")), None);
    }
}
