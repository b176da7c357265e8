//! Everything a contributor types: `cargo xtask …`.

mod demo;
mod guest;
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
    /// Boot a guest and run a command in it
    Guest(guest::Options),
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
        Task::Guest(options) => guest::run(&checkout()?, &options),
    }
}

/// The top of this checkout.
fn checkout() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).map(Path::to_owned).context("xtask is not in crates/xtask")
}
