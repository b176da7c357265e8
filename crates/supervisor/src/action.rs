//! What the service does about what happens, split by the part of the service that carries it out.

use std::collections::BTreeSet;

use scherzo_catalogue::details::Details;
use scherzo_catalogue::types::{HistoryEvent, Reason};
use scherzo_model::LoadSettings;

use super::Refusal;
use super::event::{BootWatch, Desired, Fault, RequestId, Run};
use super::quarantine::Quarantine;
use super::unstored::Stored;
use super::view::Published;
use crate::settings::Settings;

/// Actions are carried out one after another, in the order in which they are given.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// For the engine process.
    Engine(EngineCommand),
    /// For the service's files, and the host's settings that are noted there.
    Files(FileAction),
    /// For programs on the bus.
    Bus(BusAction),
    /// Answer a request.
    Reply {
        /// Which.
        id: RequestId,
        /// With what.
        reply: Reply,
    },
    /// Send statistics to these bus names.
    SendStats(Vec<String>),
    /// Read what the kernel says, and report [`super::Event::Kernel`].
    ReadKernel,
    /// Read the shared page and the setting that loading changes, and report [`super::Event::Health`].
    ReadHealth,
    /// End the service.
    Exit,
}

/// What the engine process is started for, told, or killed by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EngineCommand {
    /// Start an engine.
    Spawn(Run),
    /// Tell it to load.
    Load(Run, LoadSettings),
    /// Tell it to switch.
    Switch {
        /// Which engine.
        run: Run,
        /// Number it answers with.
        seq: u32,
        /// New behaviour.
        settings: LoadSettings,
    },
    /// Tell it to bring its counters up to date.
    Refresh {
        /// Which engine.
        run: Run,
        /// Number it answers with.
        seq: u32,
    },
    /// Tell it to unload and end.
    Unload(Run),
    /// Kill it.
    Kill(Run),
}

/// What is written to files, and to settings of the host. What cannot be stored is reported as [`super::Event::NotStored`].
#[derive(Clone, Debug, PartialEq)]
pub enum FileAction {
    /// Add this to the history.
    Record(Record),
    /// Whether a system that goes down from now on counts as an unclean boot.
    WatchBoot(BootWatch),
    /// Note the settings that loading will change, where a later run of the service finds them.
    NoteSettings,
    /// Restore the settings noted and remove the note.
    RestoreSettings,
    /// Turn off what someone else has turned on meanwhile: moving locked memory about.
    ForbidCompaction,
    /// Put these settings back into the place of those that a client has set.
    RevertSettings(Settings),
    /// Make it survive a restart that nothing is loaded while this build runs, or forget that.
    KeepQuarantine(Option<Quarantine>),
    /// Make the desired state survive a restart.
    Persist(Desired),
    /// Make it survive a restart of the service, though not of the system, that guards with these causes were lifted.
    KeepLifted(BTreeSet<Reason>),
    /// Write again what could not be written, and report [`super::Event::NotStored`] when that has changed.
    StoreAgain,
}

impl FileAction {
    /// What it writes that is to be kept, if it does.
    #[must_use]
    pub fn stored(&self) -> Option<Stored> {
        match self {
            Self::Record(_) => Some(Stored::History),
            Self::WatchBoot(_) => Some(Stored::Boot),
            Self::RevertSettings(_) => Some(Stored::Settings),
            Self::KeepQuarantine(_) => Some(Stored::Quarantine),
            Self::Persist(_) => Some(Stored::Desired),
            Self::KeepLifted(_) => Some(Stored::Lifted),
            Self::NoteSettings | Self::RestoreSettings | Self::ForbidCompaction | Self::StoreAgain => None,
        }
    }
}

/// What programs on the bus are told, and what is asked of them.
#[derive(Clone, Debug, PartialEq)]
pub enum BusAction {
    /// Show clients what is so now.
    Publish(Box<Published>),
    /// Tell clients that the engine ended without having been asked to.
    TellExit(Fault),
    /// Tell a program that its hold was released by someone else.
    TellReleased {
        /// Its bus name.
        holder: String,
        /// Which hold.
        cookie: u32,
    },
    /// Hold the power profile `power-saver`, or no longer.
    HoldProfile(bool),
    /// Report [`super::Event::PeerGone`] when this bus name goes.
    Watch(String),
    /// No longer.
    Unwatch(String),
}

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is done, or refused.
    Result(Result<(), Refusal>),
    /// The hold with this cookie is granted.
    Hold(u32),
    /// The statistics as they are now.
    Stats,
    /// The histograms as they are now.
    Histograms,
    /// So many of the newest entries of the history, 0 for all.
    History(u32),
}

/// Something worth remembering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What happened.
    pub event: HistoryEvent,
    /// The event's arguments, and those of its reason.
    pub details: Details,
}

impl From<EngineCommand> for Action {
    fn from(command: EngineCommand) -> Self {
        Self::Engine(command)
    }
}

impl From<FileAction> for Action {
    fn from(action: FileAction) -> Self {
        Self::Files(action)
    }
}

impl From<BusAction> for Action {
    fn from(action: BusAction) -> Self {
        Self::Bus(action)
    }
}
