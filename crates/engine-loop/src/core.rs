//! The policy at work: records go in, dispatched tasks and published classifications come out.

use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use scherzo_policy::{
    Class, Classification, CpuId, DispatchedTask, Generation, Load, Order, Pid, Policy, QueuedTask, SlotId, Target,
    TaskFlags,
};
use scherzo_wire::control::ControlWord;
use scherzo_wire::layout::{self, ControlPage, QueuedTaskRecord, RecordKind};
use scherzo_wire::message::LoadSettings;

use crate::environment::{DispatchedRing, EnginePages, RecordSink};

/// Other CPUs start to carry them out after so many, not only after the whole batch.
const ANNOUNCE_EVERY: u64 = 32;
/// Slice of a task whose record made no sense.
const DEFAULT_SLICE_NS: u64 = 1_000_000;

/// The policy with the shared memory it publishes to.
pub struct Core<P, M> {
    policy: P,
    pages: Rc<M>,
    nr_bad_records: u64,
    nr_cpus: u64,
    /// An answer for a record that the policy would not take.
    unclassified: Option<layout::DispatchedTaskRecord>,
}

impl<P: Policy, M: EnginePages> RecordSink for Core<P, M> {
    fn take(&mut self, record: Option<QueuedTaskRecord>) {
        let kind = record.and_then(|record| RecordKind::from_wire(record.kind));
        let (Some(record), Some(kind)) = (record, kind) else {
            self.nr_bad_records += 1;
            return;
        };
        match kind {
            RecordKind::Enqueue => match self.policy.enqueue(&queued_task(&record)) {
                Ok(()) => self.publish(SlotId(record.slot)),
                // The task waits for an answer whatever its record says.
                Err(_) => self.unclassified = Some(default_dispatch(&record)),
            },
            RecordKind::Refresh => {
                if self.policy.refresh(&queued_task(&record)).is_ok() {
                    self.publish(SlotId(record.slot));
                }
            }
            RecordKind::Exit => {
                self.policy.exit(SlotId(record.slot), Pid(record.pid));
                self.publish(SlotId(record.slot));
            }
            // A notice only wakes: what it is about stands in the control page.
            RecordKind::Notice => {}
        }
    }
}

impl<P: Policy, M: EnginePages> Core<P, M> {
    /// A policy that publishes to these pages.
    pub(crate) fn new(policy: P, pages: Rc<M>) -> Self {
        Self { policy, pages, nr_bad_records: 0, nr_cpus: 0, unclassified: None }
    }

    /// Tells how many CPUs there are now.
    pub(crate) fn follow_hotplug(&mut self) {
        let nr_cpus = self.pages.control().nr_online_cpus.load(Relaxed);
        if nr_cpus > 0 && nr_cpus != self.nr_cpus {
            self.nr_cpus = nr_cpus;
            self.policy.set_nr_cpus(nr_cpus as u32);
        }
    }

    /// Where BPF reads a task's class and deadline without asking.
    fn publish(&self, slot: SlotId) {
        let Some(shared) = self.pages.slots().get(slot.index()) else { return };
        let Classification { class, deadline_ns, slice_ns, classified_ns } = self.policy.classification(slot);
        shared.deadline_ns.store(deadline_ns, Relaxed);
        shared.slice_ns.store(slice_ns, Relaxed);
        shared.classified_ns.store(classified_ns, Relaxed);
        shared.class.store(class as u32, Relaxed);
    }

    /// Writes dispatched tasks until nothing waits or there is no room; the number written.
    pub(crate) fn dispatch(&mut self, ring: &mut impl DispatchedRing) -> u64 {
        let mut nr_dispatched = 0;
        if let Some(dispatched) = self.unclassified.take() {
            nr_dispatched += u64::from(ring.submit(&dispatched));
        }
        let mut nr_urgent = 0;
        while let Some(dispatched) = self.policy.peek() {
            if !ring.submit(&wire_dispatched(&dispatched)) {
                break;
            }
            self.policy.pop();
            nr_dispatched += 1;
            nr_urgent += u64::from(dispatched.preempt);
            if nr_dispatched % ANNOUNCE_EVERY == 0 {
                self.pages.control().nr_submitted.fetch_add(ANNOUNCE_EVERY, Release);
            }
        }
        self.pages.control().nr_urgent.fetch_add(nr_urgent, Relaxed);
        self.pages.control().nr_submitted.fetch_add(nr_dispatched % ANNOUNCE_EVERY, Release);
        nr_dispatched
    }

