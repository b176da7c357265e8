//! The load: a process of its own with nothing in it but the load.
//!
//! It counts its work, answers each line on its standard input with the count and the time, and ends with that input.
//! So it cannot outlive the probe, not even one that was killed.

use std::env;
use std::io::{self, BufRead, PipeReader, PipeWriter, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fastrand::Rng;
use serde::Serialize;

use crate::clock::{SECOND_NS, cpu_time_ns, now_ns};
use crate::helper::{Helper, give_up};
use crate::work::{Calibration, work};

/// One unit of a hog's work. A constant, so that throughput does not depend on calibration.
const HOG_UNIT_ITERATIONS: u64 = 8_192;
/// How long a thread of the half load works, and then sleeps.
const TURN_US: std::ops::RangeInclusive<u64> = 4_000..=12_000;
const FORKERS_PER_CPU: usize = 2;
/// Work of one task of the fork storm.
const TASK_US: std::ops::RangeInclusive<u64> = 500..=3_000;
/// Memory that such a task touches.
const TASK_BYTES: usize = 512 * 1024;
const PAGE_BYTES: usize = 4096;
/// First argument of such a task.
const TASK_ARGUMENT: &str = "fork-task";

/// What keeps the machine busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LoadKind {
    /// Nothing
    Idle,
    /// CPU hogs
    Hogs,
    /// One thread per CPU that works and sleeps in turns, 4 to 12 ms each: half of what the machine can do
    Half,
    /// Two loops per CPU of fork, exec, touching 512 KiB and working for 0.5 to 3 ms
    Fork,
    /// One pair per CPU that hands a byte to and fro through pipes
    Pipe,
}

impl LoadKind {
    /// What its throughput counts.
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Idle => "no load",
            Self::Hogs | Self::Half => "units of work/s",
            Self::Fork => "tasks/s",
            Self::Pipe => "round trips/s",
        }
    }
}

/// Which load, and how.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LoadOptions {
    /// What to do
    #[arg(long, value_enum)]
    pub(crate) load: LoadKind,
    /// For hogs
    #[arg(long)]
    pub(crate) hogs_per_cpu: u32,
    /// Loop iterations per µs
    #[arg(long)]
    pub(crate) calibration: Calibration,
    /// Of what varies
    #[arg(long)]
    pub(crate) seed: u64,
}

/// Work done up to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkDone {
    count: u64,
    at_ns: u64,
}

impl WorkDone {
    fn parse(line: &str) -> Option<Self> {
        let (count, at_ns) = line.trim_end().split_once(' ')?;
        Some(Self { count: count.parse().ok()?, at_ns: at_ns.parse().ok()? })
    }

    /// Work per second.
    pub(crate) fn rate_since(&self, before: &Self) -> f64 {
        let count = self.count.saturating_sub(before.count);
        let passed_ns = self.at_ns.saturating_sub(before.at_ns);
        count as f64 * SECOND_NS as f64 / passed_ns.max(1) as f64
    }
}

/// The probe's end of the load.
pub(crate) struct Background(Helper);

impl Background {
    pub(crate) fn start(options: &LoadOptions) -> Result<Self> {
        let load = options.load.to_possible_value().context("a load without a name")?;
        let arguments = [
            "background",
            "--load",
            load.get_name(),
            "--hogs-per-cpu",
            &options.hogs_per_cpu.to_string(),
            "--calibration",
            &options.calibration.to_string(),
            "--seed",
            &options.seed.to_string(),
        ];
        Helper::start("the load", &arguments.map(str::to_owned)).map(Self)
    }

    /// Asks for the work done so far.
    pub(crate) fn work_done(&mut self) -> Result<WorkDone> {
        let line = self.0.ask("")?;
        WorkDone::parse(&line).with_context(|| format!("the load answered {line:?}"))
    }

    /// Ends the load and waits for that.
    pub(crate) fn stop(self) -> Result<()> {
        self.0.stop().map(drop)
    }
}

/// The load's own main function.
pub(crate) fn serve(options: &LoadOptions) -> Result<()> {
    let nr_cpus = thread::available_parallelism()?.get();
    let counters = match options.load {
        LoadKind::Idle => Vec::new(),
        LoadKind::Hogs => start_threads(nr_cpus * options.hogs_per_cpu as usize, |_, count| hog(count))?,
        LoadKind::Half => start_threads(nr_cpus, {
            let options = *options;
            move |nth, count| half_hog(options.seed.wrapping_add(nth as u64), count)
        })?,
        LoadKind::Fork => start_threads(nr_cpus * FORKERS_PER_CPU, {
            let options = *options;
            move |nth, count| forker(options.calibration, options.seed.wrapping_add(nth as u64), count)
        })?,
        LoadKind::Pipe => start_pairs(nr_cpus)?,
    };
    for line in io::stdin().lock().lines() {
        line?;
        let count: u64 = counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
        writeln!(io::stdout(), "{count} {}", now_ns())?;
    }
    Ok(())
}

