//! Scenarios: a machine and what runs on it, in TOML. What makes no sense is refused with its place and reason.

mod events;
mod hardware;
mod recorded;

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::Spanned;

use crate::abi::CpuMask;
pub use crate::scenario::events::{EventKind, ScenarioEvent};
pub use crate::scenario::hardware::MachineSpec;
pub use crate::scenario::recorded::{RecordedStep, RecordedTask};
use crate::task::{WEIGHT_IDLE, weight_of_nice};

/// A whole scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file that it was read from.
    #[serde(skip)]
    pub file: String,
    /// What it shows.
    pub about: String,
    /// How long it is measured.
    pub duration_ms: Spanned<u64>,
    /// What passes before that.
    #[serde(default)]
    pub warmup_ms: u64,
    /// The engine hangs from then on, counted from the beginning.
    pub engine_hangs_ms: Option<Spanned<u64>>,
    /// The engine's process ends then, and the kernel unregisters the scheduler.
    pub engine_gone_ms: Option<Spanned<u64>>,
    /// Each step of the engine's loop takes so many times as long as it should.
    pub engine_slowdown: Option<Spanned<u64>>,
    /// The machine.
    pub machine: MachineSpec,
    /// Control groups.
    #[serde(default)]
    pub cgroup: Vec<Spanned<Cgroup>>,
    /// Tasks.
    pub group: Vec<Spanned<ScenarioGroup>>,
    /// What happens to them.
    #[serde(default)]
    pub event: Vec<Spanned<ScenarioEvent>>,
}

/// A control group, with what its files say.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cgroup {
    /// Its name.
    pub name: String,
    /// The group around it, which stands before it; the root if none is named.
    pub parent: Option<Spanned<String>>,
    /// `cpu.weight`.
    #[serde(default = "normal_weight")]
    pub weight: Spanned<u64>,
    /// It has the cpu controller.
    #[serde(default = "yes")]
    pub controller: Spanned<bool>,
    /// It is that of the application in front.
    #[serde(default)]
    pub in_front: bool,
    /// `cpu.max`: CPU time in each period; no limit if it is not there.
    pub quota_us: Option<Spanned<u64>>,
    /// `cpu.max`: length of a period.
    #[serde(default = "normal_period")]
    pub period_us: Spanned<u64>,
    /// `cpu.max.burst`.
    #[serde(default)]
    pub burst_us: u64,
}

fn normal_weight() -> Spanned<u64> {
    Spanned::new(0..0, 100)
}

fn yes() -> Spanned<bool> {
    Spanned::new(0..0, true)
}

fn normal_period() -> Spanned<u64> {
    Spanned::new(0..0, 100_000)
}

fn one() -> Spanned<usize> {
    Spanned::new(0..0, 1)
}

/// How tasks spend their time.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// Computes without end.
    Hog,
    /// Computes, sleeps, and so on.
    Napper,
    /// Has something to compute at the beginning of each period.
    Periodic,
    /// Frames: the first stage begins one with each period, and each stage wakes the next.
    Chain,
    /// Forks a child that computes and exits, each time that it has computed itself.
    ForkStorm,
    /// Forks a child that computes and exits, waits for it, and so on, as a shell does; itself it computes for a tenth of that.
    ForkWait,
    /// Two tasks that wake each other.
    PingPong,
    /// What each task of a recording did, step by step.
    Recorded,
}

/// The scheduling policy that tasks ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedPolicySpec {
    /// None in particular.
    #[default]
    Normal,
    /// `SCHED_BATCH`: no preference at wake-up.
    Batch,
    /// `SCHED_IDLE`: only what others leave.
    Idle,
}

/// The state in which a task sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SleepState {
    /// For a timer or a message.
    #[default]
    Interruptible,
    /// For a disk, a page of memory or a lock of the kernel.
    Uninterruptible,
}

