//! Scheduling policy, pure: queued tasks and time in, dispatched tasks out.
//!
//! No clock, no I/O, no floating point, and no allocation after construction: the engine's one thread calls this while
//! the machine waits for it, and the simulator calls the same code.
//!
//! Read [`scherzo`] first; it says what the parts are for. [`framework`] is the interface of any policy, [`fifo`] the
//! smallest one.
//!
//! Architecture invariants: this crate depends on nothing but `core`, `alloc`, the tables of `scherzo-model` and the arithmetic
//! that it shares with BPF (`scherzo-arithmetic`); it knows neither the layout of the rings nor the kernel; every number it is told may be garbage, and the worst that garbage may
//! do is to misplace the task it came with.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answers;
pub mod arrivals;
pub mod classes;
pub mod classify;
pub mod deadline;
pub mod dispatched;
pub mod fifo;
pub mod framework;
pub mod ids;
pub mod pool;
pub mod queued;
pub mod scherzo;
pub mod settings;
pub mod slice;
pub mod time;
mod underuse;

#[cfg(test)]
mod conformance;

pub use classes::Classes;
pub use dispatched::{Class, Classification, DispatchedTask, Order, Target};
pub use fifo::FifoPolicy;
pub use framework::{Limits, Policy, Totals};
pub use ids::{CpuId, Generation, Pid, SlotId};
pub use queued::{BadRecord, Load, QueuedTask, TaskFlags};
pub use scherzo::Scherzo;
pub use settings::{LoadSettings, Mode, PolicySettings};

/// What every policy is made from.
#[derive(Clone, Copy, Debug)]
pub struct Construction {
    /// Sizes that stay.
    pub limits: Limits,
    /// What the policy goes by at first.
    pub settings: PolicySettings,
    /// CPUs online.
    pub nr_cpus: u32,
}

/// Something to do with a policy whose type is known only once its name has been looked up.
pub trait PolicyVisitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Output;
}

macro_rules! policies {
    ($($name:literal => $new:expr;)+) => {
        /// The names of all policies, for the setting `policy`; the first is the default, the others are for study.
        pub const POLICIES: &[&str] = &[$($name),+];

        /// Makes the policy at that place of [`POLICIES`] and hands it to the visitor; `None` if there is none.
        pub fn with_policy<V: PolicyVisitor>(id: usize, with: Construction, visitor: V) -> Option<V::Output> {
            match *POLICIES.get(id)? {
                $($name => {
                    let new: fn(Construction) -> _ = $new;
                    Some(visitor.visit(new(with)))
                })+
                _ => None,
            }
        }
    };
}

policies! {
    "scherzo" => |with| Scherzo::new(with.limits.nr_slots, with.settings);
    "fifo" => |with| FifoPolicy::new(with.limits.nr_slots, with.settings);
    "classes" => |with| Classes::new(with.limits, with.settings, with.nr_cpus);
}
