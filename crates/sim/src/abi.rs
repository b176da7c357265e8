//! What Rust and the scheduler's C share: types, the table of callbacks, and the functions of `glue.c`.

use std::ffi::{c_char, c_void};

/// Most CPUs of a machine.
pub const MAX_CPUS: usize = 1024;

/// A set of CPUs, as the kernel lays it out.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuMask {
    /// One bit per CPU.
    pub bits: [u64; MAX_CPUS / 64],
}

impl CpuMask {
    /// No CPU.
    pub const EMPTY: Self = Self { bits: [0; MAX_CPUS / 64] };

    /// These CPUs.
    pub fn of(cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut mask = Self::EMPTY;
        for cpu in cpus {
            mask.set(cpu, true);
        }
        mask
    }

    /// Whether the CPU is in it.
    pub const fn has(&self, cpu: usize) -> bool {
        cpu < MAX_CPUS && self.bits[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    /// Adds or removes a CPU.
    pub const fn set(&mut self, cpu: usize, present: bool) {
        let bit = 1 << (cpu % 64);
        if present {
            self.bits[cpu / 64] |= bit;
        } else {
            self.bits[cpu / 64] &= !bit;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    /// Those in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { bits: std::array::from_fn(|index| self.bits[index] & other.bits[index]) }
    }

    /// The first CPU from `start` on.
    pub fn next_from(&self, start: usize) -> Option<usize> {
        let mut word = start / 64;
        let mut bits = self.bits.get(word)? & (u64::MAX << (start % 64));
        while bits == 0 {
            word += 1;
            bits = *self.bits.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.first(), |cpu| self.next_from(cpu + 1))
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<usize> {
        self.next_from(0)
    }
}

/// `struct cfs_bandwidth`.
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "units are part of names")]
pub struct CfsBandwidth {
    /// Length of a period.
    pub period_ns: i64,
    /// CPU time in each, [`u64::MAX`] without limit.
    pub quota_ns: u64,
    /// What may be saved up beside that.
    pub burst_ns: u64,
}

/// `struct scx_task_group`.
#[repr(C)]
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "units are part of names")]
pub struct ScxTaskGroup {
    /// The same as in [`CfsBandwidth`], for kernels that have no such thing.
    pub period_us: u64,
    /// See there.
    pub quota_us: u64,
    /// See there.
    pub burst_us: u64,
}

/// `struct cgroup_subsys_state`.
#[repr(C)]
pub struct CgroupState {
    /// The control group that it is of.
    pub cgroup: *mut KernelCgroup,
    /// Its number.
    pub id: i32,
    /// That of the control group around it.
    pub parent: *mut Self,
}

/// `struct kernfs_node`.
#[repr(C)]
pub struct KernfsNode {
    /// The number of a control group in the default hierarchy.
    pub id: u64,
}

/// `struct cgroup`.
#[repr(C)]
pub struct KernelCgroup {
    /// Its own state, of no controller.
    pub own: CgroupState,
    /// How many groups are around it, the root's included.
    pub level: i32,
    /// Its directory.
    pub kn: *mut KernfsNode,
}

/// `struct css_set`.
#[repr(C)]
pub struct CssSet {
    /// The control group in the default hierarchy.
    pub dfl_cgrp: *mut KernelCgroup,
}

/// `struct task_group`.
#[repr(C)]
pub struct TaskGroup {
    /// What the cpu controller has of its control group.
    pub css: CgroupState,
    /// Marked as idle.
    pub idle: i32,
    /// 1024 times its weight.
    pub shares: u64,
    /// The group around it; none is the root itself.
    pub parent: *mut Self,
    /// Its limit.
    pub bandwidth: CfsBandwidth,
    /// Its limit, as sched_ext has noted it.
    pub scx: ScxTaskGroup,
}

/// `struct sched_ext_entity`.
#[repr(C)]
pub struct SchedExtEntity {
    /// What is left of the slice.
    pub slice: u64,
    /// Place in an ordered queue.
    pub dsq_vtime: u64,
    /// 1 to 10000; 100 is nice 0.
    pub weight: u32,
    /// `SCX_TASK_*`.
    pub flags: u32,
}

