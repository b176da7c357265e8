//! Another scheduler to compare with, built from its published crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use scherzo_rig::build::{Workspace, cargo_home};
use scherzo_rig::cache::Cache;
use scherzo_rig::image::copy_tree;
use scherzo_rig::namespace;
use scherzo_rig::roots::{self, DebianRoot};

/// The crate, and the name of its program.
pub const RUSTLAND: &str = "scx_rustland";
/// Its version.
pub const RUSTLAND_VERSION: &str = "1.1.4";
/// Its target directory. Not the one of the checkouts, whose builds would have to wait for minutes.
const TARGET: &str = "peer-target";

/// The program of scx_rustland, built once with the versions that its own lock file names.
pub fn rustland(cache: &Cache, build_root: &DebianRoot) -> Result<PathBuf> {
    let recipe = format!("{RUSTLAND_VERSION}{}", roots::build_recipe());
    let dir = cache.artefact(RUSTLAND, &recipe, |path| {
        // A copy, because its build script writes beside the sources.
        let source = tempfile::tempdir()?;
        copy_tree(&download(RUSTLAND, RUSTLAND_VERSION)?, source.path())?;
        let workspace = Workspace::open(cache, build_root, source.path())?.with_target(TARGET);
        workspace.build(&[RUSTLAND], &[RUSTLAND], path)?;
        Ok(namespace::remove(&cache.path(TARGET))?)
    })?;
    Ok(dir.join(RUSTLAND))
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
}
