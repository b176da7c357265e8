//! What the kernel side tells: plain numbers, trusted with nothing.

use scherzo_arithmetic::TaskAccount;

use crate::ids::{CpuId, Generation, Pid, SlotId};

/// How a task came to be runnable, and what kind of task it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFlags(u32);

impl TaskFlags {
    /// Woken, not preempted, moved or just forked.
    pub const WAKEUP: Self = Self(0x1);
    /// May run on one CPU only.
    pub const PINNED: Self = Self(0x2);

    /// Takes the bits of a record; unknown ones are ignored.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 0x3)
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How busy the machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Tasks on a CPU.
    pub nr_running: u32,
    /// Tasks runnable but not on a CPU, wherever they are queued.
    pub nr_waiting: u32,
}

/// One contended enqueue, or one refresh of what is known about a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuedTask {
    /// The task's place in the tables.
    pub slot: SlotId,
    /// Of this enqueue.
    pub generation: Generation,
    /// Thread id.
    pub pid: Pid,
    /// "Now".
    pub now_ns: u64,
    /// CPU time since the scheduler met this task.
    pub sum_exec_ns: u64,
    /// CPU time since it last slept.
    pub burst_ns: u64,
    /// Voluntary context switches since the task was born.
    pub nr_voluntary_switches: u64,
    /// Load weight, 1..=10000; 100 is nice 0.
    pub weight: u32,
    /// CPU it last ran on.
    pub cpu: CpuId,
    /// How and what.
    pub flags: TaskFlags,
    /// The machine at that moment.
    pub load: Load,
    /// What its turn depends on by the shares of all; zeroes for a policy for study.
    pub account: TaskAccount,
}

impl QueuedTask {
    /// Whether the record names a task at all, in a table of `nr_slots`.
    pub const fn check(&self, nr_slots: usize) -> Result<(), BadRecord> {
        if self.slot.index() >= nr_slots {
            Err(BadRecord::Slot)
        } else if self.pid.0 == 0 {
            Err(BadRecord::Pid)
        } else {
            Ok(())
        }
    }

    /// Whether exactly one CPU can take it.
    #[must_use]
    pub const fn is_pinned(&self) -> bool {
        self.flags.has(TaskFlags::PINNED)
    }
}

/// Why a record was dropped. Every other oddity is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRecord {
    /// There is no such slot.
    Slot,
    /// Pid 0 is the idle task.
    Pid,
}
