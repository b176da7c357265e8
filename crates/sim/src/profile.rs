//! What a machine is made of: kernel, hardware, and what things take.

use std::ops::Range;

use crate::abi::CpuMask;

/// In what kernels differ, as far as this is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its version.
    pub name: &'static str,
    /// sched_ext is asked for work before it is known whether a higher class has any.
    pub balances_before_pick: bool,
    /// From 6.19: waiting tasks can be put back from anywhere, and `ops.cpu_release` is not used.
    pub reenqueues_anywhere: bool,
    /// From 7.3: more re-enqueues of a task that does not run end the scheduler.
    pub reenqueue_limit: Option<u32>,
    /// Ticks in a second.
    pub hz: u64,
}

impl Profile {
    /// The kernels that are known.
    pub const ALL: [Self; 2] = [
        Self { name: "6.18", balances_before_pick: true, reenqueues_anywhere: false, reenqueue_limit: None, hz: 250 },
        Self {
            name: "7.3",
            balances_before_pick: false,
            reenqueues_anywhere: true,
            reenqueue_limit: Some(256),
            hz: 250,
        },
    ];

    /// The kernel of that version.
    pub fn of(version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == version)
    }
}

/// What things take, in nanoseconds.
#[expect(clippy::struct_field_names, reason = "units are part of names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A context switch.
    pub switch_ns: u64,
    /// Until another CPU has been interrupted.
    pub ipi_ns: u64,
    /// Until interrupt work of the same CPU runs.
    pub interrupt_ns: u64,
    /// Out of idleness.
    pub idle_exit_ns: u64,
    /// Data from the cache of another CPU.
    pub migrate_ns: u64,
    /// The engine: a turn of its loop.
    pub turn_ns: u64,
    /// The engine: a record that it reads.
    pub record_ns: u64,
    /// The engine: a dispatched task that it writes.
    pub dispatched_ns: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            switch_ns: 1_500,
            ipi_ns: 1_000,
            interrupt_ns: 500,
            idle_exit_ns: 2_000,
            migrate_ns: 3_000,
            turn_ns: 3_000,
            record_ns: 250,
            dispatched_ns: 200,
        }
    }
}

impl Costs {
    /// How long work may wait beside an idle CPU: a kick, the way out of idleness and a switch, several times over, since a
    /// CPU may lose a race and look again.
    pub fn kick_bound_ns(&self) -> u64 {
        5 * (self.interrupt_ns + self.ipi_ns + self.idle_exit_ns + 2 * self.switch_ns)
    }
}

/// The hardware. Threads of a core, and cores of a cache, have neighbouring numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologySpec {
    /// CPUs.
    pub nr_cpus: usize,
    /// CPUs that share a last-level cache.
    pub cpus_per_llc: usize,
    /// Threads of one core.
    pub threads_per_core: usize,
    /// CPUs on slow cores.
    pub slow: CpuMask,
    /// CPUs that take part.
    pub online: CpuMask,
}

impl TopologySpec {
    /// Caches and cores of equal size; the last may be smaller.
    pub fn new(nr_cpus: usize, nr_llcs: usize, threads_per_core: usize) -> Self {
        Self {
            nr_cpus,
            cpus_per_llc: nr_cpus.div_ceil(nr_llcs),
            threads_per_core,
            slow: CpuMask::EMPTY,
            online: CpuMask::of(0..nr_cpus),
        }
    }

    /// Some cores are slow, others are fast.
    pub fn cores_differ(&self) -> bool {
        !self.slow.is_empty() && self.slow.count() < self.nr_cpus
    }

    /// How many last-level caches there are.
    pub fn nr_llcs(&self) -> usize {
        self.nr_cpus.div_ceil(self.cpus_per_llc)
    }

    /// The cache of a CPU.
    pub fn llc_of(&self, cpu: usize) -> usize {
        cpu / self.cpus_per_llc
    }

    /// CPUs that share the cache of this one.
    pub fn llc_mask(&self, cpu: usize) -> CpuMask {
        let first = self.llc_of(cpu) * self.cpus_per_llc;
        CpuMask::of(first..(first + self.cpus_per_llc).min(self.nr_cpus))
    }

    /// Threads of the CPU's core.
    pub fn threads_of(&self, cpu: usize) -> Range<usize> {
        let first = cpu / self.threads_per_core * self.threads_per_core;
        first..(first + self.threads_per_core).min(self.nr_cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share() {
        let topology = TopologySpec::new(8, 2, 2);
        assert_eq!((topology.llc_of(3), topology.llc_of(4), topology.nr_llcs()), (0, 1, 2));
        assert_eq!(topology.threads_of(5), 4..6);
        assert_eq!(topology.llc_mask(6), CpuMask::of(4..8));
        assert!(!topology.cores_differ());
    }
}
