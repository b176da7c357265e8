//! The loop between the core and the world. It owns the core, and performs what the core decides.

use std::collections::{HashMap, VecDeque};

use scherzo_api::Error;
use scherzo_api::names::OBJECT_PATH;
use scherzo_api::stats::Stats;
use scherzo_api::types::State as PublicState;
use scherzo_api::{catalogue, details};
use scherzo_host::Root;
use scherzo_wire::message::ToEngine;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};
use zbus::Connection;
use zbus::names::BusName;
use zbus::object_server::SignalEmitter;

use crate::alarm::Alarm;
use crate::bus::{self, Service};
use crate::config::{Change, Config};
use crate::engine::Engine;
use crate::history::History;
use crate::kernel;
use crate::rcu::{Rcu, SetPolicy};
use crate::sample::{Pages, farewell};
use crate::store::Store;
use scherzo_supervisor::{
    Action, Boot, Build, Caller, EngineEvent, Event, Kernel, PowerEvent, Published, Request, RequestId, Run, Start,
    State,
};

/// Room for what arrives while the loop is busy.
pub const NR_INPUTS: usize = 64;

/// What reaches the loop from outside.
#[derive(Debug)]
pub enum Input {
    /// A client asks.
    Request {
        /// Who.
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
        pages: Option<Pages>,
    },
    /// Something about sched_ext changed; sysfs says what.
    KernelChanged,
    /// A client changes settings; all are valid by themselves.
    Configure {
        /// Who.
        caller: Caller,
        /// What.
        changes: Vec<Change>,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// Configuration files may have changed.
    Reload,
    /// A person has logged in.
    Session,
    /// A power daemon says something.
    Power(PowerEvent),
    /// A client has left the bus.
    PeerGone(String),
    /// The service is to end.
    Shutdown,
}

/// An entry of the history as it crosses the bus: time in seconds since 1970, event, details.
pub type HistoryEntry = (u64, String, details::Wire);

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

/// The loop's belongings.
pub struct Shell<E> {
    core: State,
    first: Vec<Action>,
    started: Instant,
    root: Root,
    store: Store,
    boot: Boot,
    config: Config,
    history: History,
    engine: E,
    bus: Connection,
    inputs: mpsc::Sender<Input>,
    published: watch::Sender<Published>,
    hold_profile: watch::Sender<bool>,
    replies: HashMap<RequestId, oneshot::Sender<Result<Answer, Error>>>,
    next_request: u64,
    pages: Option<(Pages, Instant)>,
    peers: HashMap<String, JoinHandle<()>>,
    leaving: bool,
}

/// What the loop starts from.
pub struct Parts<E> {
    /// Where the host's files are.
    pub root: Root,
    /// How the kernel there is told to schedule a thread.
    pub set_policy: SetPolicy,
    /// The engine.
    pub engine: E,
    /// The connection that clients see.
    pub bus: Connection,
    /// Where inputs are sent.
    pub inputs: mpsc::Sender<Input>,
}

impl<E: Engine> Shell<E> {
    /// Reads what the files and the kernel say, and touches nothing yet. The receiver is for the interface.
    pub fn new(parts: Parts<E>) -> Result<(Self, watch::Receiver<Published>), scherzo_host::Error> {
        let Parts { root, set_policy, engine, bus, inputs } = parts;
        let kernel = kernel::read(&root)?;
        let types = kernel::types(&root, &kernel);
        let store = Store::new(root.clone(), Rcu::new(root.clone(), &types, set_policy));
        let (config, boot) = (read_config(&root), store.boot());
        let (core, actions) = State::new(Start {
            wish: store.wish(),
            settings: config.settings,
            unfit: kernel::unfit(&types),
            kernel,
            noted: store.has_note(),
            boot,
            build: build(&root),
            quarantine: store.quarantine(),
        });
        let history = History::open(&root);
        let (published, seen) = watch::channel(core.view());
        let shell = Self {
            core,
            first: actions,
            started: Instant::now(),
            root,
            store,
            boot,
            config,
            history,
            engine,
            bus,
            inputs,
            published,
            hold_profile: watch::Sender::new(false),
            replies: HashMap::new(),
            next_request: 0,
            pages: None,
            peers: HashMap::new(),
            leaving: false,
        };
        Ok((shell, seen))
    }

    /// Whether a frugal power profile is to be held.
    #[must_use]
    pub fn hold_profile(&self) -> watch::Receiver<bool> {
        self.hold_profile.subscribe()
    }

