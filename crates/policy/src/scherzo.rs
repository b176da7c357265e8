//! The policy of Scherzo, where user space has the seat.
//!
//! **Problem.** CPU time is to be divided by weight, and a task that sleeps a lot is to run as soon as it wakes. Both take
//! accounts (virtual runtime, credit, what is active in each control group) that every start and stop of every task changes.
//!
//! **Approach.** BPF keeps the accounts, whoever has the seat, and puts each task's into the record that goes up. What is decided
//! here is the task's turn: when it comes and how long it lasts. The arithmetic is not repeated: `scherzo-arithmetic` calls the very
//! lines that BPF includes where the kernel has the seat. Tasks are kept in order by the DSQs that they enter, so nothing is
//! ordered here: answers go down as records come up, and wait only while the ring is full.
//!
//! Tasks that go first do not come here: BPF knows their turn, and they would wait for the answer (with `full_user` they do
//! come).

use crate::answers::Answers;
use crate::dispatched::{Class, Classification, DispatchedTask, Order, Target};
use crate::framework::{Policy, Totals};
use crate::ids::{Pid, SlotId};
use crate::queued::{BadRecord, QueuedTask};
use crate::settings::{Mode, PolicySettings};

/// Turns by share and credit.
#[derive(Debug)]
pub struct Scherzo {
    settings: PolicySettings,
    answers: Answers,
    totals: Totals,
}

impl Scherzo {
    /// For slots below `nr_slots`. Everything it will ever need is allocated here.
    #[must_use]
    pub fn new(nr_slots: u32, settings: PolicySettings) -> Self {
        Self { settings: settings.clamped(), answers: Answers::new(nr_slots), totals: Totals::default() }
    }

    fn decide(&self, queued: &QueuedTask) -> DispatchedTask {
        let by_arrival = self.order() == Order::Fifo;
        let turn = queued.account.turn(self.settings.base_slice_ns, by_arrival);
        DispatchedTask {
            slot: queued.slot,
            pid: queued.pid,
            generation: queued.generation,
            slice_ns: turn.slice_ns,
            deadline_ns: turn.vtime,
            target: Target::Any,
            class: if turn.first != 0 { Class::Interactive } else { Class::Batch },
            order: Order::Deadline,
            preempt: false,
            timed: turn.timed != 0,
        }
    }
}

impl Policy for Scherzo {
    fn enqueue(&mut self, queued: &QueuedTask) -> Result<(), BadRecord> {
        self.answers.check(queued).inspect_err(|_| self.totals.nr_bad_records += 1)?;
        let prompt = queued.account.prompt != 0;
        self.totals.nr_interactive += u64::from(prompt);
        self.totals.nr_batch += u64::from(!prompt);
        self.answers.push(self.decide(queued));
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
        self.settings = settings.clamped();
    }

    fn set_nr_cpus(&mut self, _: u32) {}

    fn order(&self) -> Order {
        match self.settings.load.mode {
            Mode::Fifo => Order::Fifo,
            Mode::Interactive | Mode::LowPower => Order::Deadline,
        }
    }

    fn classification(&self, _: SlotId) -> Classification {
        Classification::default()
    }

    fn totals(&self) -> Totals {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scherzo_arithmetic::TaskAccount;

    const MS: u64 = 1_000_000;

    fn decided(account: TaskAccount, mode: Mode) -> DispatchedTask {
        let mut settings = PolicySettings::default();
        settings.load.mode = mode;
        let mut policy = Scherzo::new(8, settings);
        let queued = QueuedTask { slot: SlotId(3), pid: Pid(42), account, ..QueuedTask::default() };
        policy.enqueue(&queued).unwrap();
        policy.pop().unwrap()
    }

    fn prompt() -> TaskAccount {
        TaskAccount { vruntime: 99, credit_ns: 9 * MS, due_ns: 7 * MS, prompt: 1, ..TaskAccount::default() }
    }

    #[test]
    fn the_turn_is_what_the_shared_arithmetic_says() {
        let task = decided(prompt(), Mode::Interactive);
        assert_eq!((task.class, task.deadline_ns, task.slice_ns), (Class::Interactive, 7 * MS, 9 * MS));
        let hog = TaskAccount { prompt: 0, weight: 1024 << 10, max_lag: 1_000 * MS as i64, ..prompt() };
        let task = decided(hog, Mode::Interactive);
        assert_eq!((task.class, task.deadline_ns, task.slice_ns, task.timed), (Class::Batch, 99, 5 * MS, false));
    }

    #[test]
    fn in_fifo_no_task_goes_first() {
        let task = decided(prompt(), Mode::Fifo);
        assert_eq!((task.class, task.deadline_ns), (Class::Batch, 99));
    }

    #[test]
    fn a_slice_that_a_timer_ends_says_so() {
        let light = TaskAccount { weight: 3 << 10, max_lag: 10 * MS as i64, ..TaskAccount::default() };
        assert!(decided(light, Mode::Interactive).timed);
    }
}
