//! CPUs interrupt each other: `resched_curr()`, `scx_bpf_kick_cpu()` and the work that is left to interrupts.

use super::{InjectedFault, Machine, MachineEvent, Timer};
use crate::interleave::{self, RunQueueLock};
use crate::task::TaskClass;

/// `SCX_KICK_IDLE`.
const KICK_IDLE: u64 = 0x1;
/// `SCX_KICK_PREEMPT`.
const KICK_PREEMPT: u64 = 0x2;

impl Machine {
    /// `resched_curr()`, asked for on the CPU where the machine's code runs.
    pub(super) fn resched(&mut self, cpu: usize) {
        self.resched_from(self.this_cpu(), cpu);
    }

    /// The same, asked for on a certain CPU: another one gets an interrupt.
    pub(super) fn resched_from(&mut self, from: usize, cpu: usize) {
        let distance = if from == cpu { 0 } else { self.costs.ipi_ns };
        let at = (self.now + distance).max(self.cpus[cpu].busy_until);
        if self.cpus[cpu].resched_at.is_none_or(|before| before > at) {
            self.cpus[cpu].resched_at = Some(at);
            self.at(at, MachineEvent::Schedule(cpu));
        }
    }

    /// The event has been overtaken by another one.
    pub(crate) fn was_overtaken(&self, at: u64, event: MachineEvent) -> bool {
        match event {
            MachineEvent::Schedule(cpu) => self.cpus[cpu].resched_at != Some(at) || !self.topology.online.has(cpu),
            // It stays in the list of the CPU until that is back.
            MachineEvent::Interrupt(cpu) => !self.topology.online.has(cpu),
            MachineEvent::Done(cpu, run) => self.cpus[cpu].run != run,
            MachineEvent::Timer(index, start) => self.is_unregistered || self.timers[index].nr_starts != start,
            _ => false,
        }
    }

    /// `scx_bpf_kick_cpu()`.
    pub(crate) fn kick_from_bpf(&mut self, cpu: i32, flags: u64) {
        let Some(cpu) = usize::try_from(cpu).ok().filter(|cpu| *cpu < self.cpus.len()) else {
            self.fail(format!("invalid CPU {cpu} to kick"));
            return;
        };
        if flags & KICK_IDLE != 0 && flags & KICK_PREEMPT != 0 {
            self.fail("PREEMPT cannot be used with IDLE".to_owned());
            return;
        }
        if self.fault != Some(InjectedFault::ForgottenKicks) || flags & KICK_IDLE == 0 {
            self.kick(self.this_cpu(), cpu, flags);
        }
    }

    /// The kick is left to interrupt work of the CPU that kicks.
    pub(super) fn kick(&mut self, from: usize, cpu: usize, flags: u64) {
        if flags & KICK_IDLE == 0 {
            self.cpus[from].kicks.insert((cpu, flags & KICK_PREEMPT != 0));
        } else if cpu != from && !interleave::is_locked(cpu) && self.can_skip_idle_kick(cpu) {
            // `raw_spin_rq_trylock()`: of a CPU that is about to fall idle nobody knows until it has.
            return;
        } else {
            self.cpus[from].idle_kicks.insert(cpu);
        }
        self.interrupt_soon(from);
    }

    /// `can_skip_idle_kick()`.
    fn can_skip_idle_kick(&self, cpu: usize) -> bool {
        self.cpus[cpu].curr.is_some() && !self.cpus[cpu].in_balance
    }

    /// Interrupt work of a CPU: `kick_cpus_irq_workfn()` and `run_deferred()`.
    pub(crate) fn interrupt(&mut self, cpu: usize) {
        self.cpus[cpu].interrupt_pending = false;
        for (target, preempt) in std::mem::take(&mut self.cpus[cpu].kicks) {
            self.kick_one(cpu, target, preempt);
        }
        for target in std::mem::take(&mut self.cpus[cpu].idle_kicks) {
            let _locked = RunQueueLock::hold(target);
            if self.topology.online.has(target) && !self.can_skip_idle_kick(target) {
                self.resched_from(cpu, target);
            }
        }
        self.run_deferred(cpu);
    }

    /// `kick_one_cpu()`: a higher class is left alone.
    fn kick_one(&mut self, from: usize, cpu: usize, preempt: bool) {
        let _locked = RunQueueLock::hold(cpu);
        if !self.topology.online.has(cpu) && cpu != from {
            return;
        }
        let curr = self.cpus[cpu].curr;
        if curr.is_some_and(|id| self.tasks[id].class != TaskClass::Ext) {
            return;
        }
        if let Some(id) = curr.filter(|_| preempt) {
            self.charge(cpu);
            self.tasks[id].kernel_mut().scx.slice = 0;
        }
        self.resched_from(from, cpu);
    }

    /// What was inserted into the CPU's local queue from elsewhere, and what is to be enqueued anew.
    pub(super) fn run_deferred(&mut self, cpu: usize) {
        let _locked = RunQueueLock::hold(cpu);
        self.take_in_deferred(cpu);
        if std::mem::take(&mut self.cpus[cpu].reenqueues) {
            self.reenqueue_local(cpu);
        }
    }

    /// `bpf_timer_start()`. A timer runs on the CPU that started it last.
    pub(crate) fn start_timer(&mut self, address: usize, after_ns: u64) {
        let cpu = self.this_cpu();
        let index = self.timers.iter().position(|timer| timer.address == address).unwrap_or_else(|| {
            self.timers.push(Timer { address, cpu, nr_starts: 0 });
            self.timers.len() - 1
        });
        let timer = &mut self.timers[index];
        timer.cpu = cpu;
        timer.nr_starts += 1;
        let event = MachineEvent::Timer(index, timer.nr_starts);
        self.at(self.now + after_ns, event);
    }

    /// A timer is due.
    pub(crate) fn fire_timer(&mut self, index: usize) {
        let Timer { address, cpu, .. } = self.timers[index];
        self.op_timer(self.online_cpu(cpu), address);
    }
}
