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
pub fn change<T, E: From<Error>>(
    bus: &Connection,
    change: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    while_alive(change, || is_alive(bus))
}

/// Waits for a change for as long as the service answers when it is asked whether it `is_alive`.
async fn while_alive<T, E: From<Error>, Alive: Future<Output = Result<(), Error>>>(
    change: impl Future<Output = Result<T, E>>,
    is_alive: impl Fn() -> Alive,
) -> Result<T, E> {
    let mut change = pin!(change);
    loop {
        if let Ok(answer) = timeout(CHANGE.saturating_sub(READ), &mut change).await {
            return answer;
        }
        tokio::select! {
            answer = &mut change => return answer,
            alive = read(is_alive()) => alive?,
        }
    }
}

/// Asks for what only the main loop of the service knows: properties are answered without it.
async fn is_alive(bus: &Connection) -> Result<(), Error> {
    let service = SchedulerProxy::builder(bus).cache_properties(CacheProperties::No).build().await?;
    service.get_history(1).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{Instant, sleep};

    use super::*;

    /// Timers are rounded up to milliseconds.
    const ROUNDING: Duration = Duration::from_millis(2);

    /// What a service answers after so many milliseconds.
    async fn answer_after(milliseconds: u64) -> Result<u64, Error> {
        sleep(Duration::from_millis(milliseconds)).await;
        Ok(milliseconds)
    }

    /// That it is given up, and after how many seconds.
    async fn assert_given_up_after(seconds: u64, answer: impl Future<Output = Result<u64, Error>>) {
        let asked = Instant::now();
        let answer = answer.await;
        assert!(matches!(answer, Err(Error::NoAnswer(_))), "{answer:?}");
        let limit = Duration::from_secs(seconds);
        let took = asked.elapsed();
        assert!((limit..=limit + ROUNDING).contains(&took), "given up after {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_given_up_after_two_seconds_and_not_before() {
        assert_eq!(read(answer_after(1_990)).await.unwrap(), 1_990);
        assert_given_up_after(2, read(pending())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_given_up_after_25_seconds_and_not_before() {
        assert_eq!(while_alive(answer_after(24_990), pending).await.unwrap(), 24_990);
        assert_given_up_after(25, while_alive(pending(), pending)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_waited_for_while_the_service_answers() {
        assert_eq!(while_alive(answer_after(600_000), || ready(Ok(()))).await.unwrap(), 600_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_fails_at_once_when_it_is_refused() {
        let refused = async { Err::<(), _>(Error::Busy("no".into())) };
        let asked = Instant::now();
        assert!(matches!(while_alive(refused, pending).await, Err(Error::Busy(_))));
        assert_eq!(asked.elapsed(), Duration::ZERO);
    }
}
