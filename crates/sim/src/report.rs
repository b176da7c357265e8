//! What a run has shown.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use scherzo_wire::layout::Counter;
use scherzo_wire::message::LoadSettings;

use crate::energy::{EnergyUse, IDLE_STATES};
use crate::invariants::Violation;
use crate::machine::Machine;
use crate::profile::{CgroupScheduling, Distance};
use crate::scenario::{Cgroup, Scenario, ScenarioGroup, WorkKind};
use crate::solver::{Demand, Node, WHOLE_CPU, fair_shares};
use crate::stats::{GroupStats, percentile};
use crate::task::State;
use crate::work::Work;

/// Of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// CPU time that it got.
    pub ran_ns: u64,
    /// The same of all CPUs, in thousandths.
    pub share: u64,
    /// What it should have got by its weight and its wants.
    pub fair_share: u64,
    /// What the task of it got that got least, and the one that got most, in thousandths of one CPU.
    pub task_share: (u64, u64),
    /// From wake-up until it ran: half, 99 of 100, 999 of 1000, all.
    pub latency_ns: [u64; 4],
    /// The mean of that.
    pub mean_latency_ns: u64,
    /// The same where another task woke it that was about to wait for it: half, and so on.
    pub handover_ns: [u64; 4],
    /// From when work was due until it was done: the same.
    pub response_ns: [u64; 4],
    /// Pieces of work that took longer than their period.
    pub nr_missed: usize,
    /// Pieces of work that were done.
    pub nr_done: usize,
    /// The longest time that a task wanted a CPU in vain.
    pub longest_gap_ns: u64,
    /// The frequency that its CPUs asked for while it ran, in thousandths of the highest.
    pub frequency: u64,
}

/// Of the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationReport {
    /// By group.
    pub groups: Vec<GroupReport>,
    /// What the engine got of all CPUs, in thousandths.
    pub engine_share: u64,
    /// What nobody got.
    pub idle_share: u64,
    /// Rules that were broken.
    pub violations: Vec<Violation>,
    /// The scheduler's counters, those that are not 0.
    pub counters: Vec<(&'static str, u64)>,
    /// Events.
    pub nr_events: u64,
    /// Switches between tasks.
    pub nr_switches: u64,
    /// Times that a task ran elsewhere than before: on the same core, cache, node, machine.
    pub nr_moves: [u64; 4],
    /// Turns of CPUs that one thread emulates; 0 if each has its own.
    pub nr_turns: u64,
    /// Times that a CPU fell idle, each of which costs energy.
    pub nr_idle_entries: u64,
    /// What the CPUs used.
    pub energy: EnergyUse,
    /// Most re-enqueues of a task that did not run.
    pub most_reenqueued: u32,
    /// In the end BPF schedules alone, since the engine does not answer.
    pub is_degraded: bool,
    /// What ran where.
    pub trace: Option<String>,
}

impl SimulationReport {
    pub(crate) fn of(machine: &mut Machine, scenario: &Scenario, works: &[Option<Work>], duration_ns: u64) -> Self {
        let groups: Vec<&ScenarioGroup> = scenario.group.iter().map(toml::Spanned::get_ref).collect();
        let nr_cpus = machine.cpus.len();
        let capacity_ns = (duration_ns * nr_cpus as u64).max(1);
        let fair = fair_group_shares(machine, scenario, works);
        machine.stats.groups.resize_with(groups.len() + 1, GroupStats::default);
        let stats = machine.stats.clone();
        let group_reports = groups.iter().enumerate().map(|(index, group)| {
            let measured = &stats.groups[index];
            GroupReport {
                name: group.name.clone(),
                ran_ns: measured.ran_ns,
                share: measured.ran_ns * 1000 / capacity_ns,
                fair_share: fair[index] * 1000 / (WHOLE_CPU * nr_cpus as u64),
                task_share: task_share(machine, index, duration_ns.max(1)),
                latency_ns: percentiles(&measured.latencies_ns),
                mean_latency_ns: mean(&measured.latencies_ns),
                handover_ns: percentiles(&measured.handovers_ns),
                response_ns: percentiles(&measured.responses_ns),
                nr_missed: nr_missed(group, measured),
                nr_done: measured.responses_ns.len(),
                longest_gap_ns: measured.longest_gap_ns,
                frequency: measured.performance_ns * 1000 / measured.ran_ns.max(1),
            }
        });
        Self {
            groups: group_reports.collect(),
            engine_share: stats.groups[groups.len()].ran_ns * 1000 / capacity_ns,
            idle_share: stats.idle_ns * 1000 / capacity_ns,
            violations: machine.invariants.violations.clone(),
            counters: counters(machine),
            nr_events: stats.nr_events,
            nr_switches: stats.nr_switches,
            nr_moves: stats.nr_moves,
            nr_turns: stats.nr_turns,
            nr_idle_entries: stats.nr_idle_entries,
            energy: stats.energy,
            most_reenqueued: stats.most_reenqueued,
            is_degraded: machine.control().degraded_seq.load(Relaxed) & 1 == 1,
            trace: machine.trace.take(machine.now),
        }
    }

