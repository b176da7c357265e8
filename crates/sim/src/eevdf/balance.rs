//! What a CPU takes from others: `sched_balance_newidle()`, `sched_balance_domains()` and the kick of idle CPUs.
//!
//! Where it is simpler: CPUs are compared with each other on each level (cache, node, machine), not groups of CPUs, and each CPU
//! balances for itself (`should_we_balance()` has one do it for all of a group); a CPU that falls idle always looks, whatever that costs
//! (`sysctl_sched_migration_cost`); no task is left where it is because of its cache (`task_hot()`); a running task
//! is moved to idle CPUs only (`need_active_balance()`); idle CPUs are kicked at each tick of one that has two tasks.

use super::KICK_PREEMPT;
use super::placement::is_idle;
use super::tree::FairTree;
use crate::abi::CpuMask;
use crate::machine::Machine;
use crate::task::TaskId;

/// `imbalance_pct`: more than this a CPU is busier than another.
const IMBALANCE_PERCENT: u64 = 117;
/// `busy_factor`: a busy CPU balances so much less often.
const BUSY_FACTOR: u64 = 16;
/// `sd_init()`: a level is balanced every so often for each of its CPUs.
const INTERVAL_NS: u64 = 1_000_000;
/// `SCHED_NR_MIGRATE_BREAK`: tasks that are taken at a time.
const MOST_TAKEN: usize = 32;

/// `cache_nice_tries` and two more: after so many vain attempts a running task is taken.
const NR_PATIENT: u32 = 3;

/// CPUs on each level around this one, the nearest first; a level that is no larger than the one below is left out.
fn levels(machine: &Machine, cpu: usize) -> [Option<CpuMask>; 3] {
    let topology = &machine.topology;
    let [cache, node] =
        [topology.llc_mask(cpu), topology.node_mask(topology.node_of(cpu))].map(|mask| mask.and(&topology.active));
    let (nr_cache, nr_node, nr_all) = (cache.count(), node.count(), topology.active.count());
    let all = (nr_all > nr_node).then(|| topology.active.clone());
    [(nr_cache > 1).then_some(cache), (nr_node > nr_cache).then_some(node), all]
}

/// `sched_balance_newidle()`: a waiting task from the CPU of the nearest level that has most of them. If there is none again and again
/// the current task of such a CPU has to come.
pub fn when_idle(tree: &mut FairTree, machine: &mut Machine, cpu: usize) -> Option<TaskId> {
    for (number, level) in levels(machine, cpu).into_iter().enumerate() {
        let Some(level) = level else { continue };
        let mut busy: Vec<usize> = level.iter().filter(|other| tree.cpus[*other].nr_runnable > 1).collect();
        busy.sort_by_key(|other| std::cmp::Reverse(tree.cpus[*other].nr_runnable));
        let found = busy.iter().find_map(|other| movable(tree, machine, *other, cpu).next());
        let nr_failed = &mut tree.cpus[cpu].nr_balance_failed[number];
        *nr_failed = if found.is_some() || busy.is_empty() { 0 } else { *nr_failed + 1 };
        if found.is_some() {
            return found;
        }
        if *nr_failed > NR_PATIENT {
            *nr_failed = 0;
            if let Some(other) = busy.into_iter().find(|other| current_may_move(tree, machine, *other, cpu)) {
                tree.cpus[other].pushes_to = Some(cpu);
                machine.kick_from_bpf(other as i32, KICK_PREEMPT);
            }
        }
    }
    None
}

fn current_may_move(tree: &FairTree, machine: &Machine, from: usize, to: usize) -> bool {
    tree.current(from).is_some_and(|id| machine.usable(id).has(to))
}

/// Waiting tasks of a CPU that may go to another one, the one that has waited longest first.
fn movable<'a>(tree: &'a FairTree, machine: &'a Machine, from: usize, to: usize) -> impl Iterator<Item = TaskId> + 'a {
    let waiting = machine.queued_in(from as u64).into_iter();
    waiting.filter(move |id| tree.tasks[id].cpu == from && machine.may_move_to(*id, to))
}

/// `sched_balance_domains()`, at a tick of a CPU that has work: what it takes over.
pub fn at_tick(tree: &mut FairTree, machine: &Machine, cpu: usize) -> Vec<TaskId> {
    let mut taken = Vec::new();
    for (number, level) in levels(machine, cpu).into_iter().enumerate() {
        let Some(level) = level.filter(|_| tree.cpus[cpu].balances_at_ns[number] <= tree.now_ns) else { continue };
        tree.cpus[cpu].balances_at_ns[number] = tree.now_ns + INTERVAL_NS * level.count() as u64 * BUSY_FACTOR;
        if taken.is_empty() {
            taken = from_busiest(tree, machine, cpu, number, &level);
        }
    }
    taken
}

/// `sched_balance_rq()`, where loads are compared: both CPUs come nearer to the average. A task that weighs more than what is to be
/// moved is taken once that has failed often enough.
fn from_busiest(tree: &mut FairTree, machine: &Machine, cpu: usize, number: usize, level: &CpuMask) -> Vec<TaskId> {
    let loads = || level.iter().map(|other| (tree.load(other), other));
    let average = loads().map(|(load, _)| load).sum::<u64>() / level.count() as u64;
    let own = tree.load(cpu);
    let Some((load, busiest)) = loads().filter(|(_, other)| tree.cpus[*other].nr_runnable > 1).max() else {
        return Vec::new();
    };
    if busiest == cpu || own >= average || load <= average || load * 100 <= own * IMBALANCE_PERCENT {
        tree.cpus[cpu].nr_balance_failed[number] = 0;
        return Vec::new();
    }
    let mut left = (load - average).min(average - own);
    let nr_failed = tree.cpus[cpu].nr_balance_failed[number];
    let mut taken = Vec::new();
    for id in movable(tree, machine, busiest, cpu).take(MOST_TAKEN) {
        let weight = tree.load_of_task(id).max(1);
        if weight.checked_shr(nr_failed).unwrap_or(0) > left {
            continue;
        }
        taken.push(id);
        left = left.saturating_sub(weight);
        if left == 0 {
            break;
        }
    }
    tree.cpus[cpu].nr_balance_failed[number] = if taken.is_empty() { nr_failed + 1 } else { 0 };
    taken
}

/// `nohz_balancer_kick()`: an idle CPU that could take a task of this one.
pub fn idle_cpu_to_kick(tree: &FairTree, machine: &Machine, cpu: usize) -> Option<usize> {
    if tree.cpus[cpu].nr_runnable < 2 {
        return None;
    }
    levels(machine, cpu).into_iter().flatten().find_map(|level| {
        let wants = |idle: &usize| {
            let mut waiting = movable(tree, machine, cpu, *idle);
            is_idle(tree, machine, *idle) && (waiting.next().is_some() || current_may_move(tree, machine, cpu, *idle))
        };
        level.iter().find(wants)
    })
}
