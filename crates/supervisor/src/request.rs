//! What clients ask for, and which of them still wait for an answer.

use std::time::Duration;

use crate::Refusal;
use scherzo_catalogue::gettext_noop;
use scherzo_catalogue::types::{HistoryEvent, Reason, RequestedMode};
use scherzo_model::Seat;

use super::action::{Action, BusAction, EngineCommand, Reply};
use super::event::{Caller, Desired, Fault, Kernel, Request, RequestId, Time};
use super::holds::{self, HoldRequest};
use super::phase::{Loaded, PROBE_FOR_SUBSCRIBERS, Phase};
use super::{Leaving, Supervisor};

/// Clients give up after 25 s; they get an answer before.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// An engine that is known not to answer is not waited for any longer. Otherwise a busy machine may take longer to
/// switch.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);
/// Statistics are answered after this, however old the engine's own counters are.
const REFRESH_LIMIT: Duration = Duration::from_millis(500);
/// The engine is not asked to refresh more often, however often clients ask.
const REFRESH_EVERY: Duration = Duration::from_millis(100);
const MAX_WAITERS: usize = 256;
/// Everybody may ask for statistics: that must not keep anybody from changing something.
const MAX_STATISTICS_WAITERS: usize = 128;
const MAX_SUBSCRIBERS: usize = 256;
/// Of these at most so many for one user's programs together.
const MAX_STATISTICS_WAITERS_PER_USER: usize = 32;
const MAX_SUBSCRIBERS_PER_USER: usize = 32;

/// A request without an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Waiter {
    pub(super) id: RequestId,
    pub(super) want: Want,
    pub(super) asked_at: Time,
    pub(super) deadline: Time,
}

/// What it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Running,
    Stopped,
    /// A decision of this version or later is in effect.
    Decision(u64),
    /// Statistics, for a program of this user.
    Statistics(Option<u32>),
}

/// Bringing the engine's own counters up to date.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Refresh {
    asked: Option<u32>,
    done_at: Option<Time>,
}

/// Whether a request can be answered by now.
enum Progress {
    Wait,
    Answer(Result<(), Refusal>),
    Statistics,
}

impl Supervisor {
    pub(super) fn request(&mut self, id: RequestId, caller: Caller, request: Request) {
        if let Err(error) = self.admit(id, caller, request) {
            self.conclude(id, Err(error));
        }
    }

    /// Refuses without having changed anything, or takes the request.
    fn admit(&mut self, id: RequestId, caller: Caller, request: Request) -> Result<(), Refusal> {
        if self.leaving != Leaving::No {
            return Err(stopping());
        }
        self.check_waiters(&request, caller.uid)?;
        match request {
            Request::SetEnabled(true) if self.lifting_needs_more() => return Err(has_failed_again()),
            Request::SetEnabled(true) | Request::TurnOnAgain => self.enable(id, &caller)?,
            Request::SetEnabled(false) => self.disable(id, &caller),
            Request::SetMode(mode) => self.choose_mode(id, caller.uid, mode, None),
            Request::SetModeFor(mode, seconds) => {
                holds::check_seconds(seconds)?;
                let until_s = holds::end_s(self.now_s(), seconds);
                self.choose_mode(id, caller.uid, RequestedMode::Mode(mode), Some(until_s));
            }
            Request::SetPreemption(preemption) => self.choose(id, Desired { preemption, ..self.desired }),
            Request::SetEngine(seat) => self.choose_seat(id, &caller, seat)?,
            Request::SetForeground(group) => {
                self.foregrounds.set(caller, group)?;
                self.wait_for_decision(id);
            }
            Request::SetHoldForeground(cookie, group) => {
                let hold = self.holds.own(&caller, cookie)?;
                hold.foreground = group.map(|group| self.foregrounds.name(caller, group));
                self.wait_for_decision(id);
            }
            Request::GetStats => {
                self.loaded()?;
                self.wait(id, Want::Statistics(caller.uid), REFRESH_LIMIT);
                self.act(Action::ReadHealth);
                self.ask_to_refresh();
            }
            Request::GetWaitHistogram => {
                self.loaded()?;
                self.reply(id, Reply::Histograms);
            }
            Request::Subscribe => {
                self.check_subscribers(&caller)?;
                self.subscribers.insert(caller.name, caller.uid);
                if let Phase::Loaded(loaded) = &mut self.phase {
                    loaded.probe_at = loaded.probe_at.min(self.now + PROBE_FOR_SUBSCRIBERS);
                }
                self.conclude(id, Ok(()));
            }
            Request::Unsubscribe => {
                self.subscribers.remove(&caller.name);
                self.conclude(id, Ok(()));
            }
            Request::HoldMode(wanted) => self.hold(id, caller, wanted)?,
            Request::ReleaseMode(cookie) => self.release(id, &caller, cookie)?,
            Request::GetHistory(nr_entries) => self.reply(id, Reply::History(nr_entries)),
        }
        Ok(())
    }

