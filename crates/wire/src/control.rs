//! The control word: how the loaded scheduler is told to behave differently, in one aligned store.

use scherzo_model::LoadSettings;
pub use scherzo_model::{Mode, Order};

/// How a CPU is found for a task: by the kernel, by BPF or by user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "six switches that do not depend on each other, as bits of a word")]
pub struct Placement {
    /// Every decision in user space: BPF takes no shortcut.
    pub full_user: bool,
    /// The kernel's built-in selection of idle CPUs, which prefers whole cores and near CPUs by itself.
    pub builtin_idle: bool,
    /// BPF's own search prefers cores of which every thread is idle.
    pub whole_cores: bool,
    /// BPF's own search looks in the task's NUMA node first.
    pub numa_local: bool,
    /// BPF applies the policy, in every mode; else user space does.
    pub kernel_seat: bool,
    /// No task goes before others because it sleeps a lot.
    pub plain: bool,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            full_user: false,
            builtin_idle: true,
            whole_cores: true,
            numa_local: true,
            kernel_seat: true,
            plain: false,
        }
    }
}

impl From<&LoadSettings> for Placement {
    fn from(settings: &LoadSettings) -> Self {
        let LoadSettings { full_user, builtin_idle, whole_cores, numa_local, .. } = *settings;
        let (kernel_seat, plain) = (settings.seat().is_kernel(), settings.slice_boost_ms == 0);
        Self { full_user, builtin_idle, whole_cores, numa_local, kernel_seat, plain }
    }
}

impl Placement {
    const FULL_USER: u64 = 0x2;
    const OWN_IDLE: u64 = 0x4;
    const WHOLE_CORES: u64 = 0x8;
    const NUMA_LOCAL: u64 = 0x10;
    const KERNEL_SEAT: u64 = 0x20;
    const PLAIN: u64 = 0x40;

    const fn pack(self) -> u64 {
        (if self.full_user { Self::FULL_USER } else { 0 })
            | (if self.builtin_idle { 0 } else { Self::OWN_IDLE })
            | (if self.whole_cores { Self::WHOLE_CORES } else { 0 })
            | (if self.numa_local { Self::NUMA_LOCAL } else { 0 })
            | (if self.kernel_seat { Self::KERNEL_SEAT } else { 0 })
            | (if self.plain { Self::PLAIN } else { 0 })
    }

    const fn unpack(flags: u64) -> Self {
        Self {
            full_user: flags & Self::FULL_USER != 0,
            builtin_idle: flags & Self::OWN_IDLE == 0,
            whole_cores: flags & Self::WHOLE_CORES != 0,
            numa_local: flags & Self::NUMA_LOCAL != 0,
            kernel_seat: flags & Self::KERNEL_SEAT != 0,
            plain: flags & Self::PLAIN != 0,
        }
    }
}

/// The decoded control word. BPF reads it once per callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlWord {
    /// What the person or the arbiter chose.
    pub mode: Mode,
    /// Interactive tasks may take a CPU from batch tasks.
    pub preemption: bool,
    /// How CPUs are found.
    pub placement: Placement,
    /// Queues new work enters; differs from the mode's own while interactive has turned itself into FIFO.
    pub order: Order,
    /// Grows by one with every change; wraps.
    pub generation: u32,
}

const FLAGS_SHIFT: u32 = 8;
const ORDER_SHIFT: u32 = 16;
const GENERATION_SHIFT: u32 = 32;
const FLAG_PREEMPTION: u64 = 1;

impl ControlWord {
    /// Packs it for the control page.
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.mode as u64
            | ((if self.preemption { FLAG_PREEMPTION } else { 0 }) | self.placement.pack()) << FLAGS_SHIFT
            | (self.order as u64) << ORDER_SHIFT
            | (self.generation as u64) << GENERATION_SHIFT
    }

    /// Reads a word; `None` if its mode or order is unknown.
    #[must_use]
    pub const fn unpack(word: u64) -> Option<Self> {
        let Some(mode) = Mode::from_wire(word as u8) else { return None };
        let order = match (word >> ORDER_SHIFT) as u8 {
            0 => Order::Deadline,
            1 => Order::Fifo,
            _ => return None,
        };
        let flags = (word >> FLAGS_SHIFT) & 0xff;
        let (preemption, placement) = (flags & FLAG_PREEMPTION != 0, Placement::unpack(flags));
        Some(Self { mode, preemption, placement, order, generation: (word >> GENERATION_SHIFT) as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_survive_packing(mode in 0..Mode::ALL.len() as u8, preemption: bool, flags in 0u64..128, fifo: bool, generation: u32) {
            let word = ControlWord {
                mode: Mode::from_wire(mode).unwrap(),
                preemption,
                placement: Placement::unpack(flags),
                order: if fifo { Order::Fifo } else { Order::Deadline },
                generation,
            };
            prop_assert_eq!(ControlWord::unpack(word.pack()), Some(word));
        }
    }

    #[test]
    fn unknown_modes_are_refused() {
        assert_eq!(ControlWord::unpack(Mode::ALL.len() as u64), None);
        assert_eq!(ControlWord::unpack(2 << ORDER_SHIFT), None);
    }
}