/// Tasks that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioGroup {
    /// Its name in the report.
    pub name: String,
    /// What they do.
    pub kind: WorkKind,
    /// How many there are; of chains and pairs, how many of those.
    #[serde(default = "one")]
    pub count: Spanned<usize>,
    /// Their nice level.
    #[serde(default)]
    pub nice: Option<Spanned<i32>>,
    /// The slice that they ask for with `sched_setattr()`.
    pub slice_us: Option<Spanned<u64>>,
    /// The policy that they ask for.
    #[serde(default)]
    pub policy: SchedPolicySpec,
    /// Work until they sleep, or of a child; of a chain, what it computes before its first frame.
    pub compute_us: Option<Spanned<u64>>,
    /// How long they sleep.
    pub sleep_us: Option<Spanned<u64>>,
    /// By how much nappers compute and sleep more or less than that, each time by chance.
    pub jitter_percent: Option<Spanned<u64>>,
    /// Of periodic work and frames.
    pub period_us: Option<Spanned<u64>>,
    /// Work of each stage of a chain.
    #[serde(default)]
    pub stages_us: Vec<u64>,
    /// Where they may run; everywhere if it is empty.
    #[serde(default)]
    pub cpus: Vec<Spanned<usize>>,
    /// Their control group; the root if none is named.
    pub cgroup: Option<Spanned<String>>,
    /// They are threads of the kernel.
    #[serde(default)]
    pub kthread: bool,
    /// How they sleep.
    #[serde(default)]
    pub sleep_state: SleepState,
    /// They belong to the real-time class: of one CPU.
    #[serde(default)]
    pub realtime: bool,
    /// After each piece of work they go on for half as long with their migration disabled.
    #[serde(default)]
    pub disables_migration: bool,
    /// The tasks of a recorded group.
    #[serde(default)]
    pub task: Vec<Spanned<RecordedTask>>,
}

impl ScenarioGroup {
    /// A time that was given, in nanoseconds.
    pub fn ns(time_us: Option<&Spanned<u64>>) -> u64 {
        time_us.map_or(0, |time| time.get_ref() * 1_000)
    }

    /// Its nice level.
    pub fn nice(&self) -> i32 {
        self.nice.as_ref().map_or(0, |nice| *nice.get_ref())
    }

    /// The kernel's weight of each of its tasks.
    pub fn weight(&self) -> u32 {
        if self.policy == SchedPolicySpec::Idle { WEIGHT_IDLE } else { weight_of_nice(self.nice()) }
    }

    /// Where its tasks may run.
    pub fn mask(&self, nr_cpus: usize) -> CpuMask {
        if self.cpus.is_empty() {
            CpuMask::of(0..nr_cpus)
        } else {
            CpuMask::of(self.cpus.iter().map(|cpu| *cpu.get_ref()))
        }
    }
}

/// One thing that is wrong: where, and why.
struct ScenarioError(Range<usize>, String);

