//! How a scenario is run.

use scherzo_wire::control::Mode;
use scherzo_wire::message::SliceTimer;

use crate::baseline::BaselineScheduler;
use crate::fault::BrokenCopy;
use crate::fault::InjectedFault;
use crate::interleave::SwitchPlan;

/// What a run depends on besides its scenario.
#[derive(Clone, Debug)]
pub struct SimulationOptions {
    /// Decides what the scenario leaves open.
    pub seed: u64,
    /// The scheduler's mode.
    pub mode: Mode,
    /// BPF applies the policy, not the engine in user space.
    pub kernel_seat: bool,
    /// Write down what ran where.
    pub trace: bool,
    /// What goes wrong on purpose between the scheduler and the kernel.
    pub fault: Option<InjectedFault>,
    /// What is broken on purpose in the scheduler.
    pub broken: Option<BrokenCopy>,
    /// Another scheduler instead.
    pub baseline: Option<BaselineScheduler>,
    /// CPUs run at the same time, and interrupt each other so; else each callback takes no time.
    pub plan: Option<SwitchPlan>,
    /// The setting of that name.
    pub slice_timer: SliceTimer,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            mode: Mode::Interactive,
            kernel_seat: true,
            trace: false,
            fault: None,
            broken: None,
            baseline: None,
            plan: None,
            slice_timer: SliceTimer::default(),
        }
    }
}
