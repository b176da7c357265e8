//! How an attempt to load ends, and how a loaded scheduler does: what the engine reports to the service.

/// Why loading failed, as a stable number; the text says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum FailKind {
    /// The kernel has no sched_ext.
    NotSupported = 1,
    /// The kernel's type information is malformed: no scheduler can be loaded.
    MalformedBtf = 2,
    /// Capabilities or limits are missing.
    Permission = 3,
    /// Another sched_ext scheduler runs.
    Conflict = 4,
    /// Anything else; the text has the kernel's words.
    Other = 5,
    /// What was prepared does not fit any more: CPUs came or went, or other settings are wanted. Another engine can load.
    Outdated = 6,
}

/// Why the scheduler was unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum ExitKind {
    /// As asked.
    Unloaded = 1,
    /// Someone asked the kernel to (SysRq-S), or unregistered it.
    Kernel = 2,
    /// The kernel found an error in the scheduler.
    Error = 3,
    /// A runnable task waited too long.
    Stall = 4,
    /// The kernel's watchdog found a task that had waited too long, while a higher class held CPUs.
    RtStarvation = 5,
    /// A task was re-enqueued too often without running (from Linux 7.3).
    ReenqueueLimit = 6,
    /// The kernel had to run too much in the scheduler's place (from Linux 7.3).
    RescueOverload = 7,
}
