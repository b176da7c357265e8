//! What a machine is made of: kernel, hardware, and what things take.

use serde::Deserialize;

use crate::abi::CpuMask;

/// In what kernels differ, as far as this is emulated.
#[expect(clippy::struct_excessive_bools, reason = "differences that do not depend on each other")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its version.
    pub name: &'static str,
    /// sched_ext is asked for work before it is known whether a higher class has any.
    pub balances_before_pick: bool,
    /// From 6.19: waiting tasks can be put back from anywhere, and `ops.cpu_release` is not used.
    pub reenqueues_anywhere: bool,
    /// From 7.1: `ops.dequeue` is called for tasks in the scheduler's own queues too, when a local queue takes them.
    pub dequeues_from_queues: bool,
    /// From 6.19: while the scheduler is passed by, tasks wait in a queue of their CPU instead of the global one.
    pub bypasses_by_cpu: bool,
    /// From 7.3: more re-enqueues of a task that does not run end the scheduler.
    pub reenqueue_limit: Option<u32>,
    /// Ticks in a second.
    pub hz: u64,
    /// CPUs have the frequency that the scheduler asks for.
    pub schedutil: bool,
    /// From 6.17: sched_ext describes the limits of groups in fields of its own.
    pub describes_limits: bool,
    /// What the kernel is built with.
    pub cgroup_scheduling: CgroupScheduling,
}

/// What a kernel can do with control groups of the cpu controller.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupScheduling {
    /// Groups have weights and limits.
    #[default]
    Full,
    /// Without `CONFIG_CFS_BANDWIDTH`: limits are there for sched_ext only.
    WithoutBandwidth,
    /// Without `CONFIG_CGROUP_SCHED`: all tasks compete in one group.
    None,
}

/// Bits of `enum sim_absent_fields` of `glue.c`.
enum AbsentFields {
    TaskGroup = 0x1,
    CfsBandwidth = 0x2,
    ScxBandwidth = 0x4,
}

impl Profile {
    /// The kernels that are known.
    pub const ALL: [Self; 4] = [
        Self { name: "6.16", describes_limits: false, ..Self::LINUX_6_18 },
        Self::LINUX_6_18,
        Self { name: "7.2", reenqueue_limit: None, ..Self::LINUX_7_3 },
        Self::LINUX_7_3,
    ];

    const LINUX_6_18: Self = Self {
        name: "6.18",
        balances_before_pick: true,
        reenqueues_anywhere: false,
        dequeues_from_queues: false,
        bypasses_by_cpu: false,
        reenqueue_limit: None,
        hz: 250,
        schedutil: false,
        describes_limits: true,
        cgroup_scheduling: CgroupScheduling::Full,
    };

    const LINUX_7_3: Self = Self {
        name: "7.3",
        balances_before_pick: false,
        reenqueues_anywhere: true,
        dequeues_from_queues: true,
        bypasses_by_cpu: true,
        reenqueue_limit: Some(256),
        hz: 250,
        schedutil: false,
        describes_limits: true,
        cgroup_scheduling: CgroupScheduling::Full,
    };

    /// The fields that its types do not have, as bits.
    pub(crate) fn absent_fields(&self) -> u32 {
        let bandwidth =
            if self.cgroup_scheduling == CgroupScheduling::Full { 0 } else { AbsentFields::CfsBandwidth as u32 };
        let task_group =
            if self.cgroup_scheduling == CgroupScheduling::None { AbsentFields::TaskGroup as u32 } else { 0 };
        let of_ext = if self.describes_limits { 0 } else { AbsentFields::ScxBandwidth as u32 };
        bandwidth | task_group | of_ext
    }

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
    /// Data from the cache of another CPU, by how far it was: of the same core, cache, node, machine.
    pub migrate_ns: [u64; 4],
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
            migrate_ns: [0, 3_000, 10_000, 20_000],
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

/// How far apart two CPUs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// They are the same, or threads of one core.
    Core,
    /// They share the last-level cache.
    Llc,
    /// They have the same memory.
    Node,
    /// Nothing of that.
    Machine,
}

impl Distance {
    /// All of them, the shortest first.
    pub const ALL: [Self; 4] = [Self::Core, Self::Llc, Self::Node, Self::Machine];

