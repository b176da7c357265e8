//! What is broken on purpose, in copies of the scheduler or beside it, to see that the simulator notices.

/// What is broken; `native/broken.txt` has the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BrokenCopy {
    /// A task that is to wait in a queue is not put there.
    LostTask = 1,
    /// A task is dispatched twice.
    DoubleDispatch = 2,
    /// Tasks are sent to the last CPU, whether they may run there or not.
    ForbiddenCpu = 3,
    /// No idle CPU is kicked for a task that was queued.
    ForgottenKick = 4,
    /// What the prompt owe to the others is not paid back.
    StarvedClass = 5,
    /// CPUs are divided among no LLCs.
    DivisionByZero = 6,
    /// A CPU notes that it idles by a store that may take effect after its next look at the queues.
    MissingBarrier = 7,
    /// Messages do not gather before who reads them runs.
    EagerMessages = 8,
    /// A bit beyond the word is set.
    ShiftTooFar = 9,
    /// A counter is looked for behind NULL.
    AccessThroughNull = 10,
    /// What is counted lies behind the counters.
    IndexOutOfBounds = 11,
    /// The kernel is given NULL for a mask of CPUs.
    NullForMask = 12,
    /// Tasks that come back from user space still count as in flight.
    MiscountedFlight = 13,
    /// Their slots stay marked as in flight.
    StaleFlightBit = 14,
    /// Tasks are handed to user space without being counted.
    UncountedSubmission = 15,
    /// A CPU that goes from idle to idle does not note that it idles.
    UnnotedIdle = 16,
}

/// What goes wrong on purpose between the scheduler and the kernel or the engine, to see that somebody notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// One insertion is forgotten.
    LostInsertion,
    /// Each insertion is made twice.
    DoubleInsertion,
    /// Insertions go to the local queue of the last CPU, whether the task may run there or not.
    ForbiddenCpu,
    /// Idle CPUs are not kicked.
    ForgottenKicks,
    /// What the engine says of its parking may take effect after its second look.
    NoParkingBarrier,
    /// A CPU looks for a task to take before it has locked the queue.
    UnlockedSearch,
    /// A CPU that fetches a task does not notice that the task was dequeued while no lock was held.
    OverlookedDequeue,
    /// The kernel keeps tasks whose migration is disabled from the scheduler, as without `SCX_OPS_ENQ_MIGRATION_DISABLED`.
    KeptFromMigrating,
    /// The kernel does not mark a CPU as idle again that goes from idle to idle.
    IdleStaysUnmarked,
    /// User space writes rubbish to the rings, beside and in place of what its loop says. The rules hold all the same.
    RubbishFromEngine,
}

/// Names of those broken copies whose lines are not in the source any more.
pub const UNFIT_FAULTS: &str = env!("SIM_UNFIT_FAULTS");
