//! `cargo xtask release-check`: what a release needs beyond passing tests.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use scherzo_rig::cache::Cache;
use scherzo_rig::{roots, translations};

pub(crate) fn run(checkout: &Path) -> Result<ExitCode> {
    let cache = Cache::open()?;
    translations::check_complete(&roots::build_root(&cache)?, checkout)?;
    println!("all languages are complete");
    Ok(ExitCode::SUCCESS)
}
