//! Other schedulers to compare with, built from their published crates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use scherzo_rig::build::{Workspace, cargo_home};
use scherzo_rig::cache::Cache;
use scherzo_rig::image::copy_tree;
use scherzo_rig::namespace;
use scherzo_rig::roots::{self, DebianRoot};

/// Another sched_ext scheduler as its authors publish it, run with its defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Without "scx_"; what its operations are called in the kernel begins with it.
    pub name: &'static str,
    /// The version of the crate.
    pub version: &'static str,
}

/// Decides in user space; Scherzo's ancestor.
pub const RUSTLAND: Peer = Peer { name: "rustland", version: "1.1.4" };
/// Decides in BPF, by virtual runtime.
pub const BPFLAND: Peer = Peer { name: "bpfland", version: "1.1.4" };

/// Every peer, in the order of the tables.
pub const PEERS: [Peer; 4] =
    [RUSTLAND, BPFLAND, Peer { name: "lavd", version: "1.1.4" }, Peer { name: "cosmos", version: "1.1.7" }];

/// No scheduler, but the service that starts and ends them, which Scherzo is compared with when modes change.
pub const LOADER: Peer = Peer { name: "loader", version: "1.1.3" };

/// The target directory of all peers, so that what they have in common is compiled once. Not the one of the checkouts, whose
/// builds would have to wait for minutes.
const TARGET: &str = "peer-target";
/// Locked while peers are built.
const SERIES: &str = "peers";

impl Peer {
    /// The name of the crate, and of its program.
    #[must_use]
    pub fn program(self) -> String {
        format!("scx_{}", self.name)
    }

    /// Its program if it has been built before.
    #[must_use]
    pub fn find_built(self, cache: &Cache) -> Option<PathBuf> {
        Some(cache.find(&self.program(), &self.recipe())?.join(self.program()))
    }

    fn recipe(self) -> String {
        format!("{}{}", self.version, roots::build_recipe())
    }

    /// The directory with its program, built once with the versions that its own lock file names.
    fn build(self, cache: &Cache, build_root: &DebianRoot) -> Result<PathBuf> {
        let name = self.program();
        cache.artefact(&name, &self.recipe(), |path| {
            // A copy, because its build script writes beside the sources.
            let source = tempfile::tempdir()?;
            copy_tree(&download(&name, self.version)?, source.path())?;
            let workspace = Workspace::open(cache, build_root, source.path())?.with_target(TARGET);
            workspace.build(&[&name], &[&name], path)
        })
    }
}

/// The programs of these peers, in their order.
pub fn programs(cache: &Cache, build_root: &DebianRoot, peers: &[Peer]) -> Result<Vec<PathBuf>> {
    if peers.is_empty() {
        return Ok(Vec::new());
    }
    // For the whole series, so that no other run removes what the next one needs.
    let _lock = cache.lock(SERIES)?;
    let program = |peer: &Peer| {
        let dir = peer.build(cache, build_root).with_context(|| format!("cannot build {}", peer.program()))?;
        Ok(dir.join(peer.program()))
    };
    let programs = peers.iter().map(program).collect();
    // Gigabytes that only a new version or a new root would need again.
    namespace::remove(&cache.path(TARGET))?;
    programs
}

/// Has cargo download a crate (`cargo info` does) and returns where its sources are.
fn download(name: &str, version: &str) -> Result<PathBuf> {
    let output = Command::new("cargo").args(["info", "--quiet", &format!("{name}@{version}")]).output()?;
    ensure!(output.status.success(), "cargo info {name}: {}", String::from_utf8_lossy(&output.stderr));
    find(&cargo_home()?.join("registry/src"), &format!("{name}-{version}"))
}

/// A crate's sources below the directories of all registries.
fn find(registries: &Path, name: &str) -> Result<PathBuf> {
    let read = || fs::read_dir(registries).with_context(|| format!("cannot read {}", registries.display()));
    let mut found = read()?.flatten().map(|registry| registry.path().join(name)).filter(|path| path.is_dir());
    found.next().with_context(|| format!("{name} is not below {}", registries.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sources_are_found_in_whichever_registry() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index-1").join("thing-1.0.0");
        fs::create_dir_all(&path).unwrap();
        fs::create_dir(dir.path().join("index-2")).unwrap();
        assert_eq!(find(dir.path(), "thing-1.0.0").unwrap(), path);
        assert!(find(dir.path(), "thing-2.0.0").unwrap_err().to_string().contains("thing-2.0.0"));
    }

    #[test]
    fn the_page_names_every_peer_with_its_version() {
        let page = include_str!("../../../docs/benchmarks.md").split_whitespace().collect::<Vec<_>>().join(" ");
        for peer in PEERS {
            assert!(page.contains(&format!("{} {}", peer.program(), peer.version)), "{peer:?}");
        }
    }

    #[test]
    fn no_peer_is_taken_for_another() {
        let names: BTreeSet<_> = PEERS.iter().map(|peer| peer.name).collect();
        assert_eq!(names.len(), PEERS.len());
        // The kernel shows 15 bytes of a process's name, by which its cost is found.
        assert!(PEERS.iter().all(|peer| peer.program().len() <= 15));
        for peer in PEERS {
            assert!(names.iter().all(|name| *name == peer.name || !name.starts_with(peer.name)), "{peer:?}");
        }
    }
}
