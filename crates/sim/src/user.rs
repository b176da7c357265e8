//! The engine as a task of the machine: the same policy, behind the same loop.
//!
//! The code between queued and dispatched tasks is the engine's own (`core.rs`). The loop around it blocks in system calls, so that
//! it stands here as steps of a task: each takes CPU time, and may be interrupted like any other.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use scherzo_policy::Scherzo;
use scherzo_wire::message::LoadSettings;

use crate::engine_core::Core;
use crate::interleave;
use crate::kernel::Pages;
use crate::machine::{Machine, Rings};
use crate::rings::{DispatchedRing, read_queued};
use crate::work::Next;

/// Slots that suffice for a few tasks, and are made in no time.
pub const FEW_SLOTS: u32 = 1024;
/// As in the engine: most records of one turn.
const MAX_BATCH: usize = 1024;
/// As in the engine: while records are being finished, look again after so long.
const RETRY_NS: u64 = 1_000_000;

/// Where the loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EngineStep {
    /// It returns from its wait.
    Return,
    /// It has read records, and decides.
    Dispatch,
    /// It has written dispatched tasks, and parks.
    Park,
    /// It found more records while it parked.
    TurnAgain,
}

/// The engine.
pub struct EngineTask {
    core: Core<Scherzo>,
    pages: Rc<Pages>,
    rings: Rc<RefCell<Rings>>,
    ring: DispatchedRing,
    step: EngineStep,
    nr_dispatched: u64,
    /// It does nothing any more from then on.
    pub(crate) hangs_from: Option<u64>,
}

impl EngineTask {
    /// One with these settings, which it publishes.
    pub(crate) fn new(machine: &mut Machine, settings: &LoadSettings, nr_slots: u32) -> Self {
        let pages = Rc::new(Pages::of(machine));
        let policy = Scherzo::new(nr_slots, (*settings).into());
        let mut core = Core::new(policy, Rc::clone(&pages));
        core.apply(settings);
        let rings = Rc::clone(&machine.rings);
        Self {
            core,
            pages,
            ring: DispatchedRing(Rc::clone(&rings)),
            rings,
            step: EngineStep::Return,
            nr_dispatched: 0,
            hangs_from: None,
        }
    }

    /// The next step, once the CPU time of the one before has passed.
    pub(crate) fn act(&mut self, machine: &mut Machine, cpu: usize) -> Next {
        if self.hangs_from.is_some_and(|from| machine.now >= from) {
            return Next::Sleep { until: None, then_ns: 1 };
        }
        let costs = machine.costs;
        let page = Rc::clone(&self.pages);
        let page = page.control();
        match self.step {
            EngineStep::Return | EngineStep::TurnAgain => {
                page.parked.store(0, Relaxed);
                interleave::point();
                self.step = EngineStep::Dispatch;
                Next::Compute(costs.turn_ns + self.consume() * costs.record_ns)
            }
            EngineStep::Dispatch => {
                self.dispatch();
                self.step = EngineStep::Park;
                Next::Compute(1 + self.nr_dispatched * costs.dispatched_ns)
            }
            EngineStep::Park => self.park(machine, cpu),
        }
    }

    fn consume(&mut self) -> u64 {
        let mut nr_records = 0;
        while nr_records < MAX_BATCH as u64 {
            interleave::barrier();
            let Some(bytes) = self.rings.borrow_mut().take_up() else { break };
            self.core.take(read_queued(&bytes));
            nr_records += 1;
        }
        self.pages.control().nr_records.fetch_add(nr_records, Relaxed);
        nr_records
    }

    fn dispatch(&mut self) {
        self.core.follow_hotplug();
        self.nr_dispatched = self.core.dispatch(&self.ring);
        self.core.publish_order();
        self.core.publish_totals();
        let page = self.pages.control();
        page.nr_loops.fetch_add(1, Relaxed);
        page.nr_dispatched.fetch_add(self.nr_dispatched, Relaxed);
        let seq = page.degraded_seq.load(Relaxed);
        if seq & 1 == 1 {
            page.recovered_seq.store(seq, Relaxed);
        }
    }

    fn park(&mut self, machine: &mut Machine, cpu: usize) -> Next {
        self.pages.control().parked.store(1, Relaxed);
        // `full_barrier()` of the real one.
        interleave::barrier();
        let nr_records = self.consume();
        if nr_records > 0 {
            if self.nr_dispatched > 0 {
                self.pages.control().nr_doorbells.fetch_add(1, Relaxed);
                machine.ring_doorbell(cpu);
            }
            self.step = EngineStep::TurnAgain;
            return Next::Compute(machine.costs.turn_ns + nr_records * machine.costs.record_ns);
        }
        self.step = EngineStep::Return;
        let waits = self.core.nr_pending() > 0 || self.rings.borrow().available() > 0;
        Next::Sleep { until: waits.then(|| machine.now + RETRY_NS), then_ns: 1 }
    }
}
