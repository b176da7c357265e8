//! Programs on the bus: who waits for an answer, whose leaving matters, and what all of them are shown.

use std::collections::HashMap;

use scherzo_api::names::OBJECT_PATH;
use scherzo_api::stats::Stats;
use scherzo_api::{Error, catalogue, details};
use scherzo_supervisor::{BusAction, Fault, Published, RequestId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use zbus::Connection;
use zbus::names::BusName;
use zbus::object_server::SignalEmitter;

use crate::bus::{self, Service};
use crate::input::{Answer, Input};

pub(super) struct Clients {
    bus: Connection,
    inputs: mpsc::Sender<Input>,
    published: watch::Sender<Published>,
    hold_profile: watch::Sender<bool>,
    replies: HashMap<RequestId, oneshot::Sender<Result<Answer, Error>>>,
    next_request: u64,
    peers: HashMap<String, JoinHandle<()>>,
}

impl Clients {
    pub(super) fn new(bus: Connection, inputs: mpsc::Sender<Input>, view: Published) -> Self {
        Self {
            bus,
            inputs,
            published: watch::Sender::new(view),
            hold_profile: watch::Sender::new(false),
            replies: HashMap::new(),
            next_request: 0,
            peers: HashMap::new(),
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

    /// Remembers who waits for the answer to a request.
    pub(super) fn expect(&mut self, reply: oneshot::Sender<Result<Answer, Error>>) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.replies.insert(id, reply);
        id
    }

    pub(super) fn answer(&mut self, id: RequestId, answer: Result<Answer, Error>) {
        if let Err(error) = &answer {
            info!("refused: {error}");
        }
        if let Some(reply) = self.replies.remove(&id) {
            // A client that has left does not mind.
            let _ = reply.send(answer);
        }
    }

    pub(super) async fn perform(&mut self, action: BusAction) {
        match action {
            BusAction::Publish(view) => self.publish(view).await,
            BusAction::TellExit(fault) => self.tell_exit(&fault).await,
            BusAction::TellReleased { holder, cookie } => self.tell_released(holder, cookie).await,
            BusAction::HoldProfile(hold) => drop(self.hold_profile.send_replace(hold)),
            BusAction::Watch(peer) => self.watch(peer),
            BusAction::Unwatch(peer) => {
                if let Some(watcher) = self.peers.remove(&peer) {
                    watcher.abort();
                }
            }
        }
    }

    async fn publish(&mut self, view: Published) {
        let old = self.published.send_replace(view.clone());
        let (changed, invalidated) = (bus::changes(&old, &view), bus::invalidations(&old, &view));
        if changed.is_empty() && invalidated.is_empty() {
            return;
        }
        if (old.state, old.choice, &old.why) != (view.state, view.choice, &view.why) {
            log_state(&view);
        }
        report(bus::emit_changes(&self.bus, &changed, &invalidated).await);
    }

    async fn tell_exit(&self, fault: &Fault) {
        warn!("the engine ended: {}", fault.text());
        report(Service::engine_exited(&self.emitter(), fault.reason.name(), details::to_wire(&fault.details)).await);
    }

    async fn tell_released(&self, holder: String, cookie: u32) {
        if let Ok(name) = BusName::try_from(holder) {
            report(Service::hold_released(&self.emitter().set_destination(name), cookie).await);
        }
    }

    pub(super) async fn send_stats(&self, peers: Vec<String>, stats: &Stats) {
        for peer in peers {
            if let Ok(name) = BusName::try_from(peer) {
                report(Service::stats_updated(&self.emitter().set_destination(name), stats.to_wire()).await);
            }
        }
    }

    fn emitter(&self) -> SignalEmitter<'static> {
        SignalEmitter::from_parts(self.bus.clone(), zbus::ObjectPath::from_static_str_unchecked(OBJECT_PATH))
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

    /// Watches nobody any more: each watcher would keep the bus open for as long as its peer is there.
    pub(super) async fn unwatch_all(&mut self) {
        for (_, watcher) in self.peers.drain() {
            watcher.abort();
            let _ = watcher.await;
        }
    }
}

/// A signal that cannot be sent has nobody left to receive it.
fn report(sent: zbus::Result<()>) {
    if let Err(error) = sent {
        debug!("cannot emit a signal: {error}");
    }
}

pub(super) fn log_state(view: &Published) {
    let preemption = if view.choice.preemption { "on" } else { "off" };
    let why = catalogue::text(view.why.reason, &view.why.details);
    info!("{}: mode {}, preemption {preemption}. {why}", view.state, view.choice.mode.name());
}
