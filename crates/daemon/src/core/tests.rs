//! Random histories against a small model of engine, kernel and clients; invariants after every event.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use scherzo_api::Error;
use scherzo_api::types::{Mode, Reason, State as Shown};
use scherzo_wire::layout::WIRE_VERSION;
use scherzo_wire::message::{ExitKind, FailKind};

use super::phase::{Loaded, Phase};
use super::*;

const OURS: &str = "scherzo_test";
const SECOND: Duration = Duration::from_secs(1);

/// What may happen next.
#[derive(Clone, Debug)]
enum Op {
    Ask(u8, Request),
    Power(PowerEvent),
    Configure(u32, bool),
    PeerGone(u8),
    EngineActs,
    EngineFails(FailKind),
    EngineEnds(ExitKind),
    EngineBabbles,
    EngineHangsUp,
    EngineIsKilled,
    ForeignComes,
    ForeignGoes,
    Degrade(bool),
    Wait(u32),
    Shutdown,
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        3 => any::<bool>().prop_map(Request::SetEnabled),
        2 => (0usize..4).prop_map(|mode| Request::SetMode(RequestedMode::ALL[mode])),
        1 => any::<bool>().prop_map(Request::SetPreemption),
        1 => Just(Request::GetStats),
        1 => Just(Request::GetWaitHistogram),
        1 => Just(Request::Subscribe),
        1 => Just(Request::Unsubscribe),
        2 => (0usize..3).prop_map(|mode| Request::HoldMode(hold(Mode::ALL[mode]))),
        1 => (1u32..6).prop_map(Request::ReleaseMode),
    ]
}

fn hold(mode: Mode) -> HoldRequest {
    HoldRequest { mode, reason: "a test".into(), application: "org.example.Test".into() }
}