    /// The group of that name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&GroupReport> {
        self.groups.iter().find(|group| group.name == name)
    }
}

fn task_share(machine: &Machine, group: usize, duration_ns: u64) -> (u64, u64) {
    let tasks = machine.tasks.iter().filter(|task| task.group == group && task.state != State::Dead);
    let shares = tasks.map(|task| (task.ran_ns - task.ran_before_ns) * 1000 / duration_ns);
    shares.fold((u64::MAX, 0), |(least, most), share| (least.min(share), most.max(share)))
}

fn mean(values: &[u64]) -> u64 {
    values.iter().sum::<u64>().checked_div(values.len() as u64).unwrap_or(0)
}

fn percentiles(values: &[u64]) -> [u64; 4] {
    [500, 990, 999, 1000].map(|permille| percentile(values, permille))
}

fn nr_missed(group: &ScenarioGroup, measured: &GroupStats) -> usize {
    if !matches!(group.kind, WorkKind::Periodic | WorkKind::Chain) {
        return 0;
    }
    let period_ns = ScenarioGroup::ns(group.period_us.as_ref());
    measured.responses_ns.iter().filter(|response| **response > period_ns).count()
}

/// Children come and go: they count with their parent, and those of a build with who started all of them.
fn fair_group_shares(machine: &Machine, scenario: &Scenario, works: &[Option<Work>]) -> Vec<u64> {
    let mut owners = Vec::new();
    let mut demands = Vec::new();
    for (id, work) in works.iter().enumerate() {
        let Some(work) = work.as_ref().filter(|work| !work.is_child()) else { continue };
        let owner = machine.tasks[id].group;
        for _ in 0..work.nr_competing() {
            owners.push(owner);
            demands.push(Demand { weight: fair_weight(scenario, owner), wanted: work.demand(WHOLE_CPU) });
        }
    }
    let root = nodes_within(None, scenario, &owners);
    let mut shares = vec![0; scenario.group.len()];
    for (owner, share) in owners.iter().zip(fair_shares(machine.cpus.len(), &root, &demands)) {
        shares[*owner] += share;
    }
    shares
}

/// What its settings make of a weight.
fn raised(weight: u64, is_in_front: bool) -> u64 {
    if is_in_front { weight * u64::from(LoadSettings::default().foreground_percent) / 100 } else { weight }
}

/// In front without the cpu controller, the tasks themselves weigh more.
fn fair_weight(scenario: &Scenario, owner: usize) -> u64 {
    let group = scenario.group[owner].get_ref();
    let around = scenario.around(group.cgroup.as_ref()).take_while(|cgroup| !cgroup.controller.get_ref());
    let is_in_front = has_groups(scenario) && around.into_iter().any(|cgroup| *cgroup.in_front.get_ref());
    raised(group.weight().into(), is_in_front)
}

/// The kernel is built with the cpu controller.
fn has_groups(scenario: &Scenario) -> bool {
    scenario.machine.cgroup_scheduling != CgroupScheduling::None
}

