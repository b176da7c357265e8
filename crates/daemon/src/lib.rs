//! The service behind `org.scherzo.Scheduler1`.
//!
//! [`scherzo_supervisor`] decides, and is pure. Everything around it is a shell that carries events in and actions out:
//!
//! - [`shell`]: the loop between the two, the only place that owns its state;
//! - [`input`]: what reaches it, and what it answers;
//! - [`bus`]: the D-Bus interface; handlers validate, authorize, ask and reply;
//! - `bus_thread`, `bus_socket` and [`callers`]: callers do not keep the service from its work, nor from each other;
//! - [`authorize`]: which caller may do what;
//! - [`engine`]: the engine process, or a simulation of it, behind one trait;
//! - [`kernel`]: what sysfs and uevents say;
//! - [`describe`]: what there is to know about settings and modes;
//! - [`diagnose`]: what is wrong, and what to do; [`rivals`]: other services that load schedulers;
//! - [`log`] and [`log_control`]: what is logged; `manager`: what the service manager is told;
//! - [`power`]: what the power daemons say; `profile`: what one of them is asked;
//! - `foreground`: which control group may be named as that of the application in front;
//! - [`history`]: what has happened;
//! - [`settings`] and [`config`]: settings as the bus carries them, and the files they come from;
//! - [`session`]: whether someone has logged in;
//! - [`visibility`]: what of a hold each caller is shown;
//! - [`store`]: the desired state that survives a restart, and the note of settings to restore;
//! - [`sample`]: statistics from the shared pages.

mod alarm;
pub mod authorize;
pub mod bus;
mod bus_socket;
mod bus_thread;
pub mod callers;
pub mod cli;
pub mod config;
pub mod describe;
pub mod diagnose;
pub mod engine;
mod foreground;
#[cfg(test)]
mod fuzz;
pub mod history;
pub mod input;
pub mod kernel;
pub mod log;
pub mod log_control;
mod manager;
pub mod power;
mod profile;
pub mod rcu;
mod readiness;
mod refusals;
pub mod rivals;
pub mod sample;
pub mod session;
pub mod settings;
pub mod shell;
pub mod store;
pub mod visibility;