fn power() -> impl Strategy<Value = PowerEvent> {
    prop_oneof![
        3 => any::<bool>().prop_map(|on| PowerEvent::Source(Some(if on { Source::Battery } else { Source::Mains }))),
        1 => Just(PowerEvent::Source(None)),
        1 => any::<bool>().prop_map(PowerEvent::BatteryLow),
        2 => proptest::sample::select(&["power-saver", "balanced", "odd"][..])
            .prop_map(|name| PowerEvent::Profile(Some(name.into()))),
        1 => Just(PowerEvent::Profile(None)),
        1 => Just(PowerEvent::Resumed),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let fails = prop_oneof![
        Just(FailKind::NotSupported),
        Just(FailKind::MalformedBtf),
        Just(FailKind::Permission),
        Just(FailKind::Conflict),
        Just(FailKind::Other),
    ];
    let exits =
        prop_oneof![Just(ExitKind::Unloaded), Just(ExitKind::Kernel), Just(ExitKind::Error), Just(ExitKind::Stall)];
    prop_oneof![
        12 => (0u8..3, requests()).prop_map(|(peer, request)| Op::Ask(peer, request)),
        4 => power().prop_map(Op::Power),
        1 => (5u32..8, any::<bool>()).prop_map(|(starvation_ms, holds)| Op::Configure(starvation_ms, holds)),
        1 => (0u8..3).prop_map(Op::PeerGone),
        12 => Just(Op::EngineActs),
        1 => fails.prop_map(Op::EngineFails),
        1 => exits.prop_map(Op::EngineEnds),
        1 => Just(Op::EngineBabbles),
        1 => Just(Op::EngineHangsUp),
        2 => Just(Op::EngineIsKilled),
        1 => Just(Op::ForeignComes),
        1 => Just(Op::ForeignGoes),
        1 => any::<bool>().prop_map(Op::Degrade),
        6 => (0u32..30_000).prop_map(Op::Wait),
        1 => Just(Op::Shutdown),
    ]
}

/// A pretended engine process.
#[derive(Debug)]
struct Process {
    run: Run,
    greeted: bool,
    loaded: bool,
    to_do: VecDeque<Action>,
}

/// Everything around the core.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact of its own.
struct World {
    state: State,
    now: Time,
    process: Option<Process>,
    kernel: Kernel,
    degraded: bool,
    unanswered: BTreeSet<RequestId>,
    answers: Vec<(RequestId, Result<(), Error>)>,
    nr_requests: u64,
    shown: Option<Published>,
    stored: Wish,
    noted: bool,
    switching: Option<u32>,
    watched: BTreeSet<String>,
    on_watch: bool,
    exits: Vec<Reason>,
    history: Vec<HistoryEvent>,
    released: Vec<(String, u32)>,
    ended: bool,
}

impl World {
    fn new(wish: Wish, kernel: Kernel) -> Self {
        Self::boot(wish, kernel, Boot::default())
    }

    fn boot(wish: Wish, kernel: Kernel, boot: Boot) -> Self {
        let (state, actions) = State::new(wish, Settings::default(), kernel.clone(), false, boot);
        let mut world = Self {
            state,
            now: Time::ZERO,
            process: None,
            kernel,
            degraded: false,
            unanswered: BTreeSet::new(),
            answers: Vec::new(),
            nr_requests: 0,
            shown: None,
            stored: wish,
            noted: false,
            switching: None,
            watched: BTreeSet::new(),
            on_watch: false,
            exits: Vec::new(),
            history: Vec::new(),
            released: Vec::new(),
            ended: false,
        };
        world.perform(actions);
        world
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Ask(peer, request) => drop(self.ask_as(peer, request)),
            Op::Configure(starvation_ms, holds) => {
                let mut settings = Settings::default();
                settings.tunables.starvation_ms = starvation_ms;
                settings.rules.holds = holds;
                self.happen(Event::Settings { settings, by: None });
            }
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
                    self.kernel = Kernel::Idle;
                }
                self.engine_says(EngineEvent::Exited { kind, code: 1, text: "so".into() });
            }
            Op::EngineBabbles => self.engine_says(EngineEvent::Garbled("?".into())),
            Op::EngineHangsUp => self.engine_says(EngineEvent::HungUp),
            Op::EngineIsKilled => self.process_ends(Gone::Signal(9)),
            Op::ForeignComes if self.kernel == Kernel::Idle => self.kernel = Kernel::Loaded { ops: "lavd".into() },
            Op::ForeignGoes if self.kernel.foreign_ops().is_some() => self.kernel = Kernel::Idle,
            Op::ForeignComes | Op::ForeignGoes => {}
            Op::Degrade(degraded) => self.degraded = degraded,
            Op::Wait(ms) => self.wait(Duration::from_millis(ms.into())),
            Op::Shutdown => self.happen(Event::Shutdown),
        }
        let kernel = self.kernel.clone();
        self.happen(Event::Kernel(kernel));
        self.check();
    }

    fn ask(&mut self, request: Request) -> RequestId {
        self.ask_as(0, request)
    }

    fn ask_as(&mut self, peer: u8, request: Request) -> RequestId {
        let caller = Caller { name: format!(":1.{peer}"), uid: Some(1000 + u32::from(peer)) };
        let id = RequestId(self.nr_requests);
        self.nr_requests += 1;
        self.unanswered.insert(id);
        self.happen(Event::Request { id, caller, request });
        id
    }

    fn answer(&self, id: RequestId) -> Option<&Result<(), Error>> {
        self.answers.iter().find(|(answered, _)| *answered == id).map(|(_, result)| result)
    }

    fn engine_says(&mut self, event: EngineEvent) {
        if let Some(run) = self.process.as_ref().map(|process| process.run) {
            self.happen(Event::Engine { run, event });
        }
    }

    /// A well-meaning engine takes its next step.
    fn engine_acts(&mut self) {
        let Some(process) = &mut self.process else { return };
        if !process.greeted {
            process.greeted = true;
            return self.engine_says(EngineEvent::Hello { wire_version: WIRE_VERSION });
        }
        match process.to_do.pop_front() {
            Some(Action::Load(..)) if self.kernel == Kernel::Idle => {
                process.loaded = true;
                self.kernel = Kernel::Loaded { ops: OURS.into() };
                self.engine_says(EngineEvent::Loaded);
            }
            Some(Action::Load(..)) => {
                self.engine_says(EngineEvent::Failed { kind: FailKind::Conflict, text: "taken".into() });
                self.process_ends(Gone::Code(1));
            }
            Some(Action::Switch { seq, .. }) => {
                self.switching = None;
                self.engine_says(EngineEvent::Done { seq });
            }
            Some(Action::Refresh { seq, .. }) => self.engine_says(EngineEvent::Done { seq }),
            Some(Action::Unload(_)) => {
                self.engine_says(EngineEvent::Exited { kind: ExitKind::Unloaded, code: 0, text: String::new() });
                self.process_ends(Gone::Code(0));
            }
            _ => {}
        }
    }

    fn process_ends(&mut self, how: Gone) {
        if let Some(event) = self.bury(how) {
            self.happen(event);
        }
    }

    fn bury(&mut self, how: Gone) -> Option<Event> {
        let process = self.process.take()?;
        if process.loaded && self.kernel.has_ours() {
            self.kernel = Kernel::Idle;
        }
        self.switching = None;
        Some(Event::Engine { run: process.run, event: EngineEvent::Gone(how) })
    }

    /// Lets time pass, waking the core whenever it wants.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.state.next_wakeup().filter(|at| *at <= end) {
            self.now = at;
            self.happen(Event::Tick);
        }
        self.now = end;
        self.happen(Event::Tick);
    }

    fn happen(&mut self, event: Event) {
        let actions = self.state.step(self.now, event);
        self.perform(actions);
    }

    /// As the shell does it: what follows from an action comes after the actions that were decided before.
    fn perform(&mut self, actions: Vec<Action>) {
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            assert!(!self.ended, "after the end: {action:?}");
            let follows = self.perform_one(action);
            queue.extend(follows.into_iter().flat_map(|event| self.state.step(self.now, event)));
        }
    }

    fn perform_one(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Reply { id, result } => {
                assert!(self.unanswered.remove(&id), "answered twice: {id:?}");
                self.answers.push((id, result));
            }
            Action::ReplyHistory { id, .. }
            | Action::ReplyHold { id, .. }
            | Action::ReplyStats(id)
            | Action::ReplyHistogram(id) => {
                assert!(self.unanswered.remove(&id), "answered twice: {id:?}");
                self.answers.push((id, Ok(())));
            }
            Action::WatchBoot(on_watch) => self.on_watch = on_watch,
            Action::NoteSettings => self.noted = true,
            Action::RestoreSettings => {
                assert!(self.process.is_none(), "restored under a living engine");
                self.noted = false;
            }
            Action::Spawn(run) => {
                assert!(self.on_watch, "an unclean boot would not be noticed");
                assert!(self.process.is_none(), "two engines");
                assert!(self.noted, "nothing noted");
                assert!(self.state.wish.enabled, "not wanted");
                self.process = Some(Process { run, greeted: false, loaded: false, to_do: VecDeque::new() });
            }
            Action::Switch { seq, .. } => {
                assert_eq!(self.switching, None, "two switches at once");
                self.switching = Some(seq);
                self.tell(action);
            }
            Action::Load(..) | Action::Refresh { .. } | Action::Unload(_) => self.tell(action),
            Action::Kill(run) => {
                if self.process.as_ref().is_some_and(|process| process.run == run) {
                    return self.bury(Gone::Signal(9));
                }
            }
            Action::ReadKernel => return Some(Event::Kernel(self.kernel.clone())),
            Action::ReadHealth => return Some(Event::Health { degraded: self.degraded }),
            Action::Persist(wish) => self.stored = wish,
            Action::Publish(view) => {
                assert_ne!(self.shown.as_ref(), Some(&view), "published without a change");
                self.shown = Some(view);
            }
            Action::TellExit(fault) => self.exits.push(fault.reason),
            Action::Record(record) => self.history.push(record.event),
            Action::TellReleased { holder, cookie } => self.released.push((holder, cookie)),
            Action::Watch(peer) => assert!(self.watched.insert(peer), "watched twice"),
            Action::Unwatch(peer) => assert!(self.watched.remove(&peer), "not watched"),
            Action::SendStats(peers) => {
                assert!(!peers.is_empty() && peers.iter().all(|peer| self.watched.contains(peer)));
            }
            Action::Exit => {
                assert!(self.process.is_none() && self.unanswered.is_empty());
                self.ended = true;
            }
        }
        None
    }

    fn tell(&mut self, action: Action) {
        self.process.as_mut().expect("nobody to tell").to_do.push_back(action);
    }

    fn check(&self) {
        let view = self.state.view();
        assert_eq!(self.shown.as_ref(), Some(&view), "clients see something else");
        let claims_to_run = matches!(view.state, Shown::Running | Shown::Degraded);
        assert!(!claims_to_run || self.state.kernel.has_ours(), "{view:?} but {:?}", self.state.kernel);
        assert!(view.state != Shown::Stopped || !view.enabled, "stopped although wanted");
        assert!(view.state != Shown::Foreign || !view.kernel_ops.is_empty(), "a foreign scheduler without a name");
        assert_eq!(self.noted, !matches!(self.state.phase, Phase::Idle), "settings are noted while they may differ");
        assert_eq!(view.requested_mode, self.stored.mode, "the choice was not stored");
        assert!(view.enabled || !self.stored.enabled, "stored as on");
        self.check_arbiter(&view);
        assert!(!self.on_watch || !matches!(self.state.phase, Phase::Idle), "nothing is loaded, so all is well");
        let wakeup = self.state.next_wakeup();
        assert!(wakeup.is_none_or(|at| at > self.now), "a wake-up in the past");
        assert!(self.unanswered.is_empty() || wakeup.is_some(), "waiting for ever");
    }

    fn check_arbiter(&self, view: &Published) {
        let Decision { choice, why } = self.state.decision();
        let modes: Vec<_> = view.holds.iter().map(|hold| hold.wanted.mode).collect();
        if let RequestedMode::Mode(chosen) = view.requested_mode {
            assert_eq!((choice.mode, why.reason), (chosen, Reason::Choice), "the person's choice counts first");
        } else if !self.state.settings.rules.holds {
            assert_ne!(why.reason, Reason::Hold, "holds do not count");
        } else if modes.contains(&Mode::LowPower) {
            assert_eq!(choice.mode, Mode::LowPower, "low power beats other holds");
        } else if let Some(newest) = modes.last() {
            assert!(choice.mode == *newest || why.reason == Reason::BatteryLow, "the newest hold counts");
        }
        let holders: BTreeSet<_> = view.holds.iter().map(|hold| &hold.holder.name).collect();
        assert!(holders.iter().all(|holder| self.watched.contains(*holder)), "a hold that would outlive its holder");
        if let Phase::Loaded(Loaded { applied, switching: None, .. }) = &self.state.phase {
            assert_eq!(applied.decision, self.state.decision(), "the engine does something else");
        }
    }

    /// Everyone means well for a while.
    fn calm_down(&mut self) {
        for _ in 0..200 {
            self.engine_acts();
            self.wait(SECOND / 5);
            let kernel = self.kernel.clone();
            self.happen(Event::Kernel(kernel));
            self.check();
        }
    }
}

