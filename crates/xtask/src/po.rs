//! `cargo xtask po`: updates the template and the catalogues for translators.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use scherzo_rig::cache::Cache;
use scherzo_rig::{roots, translations};

#[derive(Args)]
pub(crate) struct PoOptions {
    /// Change nothing; fail if the template is stale or a translation is wrong
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(checkout: &Path, options: &PoOptions) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let build_root = roots::build_root(&cache)?;
    if options.check {
        translations::check(&cache, &build_root, checkout)?;
    } else {
        translations::update(&cache, &build_root, checkout)?;
        translations::print_missing(&build_root, checkout)?;
    }
    Ok(ExitCode::SUCCESS)
}
