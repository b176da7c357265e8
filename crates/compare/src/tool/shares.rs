//! Loads that must share the CPUs: what each gets, beside what priorities, control groups and limits promise it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use scherzo_rig::measure::number;

/// How long they are measured, in the guest's seconds. They settle for one more.
pub(super) const SHARE_SECONDS: u32 = 4;

/// Below the control group that all of them are in.
const ROOT: &str = "/sys/fs/cgroup";
/// A group's file that says which controllers its children have.
const CHILDREN: &str = "cgroup.subtree_control";

/// Who shares with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareCase {
    /// Nice 0 and nice 10, a hog per CPU each.
    Nice,
    /// Normal, SCHED_BATCH and SCHED_IDLE, a hog per CPU each.
    Policies,
    /// A hog and four tasks per CPU that compute for 500 µs and nap for 20.
    ShortNappers,
    /// Two control groups of equal weight, eight hogs and two.
    Groups,
    /// A group of weight 300 beside one of 100 that has two children; 4, 4 and 8 hogs.
    Nested,
    /// Four hogs that may use half a CPU, and a hog per CPU beside them.
    Limit,
}

impl ShareCase {
    pub(super) const ALL: [Self; 6] =
        [Self::Nice, Self::Policies, Self::ShortNappers, Self::Groups, Self::Nested, Self::Limit];

    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Nice => "nice",
            Self::Policies => "policies",
            Self::ShortNappers => "short-nappers",
            Self::Groups => "groups",
            Self::Nested => "nested",
            Self::Limit => "limit",
        }
    }

    /// The control groups that are made for it, each before its children, with a file that is written there and what into it.
    const fn groups(self) -> &'static [(&'static str, (&'static str, &'static str))] {
        const NORMAL: (&str, &str) = ("cpu.weight", "100");
        match self {
            Self::Nice | Self::Policies | Self::ShortNappers => &[],
            Self::Groups => &[("scherzo-many", NORMAL), ("scherzo-few", NORMAL)],
            Self::Nested => &[
                ("scherzo-heavy", ("cpu.weight", "300")),
                ("scherzo-parent", NORMAL),
                ("scherzo-parent/few", NORMAL),
                ("scherzo-parent/many", NORMAL),
            ],
            Self::Limit => &[("scherzo-limited", ("cpu.max", "50000"))],
        }
    }

    const fn loads(self) -> &'static [&'static str] {
        match self {
            Self::Nice => &["name=first,count=1/cpu", "name=later,count=1/cpu,nice=10"],
            Self::Policies => {
                &["name=normal,count=1/cpu", "name=batch,count=1/cpu,policy=batch", "name=idle,count=1/cpu,policy=idle"]
            }
            Self::ShortNappers => &["name=hogs,count=1/cpu", "name=naps,count=4/cpu,work=500us,sleep=20us"],
            Self::Groups => &["name=many,count=8,cgroup=scherzo-many", "name=few,count=2,cgroup=scherzo-few"],
            Self::Nested => &[
                "name=heavy,count=4,cgroup=scherzo-heavy",
                "name=few,count=4,cgroup=scherzo-parent/few",
                "name=many,count=8,cgroup=scherzo-parent/many",
            ],
            Self::Limit => &["name=limited,count=4,cgroup=scherzo-limited", "name=free,count=1/cpu"],
        }
    }

    /// Makes the groups, measures, and removes them again, also when measuring has failed; those that an interrupted run has left are
    /// removed first. The root gives its children the cpu controller afterwards if it did so before.
    pub(super) fn command(self) -> String {
        let loads: Vec<_> = self.loads().iter().map(|load| format!("--group {load}")).collect();
        let measure = format!("scherzo-bench shares --json --seconds {SHARE_SECONDS} {}", loads.join(" "));
        if self.groups().is_empty() {
            return measure;
        }
        let make: Vec<_> = self.groups().iter().map(|(group, setting)| make(group, setting)).collect();
        let remove: Vec<_> = self.groups().iter().rev().map(|(group, _)| *group).collect();
        let (make, remove) = (make.join(" && "), remove.join(" "));
        format!(
            "cd {ROOT} || exit; rmdir {remove} 2>/dev/null; grep -qw cpu {CHILDREN}; had_cpu=$?; {make} && {measure}; status=$?; \
             rmdir {remove}; [ $had_cpu -eq 0 ] || echo -cpu >{CHILDREN}; exit $status"
        )
    }
}

