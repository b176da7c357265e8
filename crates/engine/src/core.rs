//! The policy at work: records go in, decisions and published classifications come out.

use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use scherzo_policy::{
    Class, Classification, CpuId, DispatchedTask, Generation, Load, Order, Pid, Policy, QueuedTask, SlotId, Target,
    TaskFlags,
};
use scherzo_wire::control::{self, ControlWord};
use scherzo_wire::layout::{self, ControlPage, QueuedTaskRecord, RecordKind};
use scherzo_wire::message::LoadSettings;

use crate::kernel::Pages;
use crate::rings::DispatchedRing;

/// Other CPUs start to carry decisions out after so many, not only after the whole batch.
const ANNOUNCE_EVERY: u64 = 32;
/// Slice of a task whose facts made no sense.
const DEFAULT_SLICE_NS: u64 = 1_000_000;

/// The policy with the shared memory it publishes to.
pub struct Core<P> {
    policy: P,
    pages: Rc<Pages>,
    nr_bad_records: u64,
    nr_cpus: u64,
    /// An answer for a record that the policy would not take.
    unclassified: Option<layout::DispatchedTaskRecord>,
}

impl<P: Policy> Core<P> {
    /// A policy that publishes to these pages.
    pub fn new(policy: P, pages: Rc<Pages>) -> Self {
        Self { policy, pages, nr_bad_records: 0, nr_cpus: 0, unclassified: None }
    }

    /// One record from the ring; `None` is one of the wrong size.
    pub fn take(&mut self, facts: Option<QueuedTaskRecord>) {
        let kind = facts.and_then(|facts| RecordKind::from_wire(facts.kind));
        let (Some(facts), Some(kind)) = (facts, kind) else {
            self.nr_bad_records += 1;
            return;
        };
        match kind {
            RecordKind::Enqueue => match self.policy.enqueue(&queued_task(&facts)) {
                Ok(()) => self.publish(SlotId(facts.slot)),
                // The task waits for an answer whatever its record says.
                Err(_) => self.unclassified = Some(default_dispatch(&facts)),
            },
            RecordKind::Refresh => {
                if self.policy.refresh(&queued_task(&facts)).is_ok() {
                    self.publish(SlotId(facts.slot));
                }
            }
            RecordKind::Exit => {
                self.policy.exit(SlotId(facts.slot), Pid(facts.pid));
                self.publish(SlotId(facts.slot));
            }
            // A notice only wakes: what it is about stands in the control page.
            RecordKind::Notice => {}
        }
    }

    /// Tells how many CPUs there are now.
    pub fn follow_hotplug(&mut self) {
        let nr_cpus = self.pages.control().nr_online_cpus.load(Relaxed);
        if nr_cpus > 0 && nr_cpus != self.nr_cpus {
            self.nr_cpus = nr_cpus;
            self.policy.set_nr_cpus(nr_cpus as u32);
        }
    }

    /// Where BPF reads a task's class and key without asking.
    fn publish(&self, slot: SlotId) {
        let Some(shared) = self.pages.slots().get(slot.index()) else { return };
        let Classification { class, deadline_ns, slice_ns, classified_ns } = self.policy.classification(slot);
        shared.deadline_ns.store(deadline_ns, Relaxed);
        shared.slice_ns.store(slice_ns, Relaxed);
        shared.classified_ns.store(classified_ns, Relaxed);
        shared.class.store(wire_class(class) as u32, Relaxed);
    }

    /// Writes decisions until nothing waits or there is no room; the number written.
    pub fn decide(&mut self, ring: &DispatchedRing) -> u64 {
        let mut nr_decided = 0;
        if let Some(decision) = self.unclassified.take() {
            nr_decided += u64::from(ring.submit(&decision));
        }
        let mut nr_urgent = 0;
        while let Some(decision) = self.policy.peek() {
            if !ring.submit(&wire_dispatched(&decision)) {
                break;
            }
            self.policy.pop();
            nr_decided += 1;
            nr_urgent += u64::from(decision.preempt);
            if nr_decided % ANNOUNCE_EVERY == 0 {
                self.pages.control().nr_submitted.fetch_add(ANNOUNCE_EVERY, Release);
            }
        }
        self.pages.control().nr_urgent.fetch_add(nr_urgent, Relaxed);
        self.pages.control().nr_submitted.fetch_add(nr_decided % ANNOUNCE_EVERY, Release);
        nr_decided
    }

    /// Tasks that wait for a decision, because the ring is full.
    pub fn nr_pending(&self) -> usize {
        self.policy.nr_pending()
    }

