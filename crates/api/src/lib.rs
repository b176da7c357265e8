//! The D-Bus contract of Scherzo, for the service and for every client of it.
//!
//! - [`names`]: bus name, object path, interface, polkit actions;
//! - [`types`]: modes, states and reasons, as stable strings;
//! - [`Error`]: every error the service replies with;
//! - [`stats`] and [`histogram`]: what `GetStats` and `GetWaitHistogram` carry;
//! - [`SchedulerProxy`]: the typed proxy; [`Snapshot`]: all properties at one moment;
//! - [`client`]: a client that follows the service and keeps its state current, for programs that show it;
//! - [`patience`]: how long an answer is waited for;
//! - [`autostart`]: whether the tray starts at login;
//! - [`durable`]: files that are replaced as a whole and survive a power cut;
//! - [`catalogue`]: the English sentence for each reason the service gives as an id with arguments.
//!
//! This crate uses no toolkit and no kernel interface, so that every client can use it.

pub mod autostart;
pub mod client;
pub mod details;
pub mod durable;
mod error;
pub mod histogram;
pub mod names;
pub mod patience;
mod proxy;
mod snapshot;
pub mod stats;

pub use error::Error;
pub use proxy::{
    EngineExited, EngineExitedArgs, EngineExitedStream, HistoryEntry, HoldReleased, HoldReleasedArgs,
    HoldReleasedStream, SchedulerProxy, StatsUpdated, StatsUpdatedArgs, StatsUpdatedStream,
};
pub use scherzo_catalogue as catalogue;
pub use scherzo_catalogue::types;
pub use snapshot::{Setting, Snapshot};
