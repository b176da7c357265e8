//! The least policy there can be: arrival order, one slice for all. It shows what the framework asks of a policy.

use alloc::vec;
use alloc::vec::Vec;

use crate::arrivals::Arrivals;
use crate::dispatched::{Class, Classification, DispatchedTask, Order, Target};
use crate::framework::{Policy, Totals};
use crate::ids::{Pid, SlotId};
use crate::queued::{BadRecord, Load, QueuedTask};
use crate::settings::Settings;

/// First come, first served.
#[derive(Debug)]
pub struct FifoPolicy {
    slice_ns: u64,
    waiting: Arrivals,
    decisions: Vec<DispatchedTask>,
    totals: Totals,
}

impl FifoPolicy {
    /// For slots below `nr_slots`.
    #[must_use]
    pub fn new(nr_slots: u32, settings: Settings) -> Self {
        let decisions = vec![DispatchedTask::default(); nr_slots as usize];
        let slice_ns = settings.clamped().base_slice_ns;
        Self { slice_ns, waiting: Arrivals::new(nr_slots), decisions, totals: Totals::default() }
    }
}

impl Policy for FifoPolicy {
    fn enqueue(&mut self, facts: &QueuedTask) -> Result<(), BadRecord> {
        facts.check(self.decisions.len()).inspect_err(|_| self.totals.nr_bad_records += 1)?;
        self.decisions[facts.slot.index()] = DispatchedTask {
            slot: facts.slot,
            pid: facts.pid,
            generation: facts.generation,
            slice_ns: self.slice_ns,
            deadline_ns: facts.now_ns,
            target: if facts.is_pinned() { Target::Cpu(facts.cpu) } else { Target::Any },
            class: Class::Batch,
            order: Order::Fifo,
            preempt: false,
        };
        self.waiting.push(facts.slot);
        self.totals.nr_batch += 1;
        Ok(())
    }

    fn refresh(&mut self, _: &QueuedTask) -> Result<(), BadRecord> {
        Ok(())
    }

    fn dequeue(&mut self, slot: SlotId, pid: Pid) -> bool {
        self.decisions.get(slot.index()).is_some_and(|decision| decision.pid == pid) && self.waiting.remove(slot)
    }

    fn exit(&mut self, slot: SlotId, pid: Pid) -> bool {
        self.dequeue(slot, pid)
    }

    fn peek(&self) -> Option<DispatchedTask> {
        self.waiting.first().map(|slot| self.decisions[slot.index()])
    }

    fn pop(&mut self) -> Option<DispatchedTask> {
        self.waiting.pop().map(|slot| self.decisions[slot.index()])
    }

    fn nr_pending(&self) -> usize {
        self.waiting.len()
    }

    fn observe_load(&mut self, _: u64, _: Load) {}

    fn set_settings(&mut self, settings: Settings) {
        self.slice_ns = settings.clamped().base_slice_ns;
    }

    fn set_nr_cpus(&mut self, _: u32) {}

    fn order(&self) -> Order {
        Order::Fifo
    }

    fn classification(&self, _: SlotId) -> Classification {
        Classification { class: Class::Batch, slice_ns: self.slice_ns, ..Classification::default() }
    }

    fn totals(&self) -> Totals {
        self.totals
    }
}
