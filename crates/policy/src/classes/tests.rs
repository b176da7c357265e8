//! What holds for every test of the policy.

mod behaviour;
mod fairness;
mod properties;

use super::*;
use crate::ids::{CpuId, Generation};
use crate::queued::Load;
use crate::settings::LoadSettings;

const MS: u64 = 1_000_000;
const NR_SLOTS: u32 = 16;
const CAPACITY: u32 = 12;
const NR_CPUS: u32 = 4;
const BUSY: Load = Load { nr_running: NR_CPUS, nr_waiting: NR_CPUS };

fn policy() -> Classes {
    Classes::new(Limits { nr_slots: NR_SLOTS, pool_capacity: CAPACITY }, PolicySettings::default(), NR_CPUS)
}

/// An enqueue of a forked task of ordinary weight on a busy machine.
fn queued(slot: u32, now_ns: u64) -> QueuedTask {
    QueuedTask { slot: SlotId(slot), pid: Pid(1000 + slot), now_ns, weight: 100, load: BUSY, ..QueuedTask::default() }
}

fn woken(slot: u32, now_ns: u64) -> QueuedTask {
    QueuedTask { flags: TaskFlags::WAKEUP, ..queued(slot, now_ns) }
}

fn drain(policy: &mut Classes) -> Vec<DispatchedTask> {
    core::iter::from_fn(|| policy.pop()).collect()
}

fn slots(dispatched: &[DispatchedTask]) -> Vec<u32> {
    dispatched.iter().map(|task| task.slot.0).collect()
}

impl Classes {
    fn verify_invariants(&self) {
        self.pool.verify_invariants();
        for (index, task) in self.tasks.iter().enumerate() {
            let slot = SlotId(index as u32);
            let pooled = self.pool.contains(slot);
            let overflown = self.overflow.contains(slot);
            assert!(!(pooled && overflown), "slot {index} waits twice");
            assert!(task.pid != Pid(0) || !(pooled || overflown), "slot {index} waits without a task");
            if pooled || overflown {
                assert_eq!((task.pending.slot, task.pending.pid), (slot, task.pid));
            }
            let lag = signed_diff(task.vruntime_ns, self.virtual_ns);
            assert!(task.pid == Pid(0) || lag <= self.bound_ns().max(MAX_BOUND_NS) as i64, "slot {index}: {lag}");
        }
        assert_eq!(self.peek().is_some(), self.nr_pending() > 0);
    }
}

/// Of the settings that the property tests use.
const MAX_BOUND_NS: u64 = 500 * MS;
