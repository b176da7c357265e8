//! Latencies, frames and work: what Scherzo does better or worse than the kernel's default in a guest, it does here too.
//!
//! The guest's figures are those of `cargo xtask bench`, whose files are kept beside this one. CPUs are emulated in turns there, and so
//! they are here (`shared_stream`).

use std::fmt;

use scherzo_sim::{BaselineScheduler, GroupReport, Scenario, SimulationOptions, SimulationReport, run};
use serde_json::Value;

use crate::loads::{DURATION_MS, LOADS, Load};

/// Files that `cargo xtask bench --json` has written; each says by which command.
const FILES: [&str; 4] = [
    include_str!("guest/core.json"),
    include_str!("guest/audio.json"),
    include_str!("guest/tools.json"),
    include_str!("guest/light.json"),
];

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// From the timer to running: half of them, 99 of 100, or the mean.
    WakeP50,
    WakeP99,
    WakeMean,
    /// The same from a write into a pipe to its reader running.
    PipeP50,
    PipeP99,
    /// From the timer to the work being done.
    DoneP99,
    /// Frames that are not done in time, in percent.
    Missed,
    /// How long starting a program takes.
    Start,
    /// What the load gets done.
    Work,
}

impl Metric {
    /// What it is called in the documentation.
    const fn name(self) -> &'static str {
        match self {
            Self::WakeP50 => "timer to running, p50, µs",
            Self::WakeP99 => "timer to running, p99, µs",
            Self::WakeMean => "timer to running, mean, µs",
            Self::PipeP50 => "write to reader running, p50, µs",
            Self::PipeP99 => "write to reader running, p99, µs",
            Self::DoneP99 => "timer to work done, p99, µs",
            Self::Missed => "frames missed, %",
            Self::Start => "each start, ms",
            Self::Work => "work of the load",
        }
    }

    /// The guest's noise: by so much figures differ for no reason. In percent of the default's figure; of frames, in percent of all.
    const fn noise(self) -> f64 {
        match self {
            Self::WakeP50 | Self::WakeP99 | Self::WakeMean | Self::PipeP50 | Self::PipeP99 => 40.0,
            Self::DoneP99 | Self::Start => 15.0,
            Self::Work | Self::Missed => 3.0,
        }
    }

    /// By how much the second figure is more than the first.
    fn difference(self, [default, scherzo]: [f64; 2]) -> f64 {
        if self == Self::Missed { scherzo - default } else { 100.0 * (scherzo - default) / default }
    }

    /// Where a sample of the guest has it: of the probe by name, of a tool by number.
    fn of_guest(self, sample: &Value) -> Option<f64> {
        let of_probe = |latency: &str, percentile: &str| sample.get(latency)?.get(percentile)?.as_f64();
        let of_tool = |index: usize| sample.get("values")?.get(index)?.as_f64();
        match self {
            Self::WakeP50 => of_probe("timer_wake_us", "p50"),
            Self::WakeP99 => of_probe("timer_wake_us", "p99").or_else(|| of_tool(2)),
            Self::PipeP50 => of_probe("pipe_wake_us", "p50"),
            Self::PipeP99 => of_probe("pipe_wake_us", "p99"),
            Self::DoneP99 => of_probe("work_done_us", "p99"),
            Self::Work => sample.get("throughput")?.as_f64(),
            Self::Missed | Self::Start | Self::WakeMean => of_tool(0),
        }
    }

    /// The same of a simulated group.
    fn of_report(self, report: &SimulationReport, load: &Load) -> f64 {
        let group = |name| report.group(name).unwrap_or_else(|| panic!("no group {name}"));
        let us = |ns: u64| ns as f64 / 1e3;
        match self {
            Self::WakeP50 => us(group("probe").latency_ns[0]),
            Self::WakeP99 => us(group("probe").latency_ns[1]),
            Self::PipeP50 => us(group("pipe").handover_ns[0]),
            Self::PipeP99 => us(group("pipe").handover_ns[1]),
            Self::WakeMean => us(group("probe").mean_latency_ns),
            Self::DoneP99 => us(group("probe").response_ns[1]),
            Self::Start => DURATION_MS as f64 / group("probe").nr_done as f64,
            Self::Missed => missed_percent(group("probe"), load.nr_frames()),
            Self::Work if load.counts_pieces => group("load").nr_done as f64,
            Self::Work => group("load").ran_ns as f64 / 1e9,
        }
    }
}

/// Frames that were left out are missed as well.
fn missed_percent(frames: &GroupReport, nr_frames: f64) -> f64 {
    (100.0 * (1.0 - (frames.nr_done - frames.nr_missed) as f64 / nr_frames)).max(0.0)
}

/// What is not as in the guest, and why.
const EXCEPTIONS: [(&str, Metric, &str); 0] = [];

/// Both figures of both: the kernel's default, Scherzo.
struct Compared {
    load: &'static str,
    metric: Metric,
    guest: [f64; 2],
    here: [f64; 2],
}

