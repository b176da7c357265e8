//! Percentiles, and what is printed.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use crate::ProbeOptions;
use crate::background::LoadKind;
use crate::kernel::Counters;
use crate::probe::SamplesNs;
use crate::work::Calibration;

/// Version of the JSON object; fields may be added without changing it.
const SCHEMA: u32 = 1;

/// How many of the longest samples are told one by one: enough for the 99.9th percentile of 60,000,
/// over several probes.
const NR_LONGEST: usize = 64;

/// The result of one probe.
#[derive(Debug, Serialize)]
pub(crate) struct ProbeReport {
    schema: u32,
    load: LoadKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    hogs_per_cpu: Option<u32>,
    seconds: u64,
    rt: bool,
    audio: bool,
    iterations_per_us: u32,
    timer_wake_us: Distribution,
    pipe_wake_us: Distribution,
    work_done_us: Distribution,
    throughput: f64,
    nr_switches_per_s: f64,
    interrupts_per_s: f64,
    idle_share: f64,
    /// Of all processors together, where they tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    power_w: Option<f64>,
}

impl ProbeReport {
    pub(crate) fn new(
        options: &ProbeOptions,
        calibration: Calibration,
        samples: SamplesNs,
        throughput: f64,
        passed: &Counters,
        power_w: Option<f64>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            load: options.load,
            hogs_per_cpu: (options.load == LoadKind::Hogs).then_some(options.hogs_per_cpu),
            seconds: options.seconds,
            rt: options.rt,
            audio: options.audio,
            iterations_per_us: calibration.per_us(),
            timer_wake_us: Distribution::of(samples.timer_wake),
            pipe_wake_us: Distribution::of(samples.pipe_wake),
            work_done_us: Distribution::of(samples.work_done),
            throughput: rounded(throughput, 10.0),
            nr_switches_per_s: rounded(passed.switches_per_s(), 10.0),
            interrupts_per_s: rounded(passed.interrupts_per_s(), 10.0),
            idle_share: rounded(passed.idle_share(), 10_000.0),
            power_w: power_w.map(|power_w| rounded(power_w, 100.0)),
        }
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}", "µs", "p50", "p90", "p99", "p99.9", "max", "n")?;
        for (name, distribution) in
            [("timer wake", &self.timer_wake_us), ("pipe wake", &self.pipe_wake_us), ("work done", &self.work_done_us)]
        {
            writeln!(f, "{name:<12} {distribution}")?;
        }
        writeln!(f)?;
        writeln!(f, "{:<22} {:>12.1}", self.load.unit(), self.throughput)?;
        writeln!(f, "{:<22} {:>12.1}", "context switches/s", self.nr_switches_per_s)?;
        writeln!(f, "{:<22} {:>12.1}", "interrupts/s", self.interrupts_per_s)?;
        writeln!(f, "{:<22} {:>11.1} %", "idle", self.idle_share * 100.0)?;
        self.power_w.map_or(Ok(()), |power_w| writeln!(f, "{:<22} {power_w:>11.1} W", "power of processors"))
    }
}

/// Percentiles by nearest rank, in µs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Distribution {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
    n: usize,
    /// The longest ones, longest first.
    longest: Vec<f64>,
}

impl Distribution {
    fn of(mut samples_ns: Vec<u64>) -> Self {
        samples_ns.sort_unstable();
        let in_us = |ns: u64| rounded(ns as f64 / 1_000.0, 10.0);
        let us = |per_mille| in_us(percentile(&samples_ns, per_mille));
        let longest = samples_ns.iter().rev().take(NR_LONGEST).map(|&ns| in_us(ns)).collect();
        Self { p50: us(500), p90: us(900), p99: us(990), p999: us(999), max: us(1_000), n: samples_ns.len(), longest }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p90, p99, p999, max, n, longest: _ } = self;
        write!(f, "{p50:>9.1} {p90:>9.1} {p99:>9.1} {p999:>9.1} {max:>9.1} {n:>7}")
    }
}

/// Of how late something was, in µs.
#[derive(Debug, Serialize)]
pub(crate) struct LatenessPercentiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl LatenessPercentiles {
    /// Heads a table with a name before each of them.
    pub(crate) const HEADING: &str = "µs                 p50       p95       p99       max";

    pub(crate) fn of(mut samples_ns: Vec<u64>) -> Self {
        samples_ns.sort_unstable();
        let us = |per_mille| rounded(percentile(&samples_ns, per_mille) as f64 / 1e3, 10.0);
        Self { p50: us(500), p95: us(950), p99: us(990), max: us(1_000) }
    }
}

impl fmt::Display for LatenessPercentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p95, p99, max } = self;
        write!(f, "{p50:>9.1} {p95:>9.1} {p99:>9.1} {max:>9.1}")
    }
}

/// The smallest of the sorted samples that at least so many of a thousand do not exceed; 0 without samples.
pub(crate) fn percentile(sorted: &[u64], per_mille: usize) -> u64 {
    let rank = (sorted.len() * per_mille).div_ceil(1_000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Prints a report for a person, or as one JSON object.
pub(crate) fn show<R: fmt::Display + Serialize>(report: &R, as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

/// Rounded to one part in `parts`.
pub(crate) fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let sorted: Vec<u64> = (1..=1_000).collect();
        assert_eq!([500, 900, 990, 999, 1_000].map(|rank| percentile(&sorted, rank)), [500, 900, 990, 999, 1_000]);
        let few = [10, 20, 30];
        assert_eq!([1, 333, 334, 500, 667, 999].map(|rank| percentile(&few, rank)), [10, 10, 20, 20, 30, 30]);
        assert_eq!(percentile(&[], 500), 0);
        assert_eq!(percentile(&[7], 999), 7);
    }

    #[test]
    fn distributions_sort_and_convert() {
        let distribution = Distribution::of(vec![3_000, 1_000, 2_040]);
        let longest = vec![3.0, 2.0, 1.0];
        let expected = Distribution { p50: 2.0, p90: 3.0, p99: 3.0, p999: 3.0, max: 3.0, n: 3, longest };
        assert_eq!(distribution, expected);
        assert_eq!(Distribution::of(Vec::new()), Distribution::default());
    }
}
