//! `cargo xtask package`: packages for distributions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use scherzo_packaging::{Maker, PackageFormat};
use scherzo_rig::cache::Cache;

#[derive(Args)]
pub(crate) struct PackageOptions {
    /// For which distributions
    #[arg(required = true)]
    formats: Vec<PackageKind>,
    /// What distributions count beside the version
    #[arg(long, default_value_t = 1)]
    revision: u32,
    /// Where to put them [default: target/packages]
    #[arg(long, value_name = "DIRECTORY")]
    to: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum PackageKind {
    /// Debian, Ubuntu
    Deb,
    /// Fedora
    Rpm,
    /// Arch Linux
    Arch,
    /// None: compile the service twice, in different directories, and compare the programs
    Reproducible,
}

pub(crate) fn run(checkout: &Path, options: &PackageOptions) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let maker = Maker::prepare(&cache, checkout)?;
    let to = options.to.clone().unwrap_or_else(|| checkout.join("target/packages"));
    for kind in &options.formats {
        let format = match kind {
            PackageKind::Deb => PackageFormat::Deb,
            PackageKind::Rpm => PackageFormat::Rpm,
            PackageKind::Arch => PackageFormat::Arch,
            PackageKind::Reproducible => {
                maker.reproduce()?;
                continue;
            }
        };
        let to = to.join(format.to_string());
        maker.make(format, options.revision, &to)?;
        println!("{format} packages are in {}", to.display());
    }
    Ok(ExitCode::SUCCESS)
}
