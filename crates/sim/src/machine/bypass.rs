//! The scheduler is passed by, as during suspend: `scx_bypass()`. Tasks run in the order of their arrival.

use super::Machine;
use super::enqueue::SLICE_BYPASS_NS;
use super::queue::{DsqTarget, GLOBAL};
use crate::task::{OpsState, TaskClass, TaskId, TaskPlace};

impl Machine {
    /// Begins or ends. Each runnable task is taken off its run queue and put back, so that it goes by the new rule.
    pub(crate) fn bypass(&mut self, on: bool) {
        if self.bypassing == on || self.is_unregistered {
            return;
        }
        self.bypassing = on;
        self.bypassed_until = self.now;
        for id in 0..self.tasks.len() {
            if self.tasks[id].class == TaskClass::Ext && self.tasks[id].is_queued() {
                self.cycle(id);
                self.restart_answerable_wait(id);
            }
        }
        for cpu in self.topology.online.clone().iter() {
            self.resched_from(self.online_cpu(0), cpu);
        }
    }

    /// `bpf_scx_unreg()`: nobody keeps the scheduler any more. What follows here is the beginning of `scx_disable_workfn()`, for good: the
    /// scheduler is passed by, and its timers are stopped.
    pub(crate) fn unregister(&mut self) {
        self.bypass(true);
        self.is_unregistered = true;
    }

    /// `do_enqueue_task()` while it lasts: up to 6.18 in the global queue, later in one of the CPU's.
    pub(super) fn enqueue_bypassing(&mut self, id: TaskId, cpu: usize, flags: u64) {
        if !self.profile.bypasses_by_cpu {
            self.enqueue_by_kernel(id, DsqTarget::Queue(GLOBAL), flags);
            self.tasks[id].kernel_mut().scx.slice = SLICE_BYPASS_NS;
            return;
        }
        self.note_task(id);
        self.tasks[id].ops_state = OpsState::None;
        self.tasks[id].direct = None;
        self.tasks[id].kernel_mut().scx.slice = SLICE_BYPASS_NS;
        self.tasks[id].place = TaskPlace::Bypassed(cpu);
        self.cpus[cpu].bypassed.push_back(id);
    }

    /// The part of `balance_one()` for that queue. Others' queues are emptied too (`bypass_lb_cpu()`, at longer intervals).
    pub(super) fn consume_bypassed(&mut self, cpu: usize) {
        let own = self.cpus[cpu].bypassed.iter().copied().find(|id| self.tasks[*id].may_run_on(cpu));
        let others = || {
            let waiting = self.cpus.iter().flat_map(|other| other.bypassed.iter().copied());
            waiting.into_iter().find(|id| self.may_move_to(*id, cpu))
        };
        let Some(id) = own.or_else(others) else { return };
        if self.tasks[id].cpu == cpu {
            self.unlink(id);
            self.link_local(id, cpu, 0);
        } else {
            self.fetch(id, cpu, None);
        }
    }
}
