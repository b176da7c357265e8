//! What crosses a boundary.
//!
//! Scherzo has two: BPF ↔ engine (rings, slots and pages, in C structures shared with the kernel side) and
//! engine ↔ daemon (fixed-size messages on a socket pair). Both sides of each include this crate, so that a layout
//! stands once:
//!
//! - [`layout`]: the mirror of `include/scherzo_wire.h`, kept equal by the `layout` test;
//! - [`control`]: the control word that switches behaviour while loaded;
//! - [`message`]: what daemon and engine say to each other;
//! - [`channel`]: the socket that carries it, with descriptors;
//! - [`page`]: memory-mapped views of the statistics.
//!
//! Nothing here knows libbpf, D-Bus or a policy.

#![allow(unsafe_code)]

pub mod channel;
pub mod control;
pub mod layout;
pub mod message;
pub mod page;

/// Directory of `scherzo_wire.h`, for the build of the BPF object.
pub const INCLUDE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
