//! Where a task wakes or begins: `select_task_rq_fair()`.
//!
//! Where it is simpler: a task that many wake is not spread (`wake_wide()`); the search for an idle CPU looks at all CPUs of the cache
//! (`SIS_UTIL` bounds it by how busy they are); a new task goes to the cache with most idle CPUs, without the margins of
//! `update_pick_idlest()`; energy and the size of cores are not looked at.

use super::tree::FairTree;
use crate::machine::Machine;
use crate::task::TaskId;

/// Half of what `imbalance_pct` is above 100, with which `wake_affine_weight()` favours the waker's CPU.
const AFFINE_PERCENT: u64 = 108;

/// For a task that wakes, on the waker's CPU.
pub fn for_wakeup(tree: &FairTree, machine: &Machine, id: TaskId, prev: usize, is_sync: bool) -> usize {
    let this = machine.this_cpu();
    let near_waker = machine.usable(id).has(this) && wakes_near_waker(tree, machine, id, [prev, this], is_sync);
    idle_sibling(tree, machine, id, prev, if near_waker { this } else { prev })
}

/// `wake_affine()`: whether the task comes to its waker rather than go back to where it was.
fn wakes_near_waker(tree: &FairTree, machine: &Machine, id: TaskId, [prev, this]: [usize; 2], is_sync: bool) -> bool {
    if is_idle(tree, machine, this) && machine.topology.llc_of(this) == machine.topology.llc_of(prev) {
        return !is_idle(tree, machine, prev);
    }
    if is_sync && tree.cpus[this].nr_runnable == 1 {
        return true;
    }
    if is_idle(tree, machine, prev) {
        return false;
    }
    let task = tree.entity(id).weight;
    let mut here = tree.load(this);
    if is_sync && let Some(current) = tree.current(this) {
        here = here.saturating_sub(tree.load_of_task(current));
    }
    (here + task) * 100 < tree.load(prev).saturating_sub(task) * AFFINE_PERCENT
}

/// `select_idle_sibling()`: an idle CPU near the target, or the target.
fn idle_sibling(tree: &FairTree, machine: &Machine, id: TaskId, prev: usize, target: usize) -> usize {
    let usable = machine.usable(id);
    let topology = &machine.topology;
    let is_free = |cpu: usize| usable.has(cpu) && (is_idle(tree, machine, cpu) || has_idle_policy_only(tree, cpu));
    if is_free(target) {
        return target;
    }
    if topology.llc_of(prev) == topology.llc_of(target) && is_free(prev) {
        return prev;
    }
    let near = topology.llc_mask(target).and(&usable);
    let from_target = || near.iter().filter(|cpu| *cpu > target).chain(near.iter().filter(|cpu| *cpu < target));
    let core_is_idle = |cpu: &usize| topology.threads_of(*cpu).iter().all(|thread| is_idle(tree, machine, *thread));
    let idle_core = if topology.has_smt() { from_target().find(core_is_idle) } else { None };
    idle_core.or_else(|| from_target().find(|cpu| is_free(*cpu))).unwrap_or(target)
}

/// `sched_balance_find_dst_cpu()`: for a new task the cache with most idle CPUs, the parent's where there are as many, and there an
/// idle CPU, or the one with the least load.
pub fn for_new_task(tree: &FairTree, machine: &Machine, id: TaskId, prev: usize) -> usize {
    let usable = machine.usable(id);
    let topology = &machine.topology;
    let nr_idle = |llc: usize| {
        let here = |cpu: &usize| topology.llc_of(*cpu) == llc && is_idle(tree, machine, *cpu);
        (usable.iter().filter(here).count(), llc == topology.llc_of(prev))
    };
    let best = (0..topology.nr_llcs()).rev().max_by_key(|llc| nr_idle(*llc)).unwrap_or(0);
    let has_idle = nr_idle(best).0 > 0;
    let candidates = usable.iter().filter(|cpu| !has_idle || topology.llc_of(*cpu) == best);
    candidates.min_by_key(|cpu| (!is_idle(tree, machine, *cpu), tree.load(*cpu), *cpu != prev)).unwrap_or(prev)
}

/// `available_idle_cpu()`.
pub fn is_idle(tree: &FairTree, machine: &Machine, cpu: usize) -> bool {
    tree.cpus[cpu].nr_runnable == 0 && machine.cpus[cpu].curr.is_none() && machine.topology.active.has(cpu)
}

/// `sched_idle_cpu()`.
fn has_idle_policy_only(tree: &FairTree, cpu: usize) -> bool {
    let cpu = &tree.cpus[cpu];
    cpu.nr_runnable > 0 && cpu.nr_runnable == cpu.nr_idle_policy
}
