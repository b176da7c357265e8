//! `scherzo-bench requests`: messengers wake workers, each of which serves a request and asks for the next.
//!
//! The pattern is that of C. Mason's schbench, and of many services: a worker reports to its messenger and sleeps. The messenger
//! wakes all that have reported, one after the other. A worker that is woken waits for a moment, as for a network, and computes.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;

use crate::clock::{MeasuredTime, SECOND_NS, now_ns, sleep_until};
use crate::groups::{GRAMMAR, LoadGroup};
use crate::probe::become_prompt;
use crate::report::{LatenessPercentiles, rounded, show};
use crate::shares::Loads;
use crate::work::{Calibration, occupy};

/// Version of the JSON object; fields may be added without changing it.
const SCHEMA: u32 = 1;

#[derive(Args)]
#[command(after_long_help = GRAMMAR)]
pub(crate) struct Requests {
    /// Messengers
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    messengers: u32,
    /// Workers of each messenger; without it one for each CPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    workers: Option<u32>,
    /// CPU time that a request takes
    #[arg(long, default_value_t = 300, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    work_us: u64,
    /// How long a worker sleeps before it computes
    #[arg(long, default_value_t = 100, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pause_us: u64,
    /// How long to measure
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How long to let everything settle before measuring
    #[arg(long, default_value_t = 1, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: u64,
    /// A group of loads beside them; may be given several times. See the end of --help
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<LoadGroup>,
    /// Run messengers and workers as SCHED_FIFO
    #[arg(long)]
    rt: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Requests) -> Result<()> {
    show(&measure(options)?, options.json)
}

fn measure(options: &Requests) -> Result<RequestsReport> {
    let calibration = Calibration::measure();
    let mut loads = Loads::start(&options.groups, calibration)?;
    // Messengers and workers inherit both from here; the loads, already started, have neither.
    become_prompt(options.rt)?;
    let window = MeasuredTime::start(options.warmup, options.seconds);
    loads.announce(window)?;
    let work =
        RequestWork { window, calibration, work_ns: options.work_us * 1_000, pause_ns: options.pause_us * 1_000 };
    let teams = (0..options.messengers).map(|_| RequestTeam::start(options.nr_workers()?, work));
    let teams = teams.collect::<Result<Vec<_>>>()?;
    let mut samples = RequestSamplesNs::default();
    for team in teams {
        let RequestSamplesNs { wake, done } = team.join()?;
        samples.wake.extend(wake);
        samples.done.extend(done);
    }
    loads.finish(window, &[])?;
    RequestsReport::new(options, samples)
}

impl Requests {
    fn nr_workers(&self) -> Result<u32> {
        Ok(match self.workers {
            Some(nr) => nr,
            None => u32::try_from(thread::available_parallelism()?.get())?,
        })
    }
}

/// What a worker does for a request, and until when.
#[derive(Debug, Clone, Copy)]
struct RequestWork {
    window: MeasuredTime,
    calibration: Calibration,
    work_ns: u64,
    pause_ns: u64,
}

/// What was measured, in ns, in no particular order.
#[derive(Debug, Default)]
struct RequestSamplesNs {
    /// From the messenger's call to the worker running.
    wake: Vec<u64>,
    /// From the call to the request being served.
    done: Vec<u64>,
}

/// A worker that has reported: it sleeps until it is told when it was called.
#[derive(Debug)]
struct Reported {
    worker: Thread,
    called_at_ns: Arc<AtomicU64>,
}

/// What a messenger and its workers share.
#[derive(Debug, Default)]
struct Desk {
    reported: Mutex<Vec<Reported>>,
    is_closed: AtomicBool,
}

