//! cargo-deny: licences, second versions, origins and known faults of all that the lock file names, as `deny.toml` has
//! it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use scherzo_rig::cache::Cache;
use scherzo_rig::progress::step;
use scherzo_rig::report::skipped;
use scherzo_rig::roots::run;

/// The version that reads `deny.toml`.
const VERSION: &str = "0.20.2";
const OFFLINE: &[&str] = &["--offline", "check", "--hide-inclusion-graph"];
/// What needs nothing but the checkout.
const CHECKS: &[&str] = &["bans", "licenses", "sources"];

/// Runs the checks that need nothing but the checkout.
pub(crate) fn check(cache: &Cache, checkout: &Path) -> Result<()> {
    deny(cache, checkout, &[OFFLINE, CHECKS].concat())
}

/// Looks for known faults, which are in a database on the network: without access to it, this is skipped.
pub(crate) fn check_advisories(cache: &Cache, checkout: &Path) -> Result<()> {
    // Compiled first, so that only the network is to blame below.
    program(cache)?;
    step("fetching the database of known faults", || deny(cache, checkout, &["fetch", "db"]))
        .map_err(|error| skipped(format!("the database is out of reach: {error:#}")))?;
    deny(cache, checkout, &[OFFLINE, &["advisories"]].concat())
}

fn deny(cache: &Cache, checkout: &Path, arguments: &[&str]) -> Result<()> {
    run(Command::new(program(cache)?).args(arguments).current_dir(checkout))
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
