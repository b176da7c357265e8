//! What reaches the loop from outside, and what it answers.

use std::collections::HashMap;

use scherzo_api::Error;
pub use scherzo_api::HistoryEntry;
use scherzo_api::stats::Stats;
use scherzo_supervisor::{Caller, EngineEvent, PowerEvent, Request, Run};
use tokio::sync::oneshot;

use crate::config::Change;
use crate::describe::Description;
use crate::sample::SharedPages;

/// Room for what arrives while the loop is busy.
pub const NR_INPUTS: usize = 64;

/// What reaches the loop from outside.
#[derive(Debug)]
pub enum Input {
    /// A client asks.
    Request {
        /// The caller.
        caller: Caller,
        /// What for.
        request: Request,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Answer, Error>>,
    },
    /// The engine does something.
    Engine {
        /// Which engine.
        run: Run,
        /// What.
        event: EngineEvent,
        /// Its pages, when it has loaded.
        pages: Option<SharedPages>,
    },
    /// Something about sched_ext changed; sysfs says what.
    KernelChanged,
    /// A client changes settings; all are valid by themselves.
    Configure {
        /// The caller.
        caller: Caller,
        /// What.
        changes: Vec<Change>,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// A client wants to know all about the settings.
    DescribeSettings {
        /// Where the answer goes.
        reply: oneshot::Sender<HashMap<String, Description>>,
    },
    /// A client has read the history up to there.
    GetHistorySince {
        /// The number of the last entry that it knows.
        cursor: u64,
        /// Where the number of the newest entry goes, with those after the cursor.
        reply: oneshot::Sender<(u64, Vec<HistoryEntry>)>,
    },
    /// Configuration files may have changed.
    Reload,
    /// A person has logged in.
    Session,
    /// A power daemon says something.
    Power(PowerEvent),
    /// A client has left the bus.
    PeerGone(String),
    /// The descriptor of the hold with this cookie was closed, in every process that had it.
    HoldClosed(u32),
    /// The service is to end.
    Shutdown,
}

/// What a request is answered with.
#[derive(Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// A hold with this cookie.
    Hold(u32),
    /// Statistics.
    Stats(Box<Stats>),
    /// The history.
    History(Vec<HistoryEntry>),
    /// Wait histograms by class.
    Histograms(HashMap<String, Vec<u64>>),
}
