//! The policy of version 0.1.0, for study: by classes.
//!
//! **Problem.** A desktop under load has two kinds of work: tasks that somebody waits for, which run briefly and
//! often, and tasks that just have to get done. Serving the first at once must neither starve the second nor cost
//! throughput, and no label tells the two apart.
//!
//! **Approach.** Four small parts, each in its own file:
//! - [`classify`](mod@crate::classify) tells the kinds apart by how often a task sleeps of its own will;
//! - [`deadline`] turns arrival time, fair share, habit and class into one deadline;
//! - [`slice`](mod@crate::slice) keeps a round of the queue short;
//! - [`pool`](mod@crate::pool) keeps waiting tasks in order, [`arrivals`](mod@crate::arrivals) those it has no room for.
//!
//! This file is the order of events. An enqueue updates what is known about the task, classifies it (class, deadline,
//! slice) and pools it; a pop takes the earliest deadline and moves the virtual clock towards that task's virtual
//! runtime. The deadline is reckoned in either order, so that the mode may change while tasks wait: deadlines of arrival order are plain times
//! and mix with the others, within the starvation bound.
//!
//! **When the pool is full** further tasks are handed straight back in the order of their arrival, before those in the
//! pool, and counted: past some thousand waiting tasks there is nothing left to gain from order.
//!
//! **Sources.** scx_rustland (deadline from virtual runtime and recent run time, pool in user space), scx_bpfland up
//! to 2024 (moving threshold on voluntary switches), EEVDF (lag) and BORE (burst penalty). What is new is the deadline in
//! the time domain, which bounds waiting by construction.
//!
//! **Limits.** CPU time is not divided by weight beyond what the starvation bound leaves to virtual runtime, nor by control
//! groups: see [`scherzo`](crate::scherzo). A task that sleeps often *and* computes for long (an encoder's worker) is taken for interactive until
//! it has run for a base slice in one go, every time it wakes. Placement on CPUs is left to the kernel side.

use alloc::vec;
use alloc::vec::Vec;

use crate::arrivals::Arrivals;
use crate::classify::{Sighting, Tempo, Threshold};
use crate::deadline::{self, TaskWeight};
use crate::dispatched::{Class, Classification, DispatchedTask, Order, Target};
use crate::framework::{Limits, Policy, Totals};
use crate::ids::{Pid, SlotId};
use crate::pool::{Pool, PoolFull};
use crate::queued::{BadRecord, QueuedTask, TaskFlags};
use crate::settings::{Mode, PolicySettings};
use crate::slice::slice_ns;
use crate::time::{Clock, advance, signed_diff};
use crate::underuse::UnderUse;

/// How many base slices of a task's habitual burst count against it.
const MAX_BURST_SLICES: u64 = 2;

/// In low-power mode a habitual burst of one part in this many of the base slice makes a task background work.
const LOW_POWER_BURST_PARTS: u64 = 2;

/// The virtual clock goes one part in this many of the way to the virtual runtime of each task decided. All the way
/// would let one light task, whose virtual time flies, push everyone else to the edge of what lag may be.
const VIRTUAL_CLOCK_INERTIA: u64 = 4;

/// What is known about the task in one slot; the default where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct KnownTask {
    pid: Pid,
    tempo: Tempo,
    sum_exec_ns: u64,
    vruntime_ns: u64,
    classification: Classification,
    /// What to answer once its turn comes; meaningful while it waits.
    pending: DispatchedTask,
}

/// Classes by how often a task sleeps, and deadlines.
#[derive(Debug)]
pub struct Classes {
    settings: PolicySettings,
    nr_cpus: u32,
    clock: Clock,
    /// The virtual clock: follows the virtual runtime of the tasks decided, never backwards.
    virtual_ns: u64,
    threshold: Threshold,
    under_use: UnderUse,
    tasks: Vec<KnownTask>,
    pool: Pool,
    overflow: Arrivals,
    totals: Totals,
}

impl Classes {
    /// A policy that knows no task yet. Everything it will ever need is allocated here.
    #[must_use]
    pub fn new(limits: Limits, settings: PolicySettings, nr_cpus: u32) -> Self {
        Self {
            settings: settings.clamped(),
            nr_cpus,
            clock: Clock::default(),
            virtual_ns: 0,
            threshold: Threshold::default(),
            under_use: UnderUse::default(),
            tasks: vec![KnownTask::default(); limits.nr_slots as usize],
            pool: Pool::new(limits.pool_capacity as usize, limits.nr_slots),
            overflow: Arrivals::new(limits.nr_slots),
            totals: Totals::default(),
        }
    }