/// What competes directly in a control group: tasks, whose groups of the scenario are given, and groups. What is in a group without
/// the cpu controller competes in the one around it.
fn nodes_within(cgroup: Option<&str>, scenario: &Scenario, owners: &[usize]) -> Vec<Node> {
    let is_here = |name: &Option<toml::Spanned<String>>| name.as_ref().map(|name| name.get_ref().as_str()) == cgroup;
    let tasks =
        (0..owners.len()).filter(|task| is_here(&scenario.group[owners[*task]].get_ref().cgroup)).map(Node::Task);
    let groups = scenario.cgroup.iter().map(toml::Spanned::get_ref).filter(|group| is_here(&group.parent));
    let group = |group: &Cgroup| {
        let children = nodes_within(Some(&group.name), scenario, owners);
        if !*group.controller.get_ref() || !has_groups(scenario) {
            return children;
        }
        let weight = raised((group.weight.get_ref() * 1024).div_ceil(100), *group.in_front.get_ref());
        vec![Node::Group { weight, limit: limit(group), children }]
    };
    tasks.chain(groups.flat_map(group)).collect()
}

fn limit(cgroup: &Cgroup) -> u64 {
    cgroup.quota_us.as_ref().map_or(u64::MAX, |quota_us| quota_us.get_ref() * WHOLE_CPU / cgroup.period_us.get_ref())
}

fn counters(machine: &mut Machine) -> Vec<(&'static str, u64)> {
    let all = Counter::ALL.iter().map(|(counter, name)| (*name, machine.counted(*counter)));
    all.filter(|(_, number)| *number > 0).collect()
}

fn times([half, most, nearly_all, all]: [u64; 4]) -> String {
    [half, most, nearly_all, all].map(|ns| format!("{:>11}", micros(ns))).join("")
}

fn micros(ns: u64) -> String {
    format!("{}.{}", ns / 1000, ns % 1000 / 100)
}

fn percent(permille: u64) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}

/// What was used, and where idle CPUs were.
fn energy(used: &EnergyUse) -> String {
    let idle_ns = used.in_state_ns.iter().sum::<u64>().max(1);
    let states = IDLE_STATES.iter().zip(used.in_state_ns).zip(used.nr_entries);
    let states = states.map(|((state, ns), nr)| format!("{} {} % ({nr})", state.name, percent(ns * 1000 / idle_ns)));
    let states: Vec<String> = states.collect();
    let (total_mj, idle) = (used.total_mj(), percent(used.idle_permille()));
    format!("energy {total_mj} mJ, {idle} % while idle; idle states by time, and how often: {}", states.join(", "))
}

impl fmt::Display for SimulationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:16} {:>6} {:>6} {:>6}  {:>44}  {:>44} {:>11}",
            "group", "share", "fair", "clock", "wake-up to run (us)", "due to done (us)", "gap (us)"
        )?;
        let columns = ["p50", "p99", "p99.9", "max"].map(|name| format!("{name:>11}")).join("");
        writeln!(f, "{:16} {:>6} {:>6} {:>6}  {columns}  {columns}", "", "%", "%", "%")?;
        for group in &self.groups {
            let [share, fair, clock] = [group.share, group.fair_share, group.frequency].map(percent);
            write!(f, "{:16} {share:>6} {fair:>6} {clock:>6}  ", group.name)?;
            write!(
                f,
                "{}  {} {:>11}",
                times(group.latency_ns),
                times(group.response_ns),
                micros(group.longest_gap_ns)
            )?;
            match (group.nr_missed, group.task_share) {
                (0, (least, most)) if least < most => {
                    writeln!(f, "  {} to {} % of a CPU each", percent(least), percent(most))?;
                }
                (0, _) => writeln!(f)?,
                (nr, _) => writeln!(f, "  {nr} of {} missed", group.nr_done)?,
            }
        }
        writeln!(f, "engine {} %, idle {} %", percent(self.engine_share), percent(self.idle_share))?;
        let moves = Distance::ALL.map(|distance| format!("{} {}", distance.name(), self.nr_moves[distance as usize]));
        writeln!(f, "{} events, {} switches, {} idle entries", self.nr_events, self.nr_switches, self.nr_idle_entries)?;
        if self.nr_turns > 0 {
            writeln!(f, "{} turns of CPUs that are emulated by one thread", self.nr_turns)?;
        }
        writeln!(f, "moves within {}", moves.join(", "))?;
        writeln!(f, "{}", energy(&self.energy))?;
        let counters: Vec<String> = self.counters.iter().map(|(name, number)| format!("{name} {number}")).collect();
        writeln!(f, "{}", counters.join(", "))?;
        for violation in &self.violations {
            writeln!(f, "BROKEN {:?} at {} ns: {}", violation.rule, violation.at_ns, violation.what)?;
        }
        Ok(())
    }
}
