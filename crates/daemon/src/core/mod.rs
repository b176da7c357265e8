//! The service's decisions, as a pure state machine: [`State::step`] takes what happened and when, and returns what
//! to do. No clock, no bus, no process, no file: the shell around it has those.
//!
//! ```text
//!            wish on, kernel idle,                 engine says so,
//!            retry time reached                    kernel agrees
//!   Idle ───────────────────────────▶ Loading ───────────────────────▶ Loaded
//!    ▲                                   │                                │ wish off, ejected, killed
//!    │ kernel has let go                 ▼                                ▼
//!   Draining ◀───────────────────────── Ending ◀──────────────────────────┘
//!                process gone
//! ```
//!
//! Three habits keep it honest. A step first takes the event, then *settles*: deadlines that have passed, then
//! whatever still differs between wish and fact, then answers, then what clients see. What clients see is computed
//! from the state, never stored by hand. And an engine is started only when no other one is left.

mod arbiter;
mod backoff;
mod event;
mod lifecycle;
mod phase;
mod request;
#[cfg(test)]
mod tests;
mod view;

pub use event::{Action, Choice, EngineEvent, Event, Fault, Gone, Kernel, Request, RequestId, Run, Time, Wish};
pub use view::Published;

use std::collections::BTreeSet;

use arbiter::Decision;
use backoff::Backoff;
use phase::Phase;
use request::{Refresh, Waiter};

/// Whether the service is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    Asked,
    Done,
}

/// Everything the service knows.
#[derive(Clone, Debug)]
pub struct State {
    now: Time,
    actions: Vec<Action>,
    answers: Vec<Action>,
    wish: Wish,
    /// The wish to be on has not been fulfilled once: if that fails, it is dropped, as if never asked.
    on_trial: bool,
    persisted: Wish,
    kernel: Kernel,
    phase: Phase,
    run: Run,
    next_seq: u32,
    /// Grows whenever the decision changes, so that an acknowledgement can be matched with who waits for it.
    version: u64,
    backoff: Backoff,
    /// Why nothing runs although it should, or cannot.
    fault: Option<Fault>,
    last_error: String,
    waiters: Vec<Waiter>,
    refresh: Refresh,
    subscribers: BTreeSet<String>,
    /// Settings are noted and not restored yet.
    noted: bool,
    leaving: Leaving,
    published: Option<Published>,
}

impl State {
    /// The state at the start of the service, at time zero: what was wished last time, what the kernel says, and
    /// whether an earlier run left a note of settings to restore.
    #[must_use]
    pub fn new(wish: Wish, kernel: Kernel, noted: bool) -> (Self, Vec<Action>) {
        let mut state = Self {
            now: Time::ZERO,
            actions: Vec::new(),
            answers: Vec::new(),
            wish,
            on_trial: false,
            persisted: wish,
            kernel,
            phase: Phase::Idle,
            run: Run(0),
            next_seq: 0,
            version: 0,
            backoff: Backoff::default(),
            fault: None,
            last_error: String::new(),
            waiters: Vec::new(),
            refresh: Refresh::default(),
            subscribers: BTreeSet::new(),
            noted,
            leaving: Leaving::No,
            published: None,
        };
        state.start();
        state.settle();
        let actions = state.take_actions();
        (state, actions)
    }

    /// Takes what happened at `now`, and says what to do about it.
    pub fn step(&mut self, now: Time, event: Event) -> Vec<Action> {
        self.now = now;
        self.take(event);
        self.settle();
        self.take_actions()
    }

    /// When the next [`Event::Tick`] is due; `None` while nothing depends on time.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        let retry = matches!(self.phase, Phase::Idle) && self.wants_to_run() && self.kernel == Kernel::Idle;
        let retry_at = if retry { self.backoff.retry_at() } else { None };
        let waiters = self.waiters.iter().map(|waiter| waiter.deadline);
        waiters.chain(self.phase.next_wakeup()).chain(retry_at).min()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Kernel(kernel) => self.kernel_says(kernel),
            Event::Health { degraded } => {
                if let Phase::Loaded(loaded) = &mut self.phase {
                    loaded.degraded = degraded;
                }
            }
            Event::Request { id, request } => self.request(id, request),
            Event::Engine { run, event } => {
                if run == self.run && self.phase.has_process() {
                    self.engine(event);
                }
            }
            Event::PeerGone(peer) => {
                self.subscribers.remove(&peer);
            }
            Event::Shutdown if self.leaving == Leaving::No => self.leaving = Leaving::Asked,
            Event::Tick | Event::Shutdown => {}
        }
    }

    fn settle(&mut self) {
        self.expire_phase();
        self.answer();
        self.converge();
        self.answer();
        self.persist();
        self.publish();
    }

    /// Answers come last: whoever is answered finds the new state published and stored.
    fn take_actions(&mut self) -> Vec<Action> {
        let mut actions = std::mem::take(&mut self.actions);
        actions.append(&mut self.answers);
        if self.leaving == Leaving::Asked && matches!(self.phase, Phase::Idle) {
            self.leaving = Leaving::Done;
            actions.push(Action::Exit);
        }
        actions
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn wants_to_run(&self) -> bool {
        self.wish.enabled && self.leaving == Leaving::No
    }

    fn decision(&self) -> Decision {
        arbiter::decide(self.wish)
    }

    /// A loaded scheduler that no engine of ours accounts for.
    fn in_the_way(&self) -> Option<&str> {
        match (&self.kernel, &self.phase) {
            // Even of our own make, if it outlived every limit.
            (Kernel::Loaded { ops }, Phase::Idle) => Some(ops),
            _ => self.kernel.foreign_ops(),
        }
    }

    fn persist(&mut self) {
        let durable = Wish { enabled: self.wish.enabled && !self.on_trial, ..self.wish };
        if durable != self.persisted {
            self.persisted = durable;
            self.act(Action::Persist(durable));
        }
    }

    fn publish(&mut self) {
        let view = self.view();
        if self.published.as_ref() != Some(&view) {
            self.published = Some(view.clone());
            self.act(Action::Publish(view));
        }
    }

    fn next_seq(&mut self) -> u32 {
        self.next_seq = self.next_seq.wrapping_add(1);
        self.next_seq
    }
}
