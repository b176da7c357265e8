//! A small model of engine, kernel and clients around the supervisor.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::Refusal;
use scherzo_catalogue::types::Reason;
use scherzo_model::WIRE_VERSION;
use scherzo_model::{ExitKind, FailKind};

use super::super::*;
use super::histories::Op;
use super::{OURS, SECOND};

/// A pretended engine process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) run: Run,
    pub(super) greeted: bool,
    pub(super) loaded: bool,
    pub(super) to_do: VecDeque<EngineCommand>,
}

/// Everything around the supervisor.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact of its own.
pub(super) struct World {
    pub(super) state: Supervisor,
    pub(super) now: Time,
    /// By the clock as it is now.
    pub(super) started_at_s: u64,
    pub(super) process: Option<Process>,
    pub(super) kernel: Kernel,
    /// The kernel does not let go of the scheduler of an engine that is gone.
    pub(super) kernel_clings: bool,
    /// An engine that hangs up is about to die of this signal, whoever kills it then.
    pub(super) dying_of: Option<i32>,
    pub(super) degraded: bool,
    /// Somebody else has turned on what loading turns off.
    pub(super) compaction: bool,
    pub(super) unanswered: BTreeSet<RequestId>,
    pub(super) answers: Vec<(RequestId, Result<(), Refusal>)>,
    pub(super) nr_requests: u64,
    pub(super) shown: Option<Published>,
    pub(super) stored: Desired,
    pub(super) settings: Settings,
    pub(super) build: Build,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) lifted: BTreeSet<Reason>,
    /// Neither the desired state nor the history can be written.
    pub(super) disk_is_full: bool,
    pub(super) not_stored: BTreeMap<Stored, FileAction>,
    /// What someone has chosen at the power-profiles daemon.
    pub(super) profile: Option<String>,
    pub(super) profile_held: bool,
    pub(super) nr_profile_holds: u32,
    pub(super) noted: bool,
    pub(super) switching: Option<u32>,
    pub(super) watched: BTreeSet<String>,
    pub(super) boot_watch: BootWatch,
    pub(super) nr_boot_notes: u32,
    pub(super) exits: Vec<Reason>,
    pub(super) history: Vec<HistoryEvent>,
    pub(super) released: Vec<(String, u32)>,
    pub(super) ended: bool,
}

/// Some day of 2026.
pub(super) const STARTED_AT_S: u64 = 1_780_000_000;

fn first_start(desired: Desired, kernel: Kernel, boot: Boot) -> Start {
    let build = Build { kernel: "6.18".into(), version: "1".into() };
    let (settings, lifted) = (Settings::default(), BTreeSet::new());
    let started_at_s = STARTED_AT_S;
    Start { desired, started_at_s, settings, kernel, unfit: None, noted: false, boot, build, quarantine: None, lifted }
}

impl World {
    pub(super) fn new(desired: Desired, kernel: Kernel) -> Self {
        Self::boot(desired, kernel, Boot::default())
    }

    /// A kernel that can load nothing, which is known from the start.
    pub(super) fn unfit(desired: Desired, kernel: Kernel) -> Self {
        let unfit = Some(Fault::with_text(Reason::MalformedBtf, "f"));
        Self::start(Start { unfit, ..first_start(desired, kernel, Boot::default()) })
    }

    pub(super) fn boot(desired: Desired, kernel: Kernel, boot: Boot) -> Self {
        Self::start(first_start(desired, kernel, boot))
    }

    fn start(start: Start) -> Self {
        let Start { desired, started_at_s, settings, kernel, noted, build, quarantine, lifted, .. } = start.clone();
        let (state, actions) = Supervisor::new(start);
        let mut world = Self {
            state,
            now: Time::ZERO,
            started_at_s,
            process: None,
            kernel,
            kernel_clings: false,
            dying_of: None,
            degraded: false,
            compaction: false,
            unanswered: BTreeSet::new(),
            answers: Vec::new(),
            nr_requests: 0,
            shown: None,
            stored: desired,
            settings,
            build,
            quarantine,
            lifted,
            disk_is_full: false,
            not_stored: BTreeMap::new(),
            profile: None,
            profile_held: false,
            nr_profile_holds: 0,
            noted,
            switching: None,
            watched: BTreeSet::new(),
            boot_watch: BootWatch::Over,
            nr_boot_notes: 0,
            exits: Vec::new(),
            history: Vec::new(),
            released: Vec::new(),
            ended: false,
        };
        world.perform(actions);
        world
    }

