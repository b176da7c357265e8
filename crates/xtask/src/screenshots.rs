//! `cargo xtask screenshots`: the pictures that README and AppStream metadata show.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use scherzo_rig::build::Workspace;
use scherzo_rig::cache::Cache;
use scherzo_rig::image::copy_tree;
use scherzo_rig::report::Report;
use scherzo_rig::roots;
use scherzo_scenarios::{Desktops, SCREENSHOTS};

pub(crate) fn run(checkout: &Path) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let build_root = roots::build_root(&cache)?;
    let workspace = Workspace::open(&cache, &build_root, checkout)?;
    // The person on the desktop may not write over the checkout's files.
    let taken = tempfile::tempdir()?;
    let report = Report::default();
    Desktops::prepare(&cache, &workspace, taken.path())?.run(SCREENSHOTS, &report);
    if !report.is_good() {
        return Ok(ExitCode::FAILURE);
    }
    copy_tree(taken.path(), &checkout.join("docs/screenshots"))?;
    Ok(ExitCode::SUCCESS)
}