impl Desk {
    /// Those who have reported since the last time.
    fn take(&self) -> Vec<Reported> {
        mem::take(&mut *self.reported.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn report(&self, one: Reported) {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }
}

/// A messenger and its workers.
struct RequestTeam {
    desk: Arc<Desk>,
    messenger: JoinHandle<()>,
    workers: Vec<JoinHandle<RequestSamplesNs>>,
}

impl RequestTeam {
    fn start(nr_workers: u32, work: RequestWork) -> Result<Self> {
        let desk = Arc::new(Desk::default());
        let messenger = {
            let desk = Arc::clone(&desk);
            thread::Builder::new().name("messenger".into()).spawn(move || call_workers(&desk))?
        };
        let start_worker = |_| {
            let (desk, messenger) = (Arc::clone(&desk), messenger.thread().clone());
            thread::Builder::new().name("worker".into()).spawn(move || serve(&desk, &messenger, work))
        };
        let workers = (0..nr_workers).map(start_worker).collect::<Result<_, _>>()?;
        Ok(Self { desk, messenger, workers })
    }

    /// Waits for the window to end: the messenger stays until no worker needs it.
    fn join(self) -> Result<RequestSamplesNs> {
        let mut all = RequestSamplesNs::default();
        for worker in self.workers {
            let RequestSamplesNs { wake, done } = worker.join().map_err(|_| anyhow!("a worker panicked"))?;
            all.wake.extend(wake);
            all.done.extend(done);
        }
        self.desk.is_closed.store(true, Ordering::Release);
        self.messenger.thread().unpark();
        self.messenger.join().map_err(|_| anyhow!("a messenger panicked"))?;
        Ok(all)
    }
}

fn call_workers(desk: &Desk) {
    while !desk.is_closed.load(Ordering::Acquire) {
        for Reported { worker, called_at_ns } in desk.take() {
            called_at_ns.store(now_ns(), Ordering::Release);
            worker.unpark();
        }
        thread::park();
    }
}

fn serve(desk: &Desk, messenger: &Thread, work: RequestWork) -> RequestSamplesNs {
    let RequestWork { window, calibration, work_ns, pause_ns } = work;
    let mut samples = RequestSamplesNs::default();
    let called_at_ns = Arc::new(AtomicU64::new(0));
    while now_ns() < window.end_ns {
        called_at_ns.store(0, Ordering::Release);
        desk.report(Reported { worker: thread::current(), called_at_ns: Arc::clone(&called_at_ns) });
        messenger.unpark();
        let called_ns = loop {
            match called_at_ns.load(Ordering::Acquire) {
                // Who parks may return for no reason.
                0 => thread::park(),
                at_ns => break at_ns,
            }
        };
        let woken_ns = now_ns();
        if pause_ns > 0 {
            sleep_until(woken_ns + pause_ns);
        }
        occupy(work_ns, calibration);
        if (window.begin_ns..window.end_ns).contains(&called_ns) {
            samples.wake.push(woken_ns.saturating_sub(called_ns));
            samples.done.push(now_ns().saturating_sub(called_ns));
        }
    }
    samples
}

#[derive(Debug, Serialize)]
struct RequestsReport {
    schema: u32,
    messengers: u32,
    workers: u32,
    work_us: u64,
    pause_us: u64,
    seconds: u64,
    rt: bool,
    nr_requests: usize,
    requests_per_s: f64,
    /// From the messenger's call to the worker running.
    wake_us: LatenessPercentiles,
    /// From the call to the request being served.
    done_us: LatenessPercentiles,
}

impl RequestsReport {
    fn new(options: &Requests, samples: RequestSamplesNs) -> Result<Self> {
        let nr_requests = samples.done.len();
        let measured_s = (options.seconds * SECOND_NS) as f64 / 1e9;
        Ok(Self {
            schema: SCHEMA,
            messengers: options.messengers,
            workers: options.nr_workers()?,
            work_us: options.work_us,
            pause_us: options.pause_us,
            seconds: options.seconds,
            rt: options.rt,
            nr_requests,
            requests_per_s: rounded(nr_requests as f64 / measured_s, 10.0),
            wake_us: LatenessPercentiles::of(samples.wake),
            done_us: LatenessPercentiles::of(samples.done),
        })
    }
}

impl fmt::Display for RequestsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nr_requests, requests_per_s, wake_us, done_us, .. } = self;
        writeln!(f, "{nr_requests} requests, {requests_per_s} a second\n")?;
        writeln!(f, "{}", LatenessPercentiles::HEADING)?;
        writeln!(f, "{:<12} {wake_us}", "wake-up")?;
        writeln!(f, "{:<12} {done_us}", "served")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        requests: Requests,
    }

    fn options(arguments: &[&str]) -> Requests {
        Cli::try_parse_from([&["requests"], arguments].concat()).unwrap_or_else(|error| panic!("{error}")).requests
    }

    #[test]
    fn every_worker_is_called_again_and_again_and_all_end() {
        let window = MeasuredTime { begin_ns: now_ns(), end_ns: now_ns() + 300_000_000 };
        let work = RequestWork { window, calibration: "1".parse().unwrap(), work_ns: 0, pause_ns: 2_000_000 };
        let samples = RequestTeam::start(3, work).unwrap().join().unwrap();
        assert_eq!(samples.wake.len(), samples.done.len());
        // At most 150 each in that time; three of them at least a few.
        assert!((15..=450).contains(&samples.done.len()), "{}", samples.done.len());
        assert!(samples.wake.iter().zip(&samples.done).all(|(wake, done)| wake + 2_000_000 <= *done));
    }

    #[test]
    fn what_is_told_are_requests_a_second_and_both_latencies() {
        let options = options(&["--seconds", "2", "--workers", "3"]);
        let samples = RequestSamplesNs { wake: vec![1_000, 3_000], done: vec![400_000, 500_000] };
        let report = RequestsReport::new(&options, samples).unwrap();
        assert_eq!((report.nr_requests, report.requests_per_s, report.workers), (2, 1.0, 3));
        assert_eq!((report.wake_us.max, report.done_us.p50), (3.0, 400.0));
        assert!(report.to_string().starts_with("2 requests, 1 a second"), "{report}");
        assert!(Cli::try_parse_from(["requests", "--workers", "0"]).is_err());
    }
}