    /// Runs until the service is to end and nothing is loaded any more. Fails if time cannot be told.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<Input>) -> std::io::Result<()> {
        let mut alarm = Alarm::new()?;
        log_state(&self.core.view());
        complain("note how this boot goes", self.store.note_boot(self.boot));
        let first = std::mem::take(&mut self.first);
        self.carry_out(first).await;
        while !self.leaving {
            let wakeup = self.core.next_wakeup().map(|at| self.started + at);
            let input = tokio::select! {
                input = inbox.recv() => input.unwrap_or(Input::Shutdown),
                rung = alarm.ring_at(wakeup) => {
                    rung?;
                    self.happen(Event::Tick).await;
                    continue;
                }
            };
            self.take(input).await;
        }
        // Each would keep the bus open for as long as its peer is there.
        for (_, watcher) in self.peers.drain() {
            watcher.abort();
            let _ = watcher.await;
        }
        Ok(())
    }

    async fn take(&mut self, input: Input) {
        match input {
            Input::Request { caller, request, reply } => {
                let id = RequestId(self.next_request);
                self.next_request += 1;
                self.replies.insert(id, reply);
                // Decide on what the kernel says now, not on what it last said.
                self.read_kernel().await;
                self.happen(Event::Request { id, caller, request }).await;
            }
            Input::Engine { run, event, pages } => {
                if let Some(pages) = pages {
                    self.pages = Some((pages, Instant::now()));
                }
                if matches!(event, EngineEvent::Exited { .. } | EngineEvent::HungUp | EngineEvent::Gone(_)) {
                    self.tell_last_counters();
                    // What is told of the end is what the kernel says now, not what it said before.
                    self.read_kernel().await;
                }
                let has_loaded = event == EngineEvent::Loaded;
                self.happen(Event::Engine { run, event }).await;
                if has_loaded {
                    self.prepare_spare();
                }
            }
            Input::KernelChanged => self.read_kernel().await,
            Input::Configure { caller, changes, reply } => {
                let changed = self.config.change(&self.root, &changes);
                if changed.is_ok() {
                    self.apply_settings(Some(caller)).await;
                }
                // A client that has left does not mind.
                let _ = reply.send(changed);
            }
            Input::Reload => {
                info!("reading the configuration again");
                self.config = read_config(&self.root);
                self.apply_settings(None).await;
            }
            Input::Session => self.happen(Event::Session).await,
            Input::Power(event) => self.happen(Event::Power(event)).await,
            Input::PeerGone(peer) => {
                self.peers.remove(&peer);
                self.happen(Event::PeerGone(peer)).await;
            }
            Input::Shutdown => self.happen(Event::Shutdown).await,
        }
    }

    async fn apply_settings(&mut self, by: Option<Caller>) {
        self.happen(Event::Settings { settings: self.config.settings, by }).await;
        if matches!(self.core.view().state, PublicState::Running | PublicState::Degraded) {
            self.prepare_spare();
        }
    }

    /// An engine that ends is replaced at once, if it is to be replaced at all.
    fn prepare_spare(&mut self) {
        if self.wants_spare() {
            self.engine.prepare_spare();
        }
    }

    fn wants_spare(&self) -> bool {
        self.config.settings.standby && self.core.would_load_again()
    }

    async fn read_kernel(&mut self) {
        if let Some(kernel) = self.kernel() {
            self.happen(Event::Kernel(kernel)).await;
        }
    }

    fn kernel(&self) -> Option<Kernel> {
        kernel::read(&self.root).inspect_err(|error| warn!("{error}")).ok()
    }

    async fn happen(&mut self, event: Event) {
        debug!("{event:?}");
        let actions = self.core.step(self.started.elapsed(), event);
        self.carry_out(actions).await;
        if !self.wants_spare() {
            self.engine.drop_spare();
        }
    }

