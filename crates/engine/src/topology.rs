//! CPUs and their LLCs (last-level caches), as the kernel side needs them.

use anyhow::{Result, bail};
use scherzo_host::{Root, Topology};

/// Most CPUs that the kernel side can keep victims for.
pub const MAX_CPUS: usize = 1024;

/// Reads this machine, and refuses what the kernel side has no room for.
pub fn detect() -> Result<Topology> {
    check(scherzo_host::topology(&Root::default())?)
}

fn check(topology: Topology) -> Result<Topology> {
    let nr_cpu_ids = topology.llc_of_cpu.len();
    if nr_cpu_ids > MAX_CPUS {
        bail!("{nr_cpu_ids} possible CPUs, at most {MAX_CPUS} are supported");
    }
    Ok(topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_are_too_large_are_named() {
        let with = |nr_cpu_ids| check(Topology { llc_of_cpu: vec![None; nr_cpu_ids], ..Topology::default() });
        assert!(with(MAX_CPUS).is_ok());
        assert!(with(MAX_CPUS + 1).unwrap_err().to_string().contains("1024"));
    }
}
