//! The machine of a scenario: its kernel, and which CPUs it has.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{ScenarioError, in_range, one};
use crate::abi::{CpuMask, MAX_CPUS};
use crate::profile::{CoreSpec, Profile, TopologySpec};

/// The machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// CPUs.
    pub cpus: Spanned<usize>,
    /// The kernel's version.
    #[serde(default = "default_kernel")]
    pub kernel: Spanned<String>,
    /// Last-level caches.
    #[serde(default = "one")]
    pub llcs: Spanned<usize>,
    /// Threads of each core.
    #[serde(default = "one")]
    pub threads_per_core: Spanned<usize>,
    /// Ticks in a second.
    pub hz: Option<Spanned<u64>>,
    /// CPUs have the frequency that the scheduler asks for. How long work takes does not depend on it.
    #[serde(default)]
    pub schedutil: bool,
    /// NUMA nodes.
    #[serde(default = "one")]
    pub nodes: Spanned<usize>,
    /// CPUs on slow cores.
    #[serde(default)]
    pub slow_cpus: Vec<Spanned<usize>>,
    /// What a slow core does in the time of a fast one.
    #[serde(default = "normal_slow_percent")]
    pub slow_percent: Spanned<u64>,
    /// CPUs are emulated in turns by one thread of the host, as those of the guests that the project measures in.
    #[serde(default)]
    pub shared_stream: bool,
    /// Cores, where caches and cores are not of equal size.
    #[serde(default)]
    pub cores: Vec<Spanned<CoreGroup>>,
}

/// Cores that are alike.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreGroup {
    /// How many there are.
    pub count: usize,
    /// Threads of each.
    #[serde(default = "one_thread")]
    pub threads: usize,
    /// Their last-level cache.
    #[serde(default)]
    pub llc: usize,
    /// Their NUMA node.
    #[serde(default)]
    pub node: usize,
    /// They are slow, where others are fast.
    #[serde(default)]
    pub slow: bool,
}

fn one_thread() -> usize {
    1
}

fn normal_slow_percent() -> Spanned<u64> {
    Spanned::new(0..0, 60)
}

fn default_kernel() -> Spanned<String> {
    Spanned::new(0..0, "6.18".to_owned())
}

impl MachineSpec {
    /// What makes no sense in it.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let nr_cpus = *self.cpus.get_ref();
        in_range("cpus", &self.cpus, 1, MAX_CPUS)?;
        in_range("llcs", &self.llcs, 1, nr_cpus)?;
        in_range("nodes", &self.nodes, 1, *self.llcs.get_ref())?;
        in_range("threads_per_core", &self.threads_per_core, 1, 8)?;
        in_range("slow_percent", &self.slow_percent, 1, 100)?;
        if let Some(hz) = &self.hz {
            in_range("hz", hz, 100, 1000)?;
        }
        if Profile::of(self.kernel.get_ref()).is_none() {
            let known = Profile::ALL.map(|profile| profile.name).join(", ");
            let reason = format!("kernel is {}, known are {known}", self.kernel.get_ref());
            return Err(ScenarioError(self.kernel.span(), reason));
        }
        self.slow_cpus.iter().try_for_each(|cpu| in_range("slow_cpus", cpu, 0, nr_cpus - 1))?;
        self.check_cores()
    }

    /// Where cores are listed they are as many CPUs as the machine has, and those of a cache are of one node.
    fn check_cores(&self) -> Result<(), ScenarioError> {
        let mut node_of_llc = BTreeMap::new();
        let mut nr_cpus = 0;
        for group in &self.cores {
            let (span, group) = (group.span(), group.get_ref());
            let threads = 1..=8;
            if group.count == 0 || !threads.contains(&group.threads) || group.llc.max(group.node) >= MAX_CPUS {
                return Err(ScenarioError(span, "cores have a count, 1 to 8 threads, and small numbers".to_owned()));
            }
            if *node_of_llc.entry(group.llc).or_insert(group.node) != group.node {
                return Err(ScenarioError(span, format!("llc {} is in two nodes", group.llc)));
            }
            nr_cpus += group.count * group.threads;
        }
        let cpus = *self.cpus.get_ref();
        if !self.cores.is_empty() && nr_cpus != cpus {
            return Err(ScenarioError(self.cpus.span(), format!("cpus is {cpus}, the cores have {nr_cpus}")));
        }
        Ok(())
    }

    /// The kernel.
    pub(crate) fn profile(&self) -> Profile {
        let profile = Profile::of(self.kernel.get_ref()).unwrap_or(Profile::ALL[0]);
        let hz = self.hz.as_ref().map_or(profile.hz, |hz| *hz.get_ref());
        Profile { hz, schedutil: self.schedutil, ..profile }
    }

    /// The hardware.
    pub(crate) fn topology(&self) -> TopologySpec {
        let mut topology = if self.cores.is_empty() {
            let [cpus, llcs, nodes, threads] =
                [&self.cpus, &self.llcs, &self.nodes, &self.threads_per_core].map(|number| *number.get_ref());
            let slow = CpuMask::of(self.slow_cpus.iter().map(|cpu| *cpu.get_ref()));
            TopologySpec::new(cpus, llcs, nodes, threads).with_slow(slow)
        } else {
            let cores: Vec<CoreSpec> = self.cores.iter().map(|group| group.get_ref().spec()).collect();
            TopologySpec::of(&cores)
        };
        topology.slow_percent = *self.slow_percent.get_ref();
        topology
    }
}

impl CoreGroup {
    fn spec(self) -> CoreSpec {
        let Self { count, threads, llc, node, slow } = self;
        CoreSpec { nr_cores: count, nr_threads: threads, llc, node, slow }
    }
}
