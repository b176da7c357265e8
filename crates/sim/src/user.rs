//! The engine as a task of the machine: the same policy in the same loop (`scherzo-engine-loop`), over emulated rings.
//!
//! Each step of the loop takes CPU time, and may be interrupted like any other work before the next one begins.

use std::cell::RefCell;
use std::rc::Rc;

use scherzo_engine_loop::{Doorbell, EngineLoop, EngineSleep, LoopStep};
use scherzo_policy::Scherzo;
use scherzo_wire::message::LoadSettings;

use crate::fault::InjectedFault;
use crate::interleave;
use crate::machine::{Machine, MachineEvent};
use crate::pages::EmulatedPages;
use crate::rings::{EmulatedDispatchedRing, EmulatedQueuedRing};
use crate::rubbish::RubbishWriter;
use crate::task::TaskId;
use crate::work::Next;

/// The engine is the first task.
pub const ENGINE: TaskId = 0;
/// Slots that suffice for a few tasks, and are made in no time.
pub const FEW_SLOTS: u32 = 1024;

/// From when its process ends until the kernel has closed its files, the scheduler's link among them.
const UNREGISTER_NS: u64 = 1_000_000;

/// The engine.
pub struct EngineTask {
    engine: EngineLoop<Scherzo, EmulatedPages, EmulatedQueuedRing, EmulatedDispatchedRing>,
    rubbish: Option<Rc<RefCell<RubbishWriter>>>,
    /// It does nothing any more from then on.
    pub(crate) hangs_from: Option<u64>,
    /// Its process ends then.
    pub(crate) gone_from: Option<u64>,
    /// Each step takes so many times as long.
    pub(crate) slowdown: u64,
}

impl EngineTask {
    /// One with these settings, which it publishes.
    pub(crate) fn new(machine: &mut Machine, settings: &LoadSettings, nr_slots: u32, seed: u64) -> Self {
        let pages = Rc::new(EmulatedPages::of(machine));
        let policy = Scherzo::new(nr_slots, (*settings).into());
        let queued = EmulatedQueuedRing(Rc::clone(&machine.rings));
        let rubbish = (machine.fault == Some(InjectedFault::RubbishFromEngine)).then(|| {
            let writer = RubbishWriter::new(Rc::clone(&machine.rings), machine.cpus.len(), seed);
            Rc::new(RefCell::new(writer))
        });
        let dispatched = EmulatedDispatchedRing { rings: Rc::clone(&machine.rings), rubbish: rubbish.clone() };
        let mut engine = EngineLoop::new(policy, pages, queued, dispatched);
        engine.apply(settings);
        Self { engine, rubbish, hangs_from: None, gone_from: None, slowdown: 1 }
    }

    /// The next step, once the CPU time of the one before has passed.
    pub(crate) fn act(&mut self, machine: &mut Machine, cpu: usize) -> Next {
        machine.note_engine_awake();
        let has_come = |from: Option<u64>| from.is_some_and(|from| machine.now >= from);
        if has_come(self.gone_from) {
            machine.at(machine.now + UNREGISTER_NS, MachineEvent::Unregister);
            return Next::Exit;
        }
        if has_come(self.hangs_from) {
            return Next::Sleep { until: None, then_ns: 1 };
        }
        let costs = machine.costs;
        let read_ns = |nr_records: u64| costs.turn_ns + nr_records * costs.record_ns;
        let compute = |ns: u64| Next::Compute(ns * self.slowdown);
        let step = self.engine.step(&mut CpuDoorbell { machine, cpu });
        // What it has written last may still be in its store buffer.
        interleave::point();
        // Beside an engine that sleeps nobody writes.
        if let Some(rubbish) = &self.rubbish
            && !matches!(step, LoopStep::Parked { .. })
        {
            rubbish.borrow_mut().scribble(self.engine.page(), machine.slots());
        }
        match step {
            LoopStep::Read { nr_records } => compute(read_ns(nr_records)),
            LoopStep::Dispatched { nr_dispatched } => compute(1 + nr_dispatched * costs.dispatched_ns),
            LoopStep::Parked { nr_records, sleep } => {
                let is_readable = machine.rings.borrow_mut().poll();
                let until = match sleep {
                    EngineSleep::No => return compute(read_ns(nr_records)),
                    _ if is_readable => return compute(1),
                    EngineSleep::AtMost(ns) => Some(machine.now + ns),
                    EngineSleep::UntilWoken => {
                        machine.note_engine_asleep();
                        None
                    }
                };
                Next::Sleep { until, then_ns: 1 }
            }
        }
    }
}

/// The program that kicks a CPU, run on the engine's.
struct CpuDoorbell<'a> {
    machine: &'a mut Machine,
    cpu: usize,
}

impl Doorbell for CpuDoorbell<'_> {
    fn ring(&mut self) {
        self.machine.ring_doorbell(self.cpu);
    }
}
