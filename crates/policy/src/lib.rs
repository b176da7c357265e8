//! Scheduling policy, pure: facts and time in, decisions out.
//!
//! No clock, no I/O, no floating point, and no allocation after construction: the engine's one thread calls this while
//! the machine waits for it, and the simulator calls the same code.
//!
//! Read [`scherzo`] first; it says what the parts are for. [`framework`] is the interface of any policy, [`fifo`] the
//! smallest one.
//!
//! Architecture invariants: this crate depends on nothing but `core` and `alloc`; it knows neither the layout of the
//! rings nor the kernel; every number it is told may be garbage, and the worst that garbage may do is to misplace the
//! task it came with.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod arrivals;
pub mod classify;
pub mod deadline;
pub mod decision;
pub mod facts;
pub mod fifo;
pub mod framework;
pub mod ids;
pub mod pool;
pub mod scherzo;
pub mod settings;
pub mod slice;
pub mod time;
mod underuse;

pub use decision::{Class, Decision, Order, Target, Verdict};
pub use facts::{BadRecord, Load, TaskFacts, TaskFlags};
pub use fifo::FifoPolicy;
pub use framework::{Limits, Policy, Totals};
pub use ids::{CpuId, Generation, Pid, SlotId};
pub use scherzo::Scherzo;
pub use settings::{Mode, Settings};
