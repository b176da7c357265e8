//! Groups of tasks that are alike, and what makes no sense in them.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::place::{ScenarioError, in_range};
use super::{RecordedTask, one};
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
    /// Clients think, ask a server, and wait for the reply.
    Request,
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
    /// Work until they sleep or ask, or of a child or compiler; of a chain, what it computes before its first frame; of a hub, before it sends.
    pub compute_us: Option<Spanned<u64>>,
    /// How long they sleep.
    pub sleep_us: Option<Spanned<u64>>,
    /// By how much nappers, hubs and clients compute and sleep more or less than that, and compilers, children of `fork-wait` and servers
    /// compute, each time by chance.
    pub jitter_percent: Option<Spanned<u64>>,
    /// Of periodic work, of frames, and of what a hub sends.
    pub period_us: Option<Spanned<u64>>,
    /// Work of each stage of a chain.
    #[serde(default)]
    pub stages_us: Vec<Spanned<u64>>,
    /// How many jobs a build keeps going.
    pub jobs: Option<Spanned<u64>>,
    /// In how many parts each compiler of a build works: it sleeps between them, as one does that waits for a server, a file or another program.
    pub parts: Option<Spanned<u64>>,
    /// To how many tasks a hub sends.
    pub readers: Option<Spanned<u64>>,
    /// How many servers answer the clients; one if it is not said.
    pub servers: Option<Spanned<u64>>,
    /// What a reader computes for each message, or a server for each request.
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

    /// How many servers answer its clients.
    #[must_use]
    pub fn nr_servers(&self) -> u64 {
        self.servers.as_ref().map_or(1, |servers| *servers.get_ref())
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

    /// What may be said of some kinds only: the key, the values, and the least and the most that they may be.
    fn keys(&self) -> [GroupKey<'_>; 10] {
        [
            GroupKey::one("compute_us", self.compute_us.as_ref(), 1, LONGEST_US),
            GroupKey::one("sleep_us", self.sleep_us.as_ref(), 1, LONGEST_US),
            GroupKey::one("period_us", self.period_us.as_ref(), 1, LONGEST_US),
            GroupKey { key: "stages_us", values: &self.stages_us, least: 1, most: LONGEST_US },
            GroupKey::one("jitter_percent", self.jitter_percent.as_ref(), 0, 100),
            GroupKey::one("jobs", self.jobs.as_ref(), 1, MOST_MEMBERS),
            GroupKey::one("parts", self.parts.as_ref(), 1, MOST_PARTS),
            GroupKey::one("readers", self.readers.as_ref(), 1, MOST_MEMBERS),
            GroupKey::one("servers", self.servers.as_ref(), 1, MOST_MEMBERS),
            GroupKey::one("reply_us", self.reply_us.as_ref(), 1, LONGEST_US),
        ]
    }

    /// It says what its kind needs, and nothing that its kind ignores.
    fn check_keys(&self, span: &Range<usize>) -> Result<(), ScenarioError> {
        let fault = |span, reason| Err(ScenarioError(span, format!("group {}: {reason}", self.name)));
        for GroupKey { key, values, least, most } in self.keys() {
            match values.first() {
                None if self.kind.needs(key) => return fault(span.clone(), format!("{key} is missing")),
                Some(value) if !self.kind.takes(key) => {
                    let kinds: Vec<_> =
                        WorkKind::ALL.into_iter().filter(|kind| kind.takes(key)).map(WorkKind::name).collect();
                    return fault(value.span(), format!("{key} is for {} only", kinds.join(", ")));
                }
                _ => values.iter().try_for_each(|value| in_range(key, value, least, most))?,
            }
        }
        if let (Some(parts), None) = (&self.parts, &self.sleep_us) {
            return fault(
                parts.span(),
                "sleep_us is missing: it is how long a compiler waits between two parts".to_owned(),
            );
        }
        match (&self.sleep_us, &self.period_us) {
            (Some(sleep_us), Some(_)) => fault(sleep_us.span(), "a hub has either sleep_us or period_us".to_owned()),
            _ => Ok(()),
        }
    }
}

