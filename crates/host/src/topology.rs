//! Which CPUs there are, which of them share a last-level cache, and which are slow.
//!
//! Ids of cores, caches and packages may be sparse, and the same id may mean different things in different packages. So
//! none of them is used: CPUs belong together if the kernel lists them together.

use std::collections::{BTreeMap, BTreeSet};

use crate::cores::slow_cpus;
use crate::{Error, Root};

pub(crate) const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";
/// More than any machine has; a list that says more is not believed.
const MAX_CPU_IDS: usize = 1 << 16;
/// Most caches of one CPU that are looked at; four is usual.
const MAX_CACHES: u32 = 16;

/// The CPUs of this machine, as far as they are there now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Indexed by CPU id, one entry for each id that a CPU may ever have: an LLC domain below [`Self::nr_llcs`], or `None`
    /// while the CPU is offline or absent, so that the kernel does not say where it belongs.
    pub llc_of_cpu: Vec<Option<u32>>,
    /// LLC domains: groups of CPUs that share a last-level cache and a NUMA node, at least one; numbered in the order of their
    /// first CPUs.
    pub nr_llcs: u32,
    /// CPUs on slow cores, where others are fast: never all of them. One that is offline or absent is not known to be slow.
    pub slow_cpus: BTreeSet<usize>,
}

impl Topology {
    /// Whether some cores are slow and others fast.
    #[must_use]
    pub fn cores_differ(&self) -> bool {
        !self.slow_cpus.is_empty()
    }

    /// The LLC domain of the first CPU that is on a fast core.
    #[must_use]
    pub fn fast_llc(&self) -> u32 {
        let mut fast = self.llc_of_cpu.iter().enumerate().filter(|(cpu, _)| !self.is_slow(*cpu));
        fast.find_map(|(_, llc)| *llc).unwrap_or(0)
    }

    /// Whether a CPU is on a slow core.
    #[must_use]
    pub fn is_slow(&self, cpu: usize) -> bool {
        self.slow_cpus.contains(&cpu)
    }
}

/// Reads the topology. CPUs that say nothing of their caches, as in virtual machines, share with their NUMA node.
pub fn topology(root: &Root) -> Result<Topology, Error> {
    let possible = cpu_list(root, &format!("{CPUS}/possible"))?;
    let nr_cpu_ids = possible.last().map_or(1, |last| last + 1);
    let online = cpu_list(root, &format!("{CPUS}/online"))?;
    let nodes = node_of_cpu(root)?;
    let mut numbers = BTreeMap::new();
    let mut llc_of_cpu = vec![None; nr_cpu_ids];
    for &cpu in online.iter().filter(|cpu| **cpu < nr_cpu_ids) {
        let node = nodes.get(&cpu).copied().unwrap_or(0);
        let next = numbers.len() as u32;
        llc_of_cpu[cpu] = Some(*numbers.entry((node, last_level_cache(root, cpu)?)).or_insert(next));
    }
    let slow_cpus = slow_cpus(root, &online);
    Ok(Topology { llc_of_cpu, nr_llcs: (numbers.len() as u32).max(1), slow_cpus })
}

/// The NUMA node of each CPU. Kernels without NUMA have no nodes.
fn node_of_cpu(root: &Root) -> Result<BTreeMap<usize, u32>, Error> {
    let mut nodes = BTreeMap::new();
    for entry in std::fs::read_dir(root.path(NODES)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(node) = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok()) else { continue };
        let cpus = cpu_list(root, &format!("{NODES}/node{node}/cpulist"))?;
        nodes.extend(cpus.into_iter().map(|cpu| (cpu, node)));
    }
    Ok(nodes)
}

/// The first CPU that this one shares its highest cache with; `None` if it says nothing of caches.
fn last_level_cache(root: &Root, cpu: usize) -> Result<Option<usize>, Error> {
    let mut last = None;
    for index in 0..MAX_CACHES {
        let cache = format!("{CPUS}/cpu{cpu}/cache/index{index}");
        let Some(level) = root.read_if_present(&format!("{cache}/level"))? else { break };
        let level: u32 = level.parse().map_err(|_| root.unexpected(&format!("{cache}/level"), &level, "a number"))?;
        if last.is_none_or(|(highest, _)| level > highest) {
            let first = cpu_list(root, &format!("{cache}/shared_cpu_list"))?.first().copied();
            last = Some((level, first.unwrap_or(cpu)));
        }
    }
    Ok(last.map(|(_, first)| first))
}

/// A file that lists CPUs such as `0-3,8`, in ascending order. An empty one lists none.
pub(crate) fn cpu_list(root: &Root, file: &str) -> Result<Vec<usize>, Error> {
    let text = root.read(file)?;
    parse_cpus(&text).ok_or_else(|| root.unexpected(file, &text, "a list of CPUs"))
}

