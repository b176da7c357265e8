//! `scherzo-bench shares`: what groups of loads get of the CPUs, beside what they should get.

use std::fmt;

use anyhow::{Result, ensure};
use clap::Args;
use rustix::thread::sched_getaffinity;
use serde::Serialize;

use crate::clock::{MeasuredTime, sleep_until};
use crate::groups::{GRAMMAR, LoadGroup, SchedPolicy, ensure_distinct};
use crate::hierarchy::Hierarchy;
use crate::members::{GotNs, Members};
use crate::report::{rounded, show};
use crate::solver::{self, Claimant, IDLE_WEIGHT, nice_weight};
use crate::work::Calibration;

/// Version of the JSON object; fields may be added without changing it.
const SCHEMA: u32 = 1;

#[derive(Args)]
#[command(after_long_help = GRAMMAR)]
pub(crate) struct Shares {
    /// A group of loads; may be given several times. See the end of --help
    #[arg(long = "group", required = true, value_name = "GROUP")]
    groups: Vec<LoadGroup>,
    /// How long to measure
    #[arg(long, default_value_t = 5, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How long to let the loads settle before measuring
    #[arg(long, default_value_t = 1, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Shares) -> Result<()> {
    let mut loads = Loads::start(&options.groups, Calibration::measure())?;
    let window = MeasuredTime::start(options.warmup, options.seconds);
    loads.announce(window)?;
    sleep_until(window.end_ns);
    let report = SharesReport {
        schema: SCHEMA,
        seconds: options.seconds,
        nr_cpus: loads.nr_cpus,
        groups: loads.finish(window, &[])?,
    };
    show(&report, options.json)
}

#[derive(Debug, Serialize)]
struct SharesReport {
    schema: u32,
    seconds: u64,
    nr_cpus: usize,
    groups: Vec<GroupShare>,
}

/// What a group got and should have got.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GroupShare {
    name: String,
    nr_threads: usize,
    /// CPUs of work: CPU time of all its threads for each second.
    cpus: f64,
    /// CPUs that the reference solver gives it.
    share: f64,
    /// Of the share, by which the group got more or less.
    deviation: f64,
    /// CPUs of the thread that got the least, and of the one that got the most.
    min_thread_cpus: f64,
    max_thread_cpus: f64,
    /// Longest time that a runnable thread got nothing.
    longest_gap_ms: f64,
    /// Longest time from the end of a sleep until the thread ran.
    longest_wake_ms: f64,
}

impl GroupShare {
    fn new(name: &str, got: &[GotNs], share: f64, window: MeasuredTime) -> Self {
        let cpus = |used_ns: u64| used_ns as f64 / window.duration_ns() as f64;
        let used_ns = || got.iter().map(|got| got.used);
        let total = cpus(used_ns().sum());
        let longest_ms = |of: fn(&GotNs) -> u64| rounded(got.iter().map(of).max().unwrap_or(0) as f64 / 1e6, 1_000.0);
        Self {
            name: name.to_owned(),
            nr_threads: got.len(),
            cpus: rounded(total, 10_000.0),
            share: rounded(share, 10_000.0),
            deviation: rounded(total / share - 1.0, 10_000.0),
            min_thread_cpus: rounded(cpus(used_ns().min().unwrap_or(0)), 10_000.0),
            max_thread_cpus: rounded(cpus(used_ns().max().unwrap_or(0)), 10_000.0),
            longest_gap_ms: longest_ms(|got| got.longest_gap),
            longest_wake_ms: longest_ms(|got| got.longest_wake),
        }
    }
}

/// Heads the lines of [`GroupShare`].
pub(crate) const HEADING: &str =
    "group            threads    CPUs   share  deviation   least    most  longest gap  longest wake-up";

impl fmt::Display for GroupShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, nr_threads, cpus, share, longest_gap_ms, longest_wake_ms, .. } = self;
        let Self { min_thread_cpus, max_thread_cpus, .. } = self;
        let percent = 100.0 * self.deviation;
        write!(f, "{name:<16} {nr_threads:>7} {cpus:>7.3} {share:>7.3} {percent:>8.1} % ")?;
        write!(f, "{min_thread_cpus:>7.3} {max_thread_cpus:>7.3} {longest_gap_ms:>9.1} ms {longest_wake_ms:>13.1} ms")
    }
}

