//! The simulator: the scheduler's own source over an emulated sched_ext core, in discrete time.
//!
//! The BPF source is compiled for the host, unchanged (`native/`, `build.rs`); [`machine`] stands for the kernel, and
//! [`user`] runs the engine's loop as a task of the machine. A scenario ([`scenario`]) says which CPUs there are and what
//! runs on them, [`mod@run`] has it happen, and [`report`] says what came of it.
//!
//! Nothing that is decided depends on addresses, hash order, floats or the clock of the host: the same scenario and seed
//! give the same trace, byte for byte.

mod abi;
mod accounting;
#[cfg(test)]
mod bandwidth;
mod baseline;
mod cgroups;
mod children;
#[cfg(instrumented)]
mod coverage;
mod eevdf;
mod energy;
mod events;
mod fault;
#[cfg(test)]
mod functions;
mod interleave;
mod invariants;
mod kfuncs;
mod loaded;
mod machine;
mod options;
mod pages;
mod profile;
mod replay;
mod report;
mod rings;
mod rubbish;
mod run;
mod scenario;
mod solver;
mod stats;
mod task;
mod trace;
mod traps;
mod user;
mod work;

pub use baseline::BaselineScheduler;
#[cfg(instrumented)]
pub use coverage::Coverage;
pub use energy::EnergyUse;
pub use fault::{BrokenCopy, InjectedFault, UNFIT_FAULTS};
pub use interleave::{CpuSwitch, Exploration, FailedRun, SwitchPlan, explore_all, explore_randomly};
pub use invariants::{KnownFault, Rule, Violation};
pub use loaded::{SchedulerSetting, SourceScheduler};
pub use options::SimulationOptions;
pub use report::{GroupReport, SimulationReport};
pub use run::run;
pub use scenario::Scenario;
pub use scherzo_wire::control::Mode;
pub use scherzo_wire::message::SliceTimer;