    fn admit(&mut self, queued: &QueuedTask) -> Result<(), BadRecord> {
        queued.check(self.tasks.len()).inspect_err(|_| self.totals.nr_bad_records += 1)
    }

    /// Brings everything known about the task up to date and classifies it anew.
    fn classify(&mut self, queued: &QueuedTask) -> Classification {
        let now_ns = self.clock.observe(queued.now_ns, self.nr_pending() > 0);
        self.under_use.observe(now_ns, queued.load, self.nr_cpus);
        let sighting =
            Sighting { now_ns, nr_voluntary_switches: queued.nr_voluntary_switches, sum_exec_ns: queued.sum_exec_ns };
        self.meet(queued, sighting);
        let class = self.class_of(queued, sighting);
        let lag_ns = self.account(queued);
        let deadline_ns = match self.order() {
            Order::Fifo => now_ns,
            Order::Deadline => self.deadline_ns(queued, class, lag_ns),
        };
        let slice_ns = slice_ns(&self.settings, queued.load, self.nr_cpus);
        let classification = Classification { class, deadline_ns, slice_ns, classified_ns: now_ns };
        self.tasks[queued.slot.index()].classification = classification;
        classification
    }

    /// Starts afresh where the slot has a new owner.
    fn meet(&mut self, queued: &QueuedTask, sighting: Sighting) {
        if self.tasks[queued.slot.index()].pid == queued.pid {
            return;
        }
        self.withdraw(queued.slot);
        self.tasks[queued.slot.index()] = KnownTask {
            pid: queued.pid,
            tempo: Tempo::new(sighting, queued.flags.has(TaskFlags::WAKEUP)),
            sum_exec_ns: queued.sum_exec_ns,
            vruntime_ns: self.virtual_ns,
            ..KnownTask::default()
        };
    }

    fn class_of(&mut self, queued: &QueuedTask, sighting: Sighting) -> Class {
        let tempo = &mut self.tasks[queued.slot.index()].tempo;
        tempo.sample(sighting, self.settings.sample_interval_ns, &mut self.threshold);
        let class = tempo.class_now(queued.burst_ns, self.settings.base_slice_ns);
        // A sleeping CPU is not woken for a task that computes for long between sleeps.
        let long_ns = self.settings.base_slice_ns / LOW_POWER_BURST_PARTS;
        let packs = self.settings.load.mode == Mode::LowPower && tempo.mean_burst_ns() >= long_ns;
        if packs { Class::Batch } else { class }
    }

    /// Charges what the task has run since it was last seen and returns its lag: how far it is ahead of its share.
    fn account(&mut self, queued: &QueuedTask) -> i64 {
        let bound_ns = self.bound_ns();
        let task = &mut self.tasks[queued.slot.index()];
        let weight = TaskWeight::new(queued.weight);
        let run_ns = advance(queued.sum_exec_ns, task.sum_exec_ns);
        task.sum_exec_ns = queued.sum_exec_ns;
        let edge_ns = bound_ns / 2;
        // What a sleep is worth is limited; what a task is owed because others ran meanwhile is not.
        let credit_ns = if queued.flags.has(TaskFlags::WAKEUP) {
            deadline::credit_ns(self.settings.base_slice_ns, task.tempo.rate_milli(), weight).min(edge_ns)
        } else {
            edge_ns
        };
        let vruntime_ns = deadline::charge(task.vruntime_ns, run_ns, weight);
        task.vruntime_ns = deadline::place(vruntime_ns, self.virtual_ns, credit_ns, edge_ns);
        signed_diff(task.vruntime_ns, self.virtual_ns)
    }

    fn deadline_ns(&self, queued: &QueuedTask, class: Class, lag_ns: i64) -> u64 {
        let habit_ns = self.tasks[queued.slot.index()].tempo.mean_burst_ns().max(queued.burst_ns);
        let cap_ns = self.settings.base_slice_ns * MAX_BURST_SLICES;
        let weight = TaskWeight::new(queued.weight);
        let burst_ns = deadline::burst_term_ns(habit_ns.min(cap_ns), weight, self.bound_ns());
        let boost_ns = if class == Class::Interactive { self.settings.slice_boost_ns } else { 0 };
        deadline::deadline_ns(self.clock.now_ns(), lag_ns + burst_ns as i64 - boost_ns as i64, self.bound_ns())
    }