    /// Stores settings and tells of them.
    pub(super) fn configure(&mut self, settings: Settings) {
        self.settings = settings;
        self.happen(Event::Settings { settings, by: None });
    }

    pub(super) fn apply(&mut self, op: Op) {
        match op {
            Op::Ask(peer, request) => drop(self.ask_as(peer, request)),
            Op::Configure(starvation_ms, holds) => {
                let mut settings = Settings::default();
                settings.tunables.starvation_ms = starvation_ms;
                settings.rules.holds = holds;
                settings.drive_power_profile = holds;
                self.configure(settings);
            }
            Op::Power(PowerEvent::Profile(profile)) => self.choose_profile(profile),
            Op::Power(event) => self.happen(Event::Power(event)),
            Op::PeerGone(peer) => {
                let name = format!(":1.{peer}");
                if self.watched.remove(&name) {
                    self.happen(Event::PeerGone(name));
                }
            }
            Op::EngineActs => self.engine_acts(),
            Op::EngineFails(kind) => self.engine_says(EngineEvent::Failed { kind, text: "no".into() }),
            Op::EngineEnds(kind) => {
                if self.process.as_ref().is_some_and(|process| process.loaded) {
                    self.let_go();
                }
                self.engine_says(EngineEvent::Exited { kind, code: 1, text: "so".into() });
            }
            Op::EngineBabbles => self.engine_says(EngineEvent::Garbled("?".into())),
            Op::EngineHangsUp => self.engine_says(EngineEvent::HungUp),
            Op::EngineIsKilled => self.process_ends(Gone::Signal(9)),
            Op::EngineCrashes => self.process_ends(Gone::Signal(11)),
            Op::Restart => self.restart(),
            Op::NewKernel => {
                self.build.kernel.push('+');
                self.lifted.clear();
                self.restart();
            }
            Op::ForeignComes if self.kernel == Kernel::Idle => self.kernel = Kernel::Loaded { ops: "lavd".into() },
            Op::ForeignGoes if self.kernel.foreign_ops().is_some() => self.kernel = Kernel::Idle,
            Op::ForeignComes | Op::ForeignGoes => {}
            Op::KernelClings(clings) => self.cling(clings),
            Op::DiskFull(is_full) => self.disk_is_full = is_full,
            Op::Degrade(degraded) => self.degraded = degraded,
            Op::ClockMoves(by_s) => {
                self.started_at_s = self.started_at_s.saturating_add_signed(by_s.into());
                self.happen(Event::Clock { started_at_s: self.started_at_s });
            }
            Op::Wait(ms) => self.wait(Duration::from_millis(ms.into())),
            Op::Shutdown => self.happen(Event::Shutdown),
        }
        let kernel = self.kernel.clone();
        self.happen(Event::Kernel(kernel));
        self.check();
    }

