//! Scenarios: a machine and what runs on it, in TOML. What makes no sense is refused with its place and reason.

mod events;
mod group;
mod hardware;
mod recorded;

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::Spanned;

pub use crate::scenario::events::{EventKind, ScenarioEvent};
pub use crate::scenario::group::{ScenarioGroup, SchedPolicySpec, SleepState, WorkKind};
pub use crate::scenario::hardware::MachineSpec;
pub use crate::scenario::recorded::{RecordedStep, RecordedTask};

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
        self.group.iter().try_for_each(|group| group::check(group, *machine.cpus.get_ref()))?;
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
            ("\"hog\"", "\"build-tree\"\ncompute_us = 5", "a.toml:5: group a: jobs is missing"),
            ("\"hog\"", "\"build-tree\"\njobs = 2", "a.toml:5: group a: compute_us is missing"),
            ("\"hog\"", "\"hub\"\ncompute_us = 5\nreply_us = 5", "a.toml:5: group a: readers is missing"),
            ("\"hog\"", "\"hub\"\ncompute_us = 5\nreaders = 5", "a.toml:5: group a: reply_us is missing"),
            (
                "\"hog\"",
                "\"hub\"\nreaders = 0\ncompute_us = 5\nreply_us = 5",
                "a.toml:8: readers is 0, allowed is 1 to 1000",
            ),
            (
                "\"hog\"",
                "\"hub\"\nreaders = 2\ncompute_us = 5\nreply_us = 0",
                "a.toml:10: reply_us is 0, allowed is 1 to 60000000",
            ),
            ("\"hog\"", "\"build-tree\"\ncompute_us = 5\njobs = 1001", "a.toml:9: jobs is 1001, allowed is 1 to 1000"),
            ("\"hog\"", "\"hog\"\njobs = 1", "a.toml:8: group a: jobs is for build-tree only"),
            ("\"hog\"", "\"hog\"\nreaders = 1", "a.toml:8: group a: readers is for hub only"),
            ("\"hog\"", "\"hog\"\nreply_us = 1", "a.toml:8: group a: reply_us is for hub only"),
            (
                "\"hog\"",
                "\"hub\"\nreaders = 2\ncompute_us = 5\nreply_us = 5\nsleep_us = 5\nperiod_us = 5",
                "a.toml:11: group a: a hub has either sleep_us or period_us",
            ),
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
