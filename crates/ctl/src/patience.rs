//! How long an answer is waited for. A service that hangs must not hang whoever asks it.

use std::time::Duration;

use tokio::time::timeout;

use crate::failure::Failure;

/// Reading needs no right and changes nothing: an answer comes at once or not at all.
pub(crate) const READ: Duration = Duration::from_secs(2);
/// The service ends each attempt to load within 20 s.
pub(crate) const CHANGE: Duration = Duration::from_secs(25);
/// A command that a mode is held for starts after this time at the latest.
pub(crate) const START: Duration = Duration::from_millis(700);

/// Waits for the answers to questions.
pub(crate) async fn read<T>(answer: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(READ, answer).await.unwrap_or_else(|_| Err(Failure::no_answer()))
}
