//! Newtypes for the numbers that must not be mixed up.

/// Index into the per-task tables. The kernel side assigns one to each task it may hand over and reuses it later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

impl SlotId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Thread id. 0 belongs to the idle tasks and never names a task here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid(pub u32);

/// Logical CPU number; may be sparse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuId(pub u32);

/// Number of one enqueue of one task. A dispatched task repeats it, so that a late one is recognised and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u64);
