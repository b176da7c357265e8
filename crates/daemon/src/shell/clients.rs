//! Programs on the bus: those that wait for an answer, those whose leaving matters, and what all of them are shown.

use std::collections::HashMap;

use scherzo_api::stats::Stats;
use scherzo_api::{Error, catalogue};
use scherzo_supervisor::{BusAction, Fault, Published, RequestId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};
use zbus::Connection;

use super::outbox::{Outbox, Outgoing};
use crate::bus;
use crate::input::{Answer, Input};
use crate::refusals::Refusals;

pub(super) struct Clients {
    bus: Connection,
    outbox: Outbox,
    inputs: mpsc::Sender<Input>,
    published: watch::Sender<Published>,
    hold_profile: watch::Sender<bool>,
    replies: HashMap<RequestId, oneshot::Sender<Result<Answer, Error>>>,
    next_request: u64,
    peers: HashMap<String, JoinHandle<()>>,
    started: Instant,
    refusals: Refusals,
}

impl Clients {
    pub(super) fn new(bus: Connection, inputs: mpsc::Sender<Input>, view: Published) -> Self {
        Self {
            outbox: Outbox::new(bus.clone()),
            bus,
            inputs,
            published: watch::Sender::new(view),
            hold_profile: watch::Sender::new(false),
            replies: HashMap::new(),
            next_request: 0,
            peers: HashMap::new(),
            started: Instant::now(),
            refusals: Refusals::default(),
        }
    }

    /// What they are shown, for the interface.
    pub(super) fn published(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }

    /// Whether a frugal power profile is to be held.
    pub(super) fn hold_profile(&self) -> watch::Receiver<bool> {
        self.hold_profile.subscribe()
    }

    /// Remembers the caller that waits for the answer to a request.
    pub(super) fn expect(&mut self, reply: oneshot::Sender<Result<Answer, Error>>) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.replies.insert(id, reply);
        id
    }

    pub(super) fn answer(&mut self, id: RequestId, answer: Result<Answer, Error>) {
        if let Err(error) = &answer
            && let Some(line) = self.refusals.note(self.started.elapsed(), error)
        {
            info!("{line}");
        }
        if let Some(reply) = self.replies.remove(&id) {
            self.outbox.put(Outgoing::Answer { reply, answer });
        }
    }

    /// When [`Self::sum_up_refusals`] has something to say.
    pub(super) fn refusals_due_at(&self) -> Option<Instant> {
        self.refusals.due_at().map(|at| self.started + at)
    }

    /// Tells the journal how many calls were refused without a line of their own, if it is time for that or `at_last`.
    pub(super) fn sum_up_refusals(&mut self, at_last: bool) {
        let now = (!at_last).then(|| self.started.elapsed());
        if let Some(line) = self.refusals.sum_up(now) {
            info!("{line}");
        }
    }

    pub(super) fn perform(&mut self, action: BusAction) {
        match action {
            BusAction::Publish(view) => self.publish(&view),
            BusAction::TellExit(fault) => self.tell_exit(fault),
            BusAction::TellReleased { holder, cookie } => self.outbox.put(Outgoing::Released { holder, cookie }),
            BusAction::HoldProfile(hold) => drop(self.hold_profile.send_replace(hold)),
            BusAction::Watch(peer) => self.watch(peer),
            BusAction::Unwatch(peer) => {
                if let Some(watcher) = self.peers.remove(&peer) {
                    watcher.abort();
                }
            }
        }
    }

    fn publish(&mut self, view: &Published) {
        let old = self.published.send_replace(view.clone());
        let (changed, invalidated) = (bus::changes(&old, view), bus::invalidations(&old, view));
        if changed.is_empty() && invalidated.is_empty() {
            return;
        }
        if (old.state, old.choice, &old.why) != (view.state, view.choice, &view.why) {
            log_state(view);
        }
        self.outbox.put(Outgoing::Changes(changed, invalidated));
    }

    fn tell_exit(&self, fault: Fault) {
        warn!("the engine ended: {}", fault.text());
        self.outbox.put(Outgoing::Exit(fault));
    }

    pub(super) fn send_stats(&self, peers: Vec<String>, stats: Stats) {
        self.outbox.put(Outgoing::Stats { peers, stats: Box::new(stats) });
    }

    pub(super) fn tell_history_added(&self, now: u64) {
        self.outbox.put(Outgoing::HistoryAdded(now));
    }

    /// Whether another call may be answered.
    pub(super) fn have_room(&self) -> bool {
        self.outbox.has_room()
    }

    fn watch(&mut self, peer: String) {
        let (bus, inputs, name) = (self.bus.clone(), self.inputs.clone(), peer.clone());
        let watcher = tokio::spawn(async move {
            if let Err(error) = bus::until_gone(&bus, &name).await {
                warn!("cannot watch {name}: {error}");
            }
            let _ = inputs.send(Input::PeerGone(name)).await;
        });
        self.peers.insert(peer, watcher);
    }

    pub(super) fn has_gone(&mut self, peer: &str) {
        self.peers.remove(peer);
    }

    /// Has everything delivered, and watches no client any more: each watcher would keep the bus open for as long as its peer is there.
    pub(super) async fn leave(&mut self) {
        self.outbox.empty().await;
        for (_, watcher) in self.peers.drain() {
            watcher.abort();
            let _ = watcher.await;
        }
    }
}

pub(super) fn log_state(view: &Published) {
    let preemption = if view.choice.preemption { "on" } else { "off" };
    let why = catalogue::text(view.why.reason, &view.why.details);
    let (mode, engine) = (view.choice.mode.name(), view.choice.seat.name());
    info!("{}: mode {mode}, preemption {preemption}, engine {engine}. {why}", view.state);
}
