//! The scheduler's callbacks, each on the CPU where the kernel would call it.

use super::Machine;
use crate::abi::{CpuReleaseArgs, ExitTaskArgs, InitTaskArgs, sim_bpf_sched_switch, sim_bpf_timer_fire};
use crate::task::{TaskClass, TaskId};

/// Calls a callback, if the scheduler has it. The machine is lent out meanwhile.
macro_rules! call {
    ($machine:expr, $cpu:expr, $name:ident $(, $argument:expr)*) => {
        $machine.bpf($cpu, |ops| {
            #[allow(unsafe_code)]
            // SAFETY: the arguments are those of the callback's type; tasks are alive, and keep their address.
            ops.$name.map(|callback| unsafe { callback($($argument),*) })
        })
    };
}

impl Machine {
    pub(super) fn op_init(&mut self) -> i32 {
        call!(self, 0, init).unwrap_or(0)
    }

    pub(super) fn op_init_task(&mut self, cpu: usize, id: TaskId) -> i32 {
        let p = self.tasks[id].raw();
        let mut args = InitTaskArgs { fork: true };
        call!(self, cpu, init_task, p, &raw mut args).unwrap_or(0)
    }

    pub(super) fn op_enable(&mut self, cpu: usize, id: TaskId) {
        let p = self.tasks[id].raw();
        call!(self, cpu, enable, p);
    }

    /// As `scx_exit_task()` of a task that is enabled.
    pub(super) fn op_exit_task(&mut self, cpu: usize, id: TaskId) {
        let p = self.tasks[id].raw();
        call!(self, cpu, disable, p);
        let mut args = ExitTaskArgs { cancelled: false };
        call!(self, cpu, exit_task, p, &raw mut args);
    }

    /// The CPU chosen; none if the scheduler leaves that to the kernel.
    pub(super) fn op_select_cpu(&mut self, cpu: usize, id: TaskId, wake_flags: u64) -> Option<i32> {
        let (p, prev_cpu) = (self.tasks[id].raw(), self.tasks[id].cpu as i32);
        call!(self, cpu, select_cpu, p, prev_cpu, wake_flags)
    }

    pub(super) fn op_enqueue(&mut self, cpu: usize, id: TaskId, flags: u64) {
        let p = self.tasks[id].raw();
        call!(self, cpu, enqueue, p, flags);
    }

    pub(super) fn op_dequeue(&mut self, cpu: usize, id: TaskId, flags: u64) {
        let p = self.tasks[id].raw();
        call!(self, cpu, dequeue, p, flags);
    }

    pub(super) fn op_dispatch(&mut self, cpu: usize, prev: Option<TaskId>) {
        let prev = prev.map_or(std::ptr::null_mut(), |id| self.tasks[id].raw());
        call!(self, cpu, dispatch, cpu as i32, prev);
    }

    pub(super) fn op_tick(&mut self, cpu: usize, id: TaskId) {
        let p = self.tasks[id].raw();
        call!(self, cpu, tick, p);
    }

    pub(super) fn op_runnable(&mut self, cpu: usize, id: TaskId, flags: u64) {
        let p = self.tasks[id].raw();
        call!(self, cpu, runnable, p, flags);
    }

    pub(super) fn op_quiescent(&mut self, cpu: usize, id: TaskId, flags: u64) {
        let p = self.tasks[id].raw();
        call!(self, cpu, quiescent, p, flags);
    }

    pub(super) fn op_running(&mut self, cpu: usize, id: TaskId) {
        let p = self.tasks[id].raw();
        call!(self, cpu, running, p);
    }

    pub(super) fn op_stopping(&mut self, cpu: usize, id: TaskId, runnable: bool) {
        let p = self.tasks[id].raw();
        call!(self, cpu, stopping, p, runnable);
    }

    pub(super) fn op_update_idle(&mut self, cpu: usize, idle: bool) {
        call!(self, cpu, update_idle, cpu as i32, idle);
    }

    pub(super) fn op_cpu_release(&mut self, cpu: usize, id: TaskId) {
        const PREEMPTED_BY_RT: u32 = 0;
        const PREEMPTED_BY_STOP: u32 = 2;
        let reason = if self.tasks[id].class == TaskClass::Stop { PREEMPTED_BY_STOP } else { PREEMPTED_BY_RT };
        let mut args = CpuReleaseArgs { reason, task: self.tasks[id].raw() };
        call!(self, cpu, cpu_release, cpu as i32, &raw mut args);
    }

    /// The program that is attached to the tracepoint where the kernel needs it.
    pub(super) fn op_sched_switch(&mut self, cpu: usize, preempted: bool, next: Option<TaskId>) {
        let raw = |id: Option<TaskId>| id.map_or(self.cpus[cpu].idle_task.raw(), |id| self.tasks[id].raw());
        let (prev, next) = (raw(self.cpus[cpu].current), raw(next));
        #[allow(unsafe_code)]
        // SAFETY: both tasks are alive.
        self.bpf(cpu, |_| unsafe { sim_bpf_sched_switch(preempted, prev, next) });
    }

    pub(super) fn op_cpu_online(&mut self, cpu: usize) {
        call!(self, cpu, cpu_online, cpu as i32);
    }

    pub(super) fn op_cpu_offline(&mut self, cpu: usize) {
        call!(self, cpu, cpu_offline, cpu as i32);
    }

    pub(super) fn op_set_weight(&mut self, cpu: usize, id: TaskId) {
        let (p, weight) = (self.tasks[id].raw(), self.tasks[id].kernel().scx.weight);
        call!(self, cpu, set_weight, p, weight);
    }

    pub(super) fn op_set_cpumask(&mut self, cpu: usize, id: TaskId) {
        let p = self.tasks[id].raw();
        let mask = self.tasks[id].kernel().cpus_ptr;
        call!(self, cpu, set_cpumask, p, mask);
    }

    pub(super) fn op_timer(&mut self, cpu: usize, address: usize) {
        #[allow(unsafe_code)]
        // SAFETY: the scheduler has started this timer in this run, so that its map is there.
        self.bpf(cpu, |_| unsafe { sim_bpf_timer_fire(address as *mut _) });
    }
}