impl Scenario {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a file of that name.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let scenario: Self = match toml::from_str(text) {
            Ok(scenario) => scenario,
            Err(error) => {
                let at = error.span().unwrap_or(0..0).start;
                bail!("{file}:{}: {}", line_of(text, at), error.message());
            }
        };
        match scenario.check() {
            Ok(()) => Ok(Self { file: file.to_owned(), ..scenario }),
            Err(ScenarioError(span, reason)) => bail!("{file}:{}: {reason}", line_of(text, span.start)),
        }
    }

    /// With this many CPUs instead.
    pub fn set_cpus(&mut self, nr_cpus: usize) -> Result<()> {
        self.machine.cpus = Spanned::new(0..0, nr_cpus);
        self.check().map_err(|ScenarioError(_, reason)| anyhow::anyhow!("with {nr_cpus} CPUs: {reason}"))
    }

    fn check(&self) -> Result<(), ScenarioError> {
        in_range("duration_ms", &self.duration_ms, 1, 3_600_000)?;
        let machine = &self.machine;
        machine.check()?;
        self.check_engine()?;
        for (index, cgroup) in self.cgroup.iter().enumerate() {
            let cgroup = cgroup.get_ref();
            in_range("weight", &cgroup.weight, 1, 10_000)?;
            in_range("period_us", &cgroup.period_us, 1_000, 1_000_000)?;
            if let Some(quota_us) = &cgroup.quota_us {
                in_range("quota_us", quota_us, 1_000, 1_000_000_000)?;
            }
            self.check_cgroup(cgroup.parent.as_ref(), index)?;
            self.check_controller(cgroup)?;
        }
        for group in &self.group {
            self.check_cgroup(group.get_ref().cgroup.as_ref(), self.cgroup.len())?;
        }
        self.event.iter().try_for_each(|event| self.check_event(event))?;
        self.group.iter().try_for_each(|group| check_group(group, *machine.cpus.get_ref()))?;
        self.check_recorded()
    }

    /// What happens to the engine happens within the scenario, and to an engine that is there.
    fn check_engine(&self) -> Result<(), ScenarioError> {
        let end_ms = self.warmup_ms + *self.duration_ms.get_ref();
        for (key, time) in [("engine_hangs_ms", &self.engine_hangs_ms), ("engine_gone_ms", &self.engine_gone_ms)] {
            time.as_ref().map_or(Ok(()), |time| in_range(key, time, 0, end_ms))?;
        }
        self.engine_slowdown.as_ref().map_or(Ok(()), |factor| in_range("engine_slowdown", factor, 1, 100_000))?;
        match (&self.engine_hangs_ms, &self.engine_gone_ms) {
            (Some(hangs), Some(gone)) if hangs.get_ref() >= gone.get_ref() => {
                let reason = format!("engine_hangs_ms is {}, the engine is gone by then", hangs.get_ref());
                Err(ScenarioError(hangs.span(), reason))
            }
            _ => Ok(()),
        }
    }

    /// A control group that is named is one of the first so many.
    fn check_cgroup(&self, name: Option<&Spanned<String>>, nr: usize) -> Result<(), ScenarioError> {
        match name {
            Some(name) if self.cgroup_index(name.get_ref()).is_none_or(|index| index >= nr) => {
                Err(ScenarioError(name.span(), format!("there is no cgroup {} before this", name.get_ref())))
            }
            _ => Ok(()),
        }
    }

    /// A controller is passed on from above.
    fn check_controller(&self, cgroup: &Cgroup) -> Result<(), ScenarioError> {
        let parent = cgroup.parent.as_ref().and_then(|name| self.cgroup_index(name.get_ref()));
        let has_none_above = parent.is_some_and(|index| !*self.cgroup[index].get_ref().controller.get_ref());
        if has_none_above && *cgroup.controller.get_ref() {
            return Err(ScenarioError(
                cgroup.controller.span(),
                format!("{}: the group around it has no controller", cgroup.name),
            ));
        }
        Ok(())
    }

    /// The control group of that name and those around it, from the inside.
    pub(crate) fn around<'a>(&'a self, name: Option<&'a Spanned<String>>) -> impl Iterator<Item = &'a Cgroup> {
        let named =
            |name: Option<&'a Spanned<String>>| Some(self.cgroup[self.cgroup_index(name?.get_ref())?].get_ref());
        std::iter::successors(named(name), move |cgroup| named(cgroup.parent.as_ref()))
    }

    /// Where the control group stands.
    pub(crate) fn cgroup_index(&self, name: &str) -> Option<usize> {
        self.cgroup.iter().position(|cgroup| cgroup.get_ref().name == name)
    }
}

fn in_range<T: PartialOrd + std::fmt::Display + Copy>(
    key: &str,
    value: &Spanned<T>,
    low: T,
    high: T,
) -> Result<(), ScenarioError> {
    let number = value.get_ref();
    if *number < low || *number > high {
        return Err(ScenarioError(value.span(), format!("{key} is {number}, allowed is {low} to {high}")));
    }
    Ok(())
}

/// Longest time that a group may name.
const LONGEST_US: u64 = 60_000_000;

