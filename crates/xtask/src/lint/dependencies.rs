//! Cycles: none between crates, and within the larger ones none of more than two files.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::cycles::{Graph, cycles};
use super::modules;

/// Crates whose files are looked at.
const LARGE_CRATES: &[&str] = &["app", "ctl", "daemon"];
/// A file and its module's file may need each other; three files may not go round.
const MIN_FILES: usize = 3;

/// Prints the cycles; an error if there is one that must not be.
pub(super) fn check(checkout: &Path) -> Result<()> {
    let crates = cycles(&crates(checkout)?, 2);
    for cycle in &crates {
        println!("crates depend on each other: {}", cycle.join(" -> "));
    }
    let mut nr_cycles = crates.len();
    for name in LARGE_CRATES {
        let found = cycles(&modules::graph(&checkout.join("crates").join(name))?, MIN_FILES);
        println!("cycles of more than two files in {name}: {}", found.len());
        for cycle in &found {
            println!("  {}", cycle.join(" -> "));
        }
        nr_cycles += found.len();
    }
    ensure!(nr_cycles == 0, "{nr_cycles} cycles that must not be");
    Ok(())
}

/// The workspace's crates, each with those that it, its tests or its build script depend on.
fn crates(checkout: &Path) -> Result<Graph> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["metadata", "--format-version=1", "--no-deps", "--locked", "--offline"];
    let output = Command::new(cargo).args(arguments).current_dir(checkout).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    Ok(edges(&metadata))
}

fn edges(metadata: &Value) -> Graph {
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_here = |dependency: &Value| dependency["path"].is_string();
    let edges = |package: &Value| list(&package["dependencies"]).iter().filter(|one| is_here(one)).map(name).collect();
    list(&metadata["packages"]).iter().map(|package| (name(package), edges(package))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_on_other_crates_of_the_workspace_count() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "dependencies": [{"name": "b", "path": "/b", "kind": "dev"}, {"name": "serde"}]},
            {"name": "b", "dependencies": []},
        ]});
        assert_eq!(edges(&metadata), [("a".into(), ["b".into()].into()), ("b".into(), [].into())].into());
    }
}
