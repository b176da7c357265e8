//! `cargo xtask screenshots`: the pictures that README and AppStream metadata show.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use scherzo_vm::build::Workspace;
use scherzo_vm::cache::Cache;
use scherzo_vm::desktop::{Desktops, SCREENSHOTS};
use scherzo_vm::image::copy_tree;
use scherzo_vm::roots;

pub(crate) fn run(checkout: &Path) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let build_root = roots::build_root(&cache)?;
    let workspace = Workspace::open(&cache, &build_root, checkout)?;
    // The person on the desktop may not write over the checkout's files.
    let taken = tempfile::tempdir()?;
    let score = Desktops::prepare(&cache, &workspace, taken.path())?.run(SCREENSHOTS);
    if score.nr_failed > 0 {
        return Ok(ExitCode::FAILURE);
    }
    copy_tree(taken.path(), &checkout.join("docs/screenshots"))?;
    Ok(ExitCode::SUCCESS)
}
