//! One CPU.

use std::collections::{BTreeSet, VecDeque};

use crate::abi::CpuMask;
use crate::scenario::SchedPolicySpec;
use crate::stats::PERFORMANCE_ALL;
use crate::task::{Identity, Task, TaskClass, TaskId};

/// `PF_IDLE | PF_KTHREAD`.
const IDLE_TASK_FLAGS: u32 = 0x0020_0002;

/// A CPU, with its run queue.
#[expect(clippy::struct_excessive_bools, reason = "flags of the kernel's that do not depend on each other")]
pub struct Cpu {
    /// `rq->curr`: the task that has it; none is idle.
    pub curr: Option<TaskId>,
    /// `current`: the same but for the last steps of a switch.
    pub current: Option<TaskId>,
    /// Runs when nobody else does.
    pub idle_task: Task,
    /// The local queue.
    pub local: VecDeque<TaskId>,
    /// Runnable real-time tasks, the running one included.
    pub realtime: VecDeque<TaskId>,
    /// When it is going to choose anew.
    pub resched_at: Option<u64>,
    /// Switches until then.
    pub busy_until: u64,
    /// Which run of a task this is.
    pub run: u64,
    /// CPU time is accounted up to here.
    pub charged_until: u64,
    /// Work is done up to here.
    pub worked_until: u64,
    /// Its periodic timer runs.
    pub ticks: bool,
    /// A higher class has taken it, and `ops.cpu_release` has said so.
    pub released: bool,
    /// It is choosing its next task.
    pub in_balance: bool,
    /// The current task goes on.
    pub keeps: bool,
    /// Idle since.
    pub idle_since: u64,
    /// Interrupt work is on its way.
    pub interrupt_pending: bool,
    /// CPUs to be kicked by that, and whether their task is to be preempted.
    pub kicks: BTreeSet<(usize, bool)>,
    /// To be kicked by that if idle then.
    pub idle_kicks: BTreeSet<usize>,
    /// Inserted into its local queue from elsewhere.
    pub deferred: Vec<TaskId>,
    /// The frequency that it asks for.
    pub performance: u32,
    /// Its local queue is to be enqueued anew.
    pub reenqueues: bool,
    /// Waiting here while the scheduler is passed by.
    pub bypassed: VecDeque<TaskId>,
    /// Its thread that moves tasks.
    pub stopper: Option<TaskId>,
    /// To be moved by that.
    pub pushed: Vec<TaskId>,
    /// It goes offline since.
    pub leaves_since: u64,
    /// The host of a virtual machine has it until then.
    pub stolen_until: u64,
}

impl Cpu {
    /// One that idles since now.
    pub fn new(cpu: usize, now: u64) -> Self {
        let identity = Identity {
            name: format!("swapper/{cpu}"),
            flags: IDLE_TASK_FLAGS,
            nice: 0,
            slice_ns: None,
            policy: SchedPolicySpec::Normal,
            class: TaskClass::Ext,
            mask: CpuMask::of([cpu]),
            tgid: 0,
            task_group: std::ptr::null_mut(),
            cgroups: std::ptr::null_mut(),
        };
        Self {
            curr: None,
            current: None,
            idle_task: Task::new(0, 0, 0, &identity),
            local: VecDeque::new(),
            realtime: VecDeque::new(),
            resched_at: None,
            busy_until: 0,
            run: 0,
            charged_until: 0,
            worked_until: 0,
            ticks: false,
            released: false,
            in_balance: false,
            keeps: false,
            idle_since: now,
            interrupt_pending: false,
            kicks: BTreeSet::new(),
            idle_kicks: BTreeSet::new(),
            deferred: Vec::new(),
            performance: PERFORMANCE_ALL,
            reenqueues: false,
            bypassed: VecDeque::new(),
            stopper: None,
            pushed: Vec::new(),
            leaves_since: 0,
            stolen_until: 0,
        }
    }
}
