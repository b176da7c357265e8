//! What could not be written to its file: it is in effect, it is told, and it is written again until that succeeds.

use std::collections::BTreeMap;
use std::time::Duration;

use super::event::Time;

/// A full disk is emptied by someone who then does not wait for long.
const STORE_AGAIN_EVERY: Duration = Duration::from_secs(5);

/// What is kept in a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stored {
    /// The desired state.
    Desired,
    /// Settings that were put back.
    Settings,
    /// What was given up on.
    Quarantine,
    /// How this boot goes.
    Boot,
    /// Which guards were lifted since the system started.
    Lifted,
    /// The history.
    History,
}

/// What the files lack, and why.
pub type NotStored = BTreeMap<Stored, String>;

/// The same, with the time of the next attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Unstored {
    files: NotStored,
    again_at: Option<Time>,
}

impl Unstored {
    pub(super) fn take(&mut self, now: Time, files: NotStored) {
        self.again_at = (!files.is_empty()).then(|| now + STORE_AGAIN_EVERY);
        self.files = files;
    }

    pub(super) fn files(&self) -> &NotStored {
        &self.files
    }

    pub(super) fn next_wakeup(&self) -> Option<Time> {
        self.again_at
    }

    /// Whether to write again now.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let due = self.again_at.is_some_and(|at| at <= now);
        if due {
            self.again_at = Some(now + STORE_AGAIN_EVERY);
        }
        due
    }
}
