//! How long an answer is waited for.

use scherzo_api::patience::READ;
use tokio::time::timeout;

use crate::failure::Failure;

/// Waits for the answers to questions, see [`scherzo_api::patience`].
pub(crate) async fn read<T>(answers: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(READ, answers).await.unwrap_or_else(|_| Err(Failure::no_answer()))
}