/// `struct task_struct`, with the fields that the scheduler uses.
#[repr(C)]
pub struct TaskStruct {
    /// `TASK_*`, as the task goes to sleep.
    pub state: u32,
    /// `PF_*`.
    pub flags: u32,
    /// Below 100: real-time.
    pub prio: i32,
    /// 120 for nice 0.
    pub static_prio: i32,
    /// `SCHED_*`.
    pub policy: u32,
    /// CPUs in the mask.
    pub nr_cpus_allowed: i32,
    /// Thread id.
    pub pid: i32,
    /// Process id.
    pub tgid: i32,
    /// `EXIT_*` once it has ended.
    pub exit_state: i32,
    /// Voluntary switches.
    pub nvcsw: u64,
    /// Whether it has asked for a slice with `sched_setattr()`.
    pub custom_slice: u8,
    /// CPU time, in nanoseconds, up to the last tick or switch.
    pub sum_exec_runtime: u64,
    /// The slice that it has asked for, in nanoseconds.
    pub slice_ns: u64,
    /// The task that forked it.
    pub real_parent: *mut Self,
    /// Where it may run.
    pub cpus_ptr: *mut CpuMask,
    /// Its group; none is in the root.
    pub sched_task_group: *mut TaskGroup,
    /// Its control groups; none is in the root.
    pub cgroups: *mut CssSet,
    /// What sched_ext keeps of it.
    pub scx: SchedExtEntity,
    /// Its name.
    pub comm: [u8; 16],
    /// May not be moved for a moment.
    pub migration_disabled: u16,
    /// Index in the machine's table of tasks.
    pub sim_id: u32,
    /// Memory of the scheduler's task storage.
    pub sim_storage: *mut c_void,
}

/// `struct scx_cpu_release_args`.
#[repr(C)]
pub struct CpuReleaseArgs {
    /// `SCX_CPU_PREEMPT_*`.
    pub reason: u32,
    /// The task that takes the CPU.
    pub task: *mut TaskStruct,
}

/// `struct scx_init_task_args`.
#[repr(C)]
pub struct InitTaskArgs {
    /// The task was forked, rather than there already.
    pub fork: bool,
}

/// `struct scx_exit_task_args`.
#[repr(C)]
pub struct ExitTaskArgs {
    /// The task never ran.
    pub cancelled: bool,
}

/// `struct scx_exit_info`.
#[repr(C)]
pub struct ExitInfo {
    /// `SCX_EXIT_*`.
    pub kind: u32,
    /// The scheduler's own code.
    pub exit_code: i64,
}

type TaskOp = Option<unsafe extern "C" fn(*mut TaskStruct)>;
type TaskFlagsOp = Option<unsafe extern "C" fn(*mut TaskStruct, u64)>;
type CpuOp = Option<unsafe extern "C" fn(i32)>;

/// `struct sched_ext_ops`. A field that is `None` was not defined by the scheduler.
#[repr(C)]
pub struct Ops {
    pub(crate) select_cpu: Option<unsafe extern "C" fn(*mut TaskStruct, i32, u64) -> i32>,
    pub(crate) enqueue: TaskFlagsOp,
    pub(crate) dequeue: TaskFlagsOp,
    pub(crate) dispatch: Option<unsafe extern "C" fn(i32, *mut TaskStruct)>,
    pub(crate) tick: TaskOp,
    pub(crate) runnable: TaskFlagsOp,
    pub(crate) running: TaskOp,
    pub(crate) stopping: Option<unsafe extern "C" fn(*mut TaskStruct, bool)>,
    pub(crate) quiescent: TaskFlagsOp,
    pub(crate) set_weight: Option<unsafe extern "C" fn(*mut TaskStruct, u32)>,
    pub(crate) set_cpumask: Option<unsafe extern "C" fn(*mut TaskStruct, *mut CpuMask)>,
    pub(crate) update_idle: Option<unsafe extern "C" fn(i32, bool)>,
    pub(crate) cpu_acquire: Option<unsafe extern "C" fn(i32, *mut c_void)>,
    pub(crate) cpu_release: Option<unsafe extern "C" fn(i32, *mut CpuReleaseArgs)>,
    pub(crate) init_task: Option<unsafe extern "C" fn(*mut TaskStruct, *mut InitTaskArgs) -> i32>,
    pub(crate) exit_task: Option<unsafe extern "C" fn(*mut TaskStruct, *mut ExitTaskArgs)>,
    pub(crate) enable: TaskOp,
    pub(crate) disable: TaskOp,
    pub(crate) cpu_online: CpuOp,
    pub(crate) cpu_offline: CpuOp,
    pub(crate) init: Option<unsafe extern "C" fn() -> i32>,
    pub(crate) exit: Option<unsafe extern "C" fn(*mut ExitInfo)>,
    pub(crate) dispatch_max_batch: u32,
    pub(crate) flags: u64,
    pub(crate) timeout_ms: u32,
    pub(crate) name: [c_char; 128],
}

impl Ops {
    /// `SCX_OPS_KEEP_BUILTIN_IDLE`.
    pub(crate) const KEEP_BUILTIN_IDLE: u64 = 0x1;
    /// `SCX_OPS_ENQ_LAST`.
    pub(crate) const ENQ_LAST: u64 = 0x2;
    /// `SCX_OPS_ENQ_EXITING`.
    pub(crate) const ENQ_EXITING: u64 = 0x4;
    /// `SCX_OPS_ENQ_MIGRATION_DISABLED`.
    pub(crate) const ENQ_MIGRATION_DISABLED: u64 = 0x10;
    /// Those that are emulated.
    pub(crate) const KNOWN_FLAGS: u64 =
        Self::KEEP_BUILTIN_IDLE | Self::ENQ_LAST | Self::ENQ_EXITING | Self::ENQ_MIGRATION_DISABLED;

