//! Each fact once: what modes, classes, settings and statistics there are, and what each is called, counted in and described as.
//!
//! Rust code reads these tables or expands them ([`for_each_statistic`], [`for_each_setting`]); what cannot, because it is C, JavaScript or a
//! document, is generated from them by `cargo xtask codegen`. The generated files are committed, and a test compares
//! them.
//!
//! Architecture invariants: this crate depends on nothing and has no `unsafe`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod class;
mod ending;
mod mode;
mod order;
mod seat;
pub mod settings;
mod slice_timer;
pub mod statistics;

pub use class::Class;
pub use ending::{ExitKind, FailKind};
pub use mode::Mode;
pub use order::Order;
pub use seat::Seat;
pub use settings::{LoadSettings, PolicyId};
pub use slice_timer::SliceTimer;
pub use statistics::Counter;

/// Layout version of everything that BPF, engine and daemon share; both ends of every boundary must agree.
pub const WIRE_VERSION: u32 = 8;

/// What the names of our operations begin with; the kernel shows them in `/sys/kernel/sched_ext/root/ops`.
pub const OPS_PREFIX: &str = "scherzo";

/// Marks a text for translation where it cannot be translated yet.
#[must_use]
pub const fn gettext_noop(text: &'static str) -> &'static str {
    text
}
