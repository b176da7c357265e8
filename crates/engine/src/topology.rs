//! CPUs and their domains, as the kernel side needs them: dense domain numbers, sized by possible CPUs.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use scx_utils::Topology;

/// Most CPUs that the kernel side can keep claims for.
pub const MAX_CPUS: usize = 1024;

/// Which domain each possible CPU belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    /// Indexed by CPU id; CPUs that are absent or offline now are in domain 0.
    pub llc_of_cpu: Vec<u32>,
    /// Domains, at least one.
    pub nr_llcs: u32,
}

impl Domains {
    /// Reads this machine.
    pub fn detect() -> Result<Self> {
        let topology = Topology::new().context("cannot read the CPU topology from /sys")?;
        let path = "/sys/devices/system/cpu/possible";
        let possible = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        let nr_cpus = nr_ids(&possible).with_context(|| format!("{path} has {possible:?}"))?;
        let llcs = topology.all_cpus.values().map(|cpu| (cpu.id, (cpu.node_id, cpu.llc_id)));
        Self::new(nr_cpus, llcs)
    }

    /// Numbers the domains densely in the order of (node, LLC). LLC ids may be sparse, or reused between nodes.
    fn new(nr_cpus: usize, cpus: impl Iterator<Item = (usize, (usize, usize))> + Clone) -> Result<Self> {
        if nr_cpus > MAX_CPUS {
            bail!("{nr_cpus} possible CPUs, at most {MAX_CPUS} are supported");
        }
        let mut numbers: BTreeMap<(usize, usize), u32> = cpus.clone().map(|(_, llc)| (llc, 0)).collect();
        for (number, dense) in numbers.values_mut().zip(0..) {
            *number = dense;
        }
        let mut llc_of_cpu = vec![0; nr_cpus];
        for (cpu, llc) in cpus {
            *llc_of_cpu.get_mut(cpu).with_context(|| format!("CPU {cpu} is not among the possible ones"))? =
                numbers[&llc];
        }
        Ok(Self { llc_of_cpu, nr_llcs: (numbers.len() as u32).max(1) })
    }
}

/// One more than the highest id in a list such as `0-3,8`.
fn nr_ids(list: &str) -> Option<usize> {
    let highest = list.trim().rsplit([',', '-']).next()?;
    Some(highest.parse::<usize>().ok()? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_lists_end_with_the_highest() {
        assert_eq!(nr_ids("0-3\n"), Some(4));
        assert_eq!(nr_ids("0"), Some(1));
        assert_eq!(nr_ids("0-3,8-11"), Some(12));
        assert_eq!(nr_ids(""), None);
    }

    #[test]
    fn sparse_and_reused_ids_become_dense() {
        let cpus = [(0, (0, 7)), (1, (0, 7)), (2, (1, 7)), (5, (1, 40))];
        let domains = Domains::new(8, cpus.into_iter()).unwrap();
        assert_eq!(domains.nr_llcs, 3);
        assert_eq!(domains.llc_of_cpu, [0, 0, 1, 0, 0, 2, 0, 0]);
    }

    #[test]
    fn machines_that_are_too_large_are_named() {
        assert!(Domains::new(2000, std::iter::empty()).unwrap_err().to_string().contains("1024"));
    }
}
