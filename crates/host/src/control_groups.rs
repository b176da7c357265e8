//! Weights and limits of control groups: which there are, and who keeps them while what is loaded.

use std::fs;
use std::path::Path;

use crate::diagnosis::{Finding, OWN_OPS, Severity, gettext_noop};
use crate::root::printable;
use crate::{Root, SchedExt};

/// What the scheduler knows, see `docs/design/policy.md`.
const MAX_GROUPS: usize = 4095;
const MAX_LEVELS: usize = 16;
/// Directories that are looked into, however many there are.
const MAX_DIRECTORIES: usize = 4 * MAX_GROUPS;
/// Groups that a sentence names, and how much of a name.
const MAX_NAMED: usize = 12;
const MAX_NAME_CHARS: usize = 64;
/// Where the unified hierarchy is.
const TREE: &str = "sys/fs/cgroup";
const NORMAL_WEIGHT: &str = "100";
const IGNORED_BY_SETTING: &str = "control-groups/weights-ignored-by-setting";

/// How the scheduler is set up, as far as groups are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSupport {
    /// The setting because of which it does not divide by the weights of groups, if there is one.
    pub ignores_weights_by: Option<&'static str>,
    /// It schedules only tasks that have asked for it.
    pub partial: bool,
}

/// What has been set for groups, in the words of systemd: `box.service (CPUQuota=50%)`.
#[derive(Debug, Default)]
struct Groups {
    weights: Vec<String>,
    limits: Vec<String>,
    nr_seen: usize,
    nr_directories: usize,
    /// One of them can have a limit.
    has_limits: bool,
    /// One of them is deeper than the scheduler looks.
    is_too_deep: bool,
}

impl Groups {
    fn read(root: &Root) -> Self {
        let mut groups = Self::default();
        groups.visit(&root.path(TREE), 0);
        groups
    }

    /// A group that goes meanwhile has no files any more.
    fn visit(&mut self, group: &Path, level: usize) {
        if (1..=MAX_LEVELS).contains(&level) {
            self.look_at(group);
        }
        if level > MAX_LEVELS {
            self.is_too_deep |= group.join("cpu.weight").exists();
            return;
        }
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        let is_group = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let mut below: Vec<_> = entries.filter(is_group).map(|entry| entry.path()).collect();
        below.sort();
        for group in below {
            if self.nr_directories == MAX_DIRECTORIES {
                return;
            }
            self.nr_directories += 1;
            self.visit(&group, level + 1);
        }
    }

    fn look_at(&mut self, group: &Path) {
        let read = |file: &str| fs::read_to_string(group.join(file)).ok().map(|text| text.trim().to_owned());
        let Some(weight) = read("cpu.weight") else { return };
        self.nr_seen += 1;
        if read("cpu.idle").is_some_and(|mark| mark == "1") {
            self.weights.push(name(group, "CPUWeight=idle"));
        } else if weight != NORMAL_WEIGHT {
            self.weights.push(name(group, &format!("CPUWeight={weight}")));
        }
        let Some(limit) = read("cpu.max") else { return };
        self.has_limits = true;
        if let Some(quota) = quota(&limit) {
            let burst_us = read("cpu.max.burst").filter(|burst_us| burst_us != "0");
            let burst = burst_us.map(|burst_us| format!(", cpu.max.burst={burst_us}")).unwrap_or_default();
            self.limits.push(name(group, &format!("CPUQuota={quota}%{burst}")));
        }
    }

    fn is_empty(&self) -> bool {
        self.weights.is_empty() && self.limits.is_empty()
    }
}

/// The share of a CPU in percent that `cpu.max` says, if it says any: with a hundredth at most, as systemd has it.
fn quota(limit: &str) -> Option<String> {
    let (quota_us, period_us) = limit.split_once(' ')?;
    let (quota_us, period_us): (u64, u64) = (quota_us.parse().ok()?, period_us.parse().ok()?);
    let hundredths = quota_us.saturating_mul(10_000).checked_div(period_us)?;
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// Whoever may make groups chooses their names.
fn name(group: &Path, what: &str) -> String {
    let name = group.file_name().unwrap_or_default().to_string_lossy();
    format!("{} ({what})", printable(&name, MAX_NAME_CHARS))
}

fn named<'a>(groups: impl IntoIterator<Item = &'a String>) -> String {
    let mut groups = groups.into_iter();
    let mut names: Vec<_> = groups.by_ref().take(MAX_NAMED).map(String::as_str).collect();
    if groups.next().is_some() {
        names.push("…");
    }
    names.join(", ")
}