    fn cling(&mut self, clings: bool) {
        self.kernel_clings = clings;
        let nobody_needs_it = !self.process.as_ref().is_some_and(|process| process.loaded);
        if nobody_needs_it && self.kernel.has_ours() {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        if !self.kernel_clings {
            self.kernel = Kernel::Idle;
        }
    }

    /// As power-profiles-daemon does it: a choice drops holds.
    fn choose_profile(&mut self, profile: Option<String>) {
        self.profile.clone_from(&profile);
        let held = std::mem::take(&mut self.profile_held);
        if held && profile.is_some() {
            self.happen(Event::Power(PowerEvent::ProfileHoldDropped));
        } else if held {
            self.happen(Event::Power(PowerEvent::ProfileHoldEnded));
        }
        self.happen(Event::Power(PowerEvent::Profile(profile)));
    }

    fn hold_profile(&mut self, hold: bool) -> Vec<Event> {
        let before = std::mem::replace(&mut self.profile_held, hold && self.profile.is_some());
        self.nr_profile_holds += u32::from(hold);
        let news = |profile: Option<String>| Event::Power(PowerEvent::Profile(profile));
        match (before, self.profile_held) {
            (false, true) => vec![news(Some("power-saver".into()))],
            (true, false) => vec![news(self.profile.clone()), Event::Power(PowerEvent::ProfileHoldEnded)],
            _ if hold => Vec::new(),
            _ => vec![Event::Power(PowerEvent::ProfileHoldEnded)],
        }
    }

    /// The service is killed, its engine follows, and it is started again.
    fn restart(&mut self) {
        self.bury(Gone::Code(0));
        let history = std::mem::take(&mut self.history);
        *self = Self::start(Start {
            started_at_s: self.started_at_s,
            desired: self.stored,
            settings: self.settings,
            kernel: self.kernel.clone(),
            unfit: None,
            noted: self.noted,
            boot: Boot::default(),
            build: self.build.clone(),
            quarantine: self.quarantine.clone(),
            lifted: self.lifted.clone(),
        });
        self.history.splice(0..0, history);
    }

    /// The kernel ejects the scheduler.
    pub(super) fn eject(&mut self) {
        self.apply(Op::EngineEnds(ExitKind::Error));
        self.apply(Op::EngineIsKilled);
    }

    pub(super) fn ask(&mut self, request: Request) -> RequestId {
        self.ask_as(0, request)
    }

    pub(super) fn ask_as(&mut self, peer: u8, request: Request) -> RequestId {
        self.ask_by(Caller { name: format!(":1.{peer}"), uid: Some(1000 + u32::from(peer)) }, request)
    }

    pub(super) fn ask_by(&mut self, caller: Caller, request: Request) -> RequestId {
        let id = RequestId(self.nr_requests);
        self.nr_requests += 1;
        self.unanswered.insert(id);
        self.happen(Event::Request { id, caller, request });
        id
    }

    pub(super) fn answer(&self, id: RequestId) -> Option<&Result<(), Refusal>> {
        self.answers.iter().find(|(answered, _)| *answered == id).map(|(_, result)| result)
    }

    pub(super) fn engine_says(&mut self, event: EngineEvent) {
        if let Some(run) = self.process.as_ref().map(|process| process.run) {
            self.happen(Event::Engine { run, event });
        }
    }

    /// A well-meaning engine takes its next step.
    pub(super) fn engine_acts(&mut self) {
        let Some(process) = &mut self.process else { return };
        if !process.greeted {
            process.greeted = true;
            return self.engine_says(EngineEvent::Hello { wire_version: WIRE_VERSION });
        }
        match process.to_do.pop_front() {
            Some(EngineCommand::Load(..)) if self.kernel == Kernel::Idle => {
                process.loaded = true;
                self.kernel = Kernel::Loaded { ops: OURS.into() };
                self.engine_says(EngineEvent::Loaded);
            }
            Some(EngineCommand::Load(..)) => {
                self.engine_says(EngineEvent::Failed { kind: FailKind::Conflict, text: "taken".into() });
                self.process_ends(Gone::Code(1));
            }
            Some(EngineCommand::Switch { seq, .. }) => {
                self.switching = None;
                self.engine_says(EngineEvent::Done { seq });
            }
            Some(EngineCommand::Refresh { seq, .. }) => self.engine_says(EngineEvent::Done { seq }),
            Some(EngineCommand::Unload(_)) => {
                self.engine_says(EngineEvent::Exited { kind: ExitKind::Unloaded, code: 0, text: String::new() });
                self.process_ends(Gone::Code(0));
            }
            _ => {}
        }
    }

    pub(super) fn process_ends(&mut self, how: Gone) {
        if let Some(event) = self.bury(how) {
            self.happen(event);
        }
    }

    pub(super) fn bury(&mut self, how: Gone) -> Option<Event> {
        let process = self.process.take()?;
        if process.loaded && self.kernel.has_ours() {
            self.let_go();
        }
        self.switching = None;
        Some(Event::Engine { run: process.run, event: EngineEvent::Gone(how) })
    }

    /// Lets time pass, waking the supervisor whenever it wants.
    pub(super) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.state.next_wakeup().filter(|at| *at <= end) {
            self.now = at;
            self.happen(Event::Tick);
        }
        self.now = end;
        self.happen(Event::Tick);
    }

    pub(super) fn happen(&mut self, event: Event) {
        let actions = self.state.step(self.now, event);
        self.perform(actions);
    }