    fn check_subscribers(&self, caller: &Caller) -> Result<(), Refusal> {
        let nr_of_user = self.subscribers.values().filter(|uid| **uid == caller.uid).count();
        let full = self.subscribers.len() >= MAX_SUBSCRIBERS || nr_of_user >= MAX_SUBSCRIBERS_PER_USER;
        if full && !self.subscribers.contains_key(&caller.name) {
            return Err(Refusal::LimitReached(
                gettext_noop("Too many programs subscribe to statistics. Close one.").into(),
            ));
        }
        Ok(())
    }

    fn check_waiters(&self, request: &Request, uid: Option<u32>) -> Result<(), Refusal> {
        let for_statistics = || self.waiters.iter().filter(|waiter| matches!(waiter.want, Want::Statistics(_)));
        let full = match request {
            Request::GetStats => {
                for_statistics().count() >= MAX_STATISTICS_WAITERS
                    || for_statistics().filter(|waiter| waiter.want == Want::Statistics(uid)).count()
                        >= MAX_STATISTICS_WAITERS_PER_USER
            }
            _ => self.waiters.len() >= MAX_WAITERS,
        };
        if full {
            return Err(Refusal::LimitReached(
                gettext_noop("Too many requests wait for an answer. Try again later.").into(),
            ));
        }
        Ok(())
    }

    fn enable(&mut self, id: RequestId, caller: &Caller) -> Result<(), Refusal> {
        self.check_loadable()?;
        if !self.desired.enabled {
            self.desired.enabled = true;
            self.record(HistoryEvent::TurnedOn, caller.to_details());
            // Already loaded or about to be, it needs no trial.
            self.on_trial = !matches!(self.phase, Phase::Loaded(_));
        }
        if !self.phase.has_process() {
            self.try_afresh();
            self.lift_guard();
        }
        self.wait(id, Want::Running, ANSWER_LIMIT);
        Ok(())
    }

    fn check_loadable(&self) -> Result<(), Refusal> {
        if self.kernel == Kernel::Missing {
            return Err(Fault::plain(Reason::NoSchedExt).to_error());
        }
        if self.kernel.has_ours() && self.phase.is_at_rest() {
            return Err(Refusal::Busy(Fault::plain(Reason::Leftover).text()));
        }
        let obstacle = self.kernel.foreign_ops().map(Fault::foreign).or_else(|| self.unfit.clone());
        obstacle.map_or(Ok(()), |fault| Err(fault.to_error()))
    }

    fn disable(&mut self, id: RequestId, caller: &Caller) {
        if std::mem::take(&mut self.desired.enabled) {
            self.record(HistoryEvent::TurnedOff, caller.to_details());
        }
        self.on_trial = false;
        self.try_afresh();
        self.refuse_loading(&Refusal::Busy(gettext_noop("Scherzo was turned off while it was being loaded.").into()));
        self.wait(id, Want::Stopped, ANSWER_LIMIT);
    }

