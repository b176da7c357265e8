//! Answers in the order of the questions, for policies that leave the order of tasks to the queues that they enter.

use alloc::vec;
use alloc::vec::Vec;

use crate::arrivals::Arrivals;
use crate::dispatched::DispatchedTask;
use crate::ids::{Pid, SlotId};
use crate::queued::{BadRecord, QueuedTask};

/// Decided tasks that have not been handed out yet, by slot.
#[derive(Debug)]
pub(crate) struct Answers {
    waiting: Arrivals,
    decided: Vec<DispatchedTask>,
}

impl Answers {
    /// For slots below `nr_slots`.
    pub(crate) fn new(nr_slots: u32) -> Self {
        Self { waiting: Arrivals::new(nr_slots), decided: vec![DispatchedTask::default(); nr_slots as usize] }
    }

    /// Whether the record names a task that can be answered.
    pub(crate) const fn check(&self, queued: &QueuedTask) -> Result<(), BadRecord> {
        queued.check(self.decided.len())
    }

    /// Replaces the answer for that slot, at the end.
    pub(crate) fn push(&mut self, decided: DispatchedTask) {
        self.decided[decided.slot.index()] = decided;
        self.waiting.push(decided.slot);
    }

    /// Takes the answer for a task out that is gone.
    pub(crate) fn remove(&mut self, slot: SlotId, pid: Pid) -> bool {
        self.decided.get(slot.index()).is_some_and(|decided| decided.pid == pid) && self.waiting.remove(slot)
    }

    /// The next answer.
    pub(crate) fn first(&self) -> Option<DispatchedTask> {
        self.waiting.first().map(|slot| self.decided[slot.index()])
    }

    /// Takes the next answer out.
    pub(crate) fn pop(&mut self) -> Option<DispatchedTask> {
        self.waiting.pop().map(|slot| self.decided[slot.index()])
    }

    /// Answers that wait.
    pub(crate) const fn len(&self) -> usize {
        self.waiting.len()
    }
}
