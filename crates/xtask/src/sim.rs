//! `cargo xtask sim`: builds the simulator and runs a scenario in it.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

#[derive(Args)]
pub(crate) struct SimOptions {
    /// A file in TOML, or the name of one in crates/sim/scenarios
    scenario: String,
    /// Decides what the scenario leaves open
    #[arg(long)]
    seed: Option<u64>,
    /// Another number of CPUs than the scenario says
    #[arg(long)]
    cpus: Option<usize>,
    /// The scheduler's mode
    #[arg(long)]
    mode: Option<String>,
    /// Another scheduler to compare with: fifo, vruntime, eevdf
    #[arg(long)]
    baseline: Option<String>,
    /// Another scheduler to compare with, from its BPF source in C
    #[arg(long, value_name = "FILE")]
    scheduler: Option<String>,
    /// Sets a variable of that scheduler; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Have the engine in user space apply the policy
    #[arg(long)]
    user_seat: bool,
    /// CPUs interrupt each other at these points, as a failed test printed them
    #[arg(long)]
    switches: Option<String>,
    /// Write what ran where to this file, for Perfetto
    #[arg(long)]
    trace: Option<String>,
}

pub(crate) fn run(checkout: &Path, options: &SimOptions) -> Result<ExitCode> {
    let known = checkout.join("crates/sim/scenarios").join(&options.scenario).with_extension("toml");
    let scenario = if known.is_file() { known } else { options.scenario.clone().into() };
    let manifest = checkout.join("Cargo.toml");
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "scherzo-sim", "--manifest-path"]).arg(manifest);
    // The points are those of the instrumented build.
    command.args(options.switches.is_none().then_some("--release")).arg("--").arg(scenario);
    command.args(options.user_seat.then_some("--user-seat"));
    let flags = [
        ("--seed", options.seed.map(|seed| seed.to_string())),
        ("--cpus", options.cpus.map(|cpus| cpus.to_string())),
        ("--mode", options.mode.clone()),
        ("--baseline", options.baseline.clone()),
        ("--scheduler", options.scheduler.clone()),
        ("--switches", options.switches.clone()),
        ("--trace", options.trace.clone()),
    ];
    for (flag, value) in flags {
        command.args(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
    }
    command.args(options.set.iter().flat_map(|setting| ["--set", setting]));
    let status = command.status().context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
