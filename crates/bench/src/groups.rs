//! Groups of loads, as they are described on the command line.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use clap::ValueEnum;

/// What `--help` says about the description of a group.
pub(crate) const GRAMMAR: &str = "\
A group of loads is described by KEY=VALUE, separated by commas:
  name=TEXT        required; no two groups may have the same
  count=N          threads of the group (default 1); N/cpu: so many per CPU
  nice=N           -20 to 19 (default 0)
  policy=POLICY    normal (default), batch or idle
  work=TIME        compute for that long on the CPU, then sleep, and repeat;
  sleep=TIME       without these two the group never sleeps;
  sleep=partner    of each two threads, one sleeps until the other has worked
  pin=CPU          run on this CPU only
  cgroup=PATH      move into this control group below /sys/fs/cgroup, which must exist
TIME is a number followed by us, ms or s.

Example: --group name=hogs,count=2/cpu,nice=10 --group name=naps,count=8,work=4ms,sleep=100us";

/// Longest time of a turn.
const MAX_TURN_NS: f64 = 3.6e12;

/// Threads that do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadGroup {
    pub(crate) name: String,
    pub(crate) count: Count,
    pub(crate) nice: i32,
    pub(crate) policy: SchedPolicy,
    /// Without it they never sleep.
    pub(crate) turn: Option<Turn>,
    pub(crate) pin: Option<usize>,
    pub(crate) cgroup: Option<String>,
}

/// How many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    number: usize,
    per_cpu: bool,
}

/// Of the kernel's scheduling policies those that are not real-time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchedPolicy {
    Normal,
    Batch,
    Idle,
}

/// CPU time of work, and the sleep after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) work_ns: u64,
    pub(crate) sleep: Sleep,
}

/// What ends a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// So much time, in ns.
    Time(u64),
    /// A message of the other thread of two, which has worked meanwhile.
    Partner,
}

impl LoadGroup {
    /// CPUs that a member would use if it never waited.
    pub(crate) fn demand(&self) -> f64 {
        self.turn.map_or(1.0, |Turn { work_ns, sleep }| match sleep {
            Sleep::Time(sleep_ns) => work_ns as f64 / (work_ns + sleep_ns) as f64,
            Sleep::Partner => 0.5,
        })
    }
}

impl Count {
    /// On a machine with so many CPUs.
    pub(crate) const fn threads(self, nr_cpus: usize) -> usize {
        if self.per_cpu { self.number * nr_cpus } else { self.number }
    }
}

/// Fails if two groups have the same name.
pub(crate) fn ensure_distinct(groups: &[LoadGroup]) -> Result<()> {
    let mut names = BTreeSet::new();
    match groups.iter().find(|group| !names.insert(&group.name)) {
        Some(group) => bail!("two groups are called \"{}\"", group.name),
        None => Ok(()),
    }
}

/// Fields while they are read.
#[derive(Default)]
struct GroupFields {
    name: Option<String>,
    count: Option<Count>,
    nice: Option<i32>,
    policy: Option<SchedPolicy>,
    work_ns: Option<u64>,
    sleep: Option<Sleep>,
    pin: Option<usize>,
    cgroup: Option<String>,
}

impl GroupFields {
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "name" => fill(&mut self.name, value.to_owned()),
            "count" => fill(&mut self.count, value.parse()?),
            "nice" => fill(&mut self.nice, nice(value)?),
            "policy" => fill(&mut self.policy, SchedPolicy::from_str(value, false).map_err(Error::msg)?),
            "work" => fill(&mut self.work_ns, time_ns(value)?),
            "sleep" if value == "partner" => fill(&mut self.sleep, Sleep::Partner),
            "sleep" => fill(&mut self.sleep, Sleep::Time(time_ns(value)?)),
            "pin" => fill(&mut self.pin, value.parse()?),
            "cgroup" => fill(&mut self.cgroup, cgroup(value)?),
            _ => bail!("there is no such key"),
        }
    }

    fn turn(&self) -> Result<Option<Turn>> {
        match (self.work_ns, self.sleep) {
            (Some(work_ns), Some(sleep)) => Ok(Some(Turn { work_ns, sleep })),
            (None, None) => Ok(None),
            _ => bail!("work and sleep need each other"),
        }
    }
}

impl FromStr for LoadGroup {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut fields = GroupFields::default();
        for field in text.split(',') {
            let (key, value) = field.split_once('=').with_context(|| format!("\"{field}\" is not KEY=VALUE"))?;
            // In one line: what parses the command line shows no causes.
            fields.set(key, value).map_err(|error| anyhow!("\"{field}\": {error:#}"))?;
        }
        let turn = fields.turn()?;
        let name = fields.name.filter(|name| !name.is_empty()).context("the group has no name")?;
        Ok(Self {
            name,
            count: fields.count.unwrap_or(Count { number: 1, per_cpu: false }),
            nice: fields.nice.unwrap_or(0),
            policy: fields.policy.unwrap_or(SchedPolicy::Normal),
            turn,
            pin: fields.pin,
            cgroup: fields.cgroup,
        })
    }
}