/// Who keeps the weights and limits of control groups, and what of them has no effect.
#[must_use]
pub fn diagnose_groups(root: &Root, support: GroupSupport) -> Vec<Finding> {
    let groups = Groups::read(root);
    let ops = SchedExt::read(root).ok().flatten().and_then(|kernel| kernel.ops);
    let kept = match ops.as_deref() {
        _ if groups.nr_seen == 0 => without_groups(root),
        _ if groups.is_empty() => none_is_set(),
        Some(ops) if !ops.starts_with(OWN_OPS) => foreign(ops, &groups),
        ours => with_ours(ours.is_some(), &groups, support),
    };
    let limits = limits_alone(&kept, &groups);
    let others = [limits, no_limits(&groups), too_many(&groups), too_deep(&groups), autogroups(root)];
    std::iter::once(kept).chain(others.into_iter().flatten()).collect()
}

fn none_is_set() -> Finding {
    let text = gettext_noop("No control group has a CPU weight or limit of its own.");
    Finding::new("control-groups/none-set", Severity::Good, text)
}

fn without_groups(root: &Root) -> Finding {
    let controllers = root.read(&format!("{TREE}/cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|controller| controller == "cpu") {
        return none_is_set();
    }
    let text = gettext_noop(
        "There are no CPU weights and limits of control groups to keep: the kernel was built without \
         CONFIG_FAIR_GROUP_SCHED and CONFIG_EXT_GROUP_SCHED, or the CPU controller is not in /sys/fs/cgroup.",
    );
    Finding::new("control-groups/no-controller", Severity::Note, text)
}

fn foreign(ops: &str, groups: &Groups) -> Finding {
    let text = gettext_noop(
        "The scheduler {ops} is loaded. Most sched_ext schedulers ignore CPU weights and limits of control groups, \
         which are set here: {groups}.",
    );
    let all = named(groups.weights.iter().chain(&groups.limits));
    Finding::new("control-groups/foreign", Severity::Warning, text).with("groups", all).with("ops", ops)
}

fn with_ours(is_loaded: bool, groups: &Groups, support: GroupSupport) -> Finding {
    let all = named(groups.weights.iter().chain(&groups.limits));
    let finding = if support.partial {
        let text = gettext_noop(
            "With the setting partial, the kernel keeps CPU weights and limits of control groups for ordinary tasks, and \
             Scherzo for those with SCHED_EXT. A group that has both may use its limit twice: {groups}.",
        );
        Finding::new("control-groups/partial", Severity::Note, text)
    } else if let Some(setting) = support.ignores_weights_by.filter(|_| !groups.weights.is_empty()) {
        return ignored(&named(&groups.weights), setting);
    } else {
        kept(is_loaded)
    };
    finding.with("groups", all)
}

fn kept(is_loaded: bool) -> Finding {
    if is_loaded {
        let text = gettext_noop("Scherzo keeps the CPU weights and limits of control groups: {groups}.");
        Finding::new("control-groups/kept", Severity::Good, text)
    } else {
        let text = gettext_noop(
            "The kernel keeps the CPU weights and limits of control groups, and Scherzo does when it is turned on: \
             {groups}.",
        );
        Finding::new("control-groups/kept-when-on", Severity::Good, text)
    }
}

fn ignored(groups: &str, setting: &str) -> Finding {
    let text = gettext_noop(
        "The setting {setting} has tasks queued in user space, where CPU weights of control groups are ignored (limits are \
         kept): {groups}. `scherzoctl config unset {setting}` changes that.",
    );
    let finding = Finding::new(IGNORED_BY_SETTING, Severity::Warning, text);
    finding.with("groups", groups).with("setting", setting)
}

/// Which limits are kept where that was said of the weights only.
fn limits_alone(kept: &Finding, groups: &Groups) -> Option<Finding> {
    let text = gettext_noop("Limits of control groups are kept: {groups}.");
    let is_open = kept.id == IGNORED_BY_SETTING && !groups.limits.is_empty();
    let finding = || Finding::new("control-groups/limits-kept", Severity::Good, text);
    is_open.then(|| finding().with("groups", named(&groups.limits)))
}

fn no_limits(groups: &Groups) -> Option<Finding> {
    let text = gettext_noop(
        "The kernel was built without limits of control groups (CONFIG_CFS_BANDWIDTH): CPUQuota= has no effect, with \
         Scherzo or without.",
    );
    let is_lacking = groups.nr_seen > 0 && !groups.has_limits;
    is_lacking.then(|| Finding::new("control-groups/no-limits", Severity::Note, text))
}

fn too_many(groups: &Groups) -> Option<Finding> {
    let text = gettext_noop(
        "There are more than {max} control groups. Those beyond count as part of the group that they are in.",
    );
    let is_beyond = groups.nr_seen > MAX_GROUPS;
    let finding = || Finding::new("control-groups/too-many", Severity::Note, text).with("max", MAX_GROUPS.to_string());
    is_beyond.then(finding)
}

fn too_deep(groups: &Groups) -> Option<Finding> {
    let text = gettext_noop(
        "There are control groups more than {max} levels deep. These count as part of the group {max} levels deep that \
         they are in.",
    );
    let finding = || Finding::new("control-groups/too-deep", Severity::Note, text).with("max", MAX_LEVELS.to_string());
    groups.is_too_deep.then(finding)
}

/// Autogroups are for tasks that are in no control group with a CPU controller.
fn autogroups(root: &Root) -> Option<Finding> {
    let enabled = root.read("proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|mark| mark == "1");
    let controllers = root.read(&format!("{TREE}/cgroup.subtree_control")).unwrap_or_default();
    let grouped = controllers.split_whitespace().any(|controller| controller == "cpu");
    let text = gettext_noop(
        "Autogroups are enabled (kernel.sched_autogroup_enabled): by itself the kernel divides the CPUs among sessions \
         before it divides them among tasks. Scherzo does not: a session with more tasks gets more.",
    );
    (enabled && !grouped).then(|| Finding::new("control-groups/autogroups", Severity::Note, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    const GROUPS: [(&str, &str); 8] = [
        ("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n"),
        ("sys/fs/cgroup/system.slice/cpu.weight", "100\n"),
        ("sys/fs/cgroup/system.slice/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/system.slice/box.service/cpu.weight", "20\n"),
        ("sys/fs/cgroup/system.slice/box.service/cpu.max", "50000 100000\n"),
        ("sys/fs/cgroup/user.slice/cpu.weight", "1\n"),
        ("sys/fs/cgroup/user.slice/cpu.idle", "1\n"),
        ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
    ];

    /// What is said about a host with these files besides: ids, and the first sentence.
    fn said(files: &[(&str, &str)], support: GroupSupport) -> (Vec<&'static str>, String) {
        let (_dir, root) = tree(files);
        let findings = diagnose_groups(&root, support);
        assert!(findings.iter().all(|finding| !finding.text.contains('{')), "{findings:#?}");
        (findings.iter().map(|finding| finding.id).collect(), findings[0].text.clone())
    }

    fn loaded(ops: &str) -> Vec<(&str, &str)> {
        let sched_ext = [
            ("sys/kernel/sched_ext/state", "enabled\n"),
            ("sys/kernel/sched_ext/enable_seq", "1\n"),
            ("sys/kernel/sched_ext/switch_all", "1\n"),
            ("sys/kernel/sched_ext/nr_rejected", "0\n"),
            ("sys/kernel/sched_ext/root/ops", ops),
        ];
        [GROUPS.as_slice(), &sched_ext].concat()
    }

    #[test]
    fn what_is_set_is_named_before_it_is_turned_on_and_while_it_runs() {
        let all = "box.service (CPUWeight=20), user.slice (CPUWeight=idle), box.service (CPUQuota=50%)";
        let (ids, text) = said(&GROUPS, GroupSupport::default());
        assert!(ids == ["control-groups/kept-when-on"] && text.contains(all), "{ids:?} {text}");
        let (ids, text) = said(&loaded("scherzo_1\n"), GroupSupport::default());
        assert!(ids == ["control-groups/kept"] && text.contains(all), "{ids:?} {text}");
    }

    #[test]
    fn what_ignores_them_is_named() {
        let study = GroupSupport { ignores_weights_by: Some("policy"), ..GroupSupport::default() };
        let (ids, text) = said(&loaded("scherzo_1\n"), study);
        assert!(ids == [IGNORED_BY_SETTING, "control-groups/limits-kept"], "{ids:?} {text}");
        assert!(text.contains("box.service (CPUWeight=20)") && !text.contains("CPUQuota"), "{text}");
        let (_, text) = said(&GROUPS, study);
        assert!(text.contains("unset policy"), "{text}");
        let partial = GroupSupport { partial: true, ..GroupSupport::default() };
        assert_eq!(said(&GROUPS, partial).0, ["control-groups/partial"]);
        let (ids, text) = said(&loaded("other\n"), GroupSupport::default());
        assert!(ids == ["control-groups/foreign"] && text.contains("other") && text.contains("CPUQuota=50%"), "{text}");
    }

    #[test]
    fn what_the_kernel_lacks_is_named() {
        assert_eq!(said(&[], GroupSupport::default()).0, ["control-groups/no-controller"]);
        let unused = [("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n")];
        assert_eq!(said(&unused, GroupSupport::default()).0, ["control-groups/none-set"]);
        let unlimited = [("sys/fs/cgroup/a.slice/cpu.weight", "100\n")];
        let ids = said(&unlimited, GroupSupport::default()).0;
        assert_eq!(ids, ["control-groups/none-set", "control-groups/no-limits"]);
    }

    #[test]
    fn groups_that_are_too_deep_are_told() {
        let nested = |level| format!("sys/fs/cgroup{}/cpu.weight", "/a".repeat(level));
        let ids = |level| said(&[(&nested(level), "100\n")], GroupSupport::default()).0;
        assert!(!ids(MAX_LEVELS).contains(&"control-groups/too-deep"), "{:?}", ids(MAX_LEVELS));
        assert!(ids(MAX_LEVELS + 1).contains(&"control-groups/too-deep"), "{:?}", ids(MAX_LEVELS + 1));
    }

    #[test]
    fn a_burst_is_told_with_its_limit() {
        let burst = ("sys/fs/cgroup/system.slice/box.service/cpu.max.burst", "20000\n");
        let (_, text) = said(&[GROUPS.as_slice(), &[burst]].concat(), GroupSupport::default());
        assert!(text.contains("box.service (CPUQuota=50%, cpu.max.burst=20000)"), "{text}");
    }

    #[test]
    fn autogroups_are_named_where_they_would_count() {
        let autogroups = ("proc/sys/kernel/sched_autogroup_enabled", "1\n");
        let root = ("sys/fs/cgroup/cgroup.controllers", "cpu\n");
        let ids = said(&[autogroups, root], GroupSupport::default()).0;
        assert_eq!(ids, ["control-groups/none-set", "control-groups/autogroups"]);
    }

    #[test]
    fn names_are_not_trusted_and_many_are_cut() {
        let weights = |number| (format!("sys/fs/cgroup/{number:02}\u{1b}[31m/cpu.weight"), "7\n");
        let files: Vec<_> = (0..=MAX_NAMED).map(weights).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let (_, text) = said(&files, GroupSupport::default());
        assert!(text.contains("00\u{fffd}[31m (CPUWeight=7)") && text.ends_with(", …."), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("12\u{fffd}"), "{text}");
    }

    #[test]
    fn limits_are_told_in_percent() {
        assert_eq!(quota("max 100000"), None);
        let said = |limit| quota(limit).unwrap();
        assert_eq!(
            (said("150000 100000"), said("500 100000"), said("1000 1000000")),
            ("150".into(), "0.5".into(), "0.1".into())
        );
        assert_eq!((quota("1 0"), quota("nonsense"), quota("-1 5")), (None, None, None));
    }
}
