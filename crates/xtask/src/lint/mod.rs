//! `cargo xtask test lint`: what is found out without running anything.

mod cost;
mod cycles;
mod dependencies;
mod functions;
mod measures;
mod modules;
mod sources;
mod spelling;
mod type_names;

use std::time::Instant;

use anyhow::{Result, ensure};
use scherzo_rig::build::Workspace;
use scherzo_rig::cache::Cache;
use scherzo_rig::progress::step;
use scherzo_rig::report::{Report, Subject};
use scherzo_rig::translations;

use crate::{codegen, docs};

const FORMATTING: &[&str] = &["fmt", "--all", "--check"];
const CLIPPY: &[&str] = &["clippy", "--offline", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];

/// What is checked, in this order.
pub(crate) const NAMES: [&str; 10] = [
    "formatting",
    "lints",
    "sizes of files and functions",
    "cycles",
    "names of types",
    "spelling",
    "translations",
    "files generated from the model",
    "generated documentation and licences",
    "cost of a change",
];

/// Runs the selected checks.
pub(crate) fn run(cache: &Cache, workspace: &Workspace<'_>, report: &Report, is_selected: &dyn Fn(&str) -> bool) {
    let checkout = workspace.checkout();
    let checks: [&dyn Fn() -> Result<()>; NAMES.len()] = [
        &|| cargo(workspace, FORMATTING),
        &|| cargo(workspace, CLIPPY),
        &|| measures::check(checkout),
        &|| dependencies::check(checkout),
        &|| type_names::check(checkout),
        &|| spelling::check(workspace.build_root(), checkout),
        &|| translations::check(cache, workspace.build_root(), checkout),
        &|| codegen::check(checkout),
        &|| docs::check(checkout),
        &|| cost::check(cache, workspace),
    ];
    for (name, check) in NAMES.iter().zip(checks).filter(|(name, _)| is_selected(&format!("lint/{name}"))) {
        let started = Instant::now();
        report.note(Subject::Rig, &format!("lint/{name}"), started, &step(&format!("checking {name}"), check));
    }
}

fn cargo(workspace: &Workspace<'_>, arguments: &[&str]) -> Result<()> {
    let _lock = workspace.lock()?;
    let status = workspace.cargo(arguments)?.status()?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments.join(" "));
    Ok(())
}