impl fmt::Display for SharesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADING}")?;
        self.groups.iter().try_for_each(|group| writeln!(f, "{group}"))
    }
}

/// Groups that run.
pub(crate) struct Loads {
    pub(crate) nr_cpus: usize,
    groups: Vec<(LoadGroup, Members)>,
}

impl Loads {
    pub(crate) fn start(groups: &[LoadGroup], calibration: Calibration) -> Result<Self> {
        ensure_distinct(groups)?;
        let nr_cpus = sched_getaffinity(None)?.count() as usize;
        for group in groups {
            ensure!(group.pin.is_none_or(|cpu| cpu < nr_cpus), "\"{}\": there are {nr_cpus} CPUs", group.name);
        }
        let start = |group: &LoadGroup| Ok((group.clone(), Members::start(group, nr_cpus, calibration)?));
        Ok(Self { nr_cpus, groups: groups.iter().map(start).collect::<Result<_>>()? })
    }

    pub(crate) fn announce(&mut self, window: MeasuredTime) -> Result<()> {
        self.groups.iter_mut().try_for_each(|(_, members)| members.announce(window))
    }

    /// Ends all groups, once the window is over; `others` ran beside them.
    pub(crate) fn finish(self, window: MeasuredTime, others: &[Claimant]) -> Result<Vec<GroupShare>> {
        let shares = self.shares(others)?;
        let report = |((group, mut members), share): ((LoadGroup, Members), f64)| {
            let report = GroupShare::new(&group.name, &members.got()?, share, window);
            members.stop().map(|()| report)
        };
        self.groups.into_iter().zip(shares).map(report).collect()
    }

    /// What each group should get.
    fn shares(&self, others: &[Claimant]) -> Result<Vec<f64>> {
        let mut hierarchy = Hierarchy::read()?;
        let mut tasks = others.to_vec();
        (0..tasks.len()).for_each(|task| hierarchy.add(task, None));
        for (group, _) in &self.groups {
            for _ in 0..group.count.threads(self.nr_cpus) {
                hierarchy.add(tasks.len(), group.cgroup.as_deref());
                tasks.push(task(group));
            }
        }
        let shares = solver::shares(self.nr_cpus, &hierarchy.nodes(), &tasks);
        let mut shares = shares.iter().skip(others.len());
        let of_group =
            |(group, _): &(LoadGroup, Members)| shares.by_ref().take(group.count.threads(self.nr_cpus)).sum();
        Ok(self.groups.iter().map(of_group).collect())
    }
}

/// A member as the solver knows it.
fn task(group: &LoadGroup) -> Claimant {
    let weight = if group.policy == SchedPolicy::Idle { IDLE_WEIGHT } else { nice_weight(group.nice) };
    Claimant { weight, demand: group.demand(), pin: group.pin }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_the_sum_of_its_threads() {
        let window = MeasuredTime { begin_ns: 0, end_ns: 1_000_000_000 };
        let got = [
            GotNs { used: 500_000_000, longest_gap: 4_000_000, longest_wake: 1_000_000 },
            GotNs { used: 700_000_000, longest_gap: 2_000_000, longest_wake: 1_500_000 },
        ];
        let report = GroupShare::new("a", &got, 1.0, window);
        assert_eq!(
            (report.cpus, report.deviation, report.min_thread_cpus, report.max_thread_cpus),
            (1.2, 0.2, 0.5, 0.7)
        );
        assert_eq!((report.longest_gap_ms, report.longest_wake_ms), (4.0, 1.5));
        let line = report.to_string();
        assert!(line.starts_with("a ") && line.contains("1.200") && line.contains("20.0 %"), "{line}");
    }

    #[test]
    fn sched_idle_has_its_own_weight() {
        let of = |text: &str| task(&text.parse().unwrap()).weight as u32;
        assert_eq!([of("name=a,policy=idle,nice=-5"), of("name=a,policy=batch,nice=19")], [3, 15]);
    }
}
