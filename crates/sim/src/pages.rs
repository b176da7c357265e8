//! What the engine's loop takes for mapped pages: the memory that it shares with BPF.

#![allow(unsafe_code)]

use std::sync::atomic::AtomicU64;

use scherzo_engine_loop::EnginePages;
use scherzo_engine_loop::parking::ParkedWord;
use scherzo_wire::layout::{ControlPage, Slot};

use crate::fault::InjectedFault;
use crate::interleave;
use crate::machine::Machine;

/// The memory that BPF and the engine share; as long as the run lasts.
pub struct EmulatedPages {
    control: *const ControlPage,
    slots: *const [Slot],
    parked: EmulatedParkedWord,
    tick_us: u32,
}

impl EmulatedPages {
    /// Those of a machine, which must outlive them.
    pub(crate) fn of(machine: &mut Machine) -> Self {
        let control: *const ControlPage = machine.control();
        // SAFETY: as in `control()`.
        let word = unsafe { &raw const (*control).parked };
        let parked = EmulatedParkedWord { word, has_barrier: machine.fault != Some(InjectedFault::NoParkingBarrier) };
        let tick_us = (1_000_000 / machine.profile.hz) as u32;
        Self { control, slots: machine.slots(), parked, tick_us }
    }
}

impl EnginePages for EmulatedPages {
    type Parked = EmulatedParkedWord;

    fn control(&self) -> &ControlPage {
        // SAFETY: map memory lives until the next run begins, and the lock of `crate::run` is held until this is dropped.
        unsafe { &*self.control }
    }

    fn slots(&self) -> &[Slot] {
        // SAFETY: as above.
        unsafe { &*self.slots }
    }

    fn parked(&self) -> &EmulatedParkedWord {
        &self.parked
    }

    fn tick_us(&self) -> u32 {
        self.tick_us
    }
}

/// The word that says whether the engine is parked. What is written there may stay in the store buffer of the engine's CPU.
pub struct EmulatedParkedWord {
    word: *const AtomicU64,
    has_barrier: bool,
}

impl ParkedWord for EmulatedParkedWord {
    fn say(&self, parked: bool) {
        // SAFETY: as in `EmulatedPages::control()`.
        interleave::store(unsafe { &*self.word }, parked.into());
    }

    fn full_barrier(&self) {
        if self.has_barrier {
            interleave::barrier();
        }
    }
}
