//! The service's decisions, as a pure state machine: [`Supervisor::step`] takes what happened and when, and returns what
//! to do. No clock, no bus, no process, no file: the shell around it has those.
//!
//! ```text
//!        wanted on, kernel idle,                 engine says so,
//!        retry time reached                      kernel agrees
//!   Idle ───────────────────────────▶ Loading ───────────────────────▶ Loaded
//!    ▲                                   │                                │ wanted off, ejected, killed
//!    │ kernel has let go                 ▼                                ▼
//!   Draining ◀───────────────────────── Ending ◀──────────────────────────┘
//!                process gone
//! ```
//!
//! Three rules hold throughout. A step first takes the event, then *settles*: deadlines that have passed, then whatever
//! still differs between the desired state and the actual one, then answers, then what clients see. What clients see is
//! computed from the state, never stored by hand. And an engine is started only when no other one is left.

mod action;
mod arbiter;
mod backoff;
mod event;
mod foreground;
mod holds;
mod lifecycle;
mod phase;
mod power;
mod quarantine;
mod refusal;
mod request;
pub mod settings;
mod supervision;
#[cfg(test)]
mod tests;
mod unstored;
mod view;

pub use action::{Action, BusAction, EngineCommand, FileAction, Record, Reply};
pub use arbiter::{ProfileModes, Rules};
pub use event::{
    Boot, BootWatch, Caller, Choice, Desired, EngineEvent, Event, Fault, Gone, Kernel, Request, RequestId, Run, Start,
    Time,
};
pub use foreground::{Foreground, ForegroundGroup};
pub use holds::{Hold, HoldRequest, Tie, check_seconds};
pub use power::{PowerEvent, Source};
pub use quarantine::{Build, Quarantine};
pub use refusal::Refusal;
pub use settings::Settings;
pub use unstored::{NotStored, Stored};
pub use view::{LastError, Published};

use std::collections::{BTreeMap, BTreeSet};

use scherzo_catalogue::details::Details;
use scherzo_catalogue::types::{HistoryEvent, Mode, Reason, RequestedMode};

use arbiter::Decision;
use backoff::Backoff;
use foreground::Foregrounds;
use holds::Holds;
use phase::Phase;
use power::Power;
use request::{Refresh, Waiter};
use supervision::Probation;
use unstored::Unstored;

/// After so many system starts that ended badly, nothing is loaded until someone asks.
const MAX_UNCLEAN_BOOTS: u32 = 2;

/// Whether the service is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    Asked,
    Done,
}

/// Everything the service knows.
#[derive(Clone, Debug)]
pub struct Supervisor {
    now: Time,
    actions: Vec<Action>,
    answers: Vec<Action>,
    desired: Desired,
    /// The time that is zero here, in seconds since 1970, by the clock as it is now.
    started_at_s: u64,
    /// When a choice ends that was made before the service was started: by the clock. What is chosen for a time since then lasts for as long,
    /// and the machine's sleep does not count.
    stored_until_s: Option<u64>,
    settings: Settings,
    holds: Holds,
    foregrounds: Foregrounds,
    power: Power,
    /// Since it was turned on it has not been loaded once: if that fails, it is turned off again, as if never asked.
    on_trial: bool,
    persisted: Desired,
    kernel: Kernel,
    /// Why this kernel can load no scheduler, known without having tried.
    unfit: Option<Fault>,
    phase: Phase,
    /// How long the engine has to load that takes the place of one whose preparations did not fit any more: what was left to that one.
    renewal: Option<std::time::Duration>,
    run: Run,
    next_seq: u32,
    /// Grows whenever the decision changes, so that an acknowledgement can be matched with the callers that wait for it.
    version: u64,
    /// The decision that the version is of.
    decided: Decision,
    backoff: Backoff,
    /// What is new, and what it replaced.
    probation: Option<Probation>,
    build: Build,
    /// What is remembered.
    quarantine: Option<Quarantine>,
    /// Nothing is loaded because of how earlier boots have ended.
    distrusted: bool,
    /// The causes of guards that people have lifted since the system started.
    lifted: BTreeSet<Reason>,
    /// Loading waits until then, or for a person to log in or to ask.
    boot_delay: Option<Time>,
    /// If the system goes down now, that may have been our fault.
    boot_watch: BootWatch,
    /// Why nothing runs although it should, or cannot.
    fault: Option<Fault>,
    last_error: LastError,
    waiters: Vec<Waiter>,
    refresh: Refresh,
    /// Clients that are sent statistics, and their users.
    subscribers: BTreeMap<String, Option<u32>>,
    /// Clients whose leaving matters.
    watched: BTreeSet<String>,
    /// Settings are noted and not restored yet.
    noted: bool,
    unstored: Unstored,
    leaving: Leaving,
    published: Option<Published>,
}