    /// The order may change by itself, when interactive turns to arrival order and back.
    pub fn publish_order(&self) {
        let Some(word) = ControlWord::unpack(self.pages.control().word.load(Relaxed)) else { return };
        let order = wire_order(self.policy.order());
        if order != word.order {
            self.pages.control().word.store(ControlWord { order, ..word }.pack(), Release);
        }
    }

    /// Follows new settings: limits first, then one store of the control word with a new generation.
    pub fn apply(&mut self, settings: &LoadSettings) {
        self.policy.set_settings((*settings).into());
        let page = self.pages.control();
        publish_limits(page, settings);
        let generation = ControlWord::unpack(page.word.load(Relaxed)).map_or(0, |word| word.generation);
        let word = ControlWord {
            mode: settings.mode,
            preemption: settings.preemption,
            placement: settings.into(),
            order: wire_order(self.policy.order()),
            generation: generation.wrapping_add(1),
        };
        page.word.store(word.pack(), SeqCst);
    }

    /// Brings the policy's counters in the page up to date.
    pub fn publish_totals(&self) {
        let totals = self.policy.totals();
        let page = self.pages.control();
        page.nr_interactive.store(totals.nr_interactive, Relaxed);
        page.nr_batch.store(totals.nr_batch, Relaxed);
        page.nr_overflow.store(totals.nr_overflow, Relaxed);
        page.nr_bad_records.store(self.nr_bad_records + totals.nr_bad_records, Relaxed);
        page.threshold_milli.store(totals.threshold_milli, Relaxed);
        page.fifo_since_ns.store(totals.fifo_since_ns.unwrap_or(0), Relaxed);
        page.nr_pooled.store(self.policy.nr_pending() as u64, Relaxed);
    }
}

fn queued_task(facts: &QueuedTaskRecord) -> QueuedTask {
    QueuedTask {
        slot: SlotId(facts.slot),
        generation: Generation(facts.generation),
        pid: Pid(facts.pid),
        tgid: Pid(facts.tgid),
        now_ns: facts.now_ns,
        sum_exec_ns: facts.sum_exec_ns,
        burst_ns: facts.burst_ns,
        nr_voluntary_switches: facts.nr_voluntary_switches,
        weight: facts.weight,
        cpu: CpuId(facts.cpu),
        nr_cpus_allowed: facts.nr_cpus_allowed,
        flags: TaskFlags::from_bits(facts.flags),
        load: Load { nr_running: facts.nr_running, nr_waiting: facts.nr_waiting },
        waker_pid: Pid(facts.waker_pid),
        cgroup_id: facts.cgroup_id,
    }
}

fn wire_class(class: Class) -> layout::Class {
    match class {
        Class::Unknown => layout::Class::Unknown,
        Class::Interactive => layout::Class::Interactive,
        Class::Batch => layout::Class::Batch,
    }
}

fn wire_order(order: Order) -> control::Order {
    match order {
        Order::Deadline => control::Order::Deadline,
        Order::Fifo => control::Order::Fifo,
    }
}

fn wire_dispatched(decision: &DispatchedTask) -> layout::DispatchedTaskRecord {
    let mut flags = wire_class(decision.class) as u32;
    if decision.order == Order::Fifo {
        flags |= layout::DISPATCHED_FIFO;
    }
    if decision.preempt {
        flags |= layout::DISPATCHED_PREEMPT;
    }
    layout::DispatchedTaskRecord {
        slot: decision.slot.0,
        pid: decision.pid.0,
        generation: decision.generation.0,
        slice_ns: decision.slice_ns,
        deadline_ns: decision.deadline_ns,
        cpu: match decision.target {
            Target::Any => layout::CPU_ANY,
            Target::Cpu(CpuId(cpu)) => cpu,
        },
        flags,
    }
}

/// What any task may have: batch, in arrival order.
fn default_dispatch(facts: &QueuedTaskRecord) -> layout::DispatchedTaskRecord {
    layout::DispatchedTaskRecord {
        slot: facts.slot,
        pid: facts.pid,
        generation: facts.generation,
        slice_ns: DEFAULT_SLICE_NS,
        deadline_ns: facts.now_ns,
        cpu: layout::CPU_ANY,
        flags: layout::Class::Batch as u32,
    }
}

/// What BPF goes by without asking.
pub fn publish_limits(page: &ControlPage, settings: &LoadSettings) {
    page.slice_ns.store(u64::from(settings.base_slice_us) * 1_000, Relaxed);
    page.starvation_limit_ns.store(u64::from(settings.starvation_ms) * 1_000_000, Relaxed);
}
