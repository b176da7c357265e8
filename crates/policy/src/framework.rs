//! The framework a policy lives in.
//!
//! The engine's loop is the same for every policy:
//!
//! ```text
//! for record in ring        policy.enqueue(queued) · policy.refresh(queued) · policy.exit(slot, pid)
//! while ring has room       policy.pop() → dispatched task
//! ```
//!
//! [`Policy::pop`] takes a task out, [`Policy::peek`] only looks, so nothing need be given back when the ring is full.

use crate::dispatched::{Classification, DispatchedTask, Order};
use crate::ids::{Pid, SlotId};
use crate::queued::{BadRecord, QueuedTask};
use crate::settings::PolicySettings;

/// Sizes fixed at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots are below this.
    pub nr_slots: u32,
    /// Tasks kept in order; more are handed straight back.
    pub pool_capacity: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nr_slots: 32_768, pool_capacity: 16_384 }
    }
}

/// What a policy counted since construction, and where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Enqueues classified as interactive.
    pub nr_interactive: u64,
    /// Enqueues classified as batch.
    pub nr_batch: u64,
    /// Tasks handed straight back because the pool was full.
    pub nr_overflow: u64,
    /// Records dropped because they made no sense.
    pub nr_bad_records: u64,
    /// The threshold between the classes now, in voluntary switches per 1000 s.
    pub threshold_milli: u64,
    /// Since when the policy has used arrival order of its own accord.
    pub fifo_since_ns: Option<u64>,
}

/// Orders waiting tasks. Allocates nothing after construction, never blocks, never panics whatever the records say.
///
/// ```
/// use scherzo_policy::{FifoPolicy, Pid, Policy, QueuedTask, PolicySettings, SlotId};
///
/// let mut policy = FifoPolicy::new(16, PolicySettings::default());
/// policy.enqueue(&QueuedTask { slot: SlotId(3), pid: Pid(42), now_ns: 1_000, ..QueuedTask::default() })?;
/// assert_eq!(policy.peek().map(|task| task.pid), Some(Pid(42)));
///
/// let task = policy.pop().expect("one waits");
/// assert_eq!((task.slot, task.slice_ns), (SlotId(3), PolicySettings::default().base_slice_ns));
/// assert_eq!(policy.nr_pending(), 0);
/// # Ok::<(), scherzo_policy::BadRecord>(())
/// ```
pub trait Policy {
    /// A task waits to be run. A second enqueue of the same slot replaces the first.
    fn enqueue(&mut self, queued: &QueuedTask) -> Result<(), BadRecord>;

    /// News about a task that does not wait here.
    fn refresh(&mut self, queued: &QueuedTask) -> Result<(), BadRecord>;

    /// The task is gone and its slot free; says whether it was known. `pid` must match, or nothing happens.
    fn exit(&mut self, slot: SlotId, pid: Pid) -> bool;

    /// The dispatched task that [`Self::pop`] would give.
    fn peek(&self) -> Option<DispatchedTask>;

    /// Decides the next task.
    fn pop(&mut self) -> Option<DispatchedTask>;

    /// Tasks waiting here.
    fn nr_pending(&self) -> usize;

    /// Changes settings; takes effect with the next record, and for [`Self::order`] at once.
    fn set_settings(&mut self, settings: PolicySettings);

    /// Tells the number of CPUs online.
    fn set_nr_cpus(&mut self, nr_cpus: u32);

    /// Which queues work enters now.
    fn order(&self) -> Order;

    /// The last classification of a task; the default for one never seen.
    fn classification(&self, slot: SlotId) -> Classification;

    /// The counters.
    fn totals(&self) -> Totals;
}
