//! The real daemon on a private bus, with a simulated engine: every member, as clients meet it.

// A test may end where something else than expected comes.
#![allow(clippy::unwrap_used)]

mod authorization;
mod client;
mod compatibility;
mod config;
mod contract;
mod control_groups;
mod descriptions;
mod diagnosis;
mod faults;
mod flood;
mod floods;
mod foreground;
mod holds;
mod log_control;
mod manager;
mod noise;
mod power;
mod profile;
mod service;
mod session;
mod statistics;
mod support;
mod turns;
