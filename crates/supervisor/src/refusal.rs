//! Why a request is refused.

/// A refusal, with one English sentence that says what to do. The service gives each kind an error of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This kernel cannot do it.
    NotSupported(String),
    /// It needs a loaded scheduler, and none is loaded.
    NotRunning(String),
    /// There is no such hold.
    NoSuchHold(String),
    /// Loading was tried and failed.
    LoadFailed(String),
    /// Not now: another change is under way, or the engine does not answer.
    Busy(String),
    /// Someone else's scheduler is in the way.
    Conflict(String),
    /// A bound was reached.
    LimitReached(String),
    /// It takes more rights than the caller has shown.
    AccessDenied(String),
    /// An argument makes no sense.
    InvalidArgs(String),
}
