//! Built-in tracking of idle CPUs: kernel/sched/ext_idle.c.

use super::Machine;
use crate::abi::CpuMask;
use crate::profile::TopologySpec;
use crate::task::TaskId;

/// `SCX_PICK_IDLE_CORE`.
const PICK_IDLE_CORE: u64 = 0x1;
/// `SCX_WAKE_SYNC`.
const WAKE_SYNC: u64 = 0x10;
/// `PF_EXITING`.
const EXITING: u32 = 0x4;

/// Which CPUs idle, and on which cores all threads do.
#[derive(Clone, Debug)]
pub struct IdleMasks {
    /// CPUs.
    pub cpus: CpuMask,
    /// CPUs of cores that idle as a whole.
    pub cores: CpuMask,
    /// `cpumask_any_and_distribute()` goes on after the CPU that it found last.
    last: usize,
}

impl IdleMasks {
    /// `reset_idle_masks()`.
    pub fn all(topology: &TopologySpec) -> Self {
        Self { cpus: topology.online.clone(), cores: topology.online.clone(), last: 0 }
    }

    /// `update_builtin_idle()`.
    pub fn update(&mut self, topology: &TopologySpec, cpu: usize, idle: bool) {
        self.cpus.set(cpu, idle);
        let threads = topology.threads_of(cpu);
        let whole = idle && threads.iter().all(|thread| self.cpus.has(*thread));
        for thread in threads {
            if whole || !idle {
                self.cores.set(*thread, whole);
            }
        }
    }

    /// `scx_idle_test_and_clear_cpu()`.
    pub fn take(&mut self, topology: &TopologySpec, cpu: usize) -> bool {
        for thread in topology.threads_of(cpu) {
            self.cores.set(*thread, false);
        }
        let idle = self.cpus.has(cpu);
        self.cpus.set(cpu, false);
        idle
    }

    /// `pick_idle_cpu_in_node()`.
    pub fn pick(&mut self, topology: &TopologySpec, allowed: &CpuMask, flags: u64) -> Option<usize> {
        let mut found = None;
        if topology.has_smt() {
            found = self.distribute(&self.cores.and(allowed));
            if found.is_none() && flags & PICK_IDLE_CORE != 0 {
                return None;
            }
        }
        let cpu = found.or_else(|| self.distribute(&self.cpus.and(allowed)))?;
        self.last = cpu;
        self.take(topology, cpu);
        Some(cpu)
    }

    fn distribute(&self, mask: &CpuMask) -> Option<usize> {
        mask.next_from(self.last + 1).or_else(|| mask.first())
    }
}

impl Machine {
    /// `ops.update_idle`, after the masks.
    pub(super) fn update_idle(&mut self, cpu: usize, idle: bool) {
        self.idle.update(&self.topology, cpu, idle);
        if !self.bypassing {
            self.op_update_idle(cpu, idle);
        }
    }

    /// `scx_select_cpu_dfl()`: an idle CPU that is taken for the task.
    pub(crate) fn select_cpu_default(&mut self, id: TaskId, prev: usize, wake_flags: u64) -> Option<usize> {
        let allowed = self.usable(id);
        if wake_flags & WAKE_SYNC != 0
            && let Some(cpu) = self.waker_cpu(prev, &allowed)
        {
            return Some(cpu);
        }
        let topology = &self.topology;
        let near = (topology.nr_llcs() > 1).then(|| topology.llc_mask(prev).and(&allowed));
        // `llc_numa_mismatch()`: nodes count where they are more than a cache.
        let in_node = (topology.nr_nodes() > 1 && topology.nr_nodes() < topology.nr_llcs())
            .then(|| topology.node_mask(topology.node_of(prev)).and(&allowed));
        if topology.has_smt() {
            if self.idle.cores.has(prev) && allowed.has(prev) && self.idle.take(topology, prev) {
                return Some(prev);
            }
            let masks = [near.as_ref(), in_node.as_ref(), Some(&allowed)];
            let found = masks.into_iter().flatten().find_map(|mask| self.idle.pick(topology, mask, PICK_IDLE_CORE));
            if found.is_some() {
                return found;
            }
        }
        if allowed.has(prev) && self.idle.take(topology, prev) {
            return Some(prev);
        }
        let masks = [near.as_ref(), in_node.as_ref(), Some(&allowed)];
        masks.into_iter().flatten().find_map(|mask| self.idle.pick(topology, mask, 0))
    }

    /// The part of `scx_select_cpu_dfl()` for wakers that are about to sleep.
    fn waker_cpu(&mut self, prev: usize, allowed: &CpuMask) -> Option<usize> {
        let cpu = self.this_cpu();
        let near = self.topology.llc_of(cpu) == self.topology.llc_of(prev);
        if near && allowed.has(prev) && self.idle.take(&self.topology, prev) {
            return Some(prev);
        }
        let exits = self.cpus[cpu].current.is_some_and(|id| self.tasks[id].kernel().flags & EXITING != 0);
        let waker_stays_alone = self.cpus[cpu].local.is_empty() && !self.idle.cpus.is_empty();
        (!exits && waker_stays_alone && allowed.has(cpu)).then_some(cpu)
    }
}