    /// A hold is granted at once; the mode follows as soon as the engine can.
    fn hold(&mut self, id: RequestId, caller: Caller, wanted: HoldRequest) -> Result<(), Refusal> {
        let cookie = self.holds.add(self.now_s(), caller, wanted)?;
        self.reply(id, Reply::Hold(cookie));
        Ok(())
    }

    fn release(&mut self, id: RequestId, caller: &Caller, cookie: u32) -> Result<(), Refusal> {
        let hold = self.holds.release(cookie).ok_or_else(|| {
            Refusal::NoSuchHold(format!("There is no hold {cookie}. It may have been released already."))
        })?;
        if hold.holder.name != caller.name {
            self.act(BusAction::TellReleased { holder: hold.holder.name, cookie });
        }
        self.conclude(id, Ok(()));
        Ok(())
    }

    fn choose_mode(&mut self, id: RequestId, uid: Option<u32>, mode: RequestedMode, chosen_until_s: Option<u64>) {
        let chosen = mode != RequestedMode::Auto;
        if chosen {
            for hold in self.holds.release_all() {
                self.act(BusAction::TellReleased { holder: hold.holder.name, cookie: hold.cookie });
            }
        }
        let chosen_on = self.power.source().filter(|_| chosen);
        self.choose(id, Desired { mode, chosen_by: uid.filter(|_| chosen), chosen_on, chosen_until_s, ..self.desired });
    }

    fn choose_seat(&mut self, id: RequestId, caller: &Caller, seat: Seat) -> Result<(), Refusal> {
        let tunables = self.settings.tunables;
        if let (Seat::Kernel, Some(setting)) = (seat, tunables.needs_user_seat()) {
            return Err(Refusal::Conflict(needs_user_seat(setting).into()));
        }
        if seat != self.decision().choice.seat {
            let mut details = caller.to_details();
            details.insert("engine".to_owned(), seat.name().into());
            self.record(HistoryEvent::Engine, details);
        }
        // What the setting says already is no choice of its own: the setting may change again.
        let chosen = Some(seat).filter(|seat| seat.is_kernel() != tunables.kernel_seat);
        self.choose(id, Desired { seat: chosen, ..self.desired });
        Ok(())
    }

    fn choose(&mut self, id: RequestId, desired: Desired) {
        let before = std::mem::replace(&mut self.desired, desired);
        self.put_on_probation(self.settings, before);
        self.wait_for_decision(id);
    }

    fn wait_for_decision(&mut self, id: RequestId) {
        self.note_decision();
        match self.phase {
            Phase::Loading { .. } | Phase::Loaded(_) => self.wait(id, Want::Decision(self.version), ANSWER_LIMIT),
            Phase::Idle | Phase::Ending(_) | Phase::Draining { .. } => self.conclude(id, Ok(())),
        }
    }

    fn loaded(&self) -> Result<&Loaded, Refusal> {
        match &self.phase {
            Phase::Loaded(loaded) => Ok(loaded),
            _ => Err(not_running()),
        }
    }

    pub(super) fn ask_to_refresh(&mut self) {
        let recent = self.refresh.done_at.is_some_and(|at| self.now < at + REFRESH_EVERY);
        if self.refresh.asked.is_none() && !recent {
            let seq = self.next_seq();
            self.refresh.asked = Some(seq);
            self.act(EngineCommand::Refresh { run: self.run, seq });
        }
    }

    pub(super) fn refreshed(&mut self, seq: u32) {
        if self.refresh.asked == Some(seq) {
            self.refresh = Refresh { asked: None, done_at: Some(self.now) };
        }
    }

    /// Answers the callers that wait for the scheduler to be loaded: it will not be.
    pub(super) fn refuse_loading(&mut self, error: &Refusal) {
        let refused = self.waiters.extract_if(.., |waiter| waiter.want == Want::Running);
        for waiter in refused.collect::<Vec<_>>() {
            self.conclude(waiter.id, Err(error.clone()));
        }
    }