/// A key that some kinds have.
struct GroupKey<'a> {
    key: &'static str,
    values: &'a [Spanned<u64>],
    least: u64,
    most: u64,
}

impl<'a> GroupKey<'a> {
    fn one(key: &'static str, value: Option<&'a Spanned<u64>>, least: u64, most: u64) -> Self {
        Self { key, values: value.map_or(&[], std::slice::from_ref), least, most }
    }
}

impl WorkKind {
    /// All of them.
    const ALL: [Self; 11] = [
        Self::Hog,
        Self::Napper,
        Self::Periodic,
        Self::Chain,
        Self::ForkStorm,
        Self::ForkWait,
        Self::PingPong,
        Self::BuildTree,
        Self::Hub,
        Self::Request,
        Self::Recorded,
    ];

    /// Its name in a scenario.
    const fn name(self) -> &'static str {
        match self {
            Self::Hog => "hog",
            Self::Napper => "napper",
            Self::Periodic => "periodic",
            Self::Chain => "chain",
            Self::ForkStorm => "fork-storm",
            Self::ForkWait => "fork-wait",
            Self::PingPong => "ping-pong",
            Self::BuildTree => "build-tree",
            Self::Hub => "hub",
            Self::Request => "request",
            Self::Recorded => "recorded",
        }
    }

    /// Of the keys that not all kinds have, those that must be there and those that may be.
    const fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Hog | Self::Recorded => (&[], &[]),
            Self::Napper => (&["compute_us", "sleep_us"], &["jitter_percent"]),
            Self::Periodic => (&["compute_us", "period_us"], &[]),
            Self::Chain => (&["period_us", "stages_us"], &["compute_us"]),
            Self::ForkStorm | Self::PingPong => (&["compute_us"], &[]),
            Self::ForkWait => (&["compute_us"], &["sleep_us", "jitter_percent"]),
            Self::BuildTree => (&["compute_us", "jobs"], &["parts", "sleep_us", "jitter_percent"]),
            Self::Hub => (&["compute_us", "readers", "reply_us"], &["sleep_us", "period_us", "jitter_percent"]),
            Self::Request => (&["compute_us", "reply_us"], &["sleep_us", "servers", "jitter_percent"]),
        }
    }

    fn needs(self, key: &str) -> bool {
        self.keys().0.contains(&key)
    }

    fn takes(self, key: &str) -> bool {
        self.needs(key) || self.keys().1.contains(&key)
    }
}

/// Most jobs of a build, readers of a hub, and servers of requests.
const MOST_MEMBERS: u64 = 1_000;

/// Most parts of a compiler's work.
const MOST_PARTS: u64 = 10_000;

/// Longest time that a group may name.
pub(super) const LONGEST_US: u64 = 60_000_000;

pub(super) fn check(group: &Spanned<ScenarioGroup>, nr_cpus: usize) -> Result<(), ScenarioError> {
    let (span, group) = (group.span(), group.get_ref());
    in_range("count", &group.count, 1, 100_000)?;
    if let Some(nice) = &group.nice {
        in_range("nice", nice, -20, 19)?;
    }
    if let Some(slice_us) = &group.slice_us {
        in_range("slice_us", slice_us, 100, 100_000)?;
    }
    for cpu in &group.cpus {
        in_range("cpus", cpu, 0, nr_cpus - 1)?;
    }
    group.check_keys(&span)?;
    group.check_tasks(nr_cpus)?;
    if group.realtime && !group.has_one_cpu() {
        let reason = "real-time tasks are emulated on one CPU only: cpus must name it";
        return Err(ScenarioError(span, format!("group {}: {reason}", group.name)));
    }
    Ok(())
}
