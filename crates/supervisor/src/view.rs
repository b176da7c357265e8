//! What clients see, computed from the state.

use scherzo_catalogue::details::Details;
use scherzo_catalogue::types::{HistoryEvent, Reason, RequestedMode, State};

use super::Supervisor;
use super::event::{Choice, Fault, Kernel};
use super::foreground::Foreground;
use super::holds::Hold;
use super::phase::{Cause, Ending, Phase};
use super::unstored::NotStored;
use crate::settings::Settings;

/// The changing properties of the D-Bus interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The desired state.
    pub enabled: bool,
    /// What runs.
    pub state: State,
    /// The mode and preemption in effect, or as they will be.
    pub choice: Choice,
    /// What a person asked for.
    pub requested_mode: RequestedMode,
    /// When that ends by itself, in seconds since 1970, if it does.
    pub requested_until_s: Option<u64>,
    /// Why it is so.
    pub why: Fault,
    /// Operations that the kernel names, empty if none.
    pub kernel_ops: String,
    /// What can be set.
    pub settings: Settings,
    /// What programs hold, the oldest first.
    pub holds: Vec<Hold>,
    /// The application in front.
    pub foreground: Option<Foreground>,
    /// The machine runs on battery.
    pub on_battery: bool,
    /// The active power profile, empty if no daemon has any.
    pub power_profile: String,
    /// The last failure.
    pub last_error: LastError,
    /// What could not be stored.
    pub not_stored: NotStored,
    /// Turning it on takes a right of its own.
    pub lifting_needs_more: bool,
}

/// A failure that stays told until somebody tries anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastError {
    /// As a sentence; empty if there was none.
    pub text: String,
    /// Its reason, or that something was taken back because of it; empty if there was none.
    pub id: &'static str,
    /// Arguments.
    pub details: Details,
}

impl LastError {
    pub(super) fn of(fault: &Fault) -> Self {
        Self { text: fault.text(), id: fault.reason.name(), details: fault.details.clone() }
    }

    /// Nothing is tried any more.
    pub(super) fn give_up(&mut self) {
        self.details.insert(scherzo_catalogue::GIVEN_UP_MARK.to_owned(), 1.into());
        self.text = format!("{} {}", self.text, scherzo_catalogue::GIVEN_UP);
    }

    /// What was new has failed; the details are those of the entry of the history.
    pub(super) fn reverted(details: Details) -> Self {
        let event = HistoryEvent::Reverted;
        Self { text: scherzo_catalogue::event_text(event, &details), id: event.name(), details }
    }
}

impl Published {
    /// The last failure, and whether something could not be stored.
    #[must_use]
    pub fn errors(&self) -> String {
        let warning = if self.not_stored.is_empty() { "" } else { scherzo_catalogue::NOT_STORED };
        let space = if self.last_error.text.is_empty() || warning.is_empty() { "" } else { " " };
        format!("{}{space}{warning}", self.last_error.text)
    }

    /// The id of the last failure, or of what follows it in [`Self::errors`] if there was none.
    #[must_use]
    pub fn error_id(&self) -> &'static str {
        let is_only_unstored = self.last_error.id.is_empty() && !self.not_stored.is_empty();
        if is_only_unstored { scherzo_catalogue::NOT_STORED_ID } else { self.last_error.id }
    }
}

impl Supervisor {
    /// What clients see now.
    #[must_use]
    pub fn view(&self) -> Published {
        let (state, why) = self.state_and_reason();
        Published {
            enabled: self.desired.enabled,
            state,
            choice: match &self.phase {
                Phase::Loaded(loaded) => loaded.applied.decision.choice,
                _ => self.decision().choice,
            },
            requested_mode: self.desired.mode,
            requested_until_s: self.desired.chosen_until_s,
            why,
            kernel_ops: self.kernel.ops().unwrap_or_default().to_owned(),
            settings: self.settings,
            holds: self.holds.list().to_vec(),
            foreground: self.foreground_under(&self.settings).cloned(),
            on_battery: self.power.on_battery(),
            power_profile: self.power.shown_profile().unwrap_or_default().to_owned(),
            last_error: self.last_error.clone(),
            not_stored: self.unstored.files().clone(),
            lifting_needs_more: self.lifting_needs_more(),
        }
    }

    fn state_and_reason(&self) -> (State, Fault) {
        if self.kernel == Kernel::Missing {
            return (State::Unsupported, Fault::plain(Reason::NoSchedExt));
        }
        if self.kernel.has_ours() {
            return self.state_and_reason_while_ours_is_loaded();
        }
        match &self.phase {
            Phase::Loading { .. } | Phase::Loaded(_) => (State::Starting, Fault::plain(Reason::Loading)),
            Phase::Ending(Ending { cause: Cause::Fault(fault), .. }) => (State::Fallback, fault.clone()),
            // The kernel has let go, and why is about to be told: nothing is being loaded yet.
            Phase::Ending(Ending { cause: Cause::Unknown, .. })
                if self.desired.enabled && self.kernel.foreign_ops().is_none() =>
            {
                (State::Fallback, Fault::plain(Reason::Leftover))
            }
            Phase::Ending(_) | Phase::Draining { .. } | Phase::Idle => self.without_engine(),
        }
    }

    /// The kernel's word counts, whatever became of the engine.
    fn state_and_reason_while_ours_is_loaded(&self) -> (State, Fault) {
        match &self.phase {
            Phase::Loaded(loaded) if loaded.degraded => (State::Degraded, Fault::plain(Reason::UserSpaceSilent)),
            Phase::Loaded(loaded) => (State::Running, loaded.applied.decision.why.clone()),
            Phase::Loading { .. } => (State::Running, Fault::plain(Reason::Loading)),
            Phase::Ending(_) | Phase::Draining { .. } | Phase::Idle => (State::Running, Fault::plain(Reason::Leftover)),
        }
    }

    fn without_engine(&self) -> (State, Fault) {
        match (self.kernel.foreign_ops(), self.unfit.as_ref().or(self.fault.as_ref())) {
            (Some(ops), _) => (State::Foreign, Fault::foreign(ops)),
            (None, Some(fault)) if matches!(fault.reason, Reason::NoSchedExt | Reason::MalformedBtf) => {
                (State::Unsupported, fault.clone())
            }
            (None, Some(fault)) if self.desired.enabled => (State::Fallback, fault.clone()),
            (None, None) if self.desired.enabled && self.boot_delay.is_some_and(|at| self.now < at) => {
                (State::Starting, Fault::plain(Reason::BootDelay))
            }
            (None, None) if self.desired.enabled => (State::Starting, Fault::plain(Reason::Loading)),
            (None, _) => (State::Stopped, Fault::plain(Reason::Disabled)),
        }
    }
}
