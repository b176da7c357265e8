//! Where the engine process and the kernel stand.

use std::time::Duration;

use scherzo_model::LoadSettings;

use super::arbiter::Decision;
use super::event::{Choice, Fault, Time};

/// Loading ends by then, one way or the other; clients give up after 25 s.
pub(super) const LOAD_LIMIT: Duration = Duration::from_secs(18);
/// An engine asked to unload is killed after this.
pub(super) const UNLOAD_LIMIT: Duration = Duration::from_secs(5);
/// An engine that has nothing left to do is killed after this; giving memory back takes a while on a busy machine.
pub(super) const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// The kernel lets go of a dead engine's scheduler within this. After that no call waits for it any more, but it is still looked at.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// How often the kernel is asked while it is about to change.
pub(super) const KERNEL_POLL: Duration = Duration::from_millis(50);
/// How often after [`DRAIN_LIMIT`].
pub(super) const SLOW_KERNEL_POLL: Duration = Duration::from_millis(1500);
/// How often a loaded scheduler is looked at. What the kernel does to it is told at once; only whether its engine answers
/// has to be looked up, because a stopped engine cannot tell, and an idle machine should sleep.
pub(super) const PROBE_EVERY: Duration = Duration::from_millis(1500);
/// How often while someone subscribes to statistics.
pub(super) const PROBE_FOR_SUBSCRIBERS: Duration = Duration::from_secs(1);

/// Where things stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Phase {
    /// No engine, and the kernel has nothing of ours.
    #[default]
    Idle,
    /// An engine is on its way.
    Loading { stage: Stage, deadline: Time },
    /// Engine and kernel agree that the scheduler is loaded.
    Loaded(Loaded),
    /// The engine is on its way out.
    Ending(Ending),
    /// The engine is gone; the kernel has yet to let go of its scheduler. After the deadline, which is `None` then, nobody
    /// waits for that.
    Draining { poll_at: Time, deadline: Option<Time> },
}

/// How far loading has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// The process is to say hello.
    Starting,
    /// It was told to load.
    Sent(Applied),
    /// It says that it has; the kernel is to confirm.
    Confirming { applied: Applied, poll_at: Time },
}

/// A decision, with its version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Applied {
    pub(super) decision: Decision,
    /// Slices, bounds and placement.
    pub(super) tunables: LoadSettings,
    pub(super) version: u64,
}

impl Applied {
    /// All that the engine is told.
    pub(super) fn settings(&self) -> LoadSettings {
        let Choice { mode, preemption, seat, foreground_cgroup } = self.decision.choice;
        LoadSettings { mode, preemption, foreground_cgroup, kernel_seat: seat.is_kernel(), ..self.tunables }
    }
}

/// A loaded scheduler.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loaded {
    pub(super) since: Time,
    /// What the kernel follows.
    pub(super) applied: Applied,
    /// A switch that has not been acknowledged; never more than one.
    pub(super) switching: Option<(u32, Applied)>,
    pub(super) degraded: bool,
    /// Someone has turned compaction of locked memory on since, and it was turned off again: that is done once.
    pub(super) put_right: bool,
    pub(super) probe_at: Time,
}

/// An engine on its way out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ending {
    pub(super) cause: Cause,
    /// How long it had been loaded, if at all.
    pub(super) ran: Option<Duration>,
    /// When to kill it; `None` once that is done.
    pub(super) kill_at: Option<Time>,
}

/// Why an engine ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cause {
    /// We asked it to.
    Asked,
    /// This went wrong.
    Fault(Fault),
    /// How the process ends will tell.
    Unknown,
}

impl Phase {
    pub(super) fn has_process(&self) -> bool {
        matches!(self, Self::Loading { .. } | Self::Loaded(_) | Self::Ending(_))
    }

    pub(super) fn next_wakeup(&self) -> Option<Time> {
        match self {
            Self::Idle => None,
            Self::Loading { stage: Stage::Confirming { poll_at, .. }, deadline } => Some(*deadline.min(poll_at)),
            Self::Draining { poll_at, deadline } => Some(deadline.map_or(*poll_at, |deadline| deadline.min(*poll_at))),
            Self::Loading { deadline, .. } => Some(*deadline),
            Self::Loaded(loaded) => Some(loaded.probe_at),
            Self::Ending(ending) => ending.kill_at,
        }
    }

    /// No engine is left, and nobody waits for the kernel.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self, Self::Idle | Self::Draining { deadline: None, .. })
    }

    /// How long a loaded scheduler has been loaded.
    pub(super) fn ran(&self, now: Time) -> Option<Duration> {
        match self {
            Self::Loaded(loaded) => Some(now.saturating_sub(loaded.since)),
            Self::Ending(ending) => ending.ran,
            Self::Idle | Self::Loading { .. } | Self::Draining { .. } => None,
        }
    }
}
