//! What the host says about itself: readers of `/sys` and `/proc`; and the little that is changed there.
//!
//! Every reader takes a [`Root`], so that tests and the simulation put a directory of their own in place of `/`.
//! Errors name the file. Nothing is cached: a reader that is asked twice reads twice.

mod btf;
mod control_groups;
mod cores;
mod diagnosis;
mod error;
mod frequency;
mod kernel;
mod process;
mod rcu;
mod root;
mod sched_ext;
mod stat;
mod sysctl;
mod threads;
mod topology;

pub use btf::{KernelTypes, check as check_types, kernel_types, malformed_kfuncs, quote_names};
pub use control_groups::{GroupSupport, diagnose_groups};
pub use diagnosis::{Finding, Severity, diagnose, diagnose_self, missing_options, rival_units};
pub use error::Error;
pub use frequency::frequency_can_follow_scheduler;
pub use kernel::release;
pub use process::{ProcessStats, process_stats};
pub use rcu::{KernelThread, ThreadPolicy, rcu_thread, set_policy};
pub use root::Root;
pub use sched_ext::{SchedExt, SchedExtState};
pub use stat::idle_ns;
pub use sysctl::{compact_unevictable, set_compact_unevictable};
pub use threads::{ThreadFacts, thread, threads};
pub use topology::{Topology, topology};