impl Supervisor {
    /// The state at the start of the service, at time zero.
    #[must_use]
    pub fn new(start: Start) -> (Self, Vec<Action>) {
        let Start { desired, started_at_s, settings, kernel, unfit, noted, boot, build, quarantine, lifted } = start;
        let mut state = Self {
            now: Time::ZERO,
            actions: Vec::new(),
            answers: Vec::new(),
            desired,
            started_at_s,
            stored_until_s: desired.chosen_until_s,
            settings,
            holds: Holds::default(),
            foregrounds: Foregrounds::default(),
            power: Power::default(),
            on_trial: false,
            persisted: desired,
            kernel,
            unfit,
            phase: Phase::Idle,
            renewal: None,
            run: Run(0),
            next_seq: 0,
            version: 0,
            decided: arbiter::decide(&settings, desired, &Holds::default(), &Power::default()),
            backoff: Backoff::default(),
            probation: None,
            build,
            quarantine: None,
            distrusted: false,
            lifted,
            boot_delay: boot.first_start.then(|| Time::from_secs(settings.boot_delay_s.into())),
            boot_watch: BootWatch::Over,
            fault: None,
            last_error: LastError::default(),
            waiters: Vec::new(),
            refresh: Refresh::default(),
            subscribers: BTreeMap::new(),
            watched: BTreeSet::new(),
            noted,
            unstored: Unstored::default(),
            leaving: Leaving::No,
            published: None,
        };
        state.remember_quarantine(quarantine);
        if boot.nr_unclean >= MAX_UNCLEAN_BOOTS && !state.lifted.contains(&Reason::UncleanBoots) {
            state.distrust();
        }
        state.start();
        state.settle();
        let actions = state.take_actions();
        (state, actions)
    }

    /// Takes what happened at `now`, and says what to do about it: after [`Action::Exit`] nothing.
    pub fn step(&mut self, now: Time, event: Event) -> Vec<Action> {
        if self.leaving == Leaving::Done {
            return Vec::new();
        }
        self.now = now;
        self.take(event);
        self.settle();
        self.take_actions()
    }

