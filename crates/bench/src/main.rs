//! Workloads and probes.
//!
//! `scherzo-bench probe` puts a load on the machine and measures, beside it, how late threads run that mostly sleep:
//!
//! - three *timer* threads sleep for 2.5 to 7.5 ms and then work for 200 µs;
//! - one *pipe* thread is woken by another one that sleeps likewise.
//!
//! Or, instead of these, one *audio* thread that works for 1 ms every 5 ms, and counts as a timer thread.
//!
//! The load is a process of its own ([`background`]) that ends when the probe does, however that comes about. Its
//! throughput, context switches, interrupts and idle time are counted over the same window as the latencies.
//!
//! `scherzo-bench shares` runs groups of threads ([`groups`], [`members`]) and prints what each group gets beside what a
//! reference ([`solver`], [`hierarchy`]) says that it should. `scherzo-bench frames` plays a game beside such groups, and
//! `scherzo-bench requests` has workers serve requests beside them.

mod background;
mod clock;
mod energy;
mod frames;
mod game;
mod groups;
mod helper;
mod hierarchy;
mod kernel;
mod members;
mod probe;
mod report;
mod requests;
mod shares;
mod solver;
mod work;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::background::{Background, LoadKind};
use crate::clock::MeasuredTime;
use crate::energy::EnergyCounters;
use crate::kernel::Counters;
use crate::report::{ProbeReport, show};
use crate::work::Calibration;

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure wake-up latency beside a load
    Probe(ProbeOptions),
    /// Measure what groups of loads get of the CPUs, beside what they should get
    Shares(shares::Shares),
    /// Measure how many frames a game misses beside a load
    Frames(frames::Frames),
    /// Measure how soon workers are woken for requests, and have served them
    Requests(requests::Requests),
    /// Run a load until standard input ends; each line read is answered with the work done so far and the time
    #[command(hide = true)]
    Background(background::LoadOptions),
    /// Run the threads of a group: the first line read is the window, each further one asks what they got in it
    #[command(hide = true)]
    Members(members::MemberOptions),
    /// Compute the frames of which standard input says when they were due to begin
    #[command(hide = true)]
    Compositor(game::Compositor),
}

#[derive(Args)]
struct ProbeOptions {
    /// What keeps the machine busy
    #[arg(long, value_enum)]
    load: LoadKind,
    /// CPU hogs per CPU, for the load "hogs"
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    hogs_per_cpu: u32,
    /// How long to measure
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How long to let the load settle before measuring
    #[arg(long, default_value_t = 2, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: u64,
    /// Run the probe's threads as SCHED_FIFO: the least latency that any scheduler can give
    #[arg(long)]
    rt: bool,
    /// Run one thread that works for 1 ms every 5 ms, as one that plays audio, instead of the usual ones
    #[arg(long)]
    audio: bool,
    /// Loop iterations per µs of work, instead of measuring them; for comparing runs
    #[arg(long, value_name = "N")]
    calibration: Option<Calibration>,
    /// Seed of the pauses
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    // The fork storm starts this program a thousand times: before anything that costs time.
    if let Some(task) = background::LoadThread::from_arguments() {
        task.run();
        return ExitCode::SUCCESS;
    }
    let result = match Cli::parse().command {
        Command::Probe(options) => run_probe(&options),
        Command::Shares(options) => shares::run(&options),
        Command::Frames(options) => frames::run(&options),
        Command::Requests(options) => requests::run(&options),
        Command::Background(options) => background::serve(&options),
        Command::Members(options) => members::serve(&options),
        Command::Compositor(options) => game::compose(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scherzo-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_probe(options: &ProbeOptions) -> Result<()> {
    show(&measure(options)?, options.json)
}

fn measure(options: &ProbeOptions) -> Result<ProbeReport> {
    let calibration = options.calibration.unwrap_or_else(Calibration::measure);
    let mut background = Background::start(&background::LoadOptions {
        load: options.load,
        hogs_per_cpu: options.hogs_per_cpu,
        calibration,
        seed: options.seed,
    })?;
    // Threads inherit both from here; the load, already started, has neither.
    probe::become_prompt(options.rt)?;
    let window = MeasuredTime::start(options.warmup, options.seconds);
    let threads = if options.audio {
        probe::Threads::start_audio(window, calibration)?
    } else {
        probe::Threads::start(window, calibration, options.seed)?
    };

    clock::sleep_until(window.begin_ns);
    let (work_before, counters_before, energy_before) =
        (background.work_done()?, Counters::read()?, EnergyCounters::read());
    clock::sleep_until(window.end_ns);
    let (work_after, counters_after, energy_after) =
        (background.work_done()?, Counters::read()?, EnergyCounters::read());
    let samples = threads.join()?;
    background.stop().context("ending the load")?;

    Ok(ProbeReport::new(
        options,
        calibration,
        samples,
        work_after.rate_since(&work_before),
        &counters_after.since(&counters_before),
        energy_before.zip(energy_after).and_then(|(before, after)| after.power_w(&before)),
    ))
}