    /// Whether one of these is set.
    pub(crate) const fn has_flag(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// A scheduler that leaves everything to the kernel.
    pub(crate) const NONE: Self = Self {
        select_cpu: None,
        enqueue: None,
        dequeue: None,
        dispatch: None,
        tick: None,
        runnable: None,
        running: None,
        stopping: None,
        quiescent: None,
        set_weight: None,
        set_cpumask: None,
        update_idle: None,
        cpu_acquire: None,
        cpu_release: None,
        init_task: None,
        exit_task: None,
        enable: None,
        disable: None,
        cpu_online: None,
        cpu_offline: None,
        init: None,
        exit: None,
        dispatch_max_batch: 0,
        flags: 0,
        timeout_ms: 0,
        name: [0; 128],
    };
}

/// `struct sim_config` of `glue.c`.
#[repr(C)]
pub struct BpfConfig {
    pub(crate) engine_pid: u32,
    pub(crate) nr_cpus: u32,
    pub(crate) nr_llcs: u32,
    pub(crate) fast_llc: u32,
    pub(crate) cores_differ: u32,
    pub(crate) reenqueue_anywhere: u32,
    pub(crate) schedutil: u32,
    pub(crate) broken: u32,
    pub(crate) absent: u32,
}

/// `struct sim_in_flight_counts` of `glue.c`.
#[repr(C)]
pub struct InFlightCounts {
    pub(crate) nr_bits: i64,
    pub(crate) nr_owned: i64,
}

/// Called for a record of the user ring buffer.
pub type DrainCallback = unsafe extern "C" fn(*mut c_void, *mut c_void) -> i64;

// SAFETY: the signatures are those of glue.c and maps.c. Functions that may call back into the machine are only called through
// `Machine::bpf()`.
#[allow(unsafe_code)]
unsafe extern "C" {
    pub(crate) fn sim_bpf_reset();
    pub(crate) fn sim_maps_reset();
    pub(crate) fn sim_bpf_configure(config: *mut BpfConfig);
    pub(crate) fn sim_bpf_describe_cpu(cpu: u32, llc: u32, slow: u32);
    pub(crate) fn sim_bpf_control() -> *mut scherzo_wire::layout::ControlPage;
    pub(crate) fn sim_bpf_slots() -> *mut scherzo_wire::layout::Slot;
    pub(crate) fn sim_bpf_cpu_stats() -> *mut scherzo_wire::layout::CpuStats;
    pub(crate) fn sim_bpf_in_flight_since(p: *mut TaskStruct) -> u64;
    pub(crate) fn sim_bpf_nr_in_flight() -> i64;
    pub(crate) fn sim_bpf_in_flight_counts() -> InFlightCounts;
    pub(crate) fn sim_bpf_engine_due_ns() -> u64;
    pub(crate) fn sim_max_wait_ns(nr_fair: u64, nr_cpus: u64) -> u64;
    pub(crate) fn sim_bpf_is_park(dsq_id: u64) -> bool;
    pub(crate) fn sim_bpf_is_prompt(dsq_id: u64) -> bool;
    pub(crate) safe fn sim_is_low_power(cpu: i32) -> bool;
    pub(crate) fn sim_bpf_ops() -> *mut Ops;
    pub(crate) fn sim_bpf_sched_switch(preempt: bool, prev: *mut TaskStruct, next: *mut TaskStruct);
    pub(crate) fn sim_bpf_doorbell();
    pub(crate) fn sim_bpf_timer_fire(timer: *mut c_void);
    pub(crate) fn sim_bpf_call_drain(
        callback: DrainCallback,
        context: *mut c_void,
        data: *mut c_void,
        size: u32,
    ) -> i64;
    #[cfg(test)]
    static sim_layout: [u64; 8];
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_agree_with_the_compiler() {
        let ours = [
            size_of::<TaskStruct>(),
            offset_of!(TaskStruct, nvcsw),
            offset_of!(TaskStruct, cpus_ptr),
            offset_of!(TaskStruct, scx),
            offset_of!(TaskStruct, comm),
            offset_of!(TaskStruct, sim_storage),
            size_of::<Ops>(),
            offset_of!(Ops, exit),
        ];
        #[allow(unsafe_code)]
        // SAFETY: a constant table of glue.c with eight numbers.
        let theirs = unsafe { sim_layout };
        assert_eq!(ours.map(|offset| offset as u64), theirs);
    }

    #[test]
    fn the_next_cpu_is_found_across_words() {
        let mask = CpuMask::of([3, 64, 1023]);
        assert_eq!([0, 4, 65].map(|start| mask.next_from(start)), [Some(3), Some(64), Some(1023)]);
        assert_eq!(mask.next_from(1024), None);
        assert_eq!((mask.count(), CpuMask::EMPTY.first()), (3, None));
    }
}