    /// Its name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Llc => "cache",
            Self::Node => "node",
            Self::Machine => "machine",
        }
    }
}

/// Cores that are alike: of one last-level cache, and so of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSpec {
    /// How many there are.
    pub nr_cores: usize,
    /// Threads of each.
    pub nr_threads: usize,
    /// Their last-level cache.
    pub llc: usize,
    /// Their NUMA node.
    pub node: usize,
    /// They are slow, where others are fast.
    pub slow: bool,
}

/// The hardware: which CPUs there are, and what they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologySpec {
    /// CPUs.
    pub nr_cpus: usize,
    /// By CPU: the threads of its core, in order.
    threads: Vec<Vec<usize>>,
    /// By CPU.
    llcs: Vec<usize>,
    /// By CPU.
    nodes: Vec<usize>,
    /// By cache.
    llc_masks: Vec<CpuMask>,
    /// By node.
    node_masks: Vec<CpuMask>,
    /// CPUs on slow cores.
    pub slow: CpuMask,
    /// What a slow core does in the time of a fast one, in percent.
    pub slow_percent: u64,
    /// CPUs that are there: `cpu_online_mask`.
    pub online: CpuMask,
    /// CPUs that take tasks: `cpu_active_mask`. One that goes offline leaves it first.
    pub active: CpuMask,
}

impl TopologySpec {
    /// Caches and cores of equal size, in nodes of equally many caches; the last may be smaller.
    pub fn new(nr_cpus: usize, nr_llcs: usize, nr_nodes: usize, threads_per_core: usize) -> Self {
        let cpus_per_llc = nr_cpus.div_ceil(nr_llcs);
        let llcs_per_node = nr_llcs.div_ceil(nr_nodes);
        let core = |cpu: usize| cpu / threads_per_core * threads_per_core;
        let threads = |cpu: usize| (core(cpu)..(core(cpu) + threads_per_core).min(nr_cpus)).collect();
        let llc = |cpu: usize| cpu / cpus_per_llc;
        let llcs: Vec<usize> = (0..nr_cpus).map(llc).collect();
        let nodes = llcs.iter().map(|llc| llc / llcs_per_node).collect();
        Self::build((0..nr_cpus).map(threads).collect(), llcs, nodes)
    }

    /// These cores. First threads are numbered first, as firmware mostly does, then the second ones.
    pub fn of(cores: &[CoreSpec]) -> Self {
        let single: Vec<CoreSpec> = cores.iter().flat_map(|spec| std::iter::repeat_n(*spec, spec.nr_cores)).collect();
        let most = single.iter().map(|core| core.nr_threads).max().unwrap_or(0);
        let mut numbered: Vec<usize> = Vec::new();
        for thread in 0..most {
            numbered.extend((0..single.len()).filter(|core| thread < single[*core].nr_threads));
        }
        let threads = |core: usize| (0..numbered.len()).filter(|cpu| numbered[*cpu] == core).collect::<Vec<_>>();
        let by_core: Vec<Vec<usize>> = (0..single.len()).map(threads).collect();
        let of = |value: fn(&CoreSpec) -> usize| numbered.iter().map(|core| value(&single[*core])).collect();
        let threads = numbered.iter().map(|core| by_core[*core].clone()).collect();
        let slow = CpuMask::of((0..numbered.len()).filter(|cpu| single[numbered[*cpu]].slow));
        Self::build(threads, of(|core| core.llc), of(|core| core.node)).with_slow(slow)
    }

    /// The same with these CPUs on slow cores.
    #[must_use]
    pub fn with_slow(self, slow: CpuMask) -> Self {
        Self { slow, ..self }
    }

    fn build(threads: Vec<Vec<usize>>, llcs: Vec<usize>, nodes: Vec<usize>) -> Self {
        let nr_cpus = threads.len();
        Self {
            nr_cpus,
            threads,
            llc_masks: masks(&llcs),
            node_masks: masks(&nodes),
            llcs,
            nodes,
            slow: CpuMask::EMPTY,
            slow_percent: 100,
            online: CpuMask::of(0..nr_cpus),
            active: CpuMask::of(0..nr_cpus),
        }
    }