fn check_group(group: &Spanned<ScenarioGroup>, nr_cpus: usize) -> Result<(), ScenarioError> {
    let (span, group) = (group.span(), group.get_ref());
    let fault = |reason: String| ScenarioError(span.clone(), format!("group {}: {reason}", group.name));
    in_range("count", &group.count, 1, 100_000)?;
    if let Some(nice) = &group.nice {
        in_range("nice", nice, -20, 19)?;
    }
    if let Some(slice_us) = &group.slice_us {
        in_range("slice_us", slice_us, 100, 100_000)?;
    }
    if let Some(percent) = &group.jitter_percent {
        in_range("jitter_percent", percent, 0, 100)?;
    }
    for cpu in &group.cpus {
        in_range("cpus", cpu, 0, nr_cpus - 1)?;
    }
    let times = [("compute_us", &group.compute_us), ("sleep_us", &group.sleep_us), ("period_us", &group.period_us)];
    let needs: &[&str] = match group.kind {
        WorkKind::Hog | WorkKind::Recorded => &[],
        WorkKind::Napper => &["compute_us", "sleep_us"],
        WorkKind::Periodic => &["compute_us", "period_us"],
        WorkKind::Chain => &["period_us"],
        WorkKind::ForkStorm | WorkKind::ForkWait | WorkKind::PingPong => &["compute_us"],
    };
    for (key, time) in times {
        match time {
            Some(time) => in_range(key, time, 1, LONGEST_US)?,
            None if needs.contains(&key) => return Err(fault(format!("{key} is missing"))),
            None => {}
        }
    }
    if group.kind == WorkKind::Chain && group.stages_us.is_empty() {
        return Err(fault("stages_us is missing".to_owned()));
    }
    group.check_tasks(nr_cpus)?;
    if group.realtime && !group.has_one_cpu() {
        return Err(fault("real-time tasks are emulated on one CPU only: cpus must name it".to_owned()));
    }
    Ok(())
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "about = \"\"\nduration_ms = 10\n[machine]\ncpus = 2\n[[group]]\nname = \"a\"\nkind = \"hog\"\n";

    #[test]
    fn a_small_scenario_is_read() {
        let scenario = Scenario::parse("a.toml", GOOD).unwrap();
        assert_eq!((scenario.machine.profile().name, scenario.machine.topology().nr_cpus), ("6.18", 2));
    }

    #[test]
    fn bad_scenarios_are_refused_with_place_and_reason() {
        for (from, to, message) in [
            ("cpus = 2", "cpus = 0", "a.toml:4: cpus is 0, allowed is 1 to 1024"),
            ("cpus = 2", "cpus = 2\nkernel = \"5.4\"", "a.toml:5: kernel is 5.4, known are 6.16, 6.18, 7.2, 7.3"),
            ("\"hog\"", "\"hog\"\nnice = 20", "a.toml:8: nice is 20, allowed is -20 to 19"),
            ("\"hog\"", "\"napper\"\nsleep_us = 5", "a.toml:5: group a: compute_us is missing"),
            ("\"hog\"", "\"napper\"\njitter_percent = 101", "a.toml:8: jitter_percent is 101, allowed is 0 to 100"),
            ("\"hog\"", "\"hog\"\ncpus = [2]", "a.toml:8: cpus is 2, allowed is 0 to 1"),
            ("\"hog\"", "\"hog\"\ncgroup = \"b\"", "a.toml:8: there is no cgroup b before this"),
            ("duration_ms = 10", "duration_ms = 0", "a.toml:2: duration_ms is 0, allowed is 1 to 3600000"),
            ("\"hog\"", "\"hog\"\n[[event]]\nat_us = 1\nkind = \"nice\"", "a.toml:8: event Nice: group is missing"),
            ("\"hog\"", "\"hog\"\n[[event]]\nat_us = 1\nkind = \"steal\"", "a.toml:8: event Steal: for_us is missing"),
            ("cpus = 2", "cpus = 2\nnodes = 2", "a.toml:5: nodes is 2, allowed is 1 to 1"),
            ("cpus = 2", "cpus = 2\ncores = [{ count = 3 }]", "a.toml:4: cpus is 2, the cores have 3"),
            (
                "duration_ms",
                "engine_slowdown = 0\nduration_ms",
                "a.toml:2: engine_slowdown is 0, allowed is 1 to 100000",
            ),
            ("duration_ms", "engine_gone_ms = 11\nduration_ms", "a.toml:2: engine_gone_ms is 11, allowed is 0 to 10"),
            ("duration_ms", "engine_hangs_ms = 12\nduration_ms", "a.toml:2: engine_hangs_ms is 12, allowed is 0 to 10"),
            (
                "duration_ms",
                "engine_gone_ms = 4\nengine_hangs_ms = 5\nduration_ms",
                "a.toml:3: engine_hangs_ms is 5, the engine is gone by then",
            ),
        ] {
            let error = Scenario::parse("a.toml", &GOOD.replace(from, to)).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let unknown = Scenario::parse("a.toml", &GOOD.replace("cpus = 2", "cpu = 2")).unwrap_err().to_string();
        assert!(unknown.starts_with("a.toml:4: unknown field `cpu`"), "{unknown}");
    }
}