/// In the same grammar.
impl fmt::Display for LoadGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.policy.to_possible_value().ok_or(fmt::Error)?;
        write!(f, "name={},count={},nice={},policy={}", self.name, self.count, self.nice, policy.get_name())?;
        if let Some(Turn { work_ns, sleep }) = self.turn {
            write!(f, ",work={}us", work_ns as f64 / 1e3)?;
            match sleep {
                Sleep::Time(sleep_ns) => write!(f, ",sleep={}us", sleep_ns as f64 / 1e3)?,
                Sleep::Partner => write!(f, ",sleep=partner")?,
            }
        }
        if let Some(cpu) = self.pin {
            write!(f, ",pin={cpu}")?;
        }
        if let Some(path) = &self.cgroup {
            write!(f, ",cgroup={path}")?;
        }
        Ok(())
    }
}

impl FromStr for Count {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (number, per_cpu) = text.strip_suffix("/cpu").map_or((text, false), |number| (number, true));
        let number = number.parse()?;
        ensure!((1..=10_000).contains(&number), "1 to 10000");
        Ok(Self { number, per_cpu })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.per_cpu { "/cpu" } else { "" })
    }
}

fn fill<T>(field: &mut Option<T>, value: T) -> Result<()> {
    ensure!(field.replace(value).is_none(), "it is said twice");
    Ok(())
}

fn nice(text: &str) -> Result<i32> {
    let nice = text.parse()?;
    ensure!((-20..=19).contains(&nice), "-20 to 19");
    Ok(nice)
}

fn time_ns(text: &str) -> Result<u64> {
    const UNITS: [(&str, f64); 3] = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = UNITS.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let (number, unit_ns) = found.context("a time ends with us, ms or s")?;
    let ns = number.parse::<f64>()? * unit_ns;
    ensure!((1.0..=MAX_TURN_NS).contains(&ns), "more than nothing, and at most an hour");
    Ok(ns.round() as u64)
}

/// Without leading and trailing slashes.
fn cgroup(text: &str) -> Result<String> {
    let path = text.trim_matches('/');
    ensure!(path.split('/').all(|part| part != ".."), "it must lie below /sys/fs/cgroup");
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> LoadGroup {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error:#}"))
    }

    #[test]
    fn every_field_is_read() {
        let group = parse("name=a b,count=2/cpu,nice=-5,policy=batch,work=4ms,sleep=100us,pin=3,cgroup=/x.slice/y/");
        assert_eq!(group.name, "a b");
        assert_eq!((group.count.threads(4), group.nice, group.policy), (8, -5, SchedPolicy::Batch));
        assert_eq!(group.turn, Some(Turn { work_ns: 4_000_000, sleep: Sleep::Time(100_000) }));
        assert_eq!((group.pin, group.cgroup.as_deref()), (Some(3), Some("x.slice/y")));
        assert!((group.demand() - 4.0 / 4.1).abs() < 1e-9);
    }

    #[test]
    fn a_name_is_enough() {
        let group = parse("name=hog");
        assert_eq!((group.count.threads(4), group.nice, group.policy, group.turn), (1, 0, SchedPolicy::Normal, None));
        assert!((group.demand() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn times_have_a_unit_and_may_have_a_fraction() {
        assert_eq!(time_ns("0.5ms").unwrap(), 500_000);
        assert_eq!(time_ns("20us").unwrap(), 20_000);
        assert_eq!(time_ns("1.5s").unwrap(), 1_500_000_000);
        for text in ["", "ms", "4", "0us", "-1ms", "4h", "nans", "1e9s"] {
            assert!(time_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("count=1", "no name"),
            ("name=", "no name"),
            ("name=a,cuont=1", "cuont"),
            ("name=a,count", "KEY=VALUE"),
            ("name=a,count=0", "1 to 10000"),
            ("name=a,nice=20", "-20 to 19"),
            ("name=a,policy=fifo", "policy=fifo"),
            ("name=a,work=4ms", "need each other"),
            ("name=a,nice=1,nice=2", "twice"),
            ("name=a,cgroup=../b", "below"),
        ] {
            let error = text.parse::<LoadGroup>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_description_survives_being_printed() {
        for text in ["name=a", "name=b,count=3/cpu,policy=idle,work=12.5us,sleep=4ms,pin=0,cgroup=x/y,nice=19"] {
            let group = parse(text);
            assert_eq!(parse(&group.to_string()), group);
        }
    }

    #[test]
    fn names_must_differ() {
        assert!(ensure_distinct(&[parse("name=a"), parse("name=b")]).is_ok());
        let error = ensure_distinct(&[parse("name=a"), parse("name=b"), parse("name=a,nice=1")]).unwrap_err();
        assert!(error.to_string().contains("\"a\""));
    }
}