    /// Performs actions, and those that follow from what they find.
    async fn carry_out(&mut self, actions: Vec<Action>) {
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            if let Some(event) = self.perform(action).await {
                queue.extend(self.core.step(self.started.elapsed(), event));
            }
        }
    }

    async fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::ReadKernel => return self.kernel().map(Event::Kernel),
            Action::ReadHealth => {
                let (pages, _) = self.pages.as_ref()?;
                return Some(Event::Health { degraded: pages.degraded(), compaction: self.store.compaction() });
            }
            Action::Reply { id, result } => self.answer(id, result.map(|()| Answer::Done).map_err(bus::error_of)),
            Action::ReplyHistory { id, nr_entries } => {
                self.answer(id, Ok(Answer::History(self.history.newest(nr_entries))));
            }
            Action::ReplyHold { id, cookie } => self.answer(id, Ok(Answer::Hold(cookie))),
            Action::ReplyStats(id) => {
                let answer = self.stats().map(|stats| Answer::Stats(Box::new(stats)));
                self.answer(id, answer.ok_or_else(pages_are_gone));
            }
            Action::ReplyHistogram(id) => {
                let answer = self.pages.as_ref().map(|(pages, _)| Answer::Histograms(pages.histograms()));
                self.answer(id, answer.ok_or_else(pages_are_gone));
            }
            Action::Publish(view) => self.publish(view).await,
            Action::TellExit(fault) => {
                warn!("the engine ended: {}", fault.text());
                let details = details::to_wire(&fault.details);
                report(Service::engine_exited(&self.emitter(), fault.reason.name(), details).await);
            }
            Action::TellReleased { holder, cookie } => self.tell_released(holder, cookie).await,
            Action::SendStats(peers) => self.send_stats(peers).await,
            Action::Watch(peer) => self.watch(peer),
            Action::Unwatch(peer) => {
                if let Some(watcher) = self.peers.remove(&peer) {
                    watcher.abort();
                }
            }
            Action::Exit => self.leaving = true,
            other => self.handle_host(other),
        }
        None
    }

    /// What concerns engine and files.
    fn handle_host(&mut self, action: Action) {
        match action {
            Action::WatchBoot(watch) => complain("note how this boot goes", self.store.watch_boot(watch)),
            Action::NoteSettings => {
                let takes_all = !self.config.settings.tunables.partial;
                complain("note the settings to restore", self.store.note_settings(takes_all));
            }
            Action::RestoreSettings => complain("restore settings", self.store.restore_settings()),
            Action::ForbidCompaction => {
                complain("turn off compaction of locked memory", self.store.forbid_compaction());
            }
            Action::HoldProfile(hold) => drop(self.hold_profile.send_replace(hold)),
            Action::RevertSettings(settings) => {
                complain("store the settings of before", self.config.revert(&self.root, settings));
            }
            Action::KeepQuarantine(quarantine) => {
                complain("remember what does not work", self.store.keep_quarantine(quarantine.as_ref()));
            }
            Action::Persist(wish) => complain("store your choice", self.store.save_wish(wish)),
            Action::Record(record) => complain("write the history", self.history.add(&record)),
            Action::Spawn(run) => {
                self.pages = None;
                self.engine.spawn(run);
            }
            Action::Load(_, settings) => self.engine.send(&ToEngine::Load(settings)),
            Action::Switch { seq, settings, .. } => {
                self.engine.send(&ToEngine::Apply { seq, settings });
            }
            Action::Refresh { seq, .. } => self.engine.send(&ToEngine::Refresh { seq }),
            Action::Unload(_) => self.engine.send(&ToEngine::Unload),
            Action::Kill(_) => self.engine.kill(),
            other => error!("an action that nobody performs: {other:?}"),
        }
    }

    fn answer(&mut self, id: RequestId, answer: Result<Answer, Error>) {
        if let Err(error) = &answer {
            info!("refused: {error}");
        }
        if let Some(reply) = self.replies.remove(&id) {
            // A client that has left does not mind.
            let _ = reply.send(answer);
        }
    }

    /// The counters of a scheduler end with it, so they are written down once more.
    fn tell_last_counters(&mut self) {
        if let Some(stats) = self.stats() {
            info!("the scheduler has ended: {}", farewell(&stats));
            self.pages = None;
        }
    }

    fn stats(&self) -> Option<Stats> {
        let (pages, since) = self.pages.as_ref()?;
        Some(pages.stats(&self.root, since.elapsed()))
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

    async fn send_stats(&self, peers: Vec<String>) {
        let Some(stats) = self.stats() else { return };
        for peer in peers {
            if let Ok(name) = BusName::try_from(peer) {
                report(Service::stats_updated(&self.emitter().set_destination(name), stats.to_wire()).await);
            }
        }
    }

    async fn tell_released(&self, holder: String, cookie: u32) {
        if let Ok(name) = BusName::try_from(holder) {
            report(Service::hold_released(&self.emitter().set_destination(name), cookie).await);
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
}

/// What runs on what; a kernel that does not say its release counts as one of its own.
fn build(root: &Root) -> Build {
    let kernel = scherzo_host::release(root).inspect_err(|error| debug!("{error}")).unwrap_or_default();
    Build { kernel, version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn read_config(root: &Root) -> Config {
    let config = Config::read(root);
    for problem in &config.problems {
        warn!("{problem}; what is below it counts instead");
    }
    config
}

fn pages_are_gone() -> Error {
    Error::NotRunning("The scheduler has just ended. Look at the state in a moment.".into())
}

fn complain(what: &str, result: std::io::Result<()>) {
    if let Err(error) = result {
        warn!("cannot {what}: {error}");
    }
}

/// A signal that cannot be sent has nobody left to receive it.
fn report(sent: zbus::Result<()>) {
    if let Err(error) = sent {
        debug!("cannot emit a signal: {error}");
    }
}

fn log_state(view: &Published) {
    let preemption = if view.choice.preemption { "on" } else { "off" };
    let why = catalogue::text(view.why.reason, &view.why.details);
    info!("{}: mode {}, preemption {preemption}. {why}", view.state, view.choice.mode.name());
}
