//! For how long the policy lets a task wait, and what of a wait it has to answer for.

use super::{Machine, is_park};
use crate::abi;
use crate::invariants::KnownFault;
use crate::task::{State, TaskClass, TaskId, TaskPlace};
use crate::user::ENGINE;

const MS: u64 = 1_000_000;
/// `POLICY_SLICE_MAX_NS`: what runs now has asked for no more.
const LONGEST_SLICE_NS: u64 = 20 * MS;
/// What each of those that wait runs for at its turn: the default of `base_slice_us`.
const SLICE_NS: u64 = 5 * MS;
/// The prompt leave half of their share to the others, by whose clock the policy's promise goes.
const PART_OF_OTHERS: u64 = 2;
/// `STALL_LIMIT_NS`: however little their share is, as the scheduler would soon take it for a stall.
const LONGEST_WAIT_NS: u64 = 5_000 * MS;
/// How long ago a suspension may have ended that a CPU overlooks work after.
const SUSPENDED_BEFORE_NS: u64 = 50 * MS;

impl Machine {
    /// The task waits for a CPU from now on.
    pub(super) fn begin_wait(&mut self, id: TaskId) {
        self.tasks[id].waits_since = Some(self.now);
        self.restart_answerable_wait(id);
    }

    /// The policy does not answer for what the task has waited until now: a limit held it up, it was not asked, or the task waited elsewhere.
    pub(super) fn restart_answerable_wait(&mut self, id: TaskId) {
        self.tasks[id].answerable_since = self.now;
        self.tasks[id].withheld_before_ns = self.withheld_ns;
    }

    /// A higher class or the host of the virtual machine had a CPU for so long.
    pub(super) fn withhold(&mut self, ns: u64) {
        self.withheld_ns += ns;
    }

    /// What is wrong if the task waits for longer than the policy promises. The promise is about the time that CPUs have for sched_ext:
    /// what they had for others is spread over the task's CPUs, as if it had been there.
    pub(crate) fn overdue_wait(&self, id: TaskId) -> Option<String> {
        let task = &self.tasks[id];
        task.waits_since?;
        if matches!(task.place, TaskPlace::Queue(dsq_id, _) if is_park(dsq_id)) {
            return None;
        }
        if task.state != State::Runnable || task.class != TaskClass::Ext || self.bypassing || self.is_baseline {
            return None;
        }
        let waited_ns = self.now - task.answerable_since;
        if waited_ns <= wait_bound_ns(0, 1, 1) {
            return None;
        }
        let nr_cpus = self.nr_cpus_for(id);
        let waited_ns = waited_ns.saturating_sub((self.withheld_ns - task.withheld_before_ns) / nr_cpus);
        let nr_waiting = self.invariants.waiting().len() as u64;
        if waited_ns <= wait_bound_ns(nr_waiting, nr_cpus, 1) {
            return None;
        }
        let bound_ns = wait_bound_ns(nr_waiting, nr_cpus, self.outweighed(id));
        let (name, place) = (self.name(id), task.place);
        (waited_ns > bound_ns).then(|| format!("{name} has waited for {waited_ns} of {bound_ns} ns in {place:x?}"))
    }

    /// By how much all tasks, also those that sleep now, outweigh those that take turns with the task. What a task in a group weighs depends on
    /// others: those may outweigh it by any factor.
    fn outweighed(&self, id: TaskId) -> u64 {
        if !self.tasks[id].kernel().sched_task_group.is_null() {
            return u64::MAX;
        }
        let weight = |id: TaskId| u64::from(self.tasks[id].kernel().scx.weight);
        let lives = |id: &TaskId| self.tasks[*id].class == TaskClass::Ext && self.tasks[*id].state != State::Dead;
        let all: u64 = (0..self.tasks.len()).filter(lives).map(weight).sum();
        let takes_turns = |id: &TaskId| !self.is_among_prompt(*id);
        let turns: u64 = self.invariants.waiting().iter().copied().filter(takes_turns).map(weight).sum();
        all.div_ceil(turns.max(1))
    }

    /// Low-power's rule: a CPU sleeps beside a task, as that waits for those which stay awake; if it may run on none of them, for its own.
    pub(crate) fn is_left_asleep(&self, cpu: usize, id: TaskId) -> bool {
        let waits_elsewhere = || self.tasks[id].cpu != cpu || self.usable(id).iter().any(stays_awake);
        self.invariants.packs_work && !stays_awake(cpu) && waits_elsewhere()
    }

    /// What is known to let the task wait beside an idle CPU.
    pub(crate) fn known_wait_beside_idle(&self, id: TaskId) -> Option<KnownFault> {
        let task = &self.tasks[id];
        if task.was_parked {
            Some(KnownFault::LetGo)
        } else if self.invariants.packs_work && id == ENGINE {
            Some(KnownFault::EngineInLowPower)
        } else if self.invariants.packs_work && self.hotplugged_at > task.queued_at {
            Some(KnownFault::QueuedBeforeHotplug)
        } else if self.now < self.bypassed_until + SUSPENDED_BEFORE_NS {
            Some(KnownFault::AfterSuspension)
        } else {
            None
        }
    }

    fn is_among_prompt(&self, id: TaskId) -> bool {
        matches!(self.tasks[id].place, TaskPlace::Queue(dsq_id, _) if is_prompt(dsq_id))
    }

    /// How many CPUs take the task if it is not prompt.
    fn nr_cpus_for(&self, id: TaskId) -> u64 {
        let usable = self.usable(id);
        let near = usable.and(self.topology.llc_mask(self.tasks[id].cpu));
        let usable = if near.is_empty() { usable } else { near };
        let nr_awake =
            if self.invariants.packs_work { usable.iter().filter(|cpu| stays_awake(*cpu)).count() } else { 0 };
        let nr_cpus = if nr_awake > 0 { nr_awake } else { usable.count() };
        nr_cpus.max(1) as u64
    }
}

/// The longest that a task waits beside so many others, if the prompt outweigh them by such a factor: by the policy, and until all have had
/// a turn.
fn wait_bound_ns(nr_waiting: u64, nr_cpus: u64, outweighed: u64) -> u64 {
    let wait_ns = PART_OF_OTHERS * max_wait_ns(nr_waiting, nr_cpus);
    let outweighed_ns = wait_ns.saturating_mul(outweighed).min(LONGEST_WAIT_NS);
    wait_ns.max(outweighed_ns) + LONGEST_SLICE_NS + SLICE_NS * nr_waiting / nr_cpus
}

/// `policy_max_wait_ns()`.
#[allow(unsafe_code)]
fn max_wait_ns(nr_waiting: u64, nr_cpus: u64) -> u64 {
    // SAFETY: the function looks at nothing but its arguments.
    unsafe { abi::sim_max_wait_ns(nr_waiting, nr_cpus) }
}

/// Whether low-power has the CPU carry work that is not prompt. The machine has this CPU.
fn stays_awake(cpu: usize) -> bool {
    abi::sim_is_low_power(cpu as i32)
}

/// Whether prompt tasks wait in such a queue.
#[allow(unsafe_code)]
fn is_prompt(dsq_id: u64) -> bool {
    // SAFETY: the function looks at nothing but its argument.
    unsafe { abi::sim_bpf_is_prompt(dsq_id) }
}
