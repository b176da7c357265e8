//! What the engine's code takes for the loaded scheduler: the memory that it shares with BPF.

#![allow(unsafe_code)]

use scherzo_wire::layout::{ControlPage, Slot};

use crate::machine::Machine;

/// The memory that BPF and the engine share; as long as the run lasts.
pub struct Pages {
    control: *const ControlPage,
    slots: *const [Slot],
    tick_ns: u64,
}

impl Pages {
    /// Those of a machine, which must outlive them.
    pub(crate) fn of(machine: &mut Machine) -> Self {
        Self { control: machine.control(), slots: machine.slots(), tick_ns: 1_000_000_000 / machine.profile.hz }
    }

    /// The control page.
    pub fn control(&self) -> &ControlPage {
        // SAFETY: map memory lives until the next run begins, and the lock of `crate::run` is held until this is dropped.
        unsafe { &*self.control }
    }

    /// The time between two ticks.
    pub fn tick_ns(&self) -> u64 {
        self.tick_ns
    }

    /// The slot table.
    pub fn slots(&self) -> &[Slot] {
        // SAFETY: as above.
        unsafe { &*self.slots }
    }
}
