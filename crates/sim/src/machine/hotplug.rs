//! CPUs go and come: `sched_cpu_deactivate()`, `sched_cpu_activate()`, `balance_push()` (core.c), and the thread of each CPU
//! that moves what must go (stop_machine.c). The host of a virtual machine takes CPUs away as well, and tells nobody.

use super::{Machine, MachineEvent};
use crate::abi::CpuMask;
use crate::invariants::Rule;
use crate::scenario::SchedPolicySpec;
use crate::task::{Identity, State, TaskClass, TaskId};

/// What the thread does for one task.
const STOPPER_NS: u64 = 2_000;
/// How long the rest of taking a CPU down takes once it is empty, and how long that may last before something is wrong.
const DOWN_NS: u64 = 500_000;
const EMPTY_BOUND_NS: u64 = 1_000_000_000;
/// `PF_KTHREAD`.
const KTHREAD: u32 = 0x0020_0000;

impl Machine {
    /// Gives each CPU its thread, for machines where something is going to be moved.
    pub(crate) fn create_stoppers(&mut self, group: usize) {
        for cpu in 0..self.cpus.len() {
            let identity = Identity {
                name: format!("migration/{cpu}"),
                flags: KTHREAD,
                nice: 0,
                slice_ns: None,
                policy: SchedPolicySpec::Normal,
                class: TaskClass::Stop,
                mask: CpuMask::of([cpu]),
                tgid: 0,
                task_group: std::ptr::null_mut(),
                cgroups: std::ptr::null_mut(),
            };
            let id = self.create(cpu, group, &identity);
            self.tasks[id].remaining_ns = STOPPER_NS;
            self.cpus[cpu].stopper = Some(id);
        }
    }

    /// `stop_one_cpu_nowait()`: the CPU's thread is to move the task.
    pub(super) fn stop_for(&mut self, cpu: usize, id: TaskId) {
        self.cpus[cpu].pushed.push(id);
        if let Some(stopper) = self.cpus[cpu].stopper {
            self.wake(self.online_cpu(0), stopper, false);
        }
    }

    /// The thread's work: `migration_cpu_stop()`, `__balance_push_cpu_stop()`.
    pub(crate) fn run_stopper(&mut self, cpu: usize) {
        for id in std::mem::take(&mut self.cpus[cpu].pushed) {
            let task = &self.tasks[id];
            let stays = task.may_run_on(cpu) && self.topology.active.has(cpu) || task.kernel().migration_disabled != 0;
            if task.cpu != cpu || task.state != State::Runnable || stays {
                continue;
            }
            if self.usable(id).is_empty() {
                self.break_affinity(id);
            }
            if let Some(to) = self.usable(id).first() {
                self.move_queued(cpu, id, to);
            }
        }
        if let Some(id) = self.cpus[cpu].stopper {
            self.tasks[id].remaining_ns = STOPPER_NS;
        }
    }

    /// `sched_cpu_deactivate()`.
    pub(crate) fn take_offline(&mut self, cpu: usize) {
        if !self.topology.active.has(cpu) || self.topology.active.count() == 1 {
            return;
        }
        self.topology.active.set(cpu, false);
        self.hotplugged_at = self.now;
        self.op_cpu_offline(cpu);
        self.resched_from(cpu, cpu);
        self.at(self.now + DOWN_NS, MachineEvent::Emptied(cpu));
        self.cpus[cpu].leaves_since = self.now;
    }

    /// `balance_push()`: what a CPU that goes offline would run next is moved.
    pub(super) fn push_from_dying(&mut self, cpu: usize) {
        if self.topology.active.has(cpu) {
            return;
        }
        if let Some(id) = self.cpus[cpu].curr.filter(|id| self.tasks[*id].class != TaskClass::Stop)
            && self.tasks[id].kernel().migration_disabled == 0
        {
            self.stop_for(cpu, id);
        }
    }

    /// `balance_hotplug_wait()`, and what follows once nothing is left: the CPU is gone.
    pub(crate) fn finish_offline(&mut self, cpu: usize) {
        if self.topology.active.has(cpu) || !self.topology.online.has(cpu) {
            return;
        }
        // `rq->nr_running` counts what waits in the scheduler's queues as well.
        let left = self.tasks.iter().position(|task| task.cpu == cpu && task.state == State::Runnable);
        if left.is_none() && self.cpus[cpu].curr.is_none() && !self.cpus[cpu].interrupt_pending {
            // The thread that takes it down (`take_cpu_down()`) is the last before the idle task, which marks it as idle.
            self.update_idle(cpu, true);
            self.topology.online.set(cpu, false);
            return;
        }
        if self.now > self.cpus[cpu].leaves_since + EMPTY_BOUND_NS {
            let left = left.map(|id| (self.name(id), self.tasks[id].place));
            let what = format!("CPU {cpu} cannot go offline because of {left:?}");
            self.report_violation(Rule::StuckOffline, what);
            return;
        }
        self.resched_from(cpu, cpu);
        self.at(self.now + DOWN_NS, MachineEvent::Emptied(cpu));
    }

    /// `sched_cpu_activate()`.
    pub(crate) fn bring_online(&mut self, cpu: usize) {
        if self.topology.active.has(cpu) {
            return;
        }
        self.topology.online.set(cpu, true);
        self.topology.active.set(cpu, true);
        self.hotplugged_at = self.now;
        self.end_idleness(cpu);
        self.cpus[cpu].idle_since = self.now;
        self.cpus[cpu].resched_at = None;
        if std::mem::take(&mut self.cpus[cpu].interrupt_pending) {
            self.interrupt_soon(cpu);
        }
        self.op_cpu_online(cpu);
        self.resched_from(cpu, cpu);
    }

    /// This CPU, or if it is gone one that is not.
    pub(crate) fn online_cpu(&self, cpu: usize) -> usize {
        if self.topology.online.has(cpu) { cpu } else { self.topology.online.first().unwrap_or(cpu) }
    }

    /// The host runs something else on the CPU. Nobody is charged for that: `rq_clock_task()` leaves stolen time out.
    pub(crate) fn steal(&mut self, cpu: usize, ns: u64) {
        self.charge(cpu);
        let until = self.now + ns;
        let state = &mut self.cpus[cpu];
        state.stolen_until = state.stolen_until.max(until);
        state.charged_until = state.charged_until.max(until);
        state.worked_until = state.worked_until.max(self.now) + ns;
        state.busy_until = state.busy_until.max(until);
        self.stolen_until = self.stolen_until.max(until);
        self.withhold(ns);
    }

    /// When the CPU of an event gets to it, if the host has that CPU now.
    pub(crate) fn put_off_until(&self, event: MachineEvent) -> Option<u64> {
        let (MachineEvent::Schedule(cpu)
        | MachineEvent::Tick(cpu)
        | MachineEvent::Done(cpu, _)
        | MachineEvent::Interrupt(cpu)
        | MachineEvent::Notify(cpu)) = event
        else {
            return None;
        };
        Some(self.cpus[cpu].stolen_until).filter(|until| *until > self.now)
    }

    /// The event happens then instead.
    pub(crate) fn put_off(&mut self, event: MachineEvent, until: u64) {
        if let MachineEvent::Schedule(cpu) = event {
            self.cpus[cpu].resched_at = Some(until);
        }
        self.at(until, event);
    }

    /// Whether the task is such a thread.
    pub(crate) fn is_stopper(&self, id: TaskId) -> bool {
        self.tasks[id].class == TaskClass::Stop
    }
}
