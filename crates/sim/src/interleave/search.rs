//! Which interleavings are tried: some by chance, or all with few interruptions; and what is left of one that fails.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::{CALL, CpuSwitch, NO_EPISODES, RunLog, SwitchChoice, SwitchPlan};
use crate::options::SimulationOptions;
use crate::report::SimulationReport;
use crate::run::run_noting;
use crate::scenario::Scenario;

/// Where the CPU that ran could not go on.
const STOP: usize = 0;

/// A run in which a rule was broken.
#[derive(Clone, Debug)]
pub struct FailedRun {
    /// What came of it.
    pub report: SimulationReport,
    /// The switches that it takes, and no other.
    pub switches: Vec<CpuSwitch>,
}

/// What was tried.
#[derive(Clone, Debug, Default)]
pub struct Exploration {
    /// Runs.
    pub nr_runs: u64,
    /// Times at which events of several CPUs overlap.
    pub nr_episodes: u64,
    /// The first run that failed.
    pub failed: Option<FailedRun>,
}

impl FailedRun {
    /// The arguments that repeat it.
    #[must_use]
    pub fn arguments(&self, options: &SimulationOptions) -> String {
        let switches: Vec<String> = self.switches.iter().map(CpuSwitch::to_string).collect();
        let seat = if options.kernel_seat { "" } else { " --user-seat" };
        format!("--seed {} --mode {}{seat} --switches={}", options.seed, options.mode.name(), switches.join(","))
    }
}

fn with_plan(options: &SimulationOptions, plan: SwitchPlan) -> SimulationOptions {
    SimulationOptions { plan: Some(plan), ..options.clone() }
}

fn run_listed(
    scenario: &Scenario,
    options: &SimulationOptions,
    switches: &[CpuSwitch],
    episodes: RangeInclusive<u64>,
) -> (SimulationReport, RunLog) {
    run_noting(scenario, &with_plan(options, SwitchPlan::Listed(switches.to_vec())), episodes)
}

/// One run, interrupted by chance. If it fails, with the fewest switches that make it fail.
pub fn explore_randomly(
    scenario: &Scenario,
    options: &SimulationOptions,
    seed: u64,
    nr_changes: usize,
) -> Result<SimulationReport, Box<FailedRun>> {
    let (report, log) = run_noting(scenario, &with_plan(options, SwitchPlan::Random { seed, nr_changes }), NO_EPISODES);
    if report.violations.is_empty() {
        return Ok(report);
    }
    Err(Box::new(shrink(scenario, options, FailedRun { report, switches: log.switches })))
}

/// Leaves out switches, many at a time first, as long as the same rule is broken.
fn shrink(scenario: &Scenario, options: &SimulationOptions, mut failed: FailedRun) -> FailedRun {
    let rule = failed.report.violations.first().map(|violation| violation.rule);
    let mut nr_left_out = failed.switches.len();
    while nr_left_out > 0 {
        let mut from = 0;
        while from < failed.switches.len() {
            let to = (from + nr_left_out).min(failed.switches.len());
            let fewer = [&failed.switches[..from], &failed.switches[to..]].concat();
            let (report, _) = run_listed(scenario, options, &fewer, NO_EPISODES);
            if report.violations.first().map(|violation| violation.rule) == rule {
                failed = FailedRun { report, switches: fewer };
            } else {
                from = to;
            }
        }
        nr_left_out /= 2;
    }
    drop_needless_stores(scenario, options, failed)
}

/// Lets out what was held back, where the same rule is broken in any case: what is left is about the store buffer.
fn drop_needless_stores(scenario: &Scenario, options: &SimulationOptions, mut failed: FailedRun) -> FailedRun {
    let rule = failed.report.violations.first().map(|violation| violation.rule);
    for index in 0..failed.switches.len() {
        let mut switches = failed.switches.clone();
        if !std::mem::take(&mut switches[index].holds_back) {
            continue;
        }
        let (report, _) = run_listed(scenario, options, &switches, NO_EPISODES);
        if report.violations.first().map(|violation| violation.rule) == rule {
            failed = FailedRun { report, switches };
        }
    }
    failed
}

/// All interleavings of each episode, with up to so many interruptions, until one fails. CPUs are interrupted before calls, and
/// before instructions that access what several CPUs do.
#[must_use]
pub fn explore_all(scenario: &Scenario, options: &SimulationOptions, nr_interruptions: usize) -> Exploration {
    let mut found = Exploration::default();
    let (report, log) = run_listed(scenario, options, &[], 0..=u64::MAX);
    if !report.violations.is_empty() {
        found.failed = Some(FailedRun { report, switches: Vec::new() });
        return found;
    }
    let episodes: BTreeSet<u64> = log.choices.iter().map(|choice| choice.episode).collect();
    for episode in episodes {
        found.nr_episodes += 1;
        let mut search = EpisodeSearch { scenario, options, episode, shared: BTreeSet::new(), found: &mut found };
        // Which instructions access what others do shows when they are interrupted everywhere.
        search.go_through(1, true);
        let mut nr_known = 0;
        while search.found.failed.is_none() && nr_known < search.shared.len() {
            nr_known = search.shared.len();
            search.go_through(nr_interruptions, false);
        }
    }
    found
}

struct EpisodeSearch<'a> {
    scenario: &'a Scenario,
    options: &'a SimulationOptions,
    episode: u64,
    /// Instructions that access what several CPUs do, as far as is known.
    shared: BTreeSet<usize>,
    found: &'a mut Exploration,
}

impl EpisodeSearch<'_> {
    fn go_through(&mut self, nr_interruptions: usize, everywhere: bool) {
        let mut open = vec![(Vec::new(), 0)];
        while let Some((switches, nr_used)) = open.pop() {
            let (report, log) = run_listed(self.scenario, self.options, &switches, self.episode..=self.episode);
            self.found.nr_runs += 1;
            self.shared.extend(&log.shared_sites);
            if !report.violations.is_empty() {
                self.found.failed = Some(shrink(self.scenario, self.options, FailedRun { report, switches }));
                return;
            }
            let last = switches.last().map_or(0, |switch: &CpuSwitch| switch.point);
            for choice in log.choices.iter().filter(|choice| choice.point > last) {
                let costs = usize::from(choice.site != STOP);
                let counts = choice.site <= CALL || everywhere || self.shared.contains(&choice.site);
                if counts && nr_used + costs <= nr_interruptions {
                    open.extend(switches_at(choice).map(|switch| {
                        let with = [&switches[..], &[switch]].concat();
                        (with, nr_used + costs)
                    }));
                }
            }
        }
    }
}

/// Who may go on there, but for the one that does in any case.
fn switches_at(choice: &SwitchChoice) -> impl Iterator<Item = CpuSwitch> + '_ {
    let skipped = usize::from(choice.site == STOP);
    choice.others.iter().skip(skipped).flat_map(|to| {
        let ways: &[bool] = if choice.has_stores { &[false, true] } else { &[false] };
        ways.iter().map(|holds_back| CpuSwitch { point: choice.point, to: *to, holds_back: *holds_back })
    })
}
