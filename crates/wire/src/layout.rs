//! The Rust mirror of `include/scherzo_wire.h`: same names without the prefix, same order, same sizes.
//!
//! Times are nanoseconds of the BPF clock; they wrap and are compared by signed difference only.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use scherzo_arithmetic::TaskAccount;
pub use scherzo_model::statistics::NR_COUNTERS;
pub use scherzo_model::{Class, Counter, WIRE_VERSION};

/// Slots in the shared table, one per task.
pub const NR_SLOTS: u32 = 32_768;
/// "No slot": the task is BPF's alone.
pub const NO_SLOT: u32 = u32::MAX;
/// Records each ring holds at least.
pub const NR_RING_RECORDS: u32 = 8_192;
/// Size of the ring from BPF to the engine.
pub const QUEUED_RING_BYTES: u32 = 1 << 20;
/// Size of the ring from the engine to BPF.
pub const DISPATCHED_RING_BYTES: u32 = 1 << 19;
/// A dispatched task that leaves the CPU to BPF.
pub const CPU_ANY: u32 = u32::MAX;
/// Buckets of a run-queue wait histogram.
pub const NR_WAIT_BUCKETS: usize = 32;
/// Classes a wait histogram is kept for, [`Class::Unknown`] included.
pub const NR_CLASSES: usize = Class::ALL.len();

/// [`QueuedTaskRecord::flags`]: woken, not preempted or moved.
pub const QUEUED_WAKEUP: u32 = 0x1;
/// [`QueuedTaskRecord::flags`]: may run on one CPU only.
pub const QUEUED_PINNED: u32 = 0x2;

/// [`DispatchedTaskRecord::flags`]: the class, see [`Class`].
pub const DISPATCHED_CLASS_MASK: u32 = 0x3;
/// [`DispatchedTaskRecord::flags`], of a policy for study: arrival order, the deadline is ignored.
pub const DISPATCHED_FIFO: u32 = 0x4;
/// [`DispatchedTaskRecord::flags`], of a policy for study: take a CPU from a batch task at once.
pub const DISPATCHED_PREEMPT: u32 = 0x8;
/// [`DispatchedTaskRecord::flags`]: a timer ends the slice.
pub const DISPATCHED_TIMED: u32 = 0x10;

/// What a ring record is about ([`QueuedTaskRecord::kind`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RecordKind {
    /// The task is in flight: user space owns it now.
    Enqueue = 1,
    /// Only an update: the task never left BPF, its class is stale.
    Refresh = 2,
    /// The slot is free; only slot and pid are set.
    Exit = 3,
    /// Look at the control page.
    Notice = 4,
}

impl RecordKind {
    /// Reads the kind of an untrusted record.
    #[must_use]
    pub const fn from_wire(kind: u32) -> Option<Self> {
        match kind {
            1 => Some(Self::Enqueue),
            2 => Some(Self::Refresh),
            3 => Some(Self::Exit),
            4 => Some(Self::Notice),
            _ => None,
        }
    }
}

/// BPF → engine: one enqueue, refresh, exit or notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueuedTaskRecord {
    /// A [`RecordKind`].
    pub kind: u32,
    /// Index into the slot table.
    pub slot: u32,
    /// Generation of this enqueue; a dispatched task must repeat it.
    pub generation: u64,
    /// Thread id.
    pub pid: u32,
    /// `QUEUED_*` bits.
    pub flags: u32,
    /// "Now" on the BPF clock.
    pub now_ns: u64,
    /// CPU time since the scheduler met this task.
    pub sum_exec_ns: u64,
    /// CPU time since it last slept; for a wake-up, of the burst before that sleep.
    pub burst_ns: u64,
    /// Voluntary context switches since the task was born.
    pub nr_voluntary_switches: u64,
    /// Load weight, 1..=10000; 100 is nice 0.
    pub weight: u32,
    /// CPU it last ran on.
    pub cpu: u32,
    /// Tasks on a CPU now.
    pub nr_running: u32,
    /// Tasks in DSQs or in flight now.
    pub nr_waiting: u32,
    /// What its turn depends on; zeroes for a policy for study.
    pub account: TaskAccount,
}

/// Engine → BPF: run this task, there, for so long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DispatchedTaskRecord {
    /// Index into the slot table.
    pub slot: u32,
    /// Thread id, as in the queued task.
    pub pid: u32,
    /// Generation, as in the queued task.
    pub generation: u64,
    /// Time slice.
    pub slice_ns: u64,
    /// Deadline: earlier runs first. Virtual runtime for a task that has no credit.
    pub deadline_ns: u64,
    /// Target CPU, or [`CPU_ANY`].
    pub cpu: u32,
    /// `DISPATCHED_*` bits and the class.
    pub flags: u32,
}

/// What the policy publishes about each task, so that BPF can act on it without asking.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    /// Last deadline.
    pub deadline_ns: AtomicU64,
    /// When the task was classified.
    pub classified_ns: AtomicU64,
    /// Last slice.
    pub slice_ns: AtomicU64,
    /// A [`Class`].
    pub class: AtomicU32,
    #[doc(hidden)]
    pub reserved: u32,
}