    /// Tasks that wait to be dispatched, because the ring is full.
    pub(crate) fn nr_pending(&self) -> usize {
        self.policy.nr_pending()
    }

    /// The order may change by itself, when interactive turns to arrival order and back.
    pub(crate) fn publish_order(&self) {
        let Some(word) = ControlWord::unpack(self.pages.control().word.load(Relaxed)) else { return };
        let order = self.policy.order();
        if order != word.order {
            self.pages.control().word.store(ControlWord { order, ..word }.pack(), Release);
        }
    }

    /// Follows new settings: limits first, then one store of the control word with a new generation.
    pub(crate) fn apply(&mut self, settings: &LoadSettings) {
        self.policy.set_settings((*settings).into());
        let page = self.pages.control();
        publish_limits(page, settings, self.pages.tick_us());
        let generation = ControlWord::unpack(page.word.load(Relaxed)).map_or(0, |word| word.generation);
        let word = ControlWord {
            mode: settings.mode,
            preemption: settings.preemption,
            placement: settings.into(),
            order: self.policy.order(),
            generation: generation.wrapping_add(1),
        };
        page.word.store(word.pack(), SeqCst);
    }

    /// Brings the policy's counters in the page up to date.
    pub(crate) fn publish_totals(&self) {
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

#[inline]
fn queued_task(record: &QueuedTaskRecord) -> QueuedTask {
    QueuedTask {
        slot: SlotId(record.slot),
        generation: Generation(record.generation),
        pid: Pid(record.pid),
        now_ns: record.now_ns,
        sum_exec_ns: record.sum_exec_ns,
        burst_ns: record.burst_ns,
        nr_voluntary_switches: record.nr_voluntary_switches,
        weight: record.weight,
        cpu: CpuId(record.cpu),
        flags: TaskFlags::from_bits(record.flags),
        load: Load { nr_running: record.nr_running, nr_waiting: record.nr_waiting },
        account: record.account,
    }
}

#[inline]
fn wire_dispatched(dispatched: &DispatchedTask) -> layout::DispatchedTaskRecord {
    let mut flags = dispatched.class as u32;
    if dispatched.order == Order::Fifo {
        flags |= layout::DISPATCHED_FIFO;
    }
    if dispatched.preempt {
        flags |= layout::DISPATCHED_PREEMPT;
    }
    if dispatched.timed {
        flags |= layout::DISPATCHED_TIMED;
    }
    layout::DispatchedTaskRecord {
        slot: dispatched.slot.0,
        pid: dispatched.pid.0,
        generation: dispatched.generation.0,
        slice_ns: dispatched.slice_ns,
        deadline_ns: dispatched.deadline_ns,
        cpu: match dispatched.target {
            Target::Any => layout::CPU_ANY,
            Target::Cpu(CpuId(cpu)) => cpu,
        },
        flags,
    }
}

/// What any task may have: batch, in arrival order.
fn default_dispatch(record: &QueuedTaskRecord) -> layout::DispatchedTaskRecord {
    layout::DispatchedTaskRecord {
        slot: record.slot,
        pid: record.pid,
        generation: record.generation,
        slice_ns: DEFAULT_SLICE_NS,
        deadline_ns: record.now_ns,
        cpu: layout::CPU_ANY,
        flags: Class::Batch as u32,
    }
}

/// What BPF goes by without asking.
pub fn publish_limits(page: &ControlPage, settings: &LoadSettings, tick_us: u32) {
    page.slice_ns.store(u64::from(settings.base_slice_us) * 1_000, Relaxed);
    page.starvation_limit_ns.store(u64::from(settings.starvation_ms) * 1_000_000, Relaxed);
    page.foreground_percent.store(settings.foreground_percent, Relaxed);
    // User space would be asked at each of these ends.
    let timed_slice_us = if settings.seat().is_kernel() { settings.slice_timer.timed_slice_us(tick_us) } else { 0 };
    page.timed_slice_us.store(timed_slice_us, Relaxed);
    page.foreground_cgroup.store(settings.foreground_cgroup, Relaxed);
}