/// A list of CPUs such as `0-3,8`.
pub(crate) fn parse_cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MAX_CPU_IDS || cpus.last().is_some_and(|before| *before >= first) {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    /// A machine: its possible and online CPUs, its nodes, and groups of CPUs that share a third-level cache.
    fn machine(possible: &str, online: &str, nodes: &[(u32, &str)], caches: &[&str]) -> Result<Topology, Error> {
        let mut files = vec![
            (format!("{CPUS}/possible"), format!("{possible}\n")),
            (format!("{CPUS}/online"), format!("{online}\n")),
        ];
        files.extend(nodes.iter().map(|(node, cpus)| (format!("{NODES}/node{node}/cpulist"), (*cpus).to_owned())));
        for shared in caches {
            for cpu in parse_cpus(shared).unwrap() {
                let own = cpu.to_string();
                for (index, level, cpus) in [(0, "1", own.as_str()), (1, "3", *shared)] {
                    let cache = format!("{CPUS}/cpu{cpu}/cache/index{index}");
                    files.push((format!("{cache}/level"), level.to_owned()));
                    files.push((format!("{cache}/shared_cpu_list"), cpus.to_owned()));
                }
            }
        }
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let (_dir, root) = tree(&files);
        topology(&root)
    }

    fn llcs(topology: &Topology) -> Vec<Option<u32>> {
        topology.llc_of_cpu.clone()
    }

    #[test]
    fn cpus_belong_with_those_that_share_their_cache() {
        let found = machine("0-7", "0-7", &[(0, "0-7")], &["0-1,4-5", "2-3,6-7"]).unwrap();
        assert_eq!(found.nr_llcs, 2);
        assert_eq!(llcs(&found), [0, 0, 1, 1, 0, 0, 1, 1].map(Some));
    }

    #[test]
    fn caches_that_span_nodes_are_divided() {
        let found = machine("0-3", "0-3", &[(0, "0-1"), (8, "2-3")], &["0-3"]).unwrap();
        assert_eq!(llcs(&found), [0, 0, 1, 1].map(Some));
    }

    #[test]
    fn nodes_stand_in_for_caches_that_nobody_tells_of() {
        let found = machine("0-3", "0-3", &[(0, "0,2"), (1, "1,3")], &[]).unwrap();
        assert_eq!(llcs(&found), [0, 1, 0, 1].map(Some));
        assert_eq!(machine("0-1", "0-1", &[], &[]).unwrap().nr_llcs, 1);
    }

    #[test]
    fn offline_and_absent_cpus_have_no_llc_yet() {
        let found = machine("0-7", "0,2,5", &[(0, "0,2,5")], &["0,2", "5"]).unwrap();
        assert_eq!(llcs(&found), [Some(0), None, Some(0), None, None, Some(1), None, None]);
        assert_eq!(found.nr_llcs, 2);
    }

    #[test]
    fn slow_cpus_are_told() {
        let capacity = |cpu, capacity| (format!("{CPUS}/cpu{cpu}/cpu_capacity"), capacity);
        let mut files: Vec<_> = [capacity(0, "400"), capacity(1, "1024"), capacity(2, "1024")].into();
        files.extend([(format!("{CPUS}/possible"), "0-3"), (format!("{CPUS}/online"), "0-2")]);
        files.extend([(0, "0"), (1, "1-3")].map(|(node, cpus)| (format!("{NODES}/node{node}/cpulist"), cpus)));
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let (_dir, root) = tree(&files);
        let found = topology(&root).unwrap();
        assert!(found.cores_differ());
        assert_eq!([0, 1, 2, 3].map(|cpu| found.is_slow(cpu)), [true, false, false, false]);
        assert_eq!(found.fast_llc(), 1);
        let alike = machine("1-3", "1-3", &[], &[]).unwrap();
        assert!(!alike.cores_differ());
        assert_eq!(alike.fast_llc(), 0);
    }

    #[test]
    fn possible_ids_may_have_holes() {
        let found = machine("0-1,6-7", "0-1,6-7", &[(0, "0-1,6-7")], &["0-1", "6-7"]).unwrap();
        assert_eq!(llcs(&found), [Some(0), Some(0), None, None, None, None, Some(1), Some(1)]);
    }

    #[test]
    fn a_thousand_cpus_are_read() {
        let caches: Vec<_> = (0..128).map(|nr| format!("{}-{}", nr * 8, nr * 8 + 7)).collect();
        let caches: Vec<_> = caches.iter().map(String::as_str).collect();
        let found = machine("0-1023", "0-1023", &[(0, "0-511"), (1, "512-1023")], &caches).unwrap();
        assert_eq!((found.llc_of_cpu.len(), found.nr_llcs), (1024, 128));
        assert!((0..1024).all(|cpu| found.llc_of_cpu[cpu] == Some(cpu as u32 / 8)));
    }

    #[test]
    fn this_machine_can_be_read() {
        let found = topology(&Root::default()).unwrap();
        assert!(found.llc_of_cpu.iter().flatten().all(|llc| *llc < found.nr_llcs));
        assert!(found.llc_of_cpu.iter().any(Option::is_some));
    }

    #[test]
    fn lists_that_make_no_sense_name_their_file() {
        for list in ["x", "3-1", "0-99999999", "2,1", "1,1", "0--2", "18446744073709551616"] {
            assert_eq!(parse_cpus(list), None, "{list}");
            let error = machine("0-3", list, &[], &[]).unwrap_err().to_string();
            assert!(error.contains("cpu/online"), "{error}");
        }
        assert_eq!(parse_cpus("0-3,8").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(parse_cpus("").unwrap(), []);
    }
}
