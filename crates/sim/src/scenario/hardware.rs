//! The machine of a scenario: its kernel, and which CPUs it has.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::costs::CostSpec;
use super::one;
use super::place::{ScenarioError, assumed, in_range, is_named};
use crate::abi::{CpuMask, MAX_CPUS};
use crate::profile::{CgroupScheduling, CoreSpec, Costs, Profile, TopologySpec};

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
    /// What the kernel is built with.
    #[serde(default)]
    pub cgroup_scheduling: CgroupScheduling,
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
    /// What things take.
    #[serde(default)]
    pub costs: CostSpec,
}

/// Cores that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreGroup {
    /// How many there are.
    pub count: Spanned<usize>,
    /// Threads of each.
    #[serde(default = "one")]
    pub threads: Spanned<usize>,
    /// Their last-level cache.
    #[serde(default = "first")]
    pub llc: Spanned<usize>,
    /// Their NUMA node.
    #[serde(default = "first")]
    pub node: Spanned<usize>,
    /// They are slow, where others are fast.
    #[serde(default)]
    pub slow: bool,
}

fn first() -> Spanned<usize> {
    assumed(0)
}

fn normal_slow_percent() -> Spanned<u64> {
    assumed(60)
}

fn default_kernel() -> Spanned<String> {
    assumed("6.18".to_owned())
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
        self.costs.check()?;
        self.check_cores()?;
        self.check_ignored()
    }

    /// What lists of cores say themselves is not said for all of them as well, and a speed is that of slow cores.
    fn check_ignored(&self) -> Result<(), ScenarioError> {
        let fault = |span, reason: String| Err(ScenarioError(span, reason));
        if !self.cores.is_empty() {
            let numbers = [("llcs", &self.llcs), ("nodes", &self.nodes), ("threads_per_core", &self.threads_per_core)];
            let numbers = numbers.into_iter().chain(self.slow_cpus.first().map(|cpu| ("slow_cpus", cpu)));
            if let Some((key, number)) = numbers.into_iter().find(|(_, number)| is_named(number)) {
                return fault(number.span(), format!("{key} means nothing beside cores"));
            }
        }
        let none_is_slow = self.slow_cpus.is_empty() && !self.cores.iter().any(|cores| cores.get_ref().slow);
        if none_is_slow && is_named(&self.slow_percent) {
            return fault(self.slow_percent.span(), "slow_percent means nothing without slow cores".to_owned());
        }
        Ok(())
    }

    /// Where cores are listed they are as many CPUs as the machine has, and those of a cache are of one node.
    fn check_cores(&self) -> Result<(), ScenarioError> {
        let mut node_of_llc = BTreeMap::new();
        let mut nr_cpus = 0;
        for group in &self.cores {
            let group = group.get_ref();
            in_range("count", &group.count, 1, MAX_CPUS)?;
            in_range("threads", &group.threads, 1, 8)?;
            in_range("llc", &group.llc, 0, MAX_CPUS - 1)?;
            in_range("node", &group.node, 0, MAX_CPUS - 1)?;
            let CoreSpec { nr_cores, nr_threads, llc, node, .. } = group.spec();
            if *node_of_llc.entry(llc).or_insert(node) != node {
                return Err(ScenarioError(group.node.span(), format!("node is {node}, llc {llc} is in another one")));
            }
            nr_cpus += nr_cores * nr_threads;
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
        Profile { hz, schedutil: self.schedutil, cgroup_scheduling: self.cgroup_scheduling, ..profile }
    }

    /// What things take.
    pub(crate) fn costs(&self) -> Costs {
        self.costs.costs()
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
    fn spec(&self) -> CoreSpec {
        let [nr_cores, nr_threads, llc, node] =
            [&self.count, &self.threads, &self.llc, &self.node].map(|number| *number.get_ref());
        CoreSpec { nr_cores, nr_threads, llc, node, slow: self.slow }
    }
}
