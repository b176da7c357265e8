//! How long an answer is waited for, as all clients wait.

use crate::failure::Failure;

/// Waits for the answers to questions, see [`scherzo_api::patience`].
pub(crate) fn read<T>(answers: impl Future<Output = Result<T, Failure>>) -> impl Future<Output = Result<T, Failure>> {
    scherzo_api::patience::read(answers)
}
