//! What clients see, computed from the state.

use scherzo_catalogue::types::{Reason, RequestedMode, State as PublicState};

use super::State;
use super::event::{Choice, Fault, Kernel};
use super::holds::Hold;
use super::phase::{Cause, Ending, Phase};
use crate::settings::Settings;

/// The changing properties of the D-Bus interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The wish.
    pub enabled: bool,
    /// What runs.
    pub state: PublicState,
    /// The mode and preemption in effect, or as they will be.
    pub choice: Choice,
    /// What a person asked for.
    pub requested_mode: RequestedMode,
    /// Why it is so.
    pub why: Fault,
    /// Operations that the kernel names, empty if none.
    pub kernel_ops: String,
    /// What can be set.
    pub settings: Settings,
    /// What programs hold, the oldest first.
    pub holds: Vec<Hold>,
    /// The machine runs on battery.
    pub on_battery: bool,
    /// The active power profile, empty if no daemon has any.
    pub power_profile: String,
    /// The last failure as a sentence, empty if none.
    pub last_error: String,
}

impl State {
    /// What clients see now.
    #[must_use]
    pub fn view(&self) -> Published {
        let (state, why) = self.state_and_reason();
        Published {
            enabled: self.wish.enabled,
            state,
            choice: match &self.phase {
                Phase::Loaded(loaded) => loaded.applied.decision.choice,
                _ => self.decision().choice,
            },
            requested_mode: self.wish.mode,
            why,
            kernel_ops: self.kernel.ops().unwrap_or_default().to_owned(),
            settings: self.settings,
            holds: self.holds.list().to_vec(),
            on_battery: self.power.on_battery(),
            power_profile: self.power.shown_profile().unwrap_or_default().to_owned(),
            last_error: self.last_error.clone(),
        }
    }

    fn state_and_reason(&self) -> (PublicState, Fault) {
        if self.kernel == Kernel::Missing {
            return (PublicState::Unsupported, Fault::plain(Reason::NoSchedExt));
        }
        if self.kernel.has_ours() {
            return self.state_and_reason_while_ours_is_loaded();
        }
        match &self.phase {
            Phase::Loading { .. } | Phase::Loaded(_) => (PublicState::Starting, Fault::plain(Reason::Loading)),
            Phase::Ending(Ending { cause: Cause::Fault(fault), .. }) => (PublicState::Fallback, fault.clone()),
            // The kernel has let go, and why is about to be told: nothing is being loaded yet.
            Phase::Ending(Ending { cause: Cause::Unknown, .. })
                if self.wish.enabled && self.kernel.foreign_ops().is_none() =>
            {
                (PublicState::Fallback, Fault::plain(Reason::Leftover))
            }
            Phase::Ending(_) | Phase::Draining { .. } | Phase::Idle => self.without_engine(),
        }
    }

    /// The kernel's word counts, whatever became of the engine.
    fn state_and_reason_while_ours_is_loaded(&self) -> (PublicState, Fault) {
        match &self.phase {
            Phase::Loaded(loaded) if loaded.degraded => (PublicState::Degraded, Fault::plain(Reason::UserSpaceSilent)),
            Phase::Loaded(loaded) => (PublicState::Running, loaded.applied.decision.why.clone()),
            Phase::Loading { .. } => (PublicState::Running, Fault::plain(Reason::Loading)),
            Phase::Ending(_) | Phase::Draining { .. } | Phase::Idle => {
                (PublicState::Running, Fault::plain(Reason::Leftover))
            }
        }
    }

    fn without_engine(&self) -> (PublicState, Fault) {
        match (self.kernel.foreign_ops(), self.unfit.as_ref().or(self.fault.as_ref())) {
            (Some(ops), _) => (PublicState::Foreign, Fault::foreign(ops)),
            (None, Some(fault)) if matches!(fault.reason, Reason::NoSchedExt | Reason::MalformedBtf) => {
                (PublicState::Unsupported, fault.clone())
            }
            (None, Some(fault)) if self.wish.enabled => (PublicState::Fallback, fault.clone()),
            (None, None) if self.wish.enabled && self.boot_delay.is_some_and(|at| self.now < at) => {
                (PublicState::Starting, Fault::plain(Reason::BootDelay))
            }
            (None, None) if self.wish.enabled => (PublicState::Starting, Fault::plain(Reason::Loading)),
            (None, _) => (PublicState::Stopped, Fault::plain(Reason::Disabled)),
        }
    }
}
