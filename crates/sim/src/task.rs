//! A task of the machine: what the kernel keeps of it, and how far it is with its work.

use std::ptr::NonNull;

use crate::abi::{CpuMask, CssSet, SchedExtEntity, TaskGroup, TaskStruct};
use crate::scenario::{SchedPolicySpec, SleepState};

/// Index in the machine's table of tasks.
pub type TaskId = usize;

/// Which scheduling class has a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskClass {
    /// sched_ext.
    Ext,
    /// Real-time, above it.
    RealTime,
    /// A CPU's thread that moves tasks, above all.
    Stop,
}

/// How a task stands with the run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for something other than a CPU.
    Sleeping,
    /// Wants a CPU, or has it.
    Runnable,
    /// Gone.
    Dead,
}

/// In which of the kernel's queues a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPlace {
    /// In none: it runs, sleeps, or the scheduler has it in hand.
    None,
    /// In the local queue of a CPU.
    Local(usize),
    /// In a queue of the scheduler's or the global one, under this key.
    Queue(u64, (i64, u64)),
    /// Inserted from elsewhere into the local queue of this CPU, which has yet to take it in.
    Deferred(usize),
    /// In none: this CPU moves it to a local queue (`holding_cpu`), out of this one (`p->scx.dsq`) if it was in one.
    Held(usize, Option<u64>),
    /// In the queue that a CPU has while the scheduler is passed by.
    Bypassed(usize),
}

/// Whether the scheduler has the task in hand: `p->scx.ops_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsState {
    /// It has not.
    None,
    /// It is being told (`SCX_OPSS_QUEUEING`).
    Queueing,
    /// It has (`SCX_OPSS_QUEUED`).
    Queued,
    /// It has dispatched the task, which is on its way to a queue (`SCX_OPSS_DISPATCHING`).
    Dispatching,
}

/// A direct dispatch that was asked for, and is carried out when the task is enqueued.
#[derive(Clone, Copy, Debug)]
pub struct DirectDispatch {
    /// To this queue.
    pub dsq_id: u64,
    /// `SCX_ENQ_*`.
    pub flags: u64,
    /// By `dsq_vtime`.
    pub by_vtime: bool,
}

/// The kernel's structures of one task. They keep their address, which the scheduler holds.
#[repr(C)]
struct Block {
    task: TaskStruct,
    mask: CpuMask,
    /// The CPU that it may not leave while its migration is disabled.
    own_cpu: CpuMask,
}

/// What the task is, in the kernel's terms.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Shown in reports, and cut to 15 bytes in the kernel.
    pub name: String,
    /// `PF_*`.
    pub flags: u32,
    /// -20 to 19.
    pub nice: i32,
    /// The slice that it asks for, in nanoseconds.
    pub slice_ns: Option<u64>,
    /// Its class.
    pub class: TaskClass,
    /// The policy that it asks for, in that class.
    pub policy: SchedPolicySpec,
    /// Where it may run.
    pub mask: CpuMask,
    /// Threads of one process have one.
    pub tgid: i32,
    /// Its control group; null in the root.
    pub task_group: *mut TaskGroup,
    /// Its control groups.
    pub cgroups: *mut CssSet,
}

/// A task.
#[expect(clippy::struct_excessive_bools, reason = "states of the kernel's that do not depend on each other")]
pub struct Task {
    block: NonNull<Block>,
    /// Its class.
    pub class: TaskClass,
    /// Its state.
    pub state: State,
    /// The CPU whose run queue it belongs to.
    pub cpu: usize,
    /// It is the current task of that CPU.
    pub on_cpu: bool,
    /// Whether the scheduler has it.
    pub ops_state: OpsState,
    /// It counts in `InFlightTally`.
    pub is_tallied: bool,
    /// It is on its way to another run queue (`TASK_ON_RQ_MIGRATING`).
    pub is_migrating: bool,
    /// The scheduler is to be told when a local queue takes it (`SCX_TASK_IN_CUSTODY`, from 7.1).
    pub in_custody: bool,
    /// Counts how often that was so: an insertion that was meant for an earlier time is dropped.
    pub queue_seq: u64,
    /// Its queue.
    pub place: TaskPlace,
    /// In it since.
    pub queued_at: u64,
    /// See `Invariants::waiting`.
    pub waiting_index: Option<usize>,
    /// See there.
    pub direct: Option<DirectDispatch>,
    /// Re-enqueues since it last ran.
    pub nr_reenqueued: u32,
    /// What is left of the work that it does before it decides anew.
    pub remaining_ns: u64,
    /// CPU time so far.
    pub ran_ns: u64,
    /// CPU time when measuring began.
    pub ran_before_ns: u64,
    /// Runnable and not running since then.
    pub waits_since: Option<u64>,
    /// The policy answers for its wait since then: see `Machine::overdue_wait()`.
    pub answerable_since: u64,
    /// What CPUs had had for others then.
    pub withheld_before_ns: u64,
    /// A limit has held it up since it ran last.
    pub was_parked: bool,
    /// It was woken, and has not run since.
    pub woken: bool,
    /// The last time by a task that then waited itself.
    pub handed_over: bool,
    /// The CPU that it ran on last.
    pub last_cpu: Option<usize>,
    /// It looks at its CPU time to see how much it has done, and does not care what its CPU did meanwhile.
    pub goes_by_cpu_time: bool,
    /// Index in the list of behaviours.
    pub group: usize,
}