proptest! {
    #[test]
    fn any_history_keeps_the_invariants(enabled: bool, ops in proptest::collection::vec(ops(), 0..120)) {
        let mut world = World::new(Wish { enabled, ..Wish::default() }, Kernel::Idle);
        for op in ops {
            world.apply(op);
            if world.ended {
                return Ok(());
            }
        }
        world.degraded = false;
        world.apply(Op::ForeignGoes);
        world.calm_down();
        prop_assert!(world.unanswered.is_empty());
        if !world.ended {
            let enabling = world.ask(Request::SetEnabled(true));
            world.calm_down();
            prop_assert_eq!(world.answer(enabling), Some(&Ok(())));
            prop_assert_eq!(world.state.view().state, Shown::Running);
            prop_assert!(world.stored.enabled);
            world.apply(Op::Shutdown);
            world.calm_down();
        }
        prop_assert!(world.ended || world.process.is_none());
    }

    #[test]
    fn a_refusal_changes_nothing(ops in proptest::collection::vec(ops(), 0..60), request in requests()) {
        let mut world = World::new(Wish::default(), Kernel::Idle);
        for op in ops {
            world.apply(op);
            if world.ended {
                return Ok(());
            }
        }
        let (before, stored) = (world.state.view(), world.stored);
        let id = world.ask(request);
        if let Some(Err(Error::Conflict(_) | Error::NotSupported(_) | Error::LimitReached(_))) = world.answer(id) {
            prop_assert_eq!(world.state.view(), before);
            prop_assert_eq!(world.stored, stored);
        }
    }
}

