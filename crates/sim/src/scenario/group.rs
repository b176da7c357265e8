//! Groups of tasks that are alike, and what makes no sense in them.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::{RecordedTask, ScenarioError, in_range, one};
use crate::abi::CpuMask;
use crate::task::{WEIGHT_IDLE, weight_of_nice};

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
    /// A build: keeps so many jobs going, of which each starts a compiler and waits for it.
    BuildTree,
    /// One task sends messages to many, all of them in one burst, and goes on.
    Hub,
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
#[expect(clippy::struct_excessive_bools, reason = "keys that do not depend on each other")]
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
    /// Work until they sleep, or of a child or compiler; of a chain, what it computes before its first frame; of a hub, before it sends.
    pub compute_us: Option<Spanned<u64>>,
    /// How long they sleep.
    pub sleep_us: Option<Spanned<u64>>,
    /// By how much nappers and hubs compute and sleep more or less than that, and compilers and children of `fork-wait` compute, each
    /// time by chance.
    pub jitter_percent: Option<Spanned<u64>>,
    /// Of periodic work, of frames, and of what a hub sends.
    pub period_us: Option<Spanned<u64>>,
    /// Work of each stage of a chain.
    #[serde(default)]
    pub stages_us: Vec<u64>,
    /// How many jobs a build keeps going.
    pub jobs: Option<Spanned<u64>>,
    /// To how many tasks a hub sends.
    pub readers: Option<Spanned<u64>>,
    /// What each of these computes for each message.
    pub reply_us: Option<Spanned<u64>>,
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
    /// They compute until their CPU time has grown by so much, whatever they get done: on a slow CPU, or one that waits to be emulated.
    #[serde(default)]
    pub goes_by_cpu_time: bool,
    /// The tasks of a recorded group.
    #[serde(default)]
    pub task: Vec<Spanned<RecordedTask>>,
}

impl ScenarioGroup {
    /// A time that was given, in nanoseconds.
    #[must_use]
    pub fn ns(time_us: Option<&Spanned<u64>>) -> u64 {
        time_us.map_or(0, |time| time.get_ref() * 1_000)
    }

    /// Its nice level.
    #[must_use]
    pub fn nice(&self) -> i32 {
        self.nice.as_ref().map_or(0, |nice| *nice.get_ref())
    }

    /// The kernel's weight of each of its tasks.
    #[must_use]
    pub fn weight(&self) -> u32 {
        if self.policy == SchedPolicySpec::Idle { WEIGHT_IDLE } else { weight_of_nice(self.nice()) }
    }

    /// Where its tasks may run.
    #[must_use]
    pub fn mask(&self, nr_cpus: usize) -> CpuMask {
        if self.cpus.is_empty() {
            CpuMask::of(0..nr_cpus)
        } else {
            CpuMask::of(self.cpus.iter().map(|cpu| *cpu.get_ref()))
        }
    }

    /// Jobs are those of a build, and readers those of a hub, which says in one way only when it sends.
    fn check_members(&self, span: &Range<usize>) -> Result<(), ScenarioError> {
        let members = [
            ("jobs", &self.jobs, WorkKind::BuildTree, "build-tree"),
            ("readers", &self.readers, WorkKind::Hub, "hub"),
            ("reply_us", &self.reply_us, WorkKind::Hub, "hub"),
        ];
        for (key, number, kind, kind_name) in members {
            let fault = |span: &Range<usize>, reason| {
                Err(ScenarioError(span.clone(), format!("group {}: {key} {reason}", self.name)))
            };
            match number {
                Some(number) if self.kind != kind => return fault(&number.span(), format!("is for {kind_name} only")),
                Some(number) if key != "reply_us" => in_range(key, number, 1, MOST_MEMBERS)?,
                None if self.kind == kind => return fault(span, "is missing".to_owned()),
                _ => {}
            }
        }
        match (&self.sleep_us, &self.period_us) {
            (Some(sleep_us), Some(_)) if self.kind == WorkKind::Hub => {
                let reason = format!("group {}: a hub has either sleep_us or period_us", self.name);
                Err(ScenarioError(sleep_us.span(), reason))
            }
            _ => Ok(()),
        }
    }
}

/// Most jobs of a build, and readers of a hub.
const MOST_MEMBERS: u64 = 1_000;

/// Longest time that a group may name.
pub(super) const LONGEST_US: u64 = 60_000_000;

pub(super) fn check(group: &Spanned<ScenarioGroup>, nr_cpus: usize) -> Result<(), ScenarioError> {
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
    let times = [
        ("compute_us", &group.compute_us),
        ("sleep_us", &group.sleep_us),
        ("period_us", &group.period_us),
        ("reply_us", &group.reply_us),
    ];
    let needs: &[&str] = match group.kind {
        WorkKind::Hog | WorkKind::Recorded => &[],
        WorkKind::Napper => &["compute_us", "sleep_us"],
        WorkKind::Periodic => &["compute_us", "period_us"],
        WorkKind::Chain => &["period_us"],
        WorkKind::ForkStorm | WorkKind::ForkWait | WorkKind::PingPong | WorkKind::BuildTree => &["compute_us"],
        WorkKind::Hub => &["compute_us", "reply_us"],
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
    group.check_members(&span)?;
    group.check_tasks(nr_cpus)?;
    if group.realtime && !group.has_one_cpu() {
        return Err(fault("real-time tasks are emulated on one CPU only: cpus must name it".to_owned()));
    }
    Ok(())
}