/// The page BPF and engine share; the daemon reads it. Each group of eight words is a cache line with one writer, or
/// with readers that seldom meet a writer.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ControlPage {
    /// The control word, see [`crate::control::ControlWord`].
    pub word: AtomicU64,
    /// Slice for tasks that BPF dispatches by itself.
    pub slice_ns: AtomicU64,
    /// How long batch work waits behind interactive work.
    pub starvation_limit_ns: AtomicU64,
    /// The number of the control group in front, in the default hierarchy; 0 is none.
    pub foreground_cgroup: AtomicU64,
    /// What it weighs, in percent of its own weight.
    pub foreground_percent: AtomicU32,
    /// Slices shorter than this are ended by timer while others wait, see [`scherzo_model::SliceTimer`].
    pub timed_slice_us: AtomicU32,
    /// By BPF: odd while degraded; counts both edges.
    pub degraded_seq: AtomicU64,
    /// By BPF: CPUs online.
    pub nr_online_cpus: AtomicU64,
    /// By BPF: non-zero once `ops.exit` has run.
    pub exited: AtomicU64,

    /// Dispatched tasks written to the ring so far.
    pub nr_submitted: AtomicU64,
    /// Non-zero while the engine sleeps or is about to: a new record must wake it.
    pub parked: AtomicU64,
    /// Answer to `degraded_seq`: user space is back.
    pub recovered_seq: AtomicU64,
    /// Dispatched tasks so far that ask for preemption.
    pub nr_urgent: AtomicU64,
    /// Turns of the engine's loop.
    pub nr_loops: AtomicU64,
    /// Records read.
    pub nr_records: AtomicU64,
    /// Tasks dispatched.
    pub nr_dispatched: AtomicU64,
    /// Largest batch of records in one turn.
    pub nr_max_batch: AtomicU64,

    /// In-flight tasks now.
    pub nr_in_flight: AtomicI64,
    /// Tasks that hold a slot.
    pub nr_tasks: AtomicI64,
    /// Tasks on a CPU at the last hand-over.
    pub nr_running: AtomicI64,
    /// When BPF last degraded.
    pub degraded_since_ns: AtomicU64,
    /// By BPF, when the scheduler ended: not 0 if a higher class had held CPUs for seconds, until a moment ago at least.
    pub nr_higher_class_cpus: AtomicU64,
    /// Runnable tasks in DSQs and in flight, when the watchdog timer last looked.
    pub nr_waiting: AtomicI64,
    #[doc(hidden)]
    pub bpf_reserved: [AtomicU64; 2],

    /// Tasks in the pool after the last turn.
    pub nr_pooled: AtomicU64,
    /// Enqueues classified as interactive.
    pub nr_interactive: AtomicU64,
    /// Enqueues classified as batch.
    pub nr_batch: AtomicU64,
    /// Kick programs run because the engine did not block.
    pub nr_doorbells: AtomicU64,
    /// Moving threshold, voluntary switches per 1000 s.
    pub threshold_milli: AtomicU64,
    /// When interactive turned itself into FIFO, 0 if it has not.
    pub fifo_since_ns: AtomicU64,
    /// Tasks handed straight back because the pool was full.
    pub nr_overflow: AtomicU64,
    /// Records that made no sense.
    pub nr_bad_records: AtomicU64,

    /// Page faults of the engine since attach.
    pub nr_page_faults: AtomicU64,
    /// Heap operations of the engine since attach.
    pub nr_heap_ops: AtomicU64,
    /// CPU time of the engine since attach.
    pub cpu_time_ns: AtomicU64,
    /// Resident memory of the engine; locked, so it does not change.
    pub resident_bytes: AtomicU64,
    #[doc(hidden)]
    pub engine_reserved: [AtomicU64; 4],
}

/// What one CPU counted; written by that CPU only.
#[derive(Debug)]
#[repr(C)]
pub struct CpuStats {
    /// Indexed by [`Counter`].
    pub counters: [AtomicU64; NR_COUNTERS],
    /// Run-queue wait per [`Class`]: bucket *b* counts waits below 2^*b* µs that do not fit bucket *b* − 1.
    pub wait: [[AtomicU64; NR_WAIT_BUCKETS]; NR_CLASSES],
    /// Time spent in tasks of this scheduler, the engine left out.
    pub busy_ns: AtomicU64,
    /// Times the CPU went idle.
    pub nr_idle_entries: AtomicU64,
    /// Time a higher scheduling class held the CPU.
    pub higher_class_ns: AtomicU64,
    #[doc(hidden)]
    pub reserved: [AtomicU64; 5],
}

impl Default for CpuStats {
    fn default() -> Self {
        Self {
            counters: [const { AtomicU64::new(0) }; NR_COUNTERS],
            wait: [const { [const { AtomicU64::new(0) }; NR_WAIT_BUCKETS] }; NR_CLASSES],
            busy_ns: AtomicU64::new(0),
            nr_idle_entries: AtomicU64::new(0),
            higher_class_ns: AtomicU64::new(0),
            reserved: [const { AtomicU64::new(0) }; 5],
        }
    }
}

const _: () = {
    assert!(size_of::<QueuedTaskRecord>() == 120);
    assert!(size_of::<DispatchedTaskRecord>() == 40);
    assert!(size_of::<Slot>() == 32);
    assert!(size_of::<ControlPage>() == 320);
    assert!(size_of::<CpuStats>() == 8 * (NR_COUNTERS + NR_CLASSES * NR_WAIT_BUCKETS + 8));
};