fn running() -> World {
    let mut world = World::new(Wish { enabled: true, ..Wish::default() }, Kernel::Idle);
    world.calm_down();
    assert_eq!(world.state.view().state, Shown::Running);
    world
}

#[test]
fn a_wish_is_fulfilled_at_the_start() {
    assert_eq!(running().state.view().why.reason, Reason::Default);
}

#[test]
fn nothing_is_answered_before_the_kernel_agrees() {
    let mut world = World::new(Wish::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    world.engine_acts();
    assert_eq!((world.answer(id), world.state.view().state), (None, Shown::Starting));
    world.engine_says(EngineEvent::Loaded);
    assert_eq!(world.answer(id), None, "the engine alone does not count");
    world.kernel = Kernel::Loaded { ops: OURS.into() };
    world.wait(SECOND);
    assert_eq!(world.answer(id), Some(&Ok(())));
    assert!(world.stored.enabled);
}

#[test]
fn a_killed_engine_is_back_within_two_seconds() {
    let mut world = running();
    world.apply(Op::EngineIsKilled);
    let view = world.state.view();
    assert_eq!((view.state, view.why.reason), (Shown::Fallback, Reason::EngineKilled));
    assert!(view.last_error.contains("signal 9"), "{}", view.last_error);
    assert_eq!(world.exits, [Reason::EngineKilled]);
    world.wait(SECOND);
    for _ in 0..3 {
        world.engine_acts();
    }
    assert_eq!(world.state.view().state, Shown::Running);
}

#[test]
fn six_deaths_in_a_row_are_enough_until_someone_asks() {
    let mut world = running();
    for _ in 0..6 {
        world.calm_down();
        world.wait(SECOND * 60);
        world.calm_down();
        world.apply(Op::EngineIsKilled);
    }
    world.wait(SECOND * 600);
    assert!(world.process.is_none());
    assert!(world.state.view().last_error.contains("until you enable"), "{}", world.state.view().last_error);
    let id = world.ask(Request::SetEnabled(true));
    world.calm_down();
    assert_eq!(world.answer(id), Some(&Ok(())));
}

#[test]
fn a_first_attempt_that_fails_leaves_it_off() {
    let mut world = World::new(Wish::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    world.apply(Op::EngineFails(FailKind::MalformedBtf));
    world.apply(Op::EngineIsKilled);
    assert!(matches!(world.answer(id), Some(Err(Error::NotSupported(_)))), "{:?}", world.answer(id));
    let view = world.state.view();
    assert_eq!((view.state, view.enabled), (Shown::Unsupported, false));
    assert!(!world.stored.enabled);
    world.wait(SECOND * 120);
    assert!(world.process.is_none(), "not tried again");
}

#[test]
fn a_foreign_scheduler_is_named_and_left_alone() {
    let mut world = World::new(Wish::default(), Kernel::Loaded { ops: "lavd".into() });
    let id = world.ask(Request::SetEnabled(true));
    let Some(Err(Error::Conflict(sentence))) = world.answer(id) else { panic!("{:?}", world.answer(id)) };
    assert!(sentence.contains("lavd"));
    assert_eq!(world.state.view().state, Shown::Foreign);
    assert!(!world.state.view().enabled && world.process.is_none());
}

#[test]
fn someone_who_unloads_through_the_kernel_is_obeyed() {
    let mut world = running();
    world.apply(Op::EngineEnds(ExitKind::Kernel));
    world.apply(Op::EngineIsKilled);
    world.wait(SECOND * 600);
    assert_eq!(world.state.view().why.reason, Reason::KernelUnloaded);
    assert!(world.process.is_none());
}

#[test]
fn a_hanging_engine_is_given_up_in_time() {
    let mut world = World::new(Wish::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    world.wait(SECOND * 19);
    assert!(matches!(world.answer(id), Some(Err(Error::LoadFailed(_)))), "{:?}", world.answer(id));
}

#[test]
fn a_switch_is_answered_by_the_engine_or_not_at_all() {
    let mut world = running();
    let id = world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    assert_eq!((world.answer(id), world.state.view().choice.mode), (None, Mode::Interactive));
    world.engine_acts();
    assert_eq!((world.answer(id), world.state.view().choice.mode), (Some(&Ok(())), Mode::Fifo));
    let again = world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    assert_eq!(world.answer(again), Some(&Ok(())), "nothing to do");
    let stuck = world.ask(Request::SetMode(RequestedMode::Auto));
    world.wait(SECOND * 6);
    assert!(matches!(world.answer(stuck), Some(Err(Error::Busy(_)))));
    world.engine_acts();
    assert_eq!(world.state.view().choice.mode, Mode::Interactive, "it switches once it is back");
}

#[test]
fn degraded_shows_and_passes() {
    let mut world = running();
    world.degraded = true;
    world.wait(SECOND);
    assert_eq!(world.state.view().state, Shown::Degraded);
    world.degraded = false;
    world.wait(SECOND);
    assert_eq!(world.state.view().state, Shown::Running);
}

#[test]
fn a_leftover_scheduler_is_waited_for() {
    let mut world = World::new(Wish { enabled: true, ..Wish::default() }, Kernel::Loaded { ops: OURS.into() });
    world.noted = true;
    world.wait(SECOND);
    assert!(world.process.is_none());
    world.kernel = Kernel::Idle;
    world.wait(SECOND);
    assert!(world.process.is_some());
}

#[test]
fn statistics_are_asked_for_once_however_many_ask() {
    let mut world = running();
    let first = world.ask(Request::GetStats);
    let second = world.ask(Request::GetStats);
    assert_eq!(world.process.as_ref().unwrap().to_do.len(), 1);
    assert_eq!(world.answer(first), None);
    world.engine_acts();
    assert!(world.answer(first).is_some() && world.answer(second).is_some());
}

#[test]
fn statistics_of_a_silent_engine_come_all_the_same() {
    let mut world = running();
    let id = world.ask(Request::GetStats);
    world.wait(SECOND);
    assert_eq!(world.answer(id), Some(&Ok(())));
}

#[test]
fn other_versions_are_refused() {
    let mut world = World::new(Wish::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    world.engine_says(EngineEvent::Hello { wire_version: WIRE_VERSION + 1 });
    let Some(Err(Error::LoadFailed(sentence))) = world.answer(id) else { panic!("{:?}", world.answer(id)) };
    assert!(sentence.contains("versions"), "{sentence}");
}

fn decided(world: &World) -> (Mode, Reason) {
    let view = world.state.view();
    (view.choice.mode, view.why.reason)
}

#[test]
fn after_a_boot_loading_waits_for_a_person_or_a_while() {
    let wish = Wish { enabled: true, ..Wish::default() };
    let boot = Boot { first_start: true, nr_unclean: 1 };
    let mut world = World::boot(wish, Kernel::Idle, boot);
    world.wait(SECOND * 29);
    let view = world.state.view();
    assert_eq!((view.state, view.why.reason), (Shown::Starting, Reason::BootDelay));
    assert!(world.process.is_none());
    world.wait(SECOND);
    assert!(world.process.is_some());

    let mut world = World::boot(wish, Kernel::Idle, boot);
    world.happen(Event::Session);
    assert!(world.process.is_some(), "someone has logged in");
    let mut world = World::boot(wish, Kernel::Idle, boot);
    world.ask(Request::SetEnabled(true));
    assert!(world.process.is_some(), "someone has asked");
}

#[test]
fn two_unclean_boots_are_enough_until_someone_asks() {
    let wish = Wish { enabled: true, ..Wish::default() };
    let mut world = World::boot(wish, Kernel::Idle, Boot { first_start: true, nr_unclean: 2 });
    world.happen(Event::Session);
    world.wait(SECOND * 600);
    let view = world.state.view();
    assert_eq!((view.state, view.why.reason), (Shown::Fallback, Reason::UncleanBoots));
    assert!(world.process.is_none());
    world.ask(Request::SetEnabled(true));
    world.calm_down();
    assert_eq!(world.state.view().state, Shown::Running);
    assert!(world.on_watch);
    world.wait(SECOND * 301);
    assert!(!world.on_watch, "all is well");
}

#[test]
fn new_tunables_load_anew_and_new_rules_do_not() {
    let mut world = running();
    world.apply(Op::Configure(100, false));
    assert!(world.process.as_ref().is_some_and(|process| process.run == Run(1)), "rules change nothing that is loaded");
    world.apply(Op::Configure(7, false));
    world.calm_down();
    assert_eq!(world.state.view().state, Shown::Running);
    assert_eq!(world.process.as_ref().unwrap().run, Run(2));
    assert!(world.exits.is_empty());
}

#[test]
fn what_happens_is_remembered() {
    use HistoryEvent::{Ejected, Loaded, Mode as NewMode, NotLoaded, TurnedOff, TurnedOn, Unloaded};
    let mut world = World::new(Wish::default(), Kernel::Idle);
    world.ask(Request::SetEnabled(true));
    world.ask(Request::SetEnabled(true));
    world.calm_down();
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    world.apply(Op::EngineIsKilled);
    world.wait(SECOND * 2);
    world.apply(Op::EngineFails(FailKind::Other));
    world.apply(Op::EngineIsKilled);
    world.calm_down();
    world.ask(Request::SetEnabled(false));
    world.calm_down();
    let expected = [TurnedOn, Loaded, NewMode, Ejected, NotLoaded, Loaded, TurnedOff, Unloaded];
    assert_eq!(world.history, expected);
}

#[test]
fn holds_end_with_their_holder() {
    let mut world = running();
    world.ask_as(1, Request::HoldMode(hold(Mode::LowPower)));
    world.ask_as(2, Request::HoldMode(hold(Mode::Fifo)));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::LowPower, Reason::Hold));
    world.apply(Op::PeerGone(1));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Hold));
    world.apply(Op::PeerGone(2));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::Interactive, Reason::Default));
    assert!(world.released.is_empty() && world.watched.is_empty());
}

#[test]
fn a_choice_releases_holds_and_tells_their_holders() {
    let mut world = running();
    world.ask_as(1, Request::HoldMode(hold(Mode::LowPower)));
    world.ask_as(2, Request::HoldMode(hold(Mode::LowPower)));
    world.ask(Request::ReleaseMode(1));
    assert_eq!(world.released, [(":1.1".to_owned(), 1)], "someone else released it");
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    assert_eq!(world.released.last(), Some(&(":1.2".to_owned(), 2)));
    let gone = world.ask(Request::ReleaseMode(2));
    assert!(matches!(world.answer(gone), Some(Err(Error::NoSuchHold(_)))));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Choice));
    assert_eq!(world.stored.chosen_by, Some(1000));
    world.ask(Request::SetMode(RequestedMode::Auto));
    assert_eq!(world.stored.chosen_by, None);
}

#[test]
fn unplugging_ends_a_choice_within_a_second() {
    let mut world = running();
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Mains))));
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Choice));
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Battery))));
    world.wait(SECOND / 2);
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::LowPower, Reason::OnBattery));
    assert_eq!(world.state.view().requested_mode, RequestedMode::Auto);
    assert!(world.state.view().on_battery);
}