    /// Some cores are slow, others are fast.
    pub fn cores_differ(&self) -> bool {
        !self.slow.is_empty() && self.slow.count() < self.nr_cpus
    }

    /// The cache of a fast core.
    pub fn fast_llc(&self) -> usize {
        (0..self.nr_cpus).find(|cpu| !self.slow.has(*cpu)).map_or(0, |cpu| self.llcs[cpu])
    }

    /// What the CPU does in the time of a fast one, in percent.
    pub fn speed_percent(&self, cpu: usize) -> u64 {
        if self.slow.has(cpu) { self.slow_percent } else { 100 }
    }

    /// How many last-level caches there are.
    pub fn nr_llcs(&self) -> usize {
        self.llc_masks.len()
    }

    /// How many NUMA nodes there are.
    pub fn nr_nodes(&self) -> usize {
        self.node_masks.len()
    }

    /// The cache of a CPU.
    pub fn llc_of(&self, cpu: usize) -> usize {
        self.llcs[cpu]
    }

    /// The NUMA node of a CPU.
    pub fn node_of(&self, cpu: usize) -> usize {
        self.nodes[cpu]
    }

    /// CPUs that share the cache of this one.
    pub fn llc_mask(&self, cpu: usize) -> &CpuMask {
        &self.llc_masks[self.llcs[cpu]]
    }

    /// CPUs of a node.
    pub fn node_mask(&self, node: usize) -> &CpuMask {
        &self.node_masks[node]
    }

    /// Threads of the CPU's core.
    pub fn threads_of(&self, cpu: usize) -> &[usize] {
        &self.threads[cpu]
    }

    /// Some core has several threads.
    pub fn has_smt(&self) -> bool {
        self.threads.iter().any(|threads| threads.len() > 1)
    }

    /// How far apart they are.
    pub fn distance(&self, cpu: usize, other: usize) -> Distance {
        if self.threads[cpu].contains(&other) {
            Distance::Core
        } else if self.llcs[cpu] == self.llcs[other] {
            Distance::Llc
        } else if self.nodes[cpu] == self.nodes[other] {
            Distance::Node
        } else {
            Distance::Machine
        }
    }
}

/// Which CPUs belong to each of what they share; numbers are as many as the highest says.
fn masks(owners: &[usize]) -> Vec<CpuMask> {
    let nr = owners.iter().max().map_or(0, |highest| highest + 1);
    let mut masks = vec![CpuMask::EMPTY; nr];
    for (cpu, owner) in owners.iter().enumerate() {
        masks[*owner].set(cpu, true);
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share() {
        let topology = TopologySpec::new(8, 2, 1, 2);
        assert_eq!((topology.llc_of(3), topology.llc_of(4), topology.nr_llcs()), (0, 1, 2));
        assert_eq!(topology.threads_of(5), [4, 5]);
        assert_eq!(*topology.llc_mask(6), CpuMask::of(4..8));
        assert!(!topology.cores_differ());
    }

    #[test]
    fn distances_grow() {
        let topology = TopologySpec::new(16, 4, 2, 2);
        let distances = [1, 2, 4, 8].map(|other| topology.distance(0, other));
        assert_eq!(distances, Distance::ALL);
        assert_eq!((topology.nr_nodes(), topology.node_of(7), topology.node_of(8)), (2, 0, 1));
    }

    /// Two fast cores of two threads, and four slow ones of one thread, as in a laptop.
    #[test]
    fn second_threads_come_last() {
        let fast = CoreSpec { nr_cores: 2, nr_threads: 2, llc: 0, node: 0, slow: false };
        let slow = CoreSpec { nr_cores: 4, nr_threads: 1, llc: 1, node: 0, slow: true };
        let topology = TopologySpec::of(&[fast, slow]);
        assert_eq!((topology.nr_cpus, topology.threads_of(0), topology.threads_of(7)), (8, &[0, 6][..], &[1, 7][..]));
        assert_eq!((topology.slow.clone(), topology.fast_llc()), (CpuMask::of(2..6), 0));
        assert_eq!(*topology.llc_mask(3), CpuMask::of(2..6));
    }
}