/// `sched_prio_to_weight` of kernel/sched/core.c.
const NICE_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The kernel's weight of a nice level: 1024 for nice 0.
pub fn weight_of_nice(nice: i32) -> u32 {
    NICE_WEIGHTS[(nice.clamp(-20, 19) + 20) as usize]
}

/// What sched_ext makes of it: `sched_weight_to_cgroup()`, 100 for nice 0.
fn scx_weight_of_nice(nice: i32) -> u32 {
    scx_weight(weight_of_nice(nice))
}

fn scx_weight(weight: u32) -> u32 {
    ((weight * 100 + 512) / 1024).clamp(1, 10_000)
}

fn scx_weight_of(identity: &Identity) -> u32 {
    if identity.policy == SchedPolicySpec::Idle { scx_weight(WEIGHT_IDLE) } else { scx_weight_of_nice(identity.nice) }
}

/// `WEIGHT_IDLEPRIO`.
pub const WEIGHT_IDLE: u32 = 3;

const SCHED_FIFO: u32 = 1;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;
const SCHED_EXT: u32 = 7;

/// `task_struct.policy`.
fn policy_number(identity: &Identity) -> u32 {
    if identity.class == TaskClass::Ext { number_of(identity.policy) } else { SCHED_FIFO }
}

fn number_of(policy: SchedPolicySpec) -> u32 {
    match policy {
        SchedPolicySpec::Normal => SCHED_EXT,
        SchedPolicySpec::Batch => SCHED_BATCH,
        SchedPolicySpec::Idle => SCHED_IDLE,
    }
}

impl Task {
    /// A task that has not been woken yet.
    pub fn new(id: TaskId, pid: i32, group: usize, identity: &Identity) -> Self {
        let mut comm = [0; 16];
        for (to, from) in comm[..15].iter_mut().zip(identity.name.bytes()) {
            *to = from;
        }
        let block = Box::new(Block {
            task: TaskStruct {
                state: 0,
                flags: identity.flags,
                prio: match identity.class {
                    TaskClass::Ext => 120 + identity.nice,
                    TaskClass::RealTime => 49,
                    TaskClass::Stop => 0,
                },
                static_prio: 120 + identity.nice,
                policy: policy_number(identity),
                nr_cpus_allowed: identity.mask.count() as i32,
                pid,
                tgid: identity.tgid,
                exit_state: 0,
                nvcsw: 0,
                custom_slice: identity.slice_ns.is_some().into(),
                sum_exec_runtime: 0,
                slice_ns: identity.slice_ns.unwrap_or(0),
                real_parent: std::ptr::null_mut(),
                cpus_ptr: std::ptr::null_mut(),
                sched_task_group: identity.task_group,
                cgroups: identity.cgroups,
                scx: SchedExtEntity { slice: 0, dsq_vtime: 0, weight: scx_weight_of(identity), flags: 0 },
                comm,
                migration_disabled: 0,
                sim_id: id as u32,
                sim_storage: std::ptr::null_mut(),
            },
            mask: identity.mask.clone(),
            own_cpu: CpuMask::EMPTY,
        });
        let block = NonNull::from(Box::leak(block));
        let at = block.as_ptr();
        #[allow(unsafe_code)]
        // SAFETY: the block was just allocated, nobody else has it, and each field is written through its own place.
        unsafe {
            (*at).task.cpus_ptr = &raw mut (*at).mask;
            // Like the first process; a fork says otherwise.
            (*at).task.real_parent = &raw mut (*at).task;
        }
        Self {
            block,
            class: identity.class,
            state: State::Sleeping,
            cpu: identity.mask.first().unwrap_or(0),
            on_cpu: false,
            ops_state: OpsState::None,
            is_tallied: false,
            is_migrating: false,
            in_custody: false,
            queue_seq: 0,
            place: TaskPlace::None,
            queued_at: 0,
            waiting_index: None,
            direct: None,
            nr_reenqueued: 0,
            remaining_ns: 0,
            ran_ns: 0,
            ran_before_ns: 0,
            waits_since: None,
            answerable_since: 0,
            withheld_before_ns: 0,
            was_parked: false,
            woken: false,
            handed_over: false,
            last_cpu: None,
            goes_by_cpu_time: false,
            group,
        }
    }

