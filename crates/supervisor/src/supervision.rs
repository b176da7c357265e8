//! What follows from a failure: another attempt, the settings of before, or none at all.
//!
//! - *Backoff* ([`super::backoff`]): attempts get rarer, and end.
//! - *Probation*: what changes a loaded scheduler has to run for a minute. If the scheduler fails before, what was in
//!   effect before returns.
//! - *Quarantine*: when the attempts end, that is remembered across restarts for this kernel and this version.

use std::time::Duration;

use scherzo_catalogue::details::Details;
use scherzo_catalogue::types::{HistoryEvent, Reason};

use super::Supervisor;
use super::action::{BusAction, FileAction};
use super::backoff::Backoff;
use super::event::{Desired, Fault, Time};
use super::lifecycle::is_slow_end;
use super::phase::{Applied, Loaded, Phase};
use super::quarantine::Quarantine;
use super::view::LastError;
use crate::settings::{self, Settings};

/// A new setting that has run this long is good.
const PROBATION: Duration = Duration::from_mins(1);

/// What is to return if the scheduler fails.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Probation {
    settings: Settings,
    desired: Desired,
    /// When the new ones are good; `None` while they are not in effect.
    until: Option<Time>,
}

/// What was at fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// Someone killed the engine.
    Accident,
    /// Another scheduler was in the way.
    Obstacle,
    /// Real-time programs left no CPU to anybody else.
    Starvation,
    /// Trying again cannot help until someone does something about it, or asked for just this.
    Circumstances,
    /// The scheduler's own.
    Scheduler,
}

impl Blame {
    fn of(reason: Reason) -> Self {
        match reason {
            Reason::EngineKilled => Self::Accident,
            Reason::ForeignScheduler => Self::Obstacle,
            Reason::RtStarvation => Self::Starvation,
            Reason::NoSchedExt
            | Reason::MalformedBtf
            | Reason::Permission
            | Reason::EngineMismatch
            | Reason::EngineMissing
            | Reason::KernelUnloaded => Self::Circumstances,
            _ => Self::Scheduler,
        }
    }
}

impl Supervisor {
    /// An engine has failed that had been loaded for `ran`, if at all.
    pub(super) fn failed(&mut self, fault: &Fault, ran: Option<Duration>) {
        self.last_error = LastError::of(fault);
        self.refuse_loading(&fault.to_error());
        self.tell_failure(fault, ran);
        self.fault = Some(fault.clone());
        let blame = Blame::of(fault.reason);
        // One that is slow to end may have been ended by somebody, on a busy machine: that says nothing about what was changed.
        if blame == Blame::Scheduler && !is_slow_end(fault) {
            self.take_back(fault);
        }
        if std::mem::take(&mut self.on_trial) {
            self.desired.enabled = false;
            return;
        }
        match blame {
            Blame::Accident => self.backoff.killed(self.now, ran),
            Blame::Obstacle => self.backoff.hold_off(self.now),
            Blame::Starvation => self.backoff.starved(self.now),
            Blame::Circumstances => {
                self.backoff.give_up();
                self.last_error.give_up();
            }
            Blame::Scheduler => {
                if self.backoff.failed(self.now, ran) {
                    self.quarantine(fault.clone());
                }
            }
        }
    }

    fn tell_failure(&mut self, fault: &Fault, ran: Option<Duration>) {
        let mut details = fault.to_details();
        let Some(ran) = ran else { return self.record(HistoryEvent::NotLoaded, details) };
        details.insert("seconds".to_owned(), ran.as_secs().cast_signed().into());
        self.record(HistoryEvent::Ejected, details);
        self.act(BusAction::TellExit(fault.clone()));
    }

    fn quarantine(&mut self, cause: Fault) {
        let quarantine = Quarantine { build: self.build.clone(), cause };
        let fault = quarantine.to_fault();
        self.last_error = LastError::of(&fault);
        self.record(HistoryEvent::Quarantined, fault.to_details());
        self.fault = Some(fault);
        self.quarantine = Some(quarantine.clone());
        self.act(FileAction::KeepQuarantine(Some(quarantine)));
    }

    /// Heeds what an earlier run of the service has found out, if it is about this build.
    pub(super) fn remember_quarantine(&mut self, quarantine: Option<Quarantine>) {
        self.quarantine = quarantine;
        let Some(quarantine) = &self.quarantine else { return };
        if quarantine.build == self.build {
            let fault = quarantine.to_fault();
            self.last_error = LastError::of(&fault);
            self.fault = Some(fault);
            self.backoff.give_up();
        } else {
            self.lift_quarantine();
        }
    }

