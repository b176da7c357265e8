//! The least policy there can be: arrival order, one slice for all. It shows what the framework asks of a policy.

use crate::answers::Answers;
use crate::dispatched::{Class, Classification, DispatchedTask, Order, Target};
use crate::framework::{Policy, Totals};
use crate::ids::{Pid, SlotId};
use crate::queued::{BadRecord, QueuedTask};
use crate::settings::PolicySettings;

/// First come, first served.
#[derive(Debug)]
pub struct FifoPolicy {
    slice_ns: u64,
    answers: Answers,
    totals: Totals,
}

impl FifoPolicy {
    /// For slots below `nr_slots`.
    #[must_use]
    pub fn new(nr_slots: u32, settings: PolicySettings) -> Self {
        let slice_ns = settings.clamped().base_slice_ns;
        Self { slice_ns, answers: Answers::new(nr_slots), totals: Totals::default() }
    }
}

impl Policy for FifoPolicy {
    fn enqueue(&mut self, queued: &QueuedTask) -> Result<(), BadRecord> {
        self.answers.check(queued).inspect_err(|_| self.totals.nr_bad_records += 1)?;
        self.answers.push(DispatchedTask {
            slot: queued.slot,
            pid: queued.pid,
            generation: queued.generation,
            slice_ns: self.slice_ns,
            deadline_ns: queued.now_ns,
            target: if queued.is_pinned() { Target::Cpu(queued.cpu) } else { Target::Any },
            class: Class::Batch,
            order: Order::Fifo,
            preempt: false,
            timed: false,
        });
        self.totals.nr_batch += 1;
        Ok(())
    }

    fn refresh(&mut self, _: &QueuedTask) -> Result<(), BadRecord> {
        Ok(())
    }

    fn exit(&mut self, slot: SlotId, pid: Pid) -> bool {
        self.answers.remove(slot, pid)
    }

    fn peek(&self) -> Option<DispatchedTask> {
        self.answers.first()
    }

    fn pop(&mut self) -> Option<DispatchedTask> {
        self.answers.pop()
    }

    fn nr_pending(&self) -> usize {
        self.answers.len()
    }

    fn set_settings(&mut self, settings: PolicySettings) {
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
