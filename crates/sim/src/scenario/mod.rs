//! Scenarios: a machine and what runs on it, in TOML. What makes no sense is refused with its place and reason.

mod cgroup;
mod costs;
mod events;
mod group;
mod hardware;
mod place;
mod recorded;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::Spanned;

pub use crate::scenario::cgroup::Cgroup;
pub use crate::scenario::events::{EventKind, ScenarioEvent};
pub use crate::scenario::group::{ScenarioGroup, SchedPolicySpec, SleepState, WorkKind};
pub use crate::scenario::hardware::MachineSpec;
use crate::scenario::place::{ScenarioError, assumed, in_range, key_at, line_of};
pub use crate::scenario::recorded::{RecordedStep, RecordedTask};

/// A whole scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file that it was read from.
    #[serde(skip)]
    pub file: String,
    /// What was read, to find the lines of what proves wrong later.
    #[serde(skip)]
    pub text: String,
    /// What it shows.
    pub about: String,
    /// How long it is measured.
    pub duration_ms: Spanned<u64>,
    /// What passes before that.
    #[serde(default = "zero")]
    pub warmup_ms: Spanned<u64>,
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

fn zero() -> Spanned<u64> {
    assumed(0)
}

fn one() -> Spanned<usize> {
    assumed(1)
}

/// Longest time that a scenario has before and while it is measured.
const LONGEST_MS: u64 = 3_600_000;

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
                let key = key_at(text, at).map_or(String::new(), |key| format!("{key}: "));
                bail!("{file}:{}: {key}{}", line_of(text, at), error.message());
            }
        };
        let scenario = Self { file: file.to_owned(), text: text.to_owned(), ..scenario };
        match scenario.check() {
            Ok(()) => Ok(scenario),
            Err(ScenarioError(span, reason)) => bail!("{file}:{}: {reason}", line_of(text, span.start)),
        }
    }

    /// With this many CPUs instead.
    pub fn set_cpus(&mut self, nr_cpus: usize) -> Result<()> {
        self.machine.cpus = assumed(nr_cpus);
        self.check().map_err(|ScenarioError(span, reason)| {
            // The number of CPUs itself is in no line.
            let line = if span.is_empty() { String::new() } else { format!(":{}", line_of(&self.text, span.start)) };
            anyhow::anyhow!("{}{line}: with {nr_cpus} CPUs: {reason}", self.file)
        })
    }

    fn check(&self) -> Result<(), ScenarioError> {
        in_range("duration_ms", &self.duration_ms, 1, LONGEST_MS)?;
        in_range("warmup_ms", &self.warmup_ms, 0, LONGEST_MS)?;
        let machine = &self.machine;
        machine.check()?;
        self.check_engine()?;
        self.check_cgroups()?;
        for group in &self.group {
            self.check_cgroup("cgroup", group.get_ref().cgroup.as_ref(), self.cgroup.len())?;
        }
        self.event.iter().try_for_each(|event| self.check_event(event))?;
        self.group.iter().try_for_each(|group| group::check(group, *machine.cpus.get_ref()))?;
        check_names("group", self.group.iter().map(|group| (group.span(), &*group.get_ref().name)))?;
        self.check_recorded()
    }

    /// How long it takes, with what passes before it is measured.
    pub(crate) fn end_ms(&self) -> u64 {
        self.warmup_ms.get_ref() + self.duration_ms.get_ref()
    }

    /// What happens to the engine happens within the scenario, and to an engine that is there.
    fn check_engine(&self) -> Result<(), ScenarioError> {
        let end_ms = self.end_ms();
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
}

