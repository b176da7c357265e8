//! Everything a contributor types: `cargo xtask …`.

mod bench;
mod demo;
mod guest;
mod po;
mod screenshots;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, test and show Scherzo")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show the main job on a real kernel: load, change mode while it runs, measure, unload
    Demo(demo::Options),
    /// Test everything, or the parts that are named; ends with one line "N passed, N failed"
    Test(test::Options),
    /// Gather messages for translation, and bring the languages up to date
    Po(po::Options),
    /// Boot a guest and run a command in it
    Guest(guest::Options),
    /// Compare with the kernel default, scx_rustland, and the best that any scheduler can do
    ///
    /// Boots one guest per kernel, on a clock that counts instructions, and measures everyone in turns. In software
    /// emulation a guest with 4 CPUs takes 60 s to boot and 2.2 s for every second that it measures. Everything, on both
    /// kernels, takes about 45 minutes on two cores; building scx_rustland, once, 5 to 10 minutes more. A quick look, of
    /// about 3 minutes: --kernel 6.18 --load hog1,fork --who default,scherzo,floor --rounds 1 --seconds 5
    Bench(bench::Options),
    /// Take the pictures in docs/screenshots anew
    Screenshots,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Demo(options) => demo::run(&checkout()?, &options),
        Task::Test(options) => test::run(&checkout()?, &options),
        Task::Po(options) => po::run(&checkout()?, &options),
        Task::Guest(options) => guest::run(&checkout()?, &options),
        Task::Bench(options) => bench::run(&checkout()?, &options),
        Task::Screenshots => screenshots::run(&checkout()?),
    }
}

/// The top of this checkout.
fn checkout() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).map(Path::to_owned).context("xtask is not in crates/xtask")
}