/// Makes a group, whose parent must say that its children have shares, and writes a setting into one of its files.
fn make(group: &str, (file, value): &(&str, &str)) -> String {
    let parent = group.rsplit_once('/').map_or(".", |(parent, _)| parent);
    format!("echo +cpu >{parent}/{CHILDREN} && mkdir {group} && echo {value} >{group}/{file}")
}

/// The JSON of `scherzo-bench shares`: by how much the group that is farthest from its share is away from it, in percent of what all
/// groups got together, for the kernel itself takes a part; and for how many ms a runnable thread got nothing, at most.
pub(super) fn values(text: &str) -> Result<[f64; 2]> {
    let value: Value = serde_json::from_str(text)?;
    let groups = value["groups"].as_array().context("there are no groups")?;
    let of_all = |name: &str| groups.iter().map(|group| number(group, name)).collect::<Result<Vec<_>>>();
    let (cpus, shares) = (of_all("/cpus")?, of_all("/share")?);
    let (all_cpus, all_shares) = (cpus.iter().sum::<f64>(), shares.iter().sum::<f64>());
    ensure!(all_cpus > 0.0 && all_shares > 0.0, "nobody got anything");
    let distances = cpus.iter().zip(&shares).map(|(cpus, share)| (cpus / all_cpus - share / all_shares).abs());
    let longest_gap_ms = of_all("/longest_gap_ms")?.into_iter().fold(0.0, f64::max);
    Ok([100.0 * distances.fold(0.0, f64::max), longest_gap_ms])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_before_their_children_and_removed_after_them() {
        let nested = ShareCase::Nested.command();
        let made = "; echo +cpu >./cgroup.subtree_control && mkdir scherzo-heavy && echo 300 >scherzo-heavy/cpu.weight && \
                    echo +cpu >./cgroup.subtree_control && mkdir scherzo-parent && echo 100 >scherzo-parent/cpu.weight && \
                    echo +cpu >scherzo-parent/cgroup.subtree_control && mkdir scherzo-parent/few && ";
        let (before, after) = nested.split_once(made).unwrap();
        let removed = "rmdir scherzo-parent/many scherzo-parent/few scherzo-parent scherzo-heavy";
        let noted = "grep -qw cpu cgroup.subtree_control; had_cpu=$?";
        assert_eq!(before, format!("cd /sys/fs/cgroup || exit; {removed} 2>/dev/null; {noted}"));
        let put_back = "[ $had_cpu -eq 0 ] || echo -cpu >cgroup.subtree_control";
        assert!(after.ends_with(&format!("; status=$?; {removed}; {put_back}; exit $status")), "{nested}");
        let nice = "scherzo-bench shares --json --seconds 4 --group name=first,count=1/cpu --group name=later,count=1/cpu,nice=10";
        assert_eq!(ShareCase::Nice.command(), nice);
    }

    #[test]
    fn the_group_that_is_farthest_from_its_share_counts() {
        let text = r#"{"groups": [
            {"cpus": 2.85, "share": 3.2, "longest_gap_ms": 8.0}, {"cpus": 0.95, "share": 0.8, "longest_gap_ms": 40.5}]}"#;
        let [farthest, gap_ms] = values(text).unwrap();
        assert!((farthest - 5.0).abs() < 1e-9 && (gap_ms - 40.5).abs() < 1e-9, "{farthest} {gap_ms}");
        assert!(values(r#"{"groups": []}"#).is_err());
        assert!(values("{}").is_err());
        assert!(values(r#"{"groups": [{"cpus": 1.0, "longest_gap_ms": 1.0}]}"#).is_err());
    }
}