type SharedCount = Arc<AtomicU64>;

fn start_threads(
    nr_threads: usize,
    body: impl Fn(usize, &AtomicU64) + Copy + Send + 'static,
) -> Result<Vec<SharedCount>> {
    (0..nr_threads)
        .map(|nth| {
            let counter = SharedCount::default();
            let theirs = Arc::clone(&counter);
            thread::Builder::new().name("load".into()).spawn(move || body(nth, &theirs))?;
            Ok(counter)
        })
        .collect()
}

fn hog(count: &AtomicU64) {
    loop {
        work(HOG_UNIT_ITERATIONS);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts in the same units as a hog.
fn half_hog(seed: u64, count: &AtomicU64) {
    let mut rng = Rng::with_seed(seed);
    loop {
        // By the time it has the CPU: in an emulator all CPUs share one, and as much work would be no half of it.
        let end_ns = cpu_time_ns() + rng.u64(TURN_US) * 1_000;
        while cpu_time_ns() < end_ns {
            work(HOG_UNIT_ITERATIONS);
            count.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_micros(rng.u64(TURN_US)));
    }
}

fn forker(calibration: Calibration, seed: u64, count: &AtomicU64) {
    let mut rng = Rng::with_seed(seed);
    loop {
        let task = LoadThread { iterations: calibration.iterations(rng.u64(TASK_US)) };
        if let Err(error) = task.spawn_and_wait() {
            give_up(&error);
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn start_pairs(nr_pairs: usize) -> Result<Vec<SharedCount>> {
    (0..nr_pairs)
        .map(|_| {
            let (there, back) = (io::pipe()?, io::pipe()?);
            let counter = SharedCount::default();
            let theirs = Arc::clone(&counter);
            thread::Builder::new().name("ping".into()).spawn(move || pass_on(there.0, back.1, None))?;
            thread::Builder::new().name("pong".into()).spawn(move || {
                let mut first = &there.1;
                first.write_all(&[0]).unwrap_or_else(|error| give_up(&error));
                pass_on(back.0, there.1, Some(&theirs));
            })?;
            Ok(counter)
        })
        .collect()
}

/// Hands every byte on.
fn pass_on(mut from: PipeReader, mut to: PipeWriter, count: Option<&AtomicU64>) {
    let mut byte = [0];
    loop {
        let passed = from.read_exact(&mut byte).and_then(|()| to.write_all(&byte));
        passed.unwrap_or_else(|error| give_up(&error));
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One short-lived process of the fork storm.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoadThread {
    iterations: u64,
}

impl LoadThread {
    /// If this process was started as one.
    pub(crate) fn from_arguments() -> Option<Self> {
        Self::parse(env::args().skip(1))
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        (arguments.next()? == TASK_ARGUMENT).then_some(())?;
        Some(Self { iterations: arguments.next()?.parse().ok()? })
    }

    fn spawn_and_wait(&self) -> io::Result<()> {
        let status = Command::new(env::current_exe()?)
            .args([TASK_ARGUMENT, &self.iterations.to_string()])
            .stdin(Stdio::null())
            .status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
    }

    pub(crate) fn run(&self) {
        let mut memory = vec![0_u8; TASK_BYTES];
        memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        std::hint::black_box(&memory);
        work(self.iterations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let before = WorkDone::parse("10 1000000000\n").unwrap();
        let after = WorkDone::parse("40 3000000000\n").unwrap();
        assert!((after.rate_since(&before) - 15.0).abs() < 1e-9);
        assert_eq!(WorkDone::parse("40"), None);
        assert_eq!(WorkDone::parse(""), None);
    }

    #[test]
    fn tasks_are_recognised() {
        let parse = |text: &str| LoadThread::parse(text.split_whitespace().map(str::to_owned));
        assert_eq!(parse("fork-task 70"), Some(LoadThread { iterations: 70 }));
        assert_eq!(parse("probe --load idle"), None);
        assert_eq!(parse("fork-task many"), None);
    }
}
