//! What happens to the service.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Refusal;
use scherzo_catalogue::details::Details;
use scherzo_catalogue::types::{Mode, Reason, RequestedMode};
use scherzo_model::OPS_PREFIX;
use scherzo_model::{ExitKind, FailKind, Seat};

use super::foreground::ForegroundGroup;
use super::holds::HoldRequest;
use super::power::{PowerEvent, Source};
use super::quarantine::{Build, Quarantine};
use super::unstored::NotStored;
use crate::settings::Settings;

/// Time since the service started. The supervisor never asks a clock; it is told.
pub type Time = Duration;

/// Identifies a request until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Identifies one engine process among those started since the service started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run(pub u32);

/// What a person wants. This is what survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Scherzo is to run.
    pub enabled: bool,
    /// The mode, or leave it to the service.
    pub mode: RequestedMode,
    /// The user who chose the mode, if known.
    pub chosen_by: Option<u32>,
    /// The power source that it was chosen on, if known.
    pub chosen_on: Option<Source>,
    /// When the choice ends by itself, if it does, in seconds since 1970.
    pub chosen_until_s: Option<u64>,
    /// Interactive tasks may take a CPU from batch tasks.
    pub preemption: bool,
    /// Where the policy is applied, if another place was chosen than the setting `kernel_seat` names.
    pub seat: Option<Seat>,
}

impl Default for Desired {
    fn default() -> Self {
        Self {
            enabled: false,
            mode: RequestedMode::Auto,
            chosen_by: None,
            chosen_on: None,
            chosen_until_s: None,
            preemption: true,
            seat: None,
        }
    }
}

/// What the service starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// The desired state of last time.
    pub desired: Desired,
    /// What the files say.
    pub settings: Settings,
    /// The time that is zero from here on, in seconds since 1970.
    pub started_at_s: u64,
    /// What the kernel says.
    pub kernel: Kernel,
    /// Why this kernel, although it has sched_ext, can load no scheduler, if that is known beforehand.
    pub unfit: Option<Fault>,
    /// An earlier run left a note of settings to restore.
    pub noted: bool,
    /// How this boot and those before went.
    pub boot: Boot,
    /// What runs on what.
    pub build: Build,
    /// What an earlier run has given up on.
    pub quarantine: Option<Quarantine>,
    /// The causes of guards that people have lifted since the system started.
    pub lifted: BTreeSet<Reason>,
}

/// What is known about this start of the system and those before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// The service starts for the first time since the system started.
    pub first_start: bool,
    /// System starts in a row that ended badly soon after loading.
    pub nr_unclean: u32,
}

/// What a system that goes down now would say about the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootWatch {
    /// That it may be to blame.
    On,
    /// Nothing, as it is not loaded; but it is going to be again, and what earlier boots said still counts.
    Paused,
    /// That it has proved itself, or was unloaded on purpose: earlier boots are forgotten.
    Over,
}

/// What the kernel says about sched_ext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// It has no sched_ext.
    Missing,
    /// Its own scheduler runs alone.
    Idle,
    /// A scheduler is being loaded or unloaded.
    Changing {
        /// Which, if it says.
        ops: Option<String>,
    },
    /// A scheduler is loaded.
    Loaded {
        /// Which.
        ops: String,
    },
}

impl Kernel {
    /// The operations it names.
    #[must_use]
    pub fn ops(&self) -> Option<&str> {
        match self {
            Self::Loaded { ops } | Self::Changing { ops: Some(ops) } => Some(ops),
            Self::Missing | Self::Idle | Self::Changing { ops: None } => None,
        }
    }

    /// A scheduler of ours is loaded.
    #[must_use]
    pub fn has_ours(&self) -> bool {
        matches!(self, Self::Loaded { ops } if ops.starts_with(OPS_PREFIX))
    }

    /// Someone else's scheduler is loaded.
    #[must_use]
    pub fn foreign_ops(&self) -> Option<&str> {
        self.ops().filter(|ops| !ops.starts_with(OPS_PREFIX))
    }
}

/// What an engine process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// It could not be started.
    NotStarted(String),
    /// It runs, and speaks this version of the wire.
    Hello {
        /// Its version.
        wire_version: u32,
    },
    /// It has loaded the scheduler.
    Loaded,
    /// It could not load and ends.
    Failed {
        /// Why.
        kind: FailKind,
        /// Why, in words.
        text: String,
    },
    /// It has done what the request with this number asked.
    Done {
        /// The number.
        seq: u32,
    },
    /// The scheduler is unloaded and it ends.
    Exited {
        /// Why.
        kind: ExitKind,
        /// The kernel's exit code.
        code: i64,
        /// The kernel's words.
        text: String,
    },
    /// It said something that makes no sense.
    Garbled(String),
    /// It closed its socket.
    HungUp,
    /// The process is gone.
    Gone(Gone),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// The caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Unique name on the bus.
    pub name: String,
    /// The user whose program it is, if the bus knows and it matters.
    pub uid: Option<u32>,
}

