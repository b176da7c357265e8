//! `cargo xtask test lint`: what is found out without running anything.

mod cost;
mod cycles;
mod dependencies;
mod functions;
mod measures;
mod modules;
mod sources;
mod spelling;

use std::time::Instant;

use anyhow::{Result, ensure};
use scherzo_rig::build::Workspace;
use scherzo_rig::cache::Cache;
use scherzo_rig::harness::Score;
use scherzo_rig::progress::step;
use scherzo_rig::translations;

use crate::{codegen, docs};

const FORMATTING: &[&str] = &["fmt", "--all", "--check"];
const CLIPPY: &[&str] = &["clippy", "--offline", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];

/// Runs the checks whose name contains `only`.
pub(crate) fn run(cache: &Cache, workspace: &Workspace<'_>, only: &str) -> Score {
    let checkout = workspace.checkout();
    let checks: &[(&str, &dyn Fn() -> Result<()>)] = &[
        ("formatting", &|| cargo(workspace, FORMATTING)),
        ("lints", &|| cargo(workspace, CLIPPY)),
        ("sizes of files and functions", &|| measures::check(checkout)),
        ("cycles", &|| dependencies::check(checkout)),
        ("spelling", &|| spelling::check(workspace.build_root(), checkout)),
        ("translations", &|| translations::check(cache, workspace.build_root(), checkout)),
        ("files generated from the model", &|| codegen::check(checkout)),
        ("generated documentation and licences", &|| docs::check(checkout)),
        ("cost of a change", &|| cost::check(cache, workspace)),
    ];
    let mut score = Score::default();
    for (name, check) in checks.iter().filter(|(name, _)| name.contains(only)) {
        let started = Instant::now();
        score.note(name, started, &step(&format!("checking {name}"), check));
    }
    score
}

fn cargo(workspace: &Workspace<'_>, arguments: &[&str]) -> Result<()> {
    let _lock = workspace.lock()?;
    let status = workspace.cargo(arguments)?.status()?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments.join(" "));
    Ok(())
}
