//! EEVDF, the kernel's own scheduler, to compare with: shares, and whether something is better or worse. Not latencies.
//!
//! It follows kernel/sched/fair.c of 6.18 to 7.3, over the emulated core of sched_ext: a queue of the kernel's for each CPU holds its
//! waiting tasks, [`tree`] says which of them is next, [`placement`] where a task wakes, and [`balance`] what a CPU takes from others.
//! Where it is simpler:
//!
//! - No averages over time (`pelt.c`): the load of a CPU or a group is what is runnable there now. `calc_group_shares()`, `task_h_load()`
//!   and `find_busiest_group()` see less of tasks that nap than the kernel's do.
//! - A CPU that should look for another task does so at its next tick, as with lazy preemption; one that has to give way to a task that
//!   wakes does so at once, as without it.
//! - Slices are those of the machine: no task asks for another one (`sched_setattr()`), so `PREEMPT_SHORT` has nothing to do.
//! - Groups that their last task leaves leave at once, with what they are owed; only tasks stay to pay back (`DELAY_DEQUEUE`).
//! - No limits of groups (`cpu.max`), no `cpu.idle`, no buddies (`NEXT_BUDDY`), no autogroups, no core scheduling, no NUMA balancing.
//! - All CPUs are taken to be equally fast, and threads of a core as CPUs; see [`placement`] and [`balance`] for what follows.

mod balance;
mod placement;
mod queue;
mod tree;

use std::sync::{Mutex, PoisonError};

use self::tree::FairTree;
use crate::abi::{Ops, TaskStruct};
use crate::machine::{Machine, with_machine};
use crate::task::{TaskId, WEIGHT_IDLE, weight_of_nice};

/// `SCX_DSQ_LOCAL_ON`.
const LOCAL_ON: u64 = 3 << 62;
/// `SCX_SLICE_INF`: when a slice ends is decided here.
const SLICE_INFINITE: u64 = u64::MAX;
/// `SCX_ENQ_WAKEUP`.
const ENQ_WAKEUP: u64 = 0x1;
/// `ENQUEUE_RESTORE`.
const ENQ_RESTORE: u64 = 0x2;
/// `SCX_DEQ_SLEEP`.
const DEQ_SLEEP: u64 = 0x1;
/// `SCX_WAKE_FORK`.
const WAKE_FORK: u64 = 0x4;
/// `SCX_WAKE_SYNC`.
const WAKE_SYNC: u64 = 0x10;
/// `SCX_KICK_IDLE`.
const KICK_IDLE: u64 = 0x1;
/// `SCX_KICK_PREEMPT`.
const KICK_PREEMPT: u64 = 0x2;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;

/// Its callbacks.
pub static EEVDF: Ops = Ops {
    flags: Ops::ENQ_MIGRATION_DISABLED,
    select_cpu: Some(select_cpu),
    enqueue: Some(enqueue),
    dispatch: Some(dispatch),
    tick: Some(tick),
    runnable: Some(runnable),
    running: Some(running),
    stopping: Some(stopping),
    quiescent: Some(quiescent),
    exit_task: Some(exit_task),
    enable: Some(enable),
    cpu_offline: Some(cpu_offline),
    init: Some(init),
    dispatch_max_batch: 8,
    ..Ops::NONE
};

/// Its memory. `init` begins with a new one.
static TREE: Mutex<Option<FairTree>> = Mutex::new(None);

fn with_tree<R>(f: impl FnOnce(&mut FairTree, &mut Machine) -> R) -> R {
    with_machine(|machine| {
        let mut tree = TREE.lock().unwrap_or_else(PoisonError::into_inner);
        let tree = tree.get_or_insert_default();
        tree.now_ns = machine.now;
        f(tree, machine)
    })
}

fn id_of(p: *mut TaskStruct) -> TaskId {
    #[allow(unsafe_code)]
    // SAFETY: the machine calls with a task that is alive.
    unsafe {
        (*p).sim_id as usize
    }
}

extern "C" fn init() -> i32 {
    with_machine(|machine| {
        let nr_cpus = machine.cpus.len();
        let tree = FairTree::new(nr_cpus, 1_000_000_000 / machine.profile.hz);
        *TREE.lock().unwrap_or_else(PoisonError::into_inner) = Some(tree);
        (0..nr_cpus).map(|cpu| machine.create_queue(cpu as u64)).find(|result| *result != 0).unwrap_or(0)
    })
}

extern "C" fn enable(p: *mut TaskStruct) {
    let id = id_of(p);
    with_tree(|tree, machine| tree.add_task(id, machine.tasks[id].cpu));
}

extern "C" fn exit_task(p: *mut TaskStruct, _args: *mut crate::abi::ExitTaskArgs) {
    with_tree(|tree, _| tree.dequeue(id_of(p), false));
}

extern "C" fn select_cpu(p: *mut TaskStruct, prev: i32, wake_flags: u64) -> i32 {
    let id = id_of(p);
    with_tree(|tree, machine| {
        // `ttwu_runnable()`: who is still there wakes where it is.
        if tree.entity(id).is_delayed {
            return tree.tasks[&id].cpu as i32;
        }
        let chosen = if wake_flags & WAKE_FORK != 0 {
            placement::for_new_task(tree, machine, id, prev as usize)
        } else {
            placement::for_wakeup(tree, machine, id, prev as usize, wake_flags & WAKE_SYNC != 0)
        };
        chosen as i32
    })
}

extern "C" fn runnable(p: *mut TaskStruct, flags: u64) {
    let id = id_of(p);
    with_tree(|tree, machine| {
        let is_new = flags & (ENQ_WAKEUP | ENQ_RESTORE) == 0;
        put_on_cpu(tree, machine, id, machine.tasks[id].cpu, is_new);
    });
}

