//! Whether a person has logged in since the system started, as logind says.

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tracing::debug;
use zbus::{Connection, OwnedObjectPath, Proxy};

use crate::input::Input;

/// People's accounts; greeters and services have others.
const PEOPLE: std::ops::RangeInclusive<u32> = 1000..=60_000;

/// Identifier, user, name, seat and object of a session.
type LoginSession = (String, u32, String, String, OwnedObjectPath);

/// Reports the first session of a person, as [`Input::Session`], and ends.
pub async fn await_first(bus: Connection, inputs: mpsc::Sender<Input>) {
    match watch(&bus).await {
        Ok(()) => drop(inputs.send(Input::Session).await),
        Err(error) => debug!("cannot hear of sessions: {error}"),
    }
}

async fn watch(bus: &Connection) -> zbus::Result<()> {
    let logind =
        Proxy::new(bus, "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager").await?;
    let mut news = logind.receive_signal("SessionNew").await?;
    loop {
        // Without logind there is an error now and a signal once it is there.
        let sessions: Vec<LoginSession> = logind.call("ListSessions", &()).await.unwrap_or_default();
        if sessions.iter().any(|(_, uid, ..)| PEOPLE.contains(uid)) {
            return Ok(());
        }
        if news.next().await.is_none() {
            return Err(zbus::Error::Failure("the bus is gone".into()));
        }
    }
}
