//! What the policy answers.

pub use scherzo_model::{Class, Order};

use crate::ids::{CpuId, Generation, Pid, SlotId};

/// Where a task shall run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The kernel side chooses.
    #[default]
    Any,
    /// Here and nowhere else.
    Cpu(CpuId),
}

/// Run this task, there, for so long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchedTask {
    /// As in the queued task.
    pub slot: SlotId,
    /// As in the queued task.
    pub pid: Pid,
    /// As in the queued task.
    pub generation: Generation,
    /// Time slice.
    pub slice_ns: u64,
    /// Deadline on the clock of the records: the earlier runs first. Meaningful in either order. Of a task that takes turns by
    /// its share, virtual runtime.
    pub deadline_ns: u64,
    /// Where.
    pub target: Target,
    /// What the task is taken for.
    pub class: Class,
    /// Which queue.
    pub order: Order,
    /// Take a CPU from a batch task at once.
    pub preempt: bool,
    /// A timer ends the slice: ticks are too far apart for it.
    pub timed: bool,
}

/// The last classification of a task, for publishing where the kernel side can read it without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classification {
    /// What the task is taken for.
    pub class: Class,
    /// Its deadline.
    pub deadline_ns: u64,
    /// Its slice; 0 where the task was never seen.
    pub slice_ns: u64,
    /// When it was classified.
    pub classified_ns: u64,
}
