//! cargo-deny: licences, second versions, origins and known faults of all that the lock file names, as `deny.toml` has
//! it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use scherzo_rig::cache::Cache;
use scherzo_rig::progress::{say, step};
use scherzo_rig::roots::run;

/// The version that reads `deny.toml`.
const VERSION: &str = "0.20.2";
/// What needs nothing but the checkout.
const CHECKS: &[&str] = &["bans", "licenses", "sources"];

/// Runs every check. Known faults are in a database on the network: without access to it, that check is skipped with
/// a notice.
pub(crate) fn check(cache: &Cache, checkout: &Path) -> Result<()> {
    let program = program(cache)?;
    let deny = |arguments: &[&str]| run(Command::new(&program).args(arguments).current_dir(checkout));
    let mut checks = CHECKS.to_vec();
    match step("fetching the database of known faults", || deny(&["fetch", "db"])) {
        Ok(()) => checks.push("advisories"),
        Err(error) => {
            say(&format!(
                "NOTE: dependencies are NOT checked for known faults: the database is out of reach: {error:#}"
            ));
        }
    }
    deny(&[&["--offline", "check", "--hide-inclusion-graph"], &checks[..]].concat())
}

/// The program, compiled once.
fn program(cache: &Cache) -> Result<PathBuf> {
    let dir = cache.artefact("cargo-deny", VERSION, |dir| {
        let version = format!("cargo-deny@{VERSION}");
        let mut install = Command::new("cargo");
        install.args(["install", "--quiet", "--locked", "--root"]).arg(dir).arg(&version);
        step(&format!("compiling {version}"), || run(&mut install))
    })?;
    Ok(dir.join("bin/cargo-deny"))
}
