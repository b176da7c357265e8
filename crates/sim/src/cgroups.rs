//! Control groups, as the kernel describes them to the scheduler.

use std::ptr::{NonNull, null_mut};

use crate::abi::{CfsBandwidth, CgroupState, CssSet, KernelCgroup, KernfsNode, ScxTaskGroup, TaskGroup};
use crate::profile::CgroupScheduling;
use crate::scenario::{Cgroup, Scenario};

/// `scale_load()`.
const LOAD_SHIFT: u32 = 10;
/// The number of the root; the others follow it.
const ROOT_ID: i32 = 1;

/// Memory of the kernel's, to which it has pointers of its own.
struct Kept<T>(NonNull<T>);

impl<T> Kept<T> {
    fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    fn raw(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Drop for Kept<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: it came from a box, this is the only owner, and no task of the machine runs any more.
        drop(unsafe { Box::from_raw(self.raw()) });
    }
}

/// A control group of the default hierarchy.
struct Directory {
    css_set: Kept<CssSet>,
    cgroup: Kept<KernelCgroup>,
    _kn: Kept<KernfsNode>,
    /// What the cpu controller has of it, if it has the controller.
    own: Option<Kept<TaskGroup>>,
    /// That, or the same of the nearest group around it.
    task_group: *mut TaskGroup,
}

impl Directory {
    #[allow(unsafe_code)]
    fn new(number: i32, around: Option<&Self>, own: Option<TaskGroup>) -> Self {
        let kn = Kept::new(KernfsNode { id: id_of(number) });
        // SAFETY: the group around it is there for as long as this.
        let parent = around.map_or(null_mut(), |around| unsafe { &raw mut (*around.cgroup.raw()).own });
        // SAFETY: the same.
        let level = around.map_or(0, |around| unsafe { (*around.cgroup.raw()).level } + 1);
        let own_state = CgroupState { cgroup: null_mut(), id: 0, parent };
        let cgroup = Kept::new(KernelCgroup { own: own_state, level, kn: kn.raw() });
        let own = own.map(|own| TaskGroup { css: CgroupState { cgroup: cgroup.raw(), id: number, parent }, ..own });
        let own = own.map(Kept::new);
        // SAFETY: nobody else knows it yet.
        unsafe { (*cgroup.raw()).own.cgroup = cgroup.raw() };
        let task_group = own.as_ref().map(Kept::raw).or(around.map(|around| around.task_group)).unwrap_or(null_mut());
        Self { css_set: Kept::new(CssSet { dfl_cgrp: cgroup.raw() }), cgroup, _kn: kn, own, task_group }
    }
}

/// The groups of a scenario. They keep their addresses, which the scheduler holds.
pub struct Cgroups {
    /// The root is the first.
    directories: Vec<Directory>,
    scheduling: CgroupScheduling,
}

impl Cgroups {
    /// Those of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let scheduling = scenario.machine.cgroup_scheduling;
        let mut made = vec![Directory::new(ROOT_ID, None, Some(unlimited(shares(100), null_mut())))];
        for cgroup in &scenario.cgroup {
            let cgroup = cgroup.get_ref();
            let parent = cgroup.parent.as_ref().and_then(|name| scenario.cgroup_index(name.get_ref()));
            let around = &made[parent.map_or(0, |index| index + 1)];
            let own = cgroup.controller.get_ref().then(|| task_group(cgroup, around.task_group, scheduling));
            let directory = Directory::new(ROOT_ID + made.len() as i32, Some(around), own);
            made.push(directory);
        }
        Self { directories: made, scheduling }
    }

    /// `cpu.weight` of a group is written.
    #[allow(unsafe_code)]
    pub fn set_weight(&mut self, index: usize, weight: u64) {
        if let Some(group) = &self.directories[index + 1].own {
            // SAFETY: the group lives as long as this, and the scheduler reads it during calls only.
            unsafe { (*group.raw()).shares = shares(weight) };
        }
    }

    /// What the cpu controller has of a group; null for the root, and where the kernel has no such thing.
    pub fn task_group(&self, index: Option<usize>) -> *mut TaskGroup {
        let index = index.filter(|_| self.scheduling != CgroupScheduling::None);
        index.map_or(null_mut(), |index| self.directories[index + 1].task_group)
    }

    /// By which tasks are in a group.
    pub fn css_set(&self, index: Option<usize>) -> *mut CssSet {
        self.directories[index.map_or(0, |index| index + 1)].css_set.raw()
    }
}

/// The id of the group in front, 0 if there is none.
pub fn id_in_front(scenario: &Scenario) -> u64 {
    let index = scenario.cgroup.iter().position(|cgroup| *cgroup.get_ref().in_front.get_ref());
    index.map_or(0, |index| id_of(ROOT_ID + 1 + index as i32))
}

/// The kernel's own ids are larger than those of controllers as well.
const fn id_of(number: i32) -> u64 {
    (1 << 32) + number as u64
}

/// `sched_weight_from_cgroup()`.
const fn shares(weight: u64) -> u64 {
    (weight * 1024).div_ceil(100) << LOAD_SHIFT
}

fn unlimited(shares: u64, parent: *mut TaskGroup) -> TaskGroup {
    TaskGroup {
        css: CgroupState { cgroup: null_mut(), id: 0, parent: null_mut() },
        idle: 0,
        shares,
        parent,
        bandwidth: CfsBandwidth { period_ns: 0, quota_ns: u64::MAX, burst_ns: 0 },
        scx: ScxTaskGroup::default(),
    }
}

/// Its limit is where the kernel has it: what it does not have says that there is none.
fn task_group(cgroup: &Cgroup, parent: *mut TaskGroup, scheduling: CgroupScheduling) -> TaskGroup {
    let group = unlimited(shares(*cgroup.weight.get_ref()), parent);
    if scheduling != CgroupScheduling::Full {
        let scx = ScxTaskGroup {
            period_us: *cgroup.period_us.get_ref(),
            quota_us: cgroup.quota_us.as_ref().map_or(u64::MAX, |quota_us| *quota_us.get_ref()),
            burst_us: *cgroup.burst_us.get_ref(),
        };
        return TaskGroup { scx, ..group };
    }
    let ns = |us: u64| us * 1_000;
    let bandwidth = CfsBandwidth {
        period_ns: ns(*cgroup.period_us.get_ref()) as i64,
        quota_ns: cgroup.quota_us.as_ref().map_or(u64::MAX, |quota_us| ns(*quota_us.get_ref())),
        burst_ns: ns(*cgroup.burst_us.get_ref()),
    };
    TaskGroup { bandwidth, ..group }
}