    /// As the shell does it: what follows from an action comes after the actions that were decided before.
    pub(super) fn perform(&mut self, actions: Vec<Action>) {
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            assert!(!self.ended, "after the end: {action:?}");
            let follows = self.perform_one(action);
            queue.extend(follows.into_iter().flat_map(|event| self.state.step(self.now, event)));
        }
    }

    fn perform_one(&mut self, action: Action) -> Vec<Event> {
        match action {
            Action::Engine(command) => return self.command_engine(command).into_iter().collect(),
            Action::Files(action) => return self.store(action).into_iter().collect(),
            Action::Bus(action) => return self.send(action),
            Action::Reply { id, reply } => {
                assert!(self.unanswered.remove(&id), "answered twice: {id:?}");
                self.answers.push((id, if let Reply::Result(result) = reply { result } else { Ok(()) }));
            }
            Action::SendStats(peers) => {
                assert!(!peers.is_empty() && peers.iter().all(|peer| self.watched.contains(peer)));
            }
            Action::ReadKernel => return vec![Event::Kernel(self.kernel.clone())],
            Action::ReadHealth => {
                return vec![Event::Health { degraded: self.degraded, compaction: self.compaction }];
            }
            Action::Exit => {
                assert!(self.process.is_none() && self.unanswered.is_empty());
                self.ended = true;
            }
        }
        Vec::new()
    }

    fn command_engine(&mut self, command: EngineCommand) -> Option<Event> {
        match command {
            EngineCommand::Spawn(run) => {
                assert_eq!(self.boot_watch, BootWatch::On, "an unclean boot would not be noticed");
                assert!(self.process.is_none(), "two engines");
                assert!(self.noted, "nothing noted");
                assert!(self.state.desired.enabled, "not wanted");
                self.process = Some(Process { run, greeted: false, loaded: false, to_do: VecDeque::new() });
            }
            EngineCommand::Switch { seq, .. } => {
                assert_eq!(self.switching, None, "two switches at once");
                self.switching = Some(seq);
                self.tell(command);
            }
            EngineCommand::Load(..) | EngineCommand::Refresh { .. } | EngineCommand::Unload(_) => self.tell(command),
            EngineCommand::Kill(run) if self.process.as_ref().is_some_and(|process| process.run == run) => {
                let signal = self.dying_of.take().unwrap_or(9);
                return self.bury(Gone::Signal(signal));
            }
            EngineCommand::Kill(_) => {}
        }
        None
    }

    pub(super) fn write(&mut self, action: FileAction) {
        match action {
            FileAction::Record(record) => self.history.push(record.event),
            FileAction::WatchBoot(watch) => {
                self.boot_watch = watch;
                self.nr_boot_notes += 1;
            }
            FileAction::NoteSettings => self.noted = true,
            FileAction::RestoreSettings => {
                assert!(self.process.is_none(), "restored under a living engine");
                self.noted = false;
            }
            FileAction::ForbidCompaction => self.compaction = false,
            FileAction::RevertSettings(settings) => self.settings = settings,
            FileAction::KeepQuarantine(quarantine) => self.quarantine = quarantine,
            FileAction::Persist(desired) => self.stored = desired,
            FileAction::KeepLifted(causes) => self.lifted = causes,
            FileAction::StoreAgain => {}
        }
    }

    fn send(&mut self, action: BusAction) -> Vec<Event> {
        match action {
            BusAction::Publish(view) => {
                assert_ne!(self.shown.as_ref(), Some(&*view), "published without a change");
                self.shown = Some(*view);
            }
            BusAction::TellExit(fault) => self.exits.push(fault.reason),
            BusAction::TellReleased { holder, cookie } => self.released.push((holder, cookie)),
            BusAction::HoldProfile(hold) => return self.hold_profile(hold),
            BusAction::Watch(peer) => assert!(self.watched.insert(peer), "watched twice"),
            BusAction::Unwatch(peer) => assert!(self.watched.remove(&peer), "not watched"),
        }
        Vec::new()
    }

    fn tell(&mut self, command: EngineCommand) {
        self.process.as_mut().expect("nobody to tell").to_do.push_back(command);
    }

    /// Everyone means well for a while.
    pub(super) fn calm_down(&mut self) {
        for _ in 0..200 {
            self.engine_acts();
            self.wait(SECOND / 5);
            let kernel = self.kernel.clone();
            self.happen(Event::Kernel(kernel));
            self.check();
        }
    }
}
