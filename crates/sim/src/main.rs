//! Runs a scenario of the simulator, and prints what came of it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use scherzo_sim::{
    BaselineScheduler, CpuSwitch, Mode, Scenario, SchedulerSetting, SimulationOptions, SourceScheduler, SwitchPlan, run,
};

/// Run the scheduler's own source over an emulated kernel, in discrete time
#[derive(Parser)]
struct Arguments {
    /// The scenario, in TOML
    scenario: PathBuf,
    /// Decides what the scenario leaves open
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Another number of CPUs than the scenario says
    #[arg(long)]
    cpus: Option<usize>,
    /// The scheduler's mode
    #[arg(long, default_value = "interactive", value_parser = parse_mode)]
    mode: Mode,
    /// Have the engine in user space apply the policy, instead of the kernel side
    #[arg(long)]
    user_seat: bool,
    /// Another scheduler to compare with, instead of this project's: fifo, vruntime, eevdf
    #[arg(long, value_parser = parse_baseline)]
    baseline: Option<BaselineScheduler>,
    /// Another scheduler to compare with, from its BPF source in C, such as the kernel's tools/sched_ext/scx_simple.bpf.c
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    scheduler: Option<PathBuf>,
    /// Sets a variable of that scheduler, as its own loader does; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting, requires = "scheduler")]
    set: Vec<SchedulerSetting>,
    /// CPUs that run at the same time interrupt each other at these points, as a failed test printed them: POINT:CPU, with ~ if the
    /// one that stops keeps its stores to itself
    #[arg(long, value_delimiter = ',', value_parser = parse_switch, conflicts_with_all = ["baseline", "scheduler"])]
    switches: Option<Vec<CpuSwitch>>,
    /// Write what ran where, for Perfetto
    #[arg(long)]
    trace: Option<PathBuf>,
}

fn parse_mode(name: &str) -> Result<Mode, String> {
    Mode::from_name(name).ok_or_else(|| format!("known are {}", Mode::ALL.map(Mode::name).join(", ")))
}

fn parse_switch(text: &str) -> Result<CpuSwitch, String> {
    CpuSwitch::parse(text).ok_or_else(|| "POINT:CPU or POINT:CPU~ is expected".to_owned())
}

fn parse_baseline(name: &str) -> Result<BaselineScheduler, String> {
    let known = BaselineScheduler::BUILT_IN.each_ref().map(BaselineScheduler::name).join(", ");
    BaselineScheduler::BUILT_IN.into_iter().find(|baseline| baseline.name() == name).ok_or(format!("known are {known}"))
}

fn parse_setting(text: &str) -> Result<SchedulerSetting, String> {
    SchedulerSetting::parse(text).ok_or_else(|| "NAME=VALUE is expected, with a number, true or false".to_owned())
}

fn main() -> ExitCode {
    match simulate(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all rules held.
fn simulate(arguments: &Arguments) -> Result<bool> {
    let mut scenario = Scenario::read(&arguments.scenario)?;
    if let Some(nr_cpus) = arguments.cpus {
        scenario.set_cpus(nr_cpus)?;
    }
    let baseline = match &arguments.scheduler {
        Some(file) => Some(BaselineScheduler::Loaded(Arc::new(SourceScheduler::load(file, &arguments.set)?))),
        None => arguments.baseline.clone(),
    };
    let options = SimulationOptions {
        seed: arguments.seed,
        mode: arguments.mode,
        kernel_seat: !arguments.user_seat,
        trace: arguments.trace.is_some(),
        baseline,
        plan: arguments.switches.clone().map(SwitchPlan::Listed),
        ..SimulationOptions::default()
    };
    let report = run(&scenario, &options);
    if let (Some(path), Some(trace)) = (&arguments.trace, &report.trace) {
        std::fs::write(path, trace).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match write!(io::stdout(), "{report}") {
        // Who reads it has seen enough, as `head` has.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write the report")?,
    }
    Ok(report.violations.is_empty())
}
