//! Whether a person has logged in since the system started, as logind says.

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tracing::debug;
use zbus::{Connection, OwnedObjectPath, Proxy};

use crate::input::Input;

/// Up to here people have their accounts on the machine itself, the last ones of systemd-homed. Greeters and services have others, see
/// "Users, Groups, UIDs and GIDs on systemd Systems".
const LOCAL_PEOPLE: std::ops::RangeInclusive<u32> = 1000..=60_513;
/// From here on they have them in a directory, such as LDAP.
const DIRECTORY_PEOPLE: std::ops::RangeFrom<u32> = 65_536..;

/// Identifier, user, name, seat and object of a session.
type LoginSession = (String, u32, String, String, OwnedObjectPath);

/// Reports the first session of a person, as [`Input::Session`], and ends.
pub async fn await_first(bus: Connection, inputs: mpsc::Sender<Input>) {
    match watch(&bus).await {
        Ok(()) => drop(inputs.send(Input::Session).await),
        Err(error) => debug!("cannot hear of sessions: {error}"),
    }
}

fn is_person(uid: u32) -> bool {
    LOCAL_PEOPLE.contains(&uid) || DIRECTORY_PEOPLE.contains(&uid)
}

async fn watch(bus: &Connection) -> zbus::Result<()> {
    let logind =
        Proxy::new(bus, "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager").await?;
    let mut news = logind.receive_signal("SessionNew").await?;
    loop {
        // Without logind there is an error now and a signal once it is there.
        let sessions: Vec<LoginSession> = logind.call("ListSessions", &()).await.unwrap_or_default();
        if sessions.iter().any(|(_, uid, ..)| is_person(*uid)) {
            return Ok(());
        }
        if news.next().await.is_none() {
            return Err(zbus::Error::Failure("the bus is gone".into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_those_with_accounts_of_people() {
        // A person, one of systemd-homed, one of a directory.
        assert!([1_000, 60_100, 1_234_567].map(is_person).into_iter().all(|is_person| is_person));
        // Root, a service, GDM's greeter, a dynamic user, nobody.
        assert!(![0, 999, 60_578, 61_184, 65_534].map(is_person).into_iter().any(|is_person| is_person));
    }
}
