//! What goes to programs on the bus, in the order in which the loop decided it, written by a task of its own: a bus that
//! takes nothing for a while does not keep the loop from its work.

use std::collections::HashMap;

use scherzo_api::names::OBJECT_PATH;
use scherzo_api::stats::Stats;
use scherzo_api::{Error, details};
use scherzo_supervisor::Fault;
use tokio::sync::{mpsc, oneshot};
use tracing::debug;
use zbus::names::BusName;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, Variant};

use crate::bus::{self, BusInterface};
use crate::input::Answer;

/// Room for what the bus has not taken yet.
const NR_OUTGOING: usize = 512;
/// Calls are let in while so much room is left, so that there is room for what the engine and the kernel do.
const NR_RESERVED: usize = 256;

pub(super) enum Outgoing {
    /// Properties that have changed, and those that have without the value being told.
    Changes(HashMap<&'static str, Variant<'static>>, Vec<&'static str>),
    /// The engine has ended without having been asked to.
    Exit(Fault),
    /// A hold was released; its holder is told.
    Released { holder: String, cookie: u32 },
    /// The history has an entry more, of this number.
    HistoryAdded(u64),
    /// Statistics for these programs.
    Stats { peers: Vec<String>, stats: Box<Stats> },
    /// The answer to a call, which must not overtake what it has changed.
    Answer { reply: oneshot::Sender<Result<Answer, Error>>, answer: Result<Answer, Error> },
}

pub(super) struct Outbox(mpsc::Sender<Outgoing>);

impl Outbox {
    /// One for this bus.
    pub(super) fn new(bus: Connection) -> Self {
        let (outbox, outgoing) = mpsc::channel(NR_OUTGOING);
        tokio::spawn(deliver(bus, outgoing));
        Self(outbox)
    }

    /// Whether another call may be answered.
    pub(super) fn has_room(&self) -> bool {
        self.0.capacity() > NR_RESERVED
    }

    /// Puts something in. Signals to a bus that has not taken anything for so long are lost: whoever is there when it
    /// works again reads what is so then. Answers are not.
    pub(super) fn put(&self, outgoing: Outgoing) {
        match self.0.try_send(outgoing) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(Outgoing::Answer { reply, answer })) => answer_with(reply, answer),
            Err(error) => debug!("cannot tell the bus: {error}"),
        }
    }

    /// Waits until all is written.
    pub(super) async fn empty(&self) {
        let _ = self.0.reserve_many(NR_OUTGOING).await;
    }
}

/// A client that has left does not mind.
fn answer_with(reply: oneshot::Sender<Result<Answer, Error>>, answer: Result<Answer, Error>) {
    let _ = reply.send(answer);
}

async fn deliver(bus: Connection, mut outgoing: mpsc::Receiver<Outgoing>) {
    let emitter = SignalEmitter::from_parts(bus.clone(), zbus::ObjectPath::from_static_str_unchecked(OBJECT_PATH));
    while let Some(next) = outgoing.recv().await {
        match next {
            Outgoing::Changes(changed, invalidated) => report(bus::emit_changes(&bus, &changed, &invalidated).await),
            Outgoing::Exit(fault) => {
                let details = details::to_wire(&fault.details);
                report(BusInterface::engine_exited(&emitter, fault.reason.name(), details).await);
            }
            Outgoing::Released { holder, cookie } => {
                if let Some(emitter) = to(&emitter, holder) {
                    report(BusInterface::hold_released(&emitter, cookie).await);
                }
            }
            Outgoing::HistoryAdded(now) => report(BusInterface::history_added(&emitter, now).await),
            Outgoing::Stats { peers, stats } => {
                for emitter in peers.into_iter().filter_map(|peer| to(&emitter, peer)) {
                    report(BusInterface::stats_updated(&emitter, stats.to_wire()).await);
                }
            }
            Outgoing::Answer { reply, answer } => answer_with(reply, answer),
        }
    }
}

fn to(emitter: &SignalEmitter<'static>, peer: String) -> Option<SignalEmitter<'static>> {
    Some(emitter.clone().set_destination(BusName::try_from(peer).ok()?))
}

/// A signal that cannot be sent has nobody left to receive it.
fn report(sent: zbus::Result<()>) {
    if let Err(error) = sent {
        debug!("cannot emit a signal: {error}");
    }
}