    /// The address that the scheduler knows it by.
    pub fn raw(&self) -> *mut TaskStruct {
        self.block.as_ptr().cast()
    }

    /// The kernel's structure.
    #[allow(unsafe_code)]
    pub fn kernel(&self) -> &TaskStruct {
        // SAFETY: the block lives as long as `self`; the scheduler writes to it only during calls, when nobody holds this.
        unsafe { &self.block.as_ref().task }
    }

    /// The kernel's structure, to change it.
    #[allow(unsafe_code)]
    pub fn kernel_mut(&mut self) -> &mut TaskStruct {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { &mut self.block.as_mut().task }
    }

    /// Where it may run: `cpus_ptr`.
    #[allow(unsafe_code)]
    pub fn mask(&self) -> &CpuMask {
        // SAFETY: as above; the scheduler only reads the mask, which is one of the two in the block.
        unsafe { &*self.kernel().cpus_ptr }
    }

    /// `set_cpus_allowed_common()`.
    #[allow(unsafe_code)]
    pub fn allow(&mut self, mask: &CpuMask) {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { self.block.as_mut().mask = mask.clone() };
        self.kernel_mut().nr_cpus_allowed = mask.count() as i32;
    }

    /// `migrate_disable_switch()`: while its migration is disabled it has one CPU only, from when it loses that.
    #[allow(unsafe_code)]
    pub fn stay_on(&mut self, cpu: usize) {
        // SAFETY: as above; the pointer stays within the block.
        unsafe {
            let block = self.block.as_mut();
            block.own_cpu = CpuMask::of([cpu]);
            block.task.cpus_ptr = &raw mut block.own_cpu;
        }
    }

    /// `migrate_enable()`.
    #[allow(unsafe_code)]
    pub fn leave_again(&mut self) {
        // SAFETY: as above.
        unsafe {
            let block = self.block.as_mut();
            block.task.cpus_ptr = &raw mut block.mask;
        }
    }

    /// Its new nice level, and the weight that follows from it: `set_user_nice()`, `reweight_task_scx()`.
    pub fn renice(&mut self, nice: i32) {
        let idle = self.kernel().policy == SCHED_IDLE;
        let task = self.kernel_mut();
        task.prio = 120 + nice;
        task.static_prio = 120 + nice;
        task.scx.weight = if idle { scx_weight(WEIGHT_IDLE) } else { scx_weight_of_nice(nice) };
    }

    /// Its new policy: `__setscheduler_params()`.
    pub fn set_policy(&mut self, policy: SchedPolicySpec) {
        self.kernel_mut().policy = number_of(policy);
        self.renice(self.kernel().static_prio - 120);
    }

    /// It sleeps from now on.
    pub fn go_to_sleep(&mut self, state: SleepState) {
        self.state = State::Sleeping;
        let kernel = self.kernel_mut();
        kernel.state = match state {
            SleepState::Interruptible => TASK_INTERRUPTIBLE,
            SleepState::Uninterruptible => TASK_UNINTERRUPTIBLE,
        };
        kernel.nvcsw += 1;
    }

    /// Whether it may run there.
    pub fn may_run_on(&self, cpu: usize) -> bool {
        self.mask().has(cpu)
    }

    /// Whether it is sched_ext's, and wants a CPU.
    pub fn is_queued(&self) -> bool {
        self.kernel().scx.flags & TASK_QUEUED != 0
    }

    /// Sets what [`Self::is_queued`] asks.
    pub fn set_queued(&mut self, queued: bool) {
        let flags = &mut self.kernel_mut().scx.flags;
        *flags = if queued { *flags | TASK_QUEUED } else { *flags & !TASK_QUEUED };
    }
}

/// `SCX_TASK_QUEUED`.
const TASK_QUEUED: u32 = 1;
const TASK_INTERRUPTIBLE: u32 = 1;
const TASK_UNINTERRUPTIBLE: u32 = 2;

impl Drop for Task {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: it came from a box, and this is the only owner.
        drop(unsafe { Box::from_raw(self.block.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_levels_have_the_weights_of_the_kernel() {
        assert_eq!([-20, 0, 5, 19].map(scx_weight_of_nice), [8668, 100, 33, 1]);
    }
}
