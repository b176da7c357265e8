//! How many calls of a user are worked on at once. A user's programs together take turns, and what is beyond that waits before
//! anything has been done for it, so that no user keeps others from being answered.
//!
//! Calls wait between the socket and the library (`bus_socket`), as they came. A turn lasts until the bus has taken the answer, and
//! if others wait for it, for a pause in which the service and the bus can turn to other users.
//!
//! Waiting calls are what keeps a flood from the service: a bus lets a connection have so many calls open, and refuses the others
//! itself. Refusals of ours would be followed by the next call at once. Only if more wait than one expects of a user they are refused.

mod turns;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use scherzo_api::Error;
use scherzo_supervisor::Caller;
use tokio::sync::Notify;
use tokio::time::sleep_until;
use zbus::Connection;
use zbus::message::Header;

use crate::authorize::sender_uid;
pub(crate) use turns::{Cost, Fate, WaitingCall};

/// All callers.
#[derive(Debug, Default)]
pub struct Callers {
    queue: Mutex<turns::CallQueue>,
    changed: Notify,
}

impl Callers {
    /// Who calls.
    pub(crate) async fn caller(&self, bus: &Connection, call: &Header<'_>) -> Result<Caller, Error> {
        let name = call.sender().ok_or_else(|| Error::AccessDenied("The message names no sender.".into()))?;
        Ok(Caller { name: name.to_string(), uid: self.uid(bus, call).await })
    }

    /// The user whose program it is, if the bus knows; it is asked once for each program.
    pub(crate) async fn uid(&self, bus: &Connection, call: &Header<'_>) -> Option<u32> {
        let name = call.sender()?.to_string();
        if !self.knows(&name) {
            // On a connection of tests, where calls take no turns.
            self.know(name.clone(), sender_uid(bus, call).await);
        }
        self.queue().user_of(&name)
    }

    /// Whether the bus has been asked for the user of a name, and has answered.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.queue().knows(name)
    }

    /// A call has come.
    pub(crate) fn come(&self, call: WaitingCall) -> Fate {
        self.queue().come(call, Instant::now())
    }

    /// Whether a call that has come, of so many bytes, is one of too many of its user, which [`Self::come`] would refuse. It may also
    /// be refused where this says no.
    pub(crate) fn refuses(&self, sender: &str, cost: Cost, nr_bytes: usize) -> bool {
        self.queue().refuses(sender, cost, nr_bytes)
    }

    /// The bus has said which user has this name, or that it does not know.
    pub(crate) fn know(&self, name: String, uid: Option<u32>) {
        self.queue().know(name, uid, Instant::now());
        self.changed.notify_one();
    }

    /// A connection has gone, whose calls need not be answered.
    pub(crate) fn drop_calls_of(&self, name: &str) {
        self.queue().drop_calls_of(name);
    }

    /// Whether a call of a user that is known waits for its turn.
    pub(crate) fn has_waiting(&self) -> bool {
        self.queue().has_waiting()
    }

    /// Whether more calls of a user wait than programs make that read the answers.
    pub(crate) fn is_flooded(&self) -> bool {
        self.queue().is_flooded()
    }

    /// The next call that need not wait any longer.
    pub(crate) fn next(&self) -> Option<Fate> {
        self.queue().next(Instant::now())
    }

    /// Waits until [`Self::next`] may have something.
    pub(crate) async fn change(&self) {
        let due_at = self.queue().due_at();
        let due = async {
            match due_at {
                Some(due_at) => sleep_until(due_at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.changed.notified() => {}
            () = due => {}
        }
    }

    /// Whether an answer goes to whom it is for.
    pub(crate) fn is_wanted(&self, sender: &str, serial: u32) -> bool {
        self.queue().is_wanted(sender, serial)
    }

    /// The bus has taken the answer to a call, whose turn ends.
    pub(crate) fn end_turn(&self, sender: &str, serial: u32) {
        self.queue().end_turn(sender, serial, Instant::now());
        self.changed.notify_one();
    }

    /// The service ends: who waits for a turn, and who comes from now on, is told so.
    pub(crate) fn end(&self) {
        self.queue().end();
        self.changed.notify_one();
    }

    /// What is kept makes sense whatever happened to another thread.
    fn queue(&self) -> MutexGuard<'_, turns::CallQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