/// Groups are told apart by their names.
fn check_names<'a>(
    what: &str,
    named: impl Iterator<Item = (std::ops::Range<usize>, &'a str)>,
) -> Result<(), ScenarioError> {
    let mut seen = BTreeSet::new();
    for (span, name) in named {
        if !seen.insert(name) {
            return Err(ScenarioError(span, format!("{what} {name}: name is that of another one before this")));
        }
    }
    Ok(())
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

    /// What is put there is refused so.
    #[track_caller]
    fn refuses(from: &str, to: &str, message: &str) {
        let error = Scenario::parse("a.toml", &GOOD.replace(from, to)).expect_err(message);
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn bad_scenarios_are_refused_with_place_and_reason() {
        for (from, to, message) in [
            ("cpus = 2", "cpus = 0", "a.toml:4: cpus is 0, allowed is 1 to 1024"),
            ("cpus = 2", "cpus = 2\nkernel = \"5.4\"", "a.toml:5: kernel is 5.4, known are 6.16, 6.18, 7.2, 7.3"),
            ("\"hog\"", "\"hog\"\nnice = 20", "a.toml:8: nice is 20, allowed is -20 to 19"),
            ("\"hog\"", "\"napper\"\nsleep_us = 5", "a.toml:5: group a: compute_us is missing"),
            (
                "\"hog\"",
                "\"napper\"\ncompute_us = 5\nsleep_us = 5\njitter_percent = 101",
                "a.toml:10: jitter_percent is 101, allowed is 0 to 100",
            ),
            ("\"hog\"", "\"hog\"\ncpus = [2]", "a.toml:8: cpus is 2, allowed is 0 to 1"),
            ("\"hog\"", "\"hog\"\ncgroup = \"b\"", "a.toml:8: cgroup: there is no cgroup b before this"),
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
            (
                "\"hog\"",
                "\"build-tree\"\ncompute_us = 5\njobs = 1\nparts = 2",
                "a.toml:10: group a: sleep_us is missing: it is how long a compiler waits between two parts",
            ),
            ("\"hog\"", "\"hog\"\njobs = 1", "a.toml:8: group a: jobs is for build-tree only"),
            ("\"hog\"", "\"hog\"\nservers = 1", "a.toml:8: group a: servers is for request only"),
            ("\"hog\"", "\"request\"\ncompute_us = 5", "a.toml:5: group a: reply_us is missing"),
            ("\"hog\"", "\"hog\"\nreaders = 1", "a.toml:8: group a: readers is for hub only"),
            ("\"hog\"", "\"hog\"\nreply_us = 1", "a.toml:8: group a: reply_us is for hub, request only"),
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
            refuses(from, to, message);
        }
        let unknown = Scenario::parse("a.toml", &GOOD.replace("cpus = 2", "cpu = 2")).unwrap_err().to_string();
        assert!(unknown.starts_with("a.toml:4: unknown field `cpu`"), "{unknown}");
    }

    #[test]
    fn values_of_the_wrong_type_are_refused_with_their_key() {
        const UNSIGNED: &str = "integer `-1`, expected u64";
        for (from, to, message) in [
            ("\"hog\"", "\"hog\"\ncount = \"x\"", "a.toml:8: count: invalid type: string \"x\", expected usize"),
            ("\"hog\"", "\"hog\"\ncount = -1", "a.toml:8: count: invalid value: integer `-1`, expected usize"),
            (
                "\"hog\"",
                "\"chain\"\nstages_us = [\n5,\n-1]",
                &format!("a.toml:10: stages_us: invalid value: {UNSIGNED}"),
            ),
            ("duration_ms = 10", "duration_ms = -1", &format!("a.toml:2: duration_ms: invalid value: {UNSIGNED}")),
            (
                "cpus = 2",
                "cpus = 2\ncores = [{ count = 1, slow = \"=\" }]",
                "a.toml:5: slow: invalid type: string \"=\", expected a boolean",
            ),
            (
                "\"hog\"",
                "\"recorded\"\n[[group.task]]\nid = 1\nsteps = [\"wait\", { run_us = \"x\" }]",
                "a.toml:10: run_us: invalid type: string \"x\", expected u64",
            ),
        ] {
            refuses(from, to, message);
        }
        let hug = Scenario::parse("a.toml", &GOOD.replace("hog", "hug")).expect_err("no kind").to_string();
        assert!(hug.starts_with("a.toml:7: kind: unknown variant `hug`, expected one of `hog`, "), "{hug}");
    }

    /// Times that are multiplied later must not overflow.
    #[test]
    fn numbers_beyond_all_reason_are_refused() {
        for (from, to, message) in [
            (
                "duration_ms",
                "warmup_ms = 18446744073709551615\nduration_ms",
                "a.toml:2: warmup_ms is 18446744073709551615, allowed is 0 to 3600000",
            ),
            (
                "\"hog\"",
                "\"chain\"\nperiod_us = 5\nstages_us = [5, 18446744073709551]",
                "a.toml:9: stages_us is 18446744073709551, allowed is 1 to 60000000",
            ),
            (
                "\"hog\"",
                "\"chain\"\nperiod_us = 5\nstages_us = [0]",
                "a.toml:9: stages_us is 0, allowed is 1 to 60000000",
            ),
            (
                "\"hog\"",
                "\"hog\"\n[[cgroup]]\nname = \"b\"\nquota_us = 5000\nburst_us = 18446744073709551615",
                "a.toml:11: burst_us is 18446744073709551615, allowed is 0 to 1000000000",
            ),
            (
                "\"hog\"",
                "\"hog\"\n[[event]]\nkind = \"offline\"\nat_us = 10001",
                "a.toml:10: at_us is 10001, allowed is 0 to 10000",
            ),
            (
                "cpus = 2",
                "cpus = 2\n[machine.costs]\nturn_ns = 10",
                "a.toml:6: turn_ns is 10, allowed is 100 to 10000000",
            ),
            (
                "cpus = 2",
                "cpus = 2\n[machine.costs]\nmigrate_ns = [0, 1, 2, 10000001]",
                "a.toml:6: migrate_ns is 10000001, allowed is 0 to 10000000",
            ),
            (
                "cpus = 2",
                "cpus = 2\ncores = [{ count = 9223372036854775809, threads = 2 }]",
                "a.toml:5: count is 9223372036854775809, allowed is 1 to 1024",
            ),
            (
                "cpus = 2",
                "cpus = 2\ncores = [{ count = 2, llc = 1024 }]",
                "a.toml:5: llc is 1024, allowed is 0 to 1023",
            ),
        ] {
            refuses(from, to, message);
        }
    }

    #[test]
    fn two_of_one_name_are_refused() {
        let other = "\"hog\"\n[[group]]\nname = \"a\"\nkind = \"hog\"";
        refuses("\"hog\"", other, "a.toml:8: group a: name is that of another one before this");
        let cgroups = "\"hog\"\n[[cgroup]]\nname = \"b\"\n[[cgroup]]\nname = \"b\"";
        refuses("\"hog\"", cgroups, "a.toml:10: cgroup b: name is that of another one before this");
        let in_front = "\"hog\"\n[[cgroup]]\nname = \"b\"\nin_front = true\n[[cgroup]]\nname = \"c\"\nin_front = true";
        refuses("\"hog\"", in_front, "a.toml:13: cgroup c: in_front is said of b already");
    }

    #[test]
    fn keys_that_would_be_ignored_are_refused() {
        for (from, to, message) in [
            ("\"hog\"", "\"hog\"\nstages_us = [5]", "a.toml:8: group a: stages_us is for chain only"),
            ("\"hog\"", "\"hog\"\nperiod_us = 5", "a.toml:8: group a: period_us is for periodic, chain, hub only"),
            (
                "\"hog\"",
                "\"periodic\"\ncompute_us = 5\nperiod_us = 50\njitter_percent = 5",
                "a.toml:10: group a: jitter_percent is for napper, fork-wait, build-tree, hub, request only",
            ),
            ("cpus = 2", "cpus = 2\ncores = [{ count = 2 }]\nllcs = 2", "a.toml:6: llcs means nothing beside cores"),
            ("cpus = 2", "cpus = 2\nslow_percent = 50", "a.toml:5: slow_percent means nothing without slow cores"),
            (
                "\"hog\"",
                "\"hog\"\n[[cgroup]]\nname = \"b\"\nburst_us = 5",
                "a.toml:10: cgroup b: burst_us means nothing without a quota_us",
            ),
            (
                "\"hog\"",
                "\"hog\"\n[[cgroup]]\nname = \"b\"\ncontroller = false\nquota_us = 5000",
                "a.toml:11: cgroup b: quota_us means nothing without a controller",
            ),
            (
                "\"hog\"",
                "\"hog\"\n[[event]]\nat_us = 1\nkind = \"online\"\nnice = 2",
                "a.toml:11: event Online: nice means nothing for this kind",
            ),
            (
                "\"hog\"",
                "\"hog\"\n[[cgroup]]\nname = \"b\"\ncontroller = false\n\
                 [[event]]\nat_us = 1\nkind = \"weight\"\ncgroup = \"b\"\nweight = 2",
                "a.toml:15: weight means nothing, as cgroup b has no controller",
            ),
        ] {
            refuses(from, to, message);
        }
    }

    /// The number of CPUs that was asked for is in no line, what no longer fits it is.
    #[test]
    fn another_number_of_cpus_is_refused_with_the_file() {
        let mut scenario = Scenario::parse("a.toml", &GOOD.replace("\"hog\"", "\"hog\"\ncpus = [1]")).unwrap();
        let mut with = |nr_cpus| scenario.set_cpus(nr_cpus).expect_err("too few or too many").to_string();
        assert_eq!(with(0), "a.toml: with 0 CPUs: cpus is 0, allowed is 1 to 1024");
        assert_eq!(with(1), "a.toml:8: with 1 CPUs: cpus is 1, allowed is 0 to 0");
    }
}
