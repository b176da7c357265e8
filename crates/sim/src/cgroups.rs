//! Control groups, as the kernel describes them to the scheduler.

use std::ptr::NonNull;

use crate::abi::{CfsBandwidth, ScxTaskGroup, TaskGroup};
use crate::scenario::{Cgroup, Scenario};

/// `scale_load()`.
const LOAD_SHIFT: u32 = 10;
/// The number of the root; the others follow it.
const ROOT_ID: i32 = 1;

/// The groups of a scenario. They keep their address, which the scheduler holds.
pub struct Cgroups {
    root: NonNull<TaskGroup>,
    groups: Vec<NonNull<TaskGroup>>,
}

impl Cgroups {
    /// Those of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let root = leak(TaskGroup {
            id: ROOT_ID,
            idle: 0,
            shares: 1024 << LOAD_SHIFT,
            parent: std::ptr::null_mut(),
            bandwidth: CfsBandwidth { period_ns: 0, quota_ns: u64::MAX, burst_ns: 0 },
            scx: ScxTaskGroup::default(),
        });
        let mut made = Self { root, groups: Vec::new() };
        for cgroup in &scenario.cgroup {
            let cgroup = cgroup.get_ref();
            let parent = cgroup.parent.as_ref().and_then(|name| scenario.cgroup_index(name.get_ref()));
            let parent = parent.map_or(root, |index| made.groups[index]);
            made.groups.push(leak(task_group(cgroup, ROOT_ID + 1 + made.groups.len() as i32, parent)));
        }
        made
    }

    /// `cpu.weight` of a group is written.
    #[allow(unsafe_code)]
    pub fn set_weight(&mut self, index: usize, weight: u64) {
        // SAFETY: the group lives as long as this, and the scheduler reads it during calls only.
        unsafe { self.groups[index].as_mut().shares = shares(weight) };
    }

    /// The address of a group; null for the root.
    pub fn of_index(&self, index: Option<usize>) -> *mut TaskGroup {
        index.map_or(std::ptr::null_mut(), |index| self.groups[index].as_ptr())
    }
}

fn task_group(cgroup: &Cgroup, id: i32, parent: NonNull<TaskGroup>) -> TaskGroup {
    let ns = |us: u64| us * 1_000;
    TaskGroup {
        id,
        idle: 0,
        shares: shares(*cgroup.weight.get_ref()),
        parent: parent.as_ptr(),
        bandwidth: CfsBandwidth {
            period_ns: ns(*cgroup.period_us.get_ref()) as i64,
            quota_ns: cgroup.quota_us.as_ref().map_or(u64::MAX, |quota_us| ns(*quota_us.get_ref())),
            burst_ns: ns(cgroup.burst_us),
        },
        scx: ScxTaskGroup::default(),
    }
}

/// `sched_weight_from_cgroup()`.
const fn shares(weight: u64) -> u64 {
    (weight * 1024).div_ceil(100) << LOAD_SHIFT
}

fn leak(group: TaskGroup) -> NonNull<TaskGroup> {
    NonNull::from(Box::leak(Box::new(group)))
}

impl Drop for Cgroups {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        for group in self.groups.drain(..).chain([self.root]) {
            // SAFETY: it came from a box, this is the only owner, and no task of the machine runs any more.
            drop(unsafe { Box::from_raw(group.as_ptr()) });
        }
    }
}