/// Puts the task on the queue of its group on a CPU, with the weight that it has now.
fn put_on_cpu(tree: &mut FairTree, machine: &Machine, id: TaskId, cpu: usize, is_new: bool) {
    let task = machine.tasks[id].kernel();
    let is_idle_policy = task.policy == SCHED_IDLE;
    let weight = if is_idle_policy { WEIGHT_IDLE } else { weight_of_nice(task.static_prio - 120) };
    let queue = tree.queue_of(task.sched_task_group, cpu);
    tree.set_idle_policy(id, is_idle_policy);
    tree.enqueue(id, cpu, queue, u64::from(weight) << 10, is_new);
}

/// `set_task_cpu()`: the task has been moved by the kernel, or is moved here.
fn follow(tree: &mut FairTree, machine: &Machine, id: TaskId, cpu: usize) {
    if tree.tasks[&id].cpu != cpu {
        tree.dequeue(id, false);
        put_on_cpu(tree, machine, id, cpu, false);
    }
}

extern "C" fn quiescent(p: *mut TaskStruct, flags: u64) {
    with_tree(|tree, _| tree.dequeue(id_of(p), flags & DEQ_SLEEP != 0));
}

/// The task waits on its CPU, whose current task may have to give way.
extern "C" fn enqueue(p: *mut TaskStruct, _flags: u64) {
    let id = id_of(p);
    with_tree(|tree, machine| {
        let was_pushed = tree.tasks.get_mut(&id).is_some_and(|task| std::mem::take(&mut task.is_pushed));
        let cpu = if was_pushed { tree.tasks[&id].cpu } else { machine.tasks[id].cpu };
        machine.tasks[id].cpu = cpu;
        follow(tree, machine, id, cpu);
        machine.insert_from_bpf(id, cpu as u64, SLICE_INFINITE, None, 0);
        let is_normal = !matches!(machine.tasks[id].kernel().policy, SCHED_BATCH | SCHED_IDLE);
        if tree.gives_way(cpu, id, is_normal) {
            machine.kick_from_bpf(cpu as i32, KICK_PREEMPT);
        } else if machine.this_cpu() != cpu {
            machine.kick_from_bpf(cpu as i32, KICK_IDLE);
        }
    });
}

/// `pick_next_task_fair()`. A higher class goes first, and then nothing is picked here.
extern "C" fn dispatch(cpu: i32, _prev: *mut TaskStruct) {
    let cpu = cpu as usize;
    with_tree(|tree, machine| {
        if !machine.cpus[cpu].realtime.is_empty() {
            return;
        }
        push_current(tree, machine, cpu);
        let next = tree.pick(cpu).or_else(|| {
            let pulled = balance::when_idle(tree, machine, cpu)?;
            follow(tree, machine, pulled, cpu);
            Some(pulled)
        });
        match next {
            Some(id) if machine.cpus[cpu].curr == Some(id) => {
                machine.tasks[id].kernel_mut().scx.slice = SLICE_INFINITE;
                tree.cpus[cpu].needs_resched = false;
            }
            Some(id) => {
                machine.requeue(id, LOCAL_ON | cpu as u64);
            }
            None => {}
        }
    });
}

/// `active_load_balance_cpu_stop()`: the current task leaves for the CPU that wants it.
fn push_current(tree: &mut FairTree, machine: &Machine, cpu: usize) {
    let Some(to) = tree.cpus[cpu].pushes_to.take() else { return };
    if let Some(id) = tree.current(cpu).filter(|id| machine.usable(*id).has(to) && tree.cpus[cpu].nr_runnable > 1) {
        tree.take_cpu(id);
        follow(tree, machine, id, to);
        if let Some(task) = tree.tasks.get_mut(&id) {
            task.is_pushed = true;
        }
    }
}

extern "C" fn running(p: *mut TaskStruct) {
    let id = id_of(p);
    with_tree(|tree, machine| {
        follow(tree, machine, id, machine.tasks[id].cpu);
        tree.give_cpu(id);
        machine.tasks[id].kernel_mut().scx.slice = SLICE_INFINITE;
    });
}

/// Without a slice the kernel gives the task back through [`enqueue`].
extern "C" fn stopping(p: *mut TaskStruct, _runnable: bool) {
    let id = id_of(p);
    with_tree(|tree, machine| {
        tree.take_cpu(id);
        machine.tasks[id].kernel_mut().scx.slice = 0;
    });
}

/// `task_tick_fair()`, and `sched_balance_trigger()` after it.
extern "C" fn tick(p: *mut TaskStruct) {
    let id = id_of(p);
    with_tree(|tree, machine| {
        let cpu = machine.tasks[id].cpu;
        tree.queue_of(machine.tasks[id].kernel().sched_task_group, cpu);
        tree.charge(cpu);
        if tree.cpus[cpu].needs_resched {
            machine.tasks[id].kernel_mut().scx.slice = 0;
        }
        for pulled in balance::at_tick(tree, machine, cpu) {
            follow(tree, machine, pulled, cpu);
            machine.tasks[pulled].cpu = cpu;
            machine.requeue(pulled, cpu as u64);
        }
        if let Some(idle) = balance::idle_cpu_to_kick(tree, machine, cpu) {
            machine.kick_from_bpf(idle as i32, KICK_IDLE);
        }
    });
}

/// What waits there is picked by the kernel, which moves it on.
extern "C" fn cpu_offline(cpu: i32) {
    let cpu = cpu as usize;
    with_tree(|_, machine| {
        for id in machine.queued_in(cpu as u64) {
            machine.requeue(id, LOCAL_ON | cpu as u64);
        }
    });
}
