//! How long an answer of the service is waited for: a service that hangs must not hang its clients.

use std::pin::pin;
use std::time::Duration;

use scherzo_catalogue::gettext_noop;
use tokio::time::timeout;
use zbus::Connection;
use zbus::proxy::CacheProperties;

use crate::{Error, SchedulerProxy};

/// Reading needs no right and changes nothing: an answer comes at once or not at all.
pub const READ: Duration = Duration::from_secs(2);
/// The service ends each attempt to load within 20 s.
pub const CHANGE: Duration = Duration::from_secs(25);

/// The error of a call that was given up.
#[must_use]
pub fn no_answer() -> Error {
    Error::NoAnswer(gettext_noop("The Scherzo service does not answer.").to_owned())
}

/// Waits for the answers to questions.
pub async fn read<T, E: From<Error>>(answers: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    timeout(READ, answers).await.unwrap_or_else(|_| Err(no_answer().into()))
}

/// Waits for a change. A service that answers questions meanwhile does not hang: it waits for a person who is asked for
/// a password, and that takes as long as it takes.
pub async fn change<T, E: From<Error>>(bus: &Connection, change: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut change = pin!(change);
    loop {
        if let Ok(answer) = timeout(CHANGE.saturating_sub(READ), &mut change).await {
            return answer;
        }
        tokio::select! {
            answer = &mut change => return answer,
            alive = read(is_alive(bus)) => alive?,
        }
    }
}

/// Asks for what only the main loop of the service knows: properties are answered without it.
async fn is_alive(bus: &Connection) -> Result<(), Error> {
    let service = SchedulerProxy::builder(bus).cache_properties(CacheProperties::No).build().await?;
    service.get_history(1).await.map(drop)
}
