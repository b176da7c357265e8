//! Where groups of loads stand among the control groups: what the reference solver divides.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::solver::{IDLE_WEIGHT, ShareNode};

/// Where version 2 of control groups is mounted.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// A group of the default weight counts as much as a task at nice 0.
const WEIGHT_SCALE: f64 = 1024.0 / 100.0;

/// The control groups that hold tasks, and their ancestors.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    mount: PathBuf,
    /// Of tasks that are not moved.
    own: String,
    top: Level,
}

#[derive(Debug, Default)]
struct Level {
    tasks: Vec<usize>,
    groups: Vec<(String, CpuSettings, Level)>,
}

/// What a control group's files say about CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuSettings {
    weight: f64,
    limit: f64,
}

impl Hierarchy {
    /// Of this machine, as it is now; no tasks yet.
    pub(crate) fn read() -> Result<Self> {
        let text = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
        let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
        Ok(Self::at(Path::new(CGROUP_ROOT), own))
    }

    fn at(mount: &Path, own: &str) -> Self {
        Self { mount: mount.to_owned(), own: own.trim_matches('/').to_owned(), top: Level::default() }
    }

    /// Puts a task into a control group, or where this process is.
    pub(crate) fn add(&mut self, task: usize, cgroup: Option<&str>) {
        let path = cgroup.unwrap_or(&self.own);
        let mut dir = self.mount.clone();
        let mut level = &mut self.top;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            dir.push(name);
            // Without the controller, its tasks compete in the nearest ancestor that has it.
            if let Some(settings) = CpuSettings::read(&dir) {
                level = level.child(&dir.to_string_lossy(), settings);
            }
        }
        level.tasks.push(task);
    }

    /// For the solver.
    pub(crate) fn nodes(&self) -> Vec<ShareNode> {
        self.top.nodes()
    }
}

impl Level {
    fn child(&mut self, name: &str, settings: CpuSettings) -> &mut Self {
        let found = self.groups.iter().position(|(theirs, ..)| theirs == name);
        let index = found.unwrap_or_else(|| {
            self.groups.push((name.to_owned(), settings, Self::default()));
            self.groups.len() - 1
        });
        &mut self.groups[index].2
    }

    fn nodes(&self) -> Vec<ShareNode> {
        let group = |(_, settings, level): &(String, CpuSettings, Self)| ShareNode::Group {
            weight: settings.weight,
            limit: settings.limit,
            children: level.nodes(),
        };
        self.tasks.iter().map(|task| ShareNode::Task(*task)).chain(self.groups.iter().map(group)).collect()
    }
}

impl CpuSettings {
    /// `None` where the CPU controller is not enabled.
    fn read(dir: &Path) -> Option<Self> {
        let file = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        let weight = file("cpu.weight").trim().parse::<f64>().ok()?;
        let is_idle = file("cpu.idle").trim() == "1";
        Some(Self {
            weight: if is_idle { IDLE_WEIGHT } else { weight * WEIGHT_SCALE },
            limit: limit(&file("cpu.max")).unwrap_or(f64::INFINITY),
        })
    }
}

/// CPUs, of "QUOTA PERIOD"; `None` for "max PERIOD".
fn limit(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

/// Moves this process into a control group.
pub(crate) fn enter(cgroup: &str) -> Result<()> {
    let file = Path::new(CGROUP_ROOT).join(cgroup).join("cgroup.procs");
    fs::write(&file, std::process::id().to_string()).with_context(|| format!("cannot enter {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup(mount: &Path, path: &str, files: &[(&str, &str)]) {
        let dir = mount.join(path);
        fs::create_dir_all(&dir).unwrap();
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
    }

    #[test]
    fn limits_are_parts_of_a_cpu() {
        assert_eq!(limit("50000 100000\n"), Some(0.5));
        assert_eq!(limit("max 100000\n"), None);
        assert_eq!(limit(""), None);
    }

    #[test]
    fn tasks_stand_where_their_control_group_is() {
        let mount = tempfile::tempdir().unwrap();
        cgroup(mount.path(), "a", &[("cpu.weight", "100\n"), ("cpu.max", "max 100000\n"), ("cpu.idle", "0\n")]);
        cgroup(mount.path(), "a/idle", &[("cpu.weight", "100\n"), ("cpu.idle", "1\n"), ("cpu.max", "20000 100000\n")]);
        cgroup(mount.path(), "a/no-controller", &[]);
        let mut hierarchy = Hierarchy::at(mount.path(), "/a");
        for (task, path) in [None, Some("a/idle"), Some("a/no-controller"), Some("")].into_iter().enumerate() {
            hierarchy.add(task, path);
        }
        let nodes = format!("{:?}", hierarchy.nodes());
        let idle = "Group { weight: 3.0, limit: 0.2, children: [Task(1)] }";
        let a = format!("Group {{ weight: 1024.0, limit: inf, children: [Task(0), Task(2), {idle}] }}");
        assert_eq!(nodes, format!("[Task(3), {a}]"));
    }
}
