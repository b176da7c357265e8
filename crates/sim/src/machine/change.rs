//! What is changed about a task from outside, at any moment: `sched_change_begin()` and `sched_change_end()`, which were
//! written out in each place up to 6.18 (core.c, syscalls.c).

use super::Machine;
use crate::abi::{CpuMask, CssSet, TaskGroup};
use crate::interleave::{self, RunQueueLock, TaskLock};
use crate::scenario::SchedPolicySpec;
use crate::task::{State, Task, TaskClass, TaskId};

/// `ENQUEUE_RESTORE` and `DEQUEUE_SAVE`.
const RESTORE: u64 = 0x2;

impl Machine {
    /// `task_rq_lock()`: the task's CPU, whose run queue is locked. Another CPU may take the task meanwhile.
    fn lock_task(&self, id: TaskId) -> (usize, TaskLock, RunQueueLock) {
        let task_lock = TaskLock::hold(id);
        loop {
            interleave::wait_until_migrated(id);
            let cpu = self.tasks[id].cpu;
            let locked = RunQueueLock::hold(cpu);
            if self.tasks[id].cpu == cpu && !self.tasks[id].is_migrating {
                return (cpu, task_lock, locked);
            }
        }
    }

    /// Takes a task off its run queue, changes it, and puts it back. A current task stays on its CPU.
    fn change(&mut self, id: TaskId, by: impl FnOnce(&mut Task)) {
        let (cpu, _task_lock, _locked) = self.lock_task(id);
        let caller = self.online_cpu(0);
        let is_queued = self.tasks[id].class == TaskClass::Ext && self.tasks[id].is_queued();
        let is_current = self.cpus[cpu].curr == Some(id);
        if is_queued {
            self.charge(cpu);
            self.take_from_bpf(caller, id, RESTORE);
            if is_current {
                self.op_stopping(caller, id, false);
            }
            self.op_quiescent(caller, id, RESTORE);
            self.tasks[id].set_queued(false);
            self.leave_place(id);
            self.tasks[id].direct = None;
        }
        by(&mut self.tasks[id]);
        self.note_task(id);
        if is_queued && is_current {
            // `enqueue_task_scx()` puts it into the local queue, from which `set_next_task_scx()` takes it at once.
            self.tasks[id].set_queued(true);
            self.op_runnable(caller, id, RESTORE);
            self.op_running(caller, id);
        } else if is_queued {
            self.on(caller, |machine| machine.enqueue_task(caller, id, RESTORE));
        }
    }

    /// Off its run queue, and back.
    pub(super) fn cycle(&mut self, id: TaskId) {
        self.change(id, |_| {});
    }

    /// `__set_cpus_allowed_ptr()`, and `affine_move_task()` after it.
    pub(crate) fn set_affinity(&mut self, id: TaskId, mask: &CpuMask) {
        if self.tasks[id].state == State::Dead || mask.and(&self.topology.active).is_empty() {
            return;
        }
        let _locked = TaskLock::hold(id);
        self.change(id, |task| task.allow(mask));
        self.op_set_cpumask(self.online_cpu(0), id);
        self.restart_answerable_wait(id);
        self.move_if_forbidden(id);
    }

    /// A runnable task that is where it may not be any more goes elsewhere. A current one is stopped for that, also while a program that
    /// it is interrupted by has disabled its migration: by the time that the CPU's thread looks that is over. The kernel has the run queue
    /// locked from the change on; here a CPU may have taken the task meanwhile, which is then looked at again.
    fn move_if_forbidden(&mut self, id: TaskId) {
        let cpu = self.tasks[id].cpu;
        let task = &self.tasks[id];
        if task.state != State::Runnable || task.may_run_on(cpu) {
            return;
        }
        if self.cpus[cpu].curr == Some(id) {
            self.stop_for(cpu, id);
        } else if task.kernel().migration_disabled == 0
            && let Some(to) = self.usable(id).first()
            && !self.move_queued(self.online_cpu(0), id, to)
        {
            self.move_if_forbidden(id);
        }
    }

    /// `set_user_nice()`.
    pub(crate) fn set_nice(&mut self, id: TaskId, nice: i32) {
        self.change(id, |task| task.renice(nice));
        self.op_set_weight(self.online_cpu(0), id);
    }

    /// `__sched_setscheduler()`, among the policies of sched_ext.
    pub(crate) fn set_policy(&mut self, id: TaskId, policy: SchedPolicySpec) {
        self.change(id, |task| task.set_policy(policy));
        self.op_set_weight(self.online_cpu(0), id);
    }

    /// `sched_move_task()`.
    pub(crate) fn set_cgroup(&mut self, id: TaskId, group: *mut TaskGroup, cgroups: *mut CssSet) {
        self.change(id, |task| {
            task.kernel_mut().sched_task_group = group;
            task.kernel_mut().cgroups = cgroups;
        });
    }

    /// The current task of a CPU disables its migration, or enables it again: `migrate_disable()`, `migrate_enable()`.
    pub(crate) fn disable_migration(&mut self, id: TaskId, disabled: bool) {
        self.tasks[id].kernel_mut().migration_disabled = u16::from(disabled);
        if !disabled {
            self.tasks[id].leave_again();
            self.move_if_forbidden(id);
        }
    }

    /// `move_queued_task()`, if the task is still waiting on that CPU once its run queue is locked; returns whether it was.
    pub(super) fn move_queued(&mut self, on_cpu: usize, id: TaskId, to: usize) -> bool {
        let from = self.tasks[id].cpu;
        let (cpu, _task_lock, locked) = self.lock_task(id);
        if cpu != from || self.cpus[cpu].curr == Some(id) || self.tasks[id].state != State::Runnable {
            return false;
        }
        if self.tasks[id].class != TaskClass::Ext {
            self.cpus[from].realtime.retain(|other| *other != id);
            self.tasks[id].cpu = to;
            self.cpus[to].realtime.push_back(id);
            self.resched_from(on_cpu, to);
            return true;
        }
        self.take_from_bpf(on_cpu, id, 0);
        self.leave_place(id);
        self.tasks[id].direct = None;
        self.tasks[id].is_migrating = true;
        self.tasks[id].cpu = to;
        drop(locked);
        let _locked = RunQueueLock::hold(to);
        self.tasks[id].is_migrating = false;
        self.on(on_cpu, |machine| machine.do_enqueue(on_cpu, id, 0));
        if self.cpus[to].curr.is_none() {
            self.resched_from(on_cpu, to);
        }
        true
    }

    /// `cpuset_cpus_allowed_fallback()`, `do_set_cpus_allowed()`: a task of which no CPU is left may run everywhere.
    pub(super) fn break_affinity(&mut self, id: TaskId) {
        let all = CpuMask::of(0..self.cpus.len());
        self.change(id, |task| {
            task.kernel_mut().migration_disabled = 0;
            task.leave_again();
            task.allow(&all);
        });
        self.op_set_cpumask(self.online_cpu(0), id);
    }

    /// What is done there is done on a CPU.
    pub(super) fn on<R>(&mut self, cpu: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.this_cpu, cpu);
        let result = f(self);
        self.this_cpu = outer;
        result
    }
}