    /// When the next [`Event::Tick`] is due; `None` while nothing depends on time.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        if self.leaving == Leaving::Done {
            return None;
        }
        let retry = matches!(self.phase, Phase::Idle) && self.wants_to_run() && self.kernel == Kernel::Idle;
        let retry_at = if retry { self.load_at() } else { None };
        let waiters = self.waiters.iter().map(|waiter| self.due_at(waiter));
        let ends = [self.holds.next_end_s(), self.desired.chosen_until_s].into_iter().flatten();
        let end_at = ends.min().map(|end_s| Time::from_secs(end_s.saturating_sub(self.started_at_s)));
        let others =
            [self.phase.next_wakeup(), self.power.next_wakeup(), self.unstored.next_wakeup(), retry_at, end_at];
        waiters.chain(others.into_iter().flatten()).min()
    }

    /// The time that is zero here, in seconds since 1970, as far as has been said; see [`Event::Clock`].
    #[must_use]
    pub const fn started_at_s(&self) -> u64 {
        self.started_at_s
    }

    /// Whether an engine that ended would be followed by another.
    #[must_use]
    pub fn would_load_again(&self) -> bool {
        self.wants_to_run() && self.load_at().is_some() && self.kernel.foreign_ops().is_none()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Kernel(kernel) => self.kernel_says(kernel),
            Event::Health { degraded, compaction } => self.health(degraded, compaction),
            Event::Request { id, caller, request } => self.request(id, caller, request),
            Event::Engine { run, event } => {
                if run == self.run && self.phase.has_process() {
                    self.engine(event);
                }
            }
            Event::Settings { settings, by } => self.configured(settings, by),
            Event::Session => self.boot_delay = None,
            Event::Power(event) => self.power.take(self.now, event),
            Event::PeerGone(peer) => {
                self.watched.remove(&peer);
                self.subscribers.remove(&peer);
                self.holds.release_of(&peer);
                self.foregrounds.release_of(&peer);
            }
            Event::HoldClosed(cookie) => drop(self.holds.release(cookie)),
            Event::NotStored(files) => self.unstored.take(self.now, files),
            Event::Clock { started_at_s } => self.follow_clock(started_at_s),
            Event::Shutdown if self.leaving == Leaving::No => self.leave(),
            Event::Tick | Event::Shutdown => {}
        }
    }

    fn leave(&mut self) {
        self.leaving = Leaving::Asked;
        if !self.unstored.files().is_empty() {
            self.act(FileAction::StoreAgain);
        }
    }

    fn settle(&mut self) {
        self.expire_phase();
        if self.unstored.is_due(self.now) {
            self.act(FileAction::StoreAgain);
        }
        let source_changed = self.power.settle(self.now);
        self.end_choice(source_changed);
        self.end_holds();
        self.note_decision();
        self.answer();
        self.converge();
        self.drive_profile();
        self.watch_probation();
        self.answer();
        self.watch_peers();
        self.persist();
        self.publish();
    }

    /// Answers come last: a caller that is answered finds the new state published and stored.
    fn take_actions(&mut self) -> Vec<Action> {
        let mut actions = std::mem::take(&mut self.actions);
        actions.append(&mut self.answers);
        if self.leaving == Leaving::Asked && self.phase.is_at_rest() {
            self.leaving = Leaving::Done;
            actions.push(Action::Exit);
        }
        actions
    }

    fn act(&mut self, action: impl Into<Action>) {
        self.actions.push(action.into());
    }

    fn wants_to_run(&self) -> bool {
        self.desired.enabled && self.leaving == Leaving::No
    }

    fn decision(&self) -> Decision {
        self.decision_under(&self.settings, self.desired)
    }

    fn decision_under(&self, settings: &Settings, desired: Desired) -> Decision {
        let mut decision = arbiter::decide(settings, desired, &self.holds, &self.power);
        let foreground = self.foreground_under(settings);
        decision.choice.foreground_cgroup = foreground.map_or(0, |foreground| foreground.group.cgroup);
        decision
    }

    /// What is in front; holds that are ignored have no say in that either.
    fn foreground_under(&self, settings: &Settings) -> Option<&Foreground> {
        self.foregrounds.deciding(self.holds.list().iter().filter(|_| settings.rules.holds))
    }

    fn record(&mut self, event: HistoryEvent, details: Details) {
        self.act(FileAction::Record(Record { event, details }));
    }

    /// Gives a decision that differs from the last one a version of its own, and remembers a new mode or reason.
    fn note_decision(&mut self) {
        let now = self.decision();
        if now == self.decided {
            return;
        }
        let before = std::mem::replace(&mut self.decided, now.clone());
        if now.choice != before.choice {
            self.version += 1;
        }
        if (now.choice.mode, &now.why) != (before.choice.mode, &before.why) {
            let mut details = now.why.to_details();
            details.insert("mode".to_owned(), now.choice.mode.name().into());
            if let Some(hold) = self.holds.deciding().filter(|_| now.why.reason == Reason::Hold) {
                details.insert("application".to_owned(), hold.wanted.application.as_str().into());
            }
            self.record(HistoryEvent::Mode, details);
        }
    }

    /// Holds a frugal power profile while the mode in effect is the frugal one, if that is wanted.
    fn drive_profile(&mut self) {
        let frugal =
            matches!(&self.phase, Phase::Loaded(loaded) if loaded.applied.decision.choice.mode == Mode::LowPower);
        if let Some(hold) = self.power.drive_profile(frugal && self.settings.drive_power_profile) {
            self.act(BusAction::HoldProfile(hold));
        }
    }

    /// When loading may be tried; `None` after giving up, or if it is pointless.
    fn load_at(&self) -> Option<Time> {
        if self.unfit.is_some() {
            return None;
        }
        self.backoff.retry_at().map(|at| at.max(self.boot_delay.unwrap_or_default()))
    }

    /// From loading until all is well, a system that goes down counts as an unclean boot.
    fn watch_boot(&mut self, watch: BootWatch) {
        // Where nothing was watched there is nothing to pause.
        if self.boot_watch != watch && (self.boot_watch, watch) != (BootWatch::Over, BootWatch::Paused) {
            self.boot_watch = watch;
            self.act(FileAction::WatchBoot(watch));
        }
    }

    fn configured(&mut self, settings: Settings, by: Option<Caller>) {
        let (before, desired) = (self.settings, self.desired);
        if settings != before {
            self.settings = settings;
            if settings.tunables.kernel_seat != before.tunables.kernel_seat {
                // The last word counts, whichever way it was said.
                self.desired.seat = None;
            }
            self.put_on_probation(before, desired);
            self.record(HistoryEvent::Configured, by.unwrap_or_default().to_details());
        }
    }

    /// Seconds since 1970.
    fn now_s(&self) -> u64 {
        self.started_at_s.saturating_add(self.now.as_secs())
    }

    /// What was asked for a time has as much of it left as before, and so another end. A choice that was stored keeps its own.
    fn follow_clock(&mut self, started_at_s: u64) {
        let before_s = std::mem::replace(&mut self.started_at_s, started_at_s);
        let moved = |until_s: u64| until_s.saturating_add(started_at_s).saturating_sub(before_s);
        self.holds.move_ends(moved);
        if self.desired.chosen_until_s != self.stored_until_s {
            self.desired.chosen_until_s = self.desired.chosen_until_s.map(moved);
        }
    }

    fn end_holds(&mut self) {
        for hold in self.holds.expire(self.now_s()) {
            self.act(BusAction::TellReleased { holder: hold.holder.name, cookie: hold.cookie });
        }
    }

    /// A choice was made for a time, or for a situation. That may have ended just now, or while the service was not there.
    fn end_choice(&mut self, source_changed: bool) {
        if self.desired.chosen_until_s.is_some_and(|until_s| until_s <= self.now_s()) {
            self.forget_choice();
        }
        let Some(source) = self.power.source().filter(|_| self.desired.mode != RequestedMode::Auto) else { return };
        let another = source_changed || self.desired.chosen_on.is_some_and(|chosen_on| chosen_on != source);
        if another && self.settings.rules.choice_ends_with_source {
            self.forget_choice();
        } else {
            self.desired.chosen_on = Some(source);
        }
    }

    fn forget_choice(&mut self) {
        let none = Desired::default();
        let Desired { mode, chosen_by, chosen_on, chosen_until_s, .. } = none;
        self.desired = Desired { mode, chosen_by, chosen_on, chosen_until_s, ..self.desired };
        self.forget_choice_on_probation();
    }

    /// Watches the clients that would leave something behind, and no others.
    fn watch_peers(&mut self) {
        let tied = self.holds.list().iter().filter(|hold| hold.wanted.tie == Tie::Connection);
        let holders = tied.map(|hold| hold.holder.name.clone());
        let needed: BTreeSet<String> =
            self.subscribers.keys().chain(self.foregrounds.callers()).cloned().chain(holders).collect();
        let before = std::mem::replace(&mut self.watched, needed.clone());
        for peer in needed.difference(&before) {
            self.act(BusAction::Watch(peer.clone()));
        }
        for peer in before.difference(&needed) {
            self.act(BusAction::Unwatch(peer.clone()));
        }
    }

    fn persist(&mut self) {
        let durable = Desired { enabled: self.desired.enabled && !self.on_trial, ..self.desired };
        if durable != self.persisted {
            self.persisted = durable;
            self.act(FileAction::Persist(durable));
        }
    }

    fn publish(&mut self) {
        let view = self.view();
        if self.published.as_ref() != Some(&view) {
            self.published = Some(view.clone());
            self.act(BusAction::Publish(Box::new(view)));
        }
    }

    fn next_seq(&mut self) -> u32 {
        self.next_seq = self.next_seq.wrapping_add(1);
        self.next_seq
    }
}