    /// How far a deadline may lie from its time of arrival.
    const fn bound_ns(&self) -> u64 {
        self.settings.starvation_ns / 2
    }

    /// Takes the task out of wherever it waits.
    fn withdraw(&mut self, slot: SlotId) -> bool {
        self.pool.remove(slot) || self.overflow.remove(slot)
    }

    fn first(&self) -> Option<SlotId> {
        self.overflow.first().or_else(|| self.pool.first())
    }

    fn dispatched(&self, slot: SlotId) -> DispatchedTask {
        DispatchedTask { order: self.order(), ..self.tasks[slot.index()].pending }
    }

    fn has(&self, slot: SlotId, pid: Pid) -> bool {
        pid != Pid(0) && self.tasks.get(slot.index()).is_some_and(|task| task.pid == pid)
    }

    /// Since when arrival order is the policy's own choice.
    const fn auto_fifo_since_ns(&self) -> Option<u64> {
        match self.settings.load.mode {
            Mode::Interactive if self.settings.load.auto_fifo => self.under_use.since_ns(),
            _ => None,
        }
    }
}

impl Policy for Classes {
    fn enqueue(&mut self, queued: &QueuedTask) -> Result<(), BadRecord> {
        self.admit(queued)?;
        let Classification { class, deadline_ns, slice_ns, .. } = self.classify(queued);
        let interactive = class == Class::Interactive;
        self.tasks[queued.slot.index()].pending = DispatchedTask {
            slot: queued.slot,
            pid: queued.pid,
            generation: queued.generation,
            slice_ns,
            deadline_ns,
            target: if queued.is_pinned() { Target::Cpu(queued.cpu) } else { Target::Any },
            class,
            order: Order::default(),
            preempt: interactive && self.settings.load.preemption && queued.flags.has(TaskFlags::WAKEUP),
            timed: false,
        };
        self.totals.nr_interactive += u64::from(interactive);
        self.totals.nr_batch += u64::from(!interactive);
        self.withdraw(queued.slot);
        if let Err(PoolFull) = self.pool.insert(queued.slot, deadline_ns) {
            self.overflow.push(queued.slot);
            self.totals.nr_overflow += 1;
        }
        Ok(())
    }

    fn refresh(&mut self, queued: &QueuedTask) -> Result<(), BadRecord> {
        self.admit(queued)?;
        self.classify(queued);
        Ok(())
    }

    fn exit(&mut self, slot: SlotId, pid: Pid) -> bool {
        let known = self.has(slot, pid);
        if known {
            self.withdraw(slot);
            self.tasks[slot.index()] = KnownTask::default();
        }
        known
    }

    fn peek(&self) -> Option<DispatchedTask> {
        self.first().map(|slot| self.dispatched(slot))
    }

    fn pop(&mut self) -> Option<DispatchedTask> {
        let slot = self.overflow.pop().or_else(|| self.pool.pop())?;
        let ahead_ns = advance(self.tasks[slot.index()].vruntime_ns, self.virtual_ns);
        self.virtual_ns = self.virtual_ns.wrapping_add(ahead_ns / VIRTUAL_CLOCK_INERTIA);
        Some(self.dispatched(slot))
    }

    fn nr_pending(&self) -> usize {
        self.pool.len() + self.overflow.len()
    }

    fn set_settings(&mut self, settings: PolicySettings) {
        self.settings = settings.clamped();
    }

    fn set_nr_cpus(&mut self, nr_cpus: u32) {
        self.nr_cpus = nr_cpus;
    }

    fn order(&self) -> Order {
        match self.settings.load.mode {
            Mode::Fifo => Order::Fifo,
            _ if self.auto_fifo_since_ns().is_some() => Order::Fifo,
            _ => Order::Deadline,
        }
    }

    fn classification(&self, slot: SlotId) -> Classification {
        self.tasks.get(slot.index()).map(|task| task.classification).unwrap_or_default()
    }

    fn totals(&self) -> Totals {
        Totals { threshold_milli: self.threshold.milli(), fifo_since_ns: self.auto_fifo_since_ns(), ..self.totals }
    }
}

#[cfg(test)]
mod tests;