    /// Why nothing is loaded until someone turns Scherzo on, if that is so.
    fn guard(&self) -> Option<Reason> {
        let quarantined = self.quarantine.as_ref().map(|quarantine| quarantine.cause.reason);
        quarantined.or(self.distrusted.then_some(Reason::UncleanBoots))
    }

    /// A guard of the same cause was lifted already since the system started: then it failed again.
    pub(super) fn lifting_needs_more(&self) -> bool {
        self.guard().is_some_and(|cause| self.lifted.contains(&cause))
    }

    /// Lets loading be tried because someone asks for it, and remembers that.
    pub(super) fn lift_guard(&mut self) {
        if let Some(cause) = self.guard()
            && self.lifted.insert(cause)
        {
            self.act(FileAction::KeepLifted(self.lifted.clone()));
        }
        self.distrusted = false;
        self.lift_quarantine();
    }

    fn lift_quarantine(&mut self) {
        if self.quarantine.take().is_some() {
            self.act(FileAction::KeepQuarantine(None));
            self.record(HistoryEvent::QuarantineLifted, Details::new());
        }
    }

    /// Something brought the system down soon after loading, again and again.
    pub(super) fn distrust(&mut self) {
        self.distrusted = true;
        let fault = Fault::plain(Reason::UncleanBoots);
        self.last_error = LastError::of(&fault);
        self.fault = Some(fault);
        self.backoff.give_up();
    }

    /// Forgets past failures, because someone asks anew. What guards against them stays.
    pub(super) fn try_afresh(&mut self) {
        self.backoff = Backoff::default();
        self.boot_delay = None;
        self.fault = None;
        self.last_error = LastError::default();
    }

    /// Puts what has just changed on probation if it concerns the scheduler that is loaded: `settings` and `desired` were
    /// in effect until now.
    pub(super) fn put_on_probation(&mut self, settings: Settings, desired: Desired) {
        let (before, now) = (self.applied_under(settings, desired), self.wanted());
        if before.tunables == now.tunables && before.decision.choice == now.decision.choice {
            return;
        }
        match &mut self.probation {
            Some(probation) => probation.until = None,
            none if matches!(self.phase, Phase::Loaded(_)) => {
                *none = Some(Probation { settings, desired, until: None });
            }
            // What has never run cannot return.
            _ => {}
        }
    }

    /// Lets a probation end well, or because nothing new is left.
    pub(super) fn watch_probation(&mut self) {
        let wanted = self.wanted();
        let in_effect = matches!(&self.phase, Phase::Loaded(Loaded { applied, switching: None, .. })
            if applied.tunables == wanted.tunables && applied.decision.choice == wanted.decision.choice);
        let Some(probation) = &mut self.probation else { return };
        if names_of_changes(probation, self.settings, self.desired).is_empty() {
            self.probation = None;
        } else if !in_effect {
            probation.until = None;
        } else if *probation.until.get_or_insert(self.now + PROBATION) <= self.now {
            self.probation = None;
        }
    }

    /// A choice that has ended does not return.
    pub(super) fn forget_choice_on_probation(&mut self) {
        if let Some(probation) = &mut self.probation {
            probation.desired =
                Desired { preemption: probation.desired.preemption, seat: probation.desired.seat, ..self.desired };
        }
    }

    /// Ends a probation badly.
    fn take_back(&mut self, fault: &Fault) {
        let Some(probation) = self.probation.take() else { return };
        let names = names_of_changes(&probation, self.settings, self.desired);
        let Probation { settings, desired, .. } = probation;
        if settings != self.settings {
            self.settings = settings;
            self.act(FileAction::RevertSettings(settings));
        }
        self.desired = Desired { enabled: self.desired.enabled, ..desired };
        let mut details = fault.to_details();
        details.insert("settings".to_owned(), names.join(", ").into());
        self.last_error = LastError::reverted(details.clone());
        self.record(HistoryEvent::Reverted, details);
    }

    /// How the scheduler is to behave, from what it was loaded with to how it was switched.
    pub(super) fn wanted(&self) -> Applied {
        self.applied_under(self.settings, self.desired)
    }

    fn applied_under(&self, settings: Settings, desired: Desired) -> Applied {
        let decision = self.decision_under(&settings, desired);
        Applied { decision, tunables: settings.tunables, version: self.version }
    }
}

/// What differs from what is to return if the scheduler fails.
fn names_of_changes(probation: &Probation, settings: Settings, desired: Desired) -> Vec<&'static str> {
    let mut names = settings::differing(probation.settings, settings);
    if desired.mode != probation.desired.mode {
        names.push("mode");
    }
    if desired.preemption != probation.desired.preemption {
        names.push("preemption");
    }
    if desired.seat != probation.desired.seat {
        names.push("engine");
    }
    names
}