    /// Answers the callers that can be answered by now.
    pub(super) fn answer(&mut self) {
        for waiter in std::mem::take(&mut self.waiters) {
            match self.progress(&waiter) {
                Progress::Wait => self.waiters.push(waiter),
                Progress::Answer(result) => self.conclude(waiter.id, result),
                Progress::Statistics => self.reply(waiter.id, Reply::Stats),
            }
        }
    }

    /// When it is answered at the latest.
    pub(super) fn due_at(&self, waiter: &Waiter) -> Time {
        match (waiter.want, &self.phase) {
            (Want::Decision(_), Phase::Loaded(loaded)) if loaded.degraded => {
                waiter.deadline.min(waiter.asked_at + SILENCE_LIMIT)
            }
            _ => waiter.deadline,
        }
    }

    fn progress(&self, waiter: &Waiter) -> Progress {
        let late = self.due_at(waiter) <= self.now;
        match (waiter.want, &self.phase) {
            (Want::Running, Phase::Loaded(_)) | (Want::Stopped, Phase::Idle) => Progress::Answer(Ok(())),
            (Want::Running, _) if self.leaving != Leaving::No => Progress::Answer(Err(stopping())),
            (Want::Stopped, Phase::Draining { deadline: None, .. }) => Progress::Answer(Err(too_late())),
            (Want::Running, Phase::Idle | Phase::Draining { deadline: None, .. }) => match self.check_loadable() {
                Err(error) => Progress::Answer(Err(error)),
                Ok(()) if late => Progress::Answer(Err(too_late())),
                Ok(()) => Progress::Wait,
            },
            (Want::Decision(version), Phase::Loaded(loaded)) if loaded.applied.version >= version => {
                Progress::Answer(Ok(()))
            }
            (Want::Decision(_), Phase::Idle | Phase::Ending(_) | Phase::Draining { .. }) => {
                Progress::Answer(Err(Refusal::NotRunning(
                    gettext_noop("The scheduler ended before it could switch. Look at the state in a moment.").into(),
                )))
            }
            (Want::Decision(_), _) if late => Progress::Answer(Err(Refusal::Busy(
                gettext_noop("The engine does not answer. It switches to your choice when it is back.").into(),
            ))),
            (Want::Statistics(_), Phase::Loaded(_)) if late || self.refresh.asked.is_none() => Progress::Statistics,
            (Want::Statistics(_), Phase::Loaded(_)) => Progress::Wait,
            (Want::Statistics(_), _) => Progress::Answer(Err(not_running())),
            _ if late => Progress::Answer(Err(too_late())),
            _ => Progress::Wait,
        }
    }

    fn wait(&mut self, id: RequestId, want: Want, limit: Duration) {
        self.waiters.push(Waiter { id, want, asked_at: self.now, deadline: self.now + limit });
    }

    fn conclude(&mut self, id: RequestId, result: Result<(), Refusal>) {
        self.reply(id, Reply::Result(result));
    }

    fn reply(&mut self, id: RequestId, reply: Reply) {
        self.answers.push(Action::Reply { id, reply });
    }
}

fn has_failed_again() -> Refusal {
    Refusal::AccessDenied(
        gettext_noop("The scheduler has failed in the same way since it was turned on anew. Ask an administrator.")
            .into(),
    )
}

/// Why the kernel side cannot apply the policy.
fn needs_user_seat(setting: &str) -> &'static str {
    match setting {
        "full_user" => gettext_noop(
            "The setting full_user needs the engine \"user\". Change that first: `scherzoctl config unset full_user`.",
        ),
        _ => gettext_noop(
            "The policy that the setting policy names needs the engine \"user\". Change that first: `scherzoctl config unset policy`.",
        ),
    }
}

fn not_running() -> Refusal {
    Refusal::NotRunning(gettext_noop("Scherzo is not running. Turn it on with `scherzoctl enable`.").into())
}

fn stopping() -> Refusal {
    Refusal::Busy(gettext_noop("The service is being stopped. Try again when it is back.").into())
}

fn too_late() -> Refusal {
    Refusal::Busy(gettext_noop("The kernel has not finished yet. Look at the state in a moment.").into())
}