impl Compared {
    fn exceeds_noise(&self) -> bool {
        self.metric.difference(self.guest).abs() > self.metric.noise()
    }

    fn agrees(&self) -> bool {
        let [guest, here] = [self.guest, self.here].map(|both| self.metric.difference(both));
        !self.exceeds_noise() || guest * here > 0.0
    }

    /// Whether the default misses nearly all heavy frames here if it does so in the guest, and few of any if it does so there.
    fn default_misses_alike(&self) -> bool {
        let (guest, here) = (self.guest[0], self.here[0]);
        let misses_most = self.load.starts_with("frames-60x8") && guest >= 80.0;
        self.metric != Metric::Missed || (!misses_most || here >= 75.0) && (guest > 2.0 || here <= 10.0)
    }

    fn exception(&self) -> Option<&'static str> {
        let is_this = |(load, metric, _): &&(&str, Metric, &str)| *load == self.load && *metric == self.metric;
        EXCEPTIONS.iter().find(is_this).map(|(.., reason)| *reason)
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { load, metric, guest, here } = self;
        let verdict = match (self.exceeds_noise(), self.agrees()) {
            (false, _) => "noise",
            (true, true) => "same",
            (true, false) => "other",
        };
        let figure = metric.name();
        write!(
            f,
            "| {load} | {figure} | {:.1} → {:.1} | {:.1} → {:.1} | {verdict} |",
            guest[0], guest[1], here[0], here[1]
        )
    }
}

/// The median of the guest's rounds; of frames, the mean.
fn guest_figure(samples: &[Value], contender: &str, load: &Load, metric: Metric) -> f64 {
    let name = |sample: &Value, key: &str| sample.get(key).and_then(Value::as_str).map(str::to_owned);
    let is_of_load = |sample: &&Value| {
        let of = name(sample, "load").or_else(|| name(sample, "tool"));
        of.as_deref() == Some(load.name) && name(sample, "contender").as_deref() == Some(contender)
    };
    let mut figures: Vec<f64> =
        samples.iter().filter(is_of_load).filter_map(|sample| metric.of_guest(sample)).collect();
    assert!(figures.len() >= 3, "{} {metric:?} of {contender} was measured in {} rounds", load.name, figures.len());
    if metric == Metric::Missed { mean(&figures) } else { median(&mut figures) }
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    f64::midpoint(figures[(figures.len() - 1) / 2], figures[figures.len() / 2])
}

/// Every sample of the files.
fn guest_samples() -> Vec<Value> {
    let mut all = Vec::new();
    for text in FILES {
        let publication: Value = serde_json::from_str(text).expect("a file of cargo xtask bench");
        for set in ["core", "tools"] {
            let comparisons = publication.get(set).and_then(Value::as_array).into_iter().flatten();
            all.extend(comparisons.filter_map(|comparison| comparison.get("samples")?.as_array()).flatten().cloned());
        }
    }
    all
}

/// Runs a load with several seeds.
fn reports(load: &Load, baseline: Option<&BaselineScheduler>) -> Vec<SimulationReport> {
    let scenario = Scenario::parse(load.name, &load.scenario()).expect("a good scenario");
    let one = |seed| {
        let report =
            run(&scenario, &SimulationOptions { seed, baseline: baseline.cloned(), ..SimulationOptions::default() });
        assert!(report.violations.is_empty(), "{}\n{report}", load.name);
        report
    };
    (1..=3).map(one).collect()
}

fn compared() -> Vec<Compared> {
    let samples = guest_samples();
    let mut all = Vec::new();
    for load in &LOADS {
        let simulated = [Some(&BaselineScheduler::Eevdf), None].map(|baseline| reports(load, baseline));
        for &metric in load.metrics {
            let guest = ["default", "scherzo"].map(|contender| guest_figure(&samples, contender, load, metric));
            let here = simulated.each_ref().map(|reports| {
                let mut figures: Vec<f64> = reports.iter().map(|report| metric.of_report(report, load)).collect();
                median(&mut figures)
            });
            all.push(Compared { load: load.name, metric, guest, here });
        }
    }
    all
}

#[test]
fn what_differs_from_the_default_in_a_guest_differs_so_here() {
    let all = compared();
    println!("| load | figure | guest: default → Scherzo | simulator | sign |");
    println!("| --- | --- | --- | --- | --- |");
    for compared in &all {
        println!("{compared}");
    }
    for compared in &all {
        assert!(compared.default_misses_alike(), "{compared}");
        match compared.exception() {
            None => assert!(compared.agrees(), "{compared}"),
            Some(reason) => assert!(!compared.agrees(), "no exception any more ({reason}): {compared}"),
        }
    }
    let is_known = |load: &str, metric| all.iter().any(|compared| compared.load == load && compared.metric == metric);
    assert!(EXCEPTIONS.iter().all(|(load, metric, _)| is_known(load, *metric)), "an exception that is not compared");
}