impl Caller {
    /// The user, for the history.
    pub(super) fn to_details(&self) -> Details {
        self.uid.map(|uid| ("uid".to_owned(), i64::from(uid).into())).into_iter().collect()
    }
}

/// What a client asks for. Arguments are valid and the caller is authorized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Turn on or off.
    SetEnabled(bool),
    /// Turn on although that was asked for since the system started and the scheduler has failed for the same cause since.
    TurnOnAgain,
    /// Choose a mode.
    SetMode(RequestedMode),
    /// Choose a mode for so many seconds.
    SetModeFor(Mode, u32),
    /// Choose preemption.
    SetPreemption(bool),
    /// Choose where the policy is applied.
    SetEngine(Seat),
    /// Name the control group of the application in front, or none.
    SetForeground(Option<ForegroundGroup>),
    /// The same for as long as the caller's hold with this cookie lasts.
    SetHoldForeground(u32, Option<ForegroundGroup>),
    /// Read statistics.
    GetStats,
    /// Read wait histograms.
    GetWaitHistogram,
    /// Send statistics to the caller from now on.
    Subscribe,
    /// No longer.
    Unsubscribe,
    /// Hold a mode for the caller.
    HoldMode(HoldRequest),
    /// Release the hold with this cookie.
    ReleaseMode(u32),
    /// Read so many of the newest entries of the history, 0 for all.
    GetHistory(u32),
}

impl Request {
    /// Whether it changes nothing, so that the answer does not hang on what the kernel says this moment.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::GetStats | Self::GetWaitHistogram | Self::GetHistory(_) | Self::Subscribe | Self::Unsubscribe
        )
    }
}

/// Everything that can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What the kernel says now.
    Kernel(Kernel),
    /// What the shared page and the setting that loading changes say now.
    Health {
        /// BPF schedules alone.
        degraded: bool,
        /// The kernel may move locked memory about.
        compaction: bool,
    },
    /// A client asks.
    Request {
        /// To answer it by.
        id: RequestId,
        /// The caller.
        caller: Caller,
        /// What for.
        request: Request,
    },
    /// The engine does something.
    Engine {
        /// Which.
        run: Run,
        /// What.
        event: EngineEvent,
    },
    /// The settings are these from now on.
    Settings {
        /// All of them.
        settings: Settings,
        /// The caller that changed them; none if it was a file.
        by: Option<Caller>,
    },
    /// A person has logged in.
    Session,
    /// A power daemon says something.
    Power(PowerEvent),
    /// A client has left the bus.
    PeerGone(String),
    /// The descriptor of the hold with this cookie was closed, in every process that had it.
    HoldClosed(u32),
    /// What the files lack has changed, or was written in vain once more.
    NotStored(NotStored),
    /// The clock was set, or the machine has slept, which [`super::Time`] does not count: by the clock as it is now, the service was started
    /// at this time, in seconds since 1970.
    Clock {
        /// That time.
        started_at_s: u64,
    },
    /// The time that [`super::Supervisor::next_wakeup`] named has come.
    Tick,
    /// The service is to end.
    Shutdown,
}

/// How the loaded scheduler behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The mode.
    pub mode: Mode,
    /// Preemption.
    pub preemption: bool,
    /// Where the policy is applied.
    pub seat: Seat,
    /// The number of the control group in front, 0 if there is none.
    pub foreground_cgroup: u64,
}

/// A reason, good or bad, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The stable reason.
    pub reason: Reason,
    /// Its arguments.
    pub details: Details,
}

impl Fault {
    /// A reason without arguments.
    #[must_use]
    pub fn plain(reason: Reason) -> Self {
        Self { reason, details: Details::new() }
    }

    /// A reason with a text.
    pub fn with_text(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, details: Details::from([("text".to_owned(), text.into().into())]) }
    }

    /// Another scheduler is in the way.
    #[must_use]
    pub fn foreign(ops: &str) -> Self {
        Self { reason: Reason::ForeignScheduler, details: Details::from([("ops".to_owned(), ops.into())]) }
    }

    /// The sentence for people.
    #[must_use]
    pub fn text(&self) -> String {
        scherzo_catalogue::text(self.reason, &self.details)
    }

    /// The reason's id and its arguments, for the history.
    #[must_use]
    pub fn to_details(&self) -> Details {
        let mut details = self.details.clone();
        details.insert("reason".to_owned(), self.reason.name().into());
        details
    }

    /// The error for the caller that asked to load.
    #[must_use]
    pub fn to_error(&self) -> Refusal {
        let text = self.text();
        match self.reason {
            Reason::NoSchedExt | Reason::MalformedBtf => Refusal::NotSupported(text),
            Reason::ForeignScheduler => Refusal::Conflict(text),
            _ => Refusal::LoadFailed(text),
        }
    }
}
