//! A CPU chooses its next task: `__schedule()`, `balance_one()`, `put_prev_task_scx()`, `set_next_task_scx()`.

use super::enqueue::{ENQ_HEAD, ENQ_LAST, SLICE_DEFAULT_NS, SLICE_INFINITE};
use super::queue::{DsqTarget, GLOBAL};
use super::{Dispatch, InjectedFault, Machine, MachineEvent};
use crate::abi::Ops;
use crate::interleave::RunQueueLock;
use crate::task::{State, TaskClass, TaskId};

/// `SCX_DSP_MAX_LOOPS`.
const MAX_DISPATCH_LOOPS: u32 = 32;

impl Machine {
    /// `__schedule()`.
    pub(crate) fn schedule(&mut self, cpu: usize) {
        let _locked = RunQueueLock::hold(cpu);
        let prev = self.cpus[cpu].curr;
        self.charge(cpu);
        let blocked = prev.filter(|id| self.tasks[*id].state != State::Runnable);
        if let Some(id) = blocked {
            self.block_current(cpu, id);
        }
        let next = self.pick_next(cpu, prev);
        if next == prev {
            self.stay(cpu, next);
        } else {
            self.switch(cpu, prev, next, blocked.is_none());
        }
        self.cpus[cpu].resched_at = None;
        self.push_from_dying(cpu);
        if self.cpus[cpu].reenqueues || !self.cpus[cpu].deferred.is_empty() {
            self.run_deferred(cpu);
        }
    }

    fn block_current(&mut self, cpu: usize, id: TaskId) {
        match self.tasks[id].class {
            TaskClass::Ext => self.dequeue_current(cpu, id),
            TaskClass::RealTime | TaskClass::Stop => self.cpus[cpu].realtime.retain(|other| *other != id),
        }
    }

    /// `pick_next_task()`. Up to 6.18 `prev_balance()` asks sched_ext even if a higher class is going to be picked, unless the
    /// previous task is of that class; later kernels ask when it is sched_ext's turn.
    fn pick_next(&mut self, cpu: usize, prev: Option<TaskId>) -> Option<TaskId> {
        let realtime = self.cpus[cpu].realtime.front().copied();
        let prev_is_realtime = prev.is_some_and(|id| self.tasks[id].class != TaskClass::Ext);
        let balances_first = self.profile.balances_before_pick && !prev_is_realtime;
        if realtime.is_none() || balances_first {
            self.balance(cpu, prev);
        }
        // Meanwhile the run queue was not always locked: a task of a higher class may have come (`RETRY_TASK` in later kernels).
        let realtime = self.cpus[cpu].realtime.front().copied();
        if realtime.is_some() {
            return realtime;
        }
        let next = if self.cpus[cpu].keeps { prev } else { self.cpus[cpu].local.front().copied() };
        if let Some(id) = next
            && self.tasks[id].kernel().scx.slice == 0
        {
            self.tasks[id].kernel_mut().scx.slice = SLICE_DEFAULT_NS;
        }
        next
    }

    /// `balance_one()`.
    fn balance(&mut self, cpu: usize, prev: Option<TaskId>) {
        let prev_ext = prev.filter(|id| self.tasks[*id].class == TaskClass::Ext);
        let runnable = prev_ext.filter(|id| self.tasks[*id].is_queued());
        self.cpus[cpu].in_balance = true;
        self.cpus[cpu].keeps = false;
        self.cpus[cpu].released = false;
        let has_slice = |machine: &Self| runnable.is_some_and(|id| machine.tasks[id].kernel().scx.slice != 0);
        if has_slice(self) {
            self.cpus[cpu].keeps = true;
        } else if self.cpus[cpu].local.is_empty() && !self.consume(GLOBAL, cpu) {
            if self.bypassing {
                self.consume_bypassed(cpu);
            } else if self.topology.active.has(cpu) {
                self.ask_for_work(cpu, prev_ext, &has_slice);
            }
            // `balance_one()`: with nothing else to run the previous task goes on, unless the scheduler wants to know.
            self.cpus[cpu].keeps |= runnable.is_some()
                && self.cpus[cpu].local.is_empty()
                && (self.bypassing || !self.ops().has_flag(Ops::ENQ_LAST) || !self.topology.active.has(cpu));
        }
        self.cpus[cpu].in_balance = false;
    }

    /// The part of `balance_one()` that calls `ops.dispatch`.
    fn ask_for_work(&mut self, cpu: usize, prev: Option<TaskId>, prev_has_slice: &dyn Fn(&Self) -> bool) {
        for _ in 0..MAX_DISPATCH_LOOPS {
            self.dispatch = Some(Dispatch { cpu, inserted: Vec::new(), nr_moved: 0 });
            self.op_dispatch(cpu, prev);
            self.flush_dispatch();
            let nr_moved = self.dispatch.take().map_or(0, |dispatch| dispatch.nr_moved);
            if prev_has_slice(self) {
                self.cpus[cpu].keeps = true;
                return;
            }
            if !self.cpus[cpu].local.is_empty() || self.consume(GLOBAL, cpu) || nr_moved == 0 {
                return;
            }
        }
        self.kick(cpu, cpu, 0);
    }

    /// The same task goes on, or the CPU still has none: then `pick_task_idle()` marks it idle again, and tells nobody.
    fn stay(&mut self, cpu: usize, next: Option<TaskId>) {
        if next.is_none() && self.fault != Some(InjectedFault::IdleStaysUnmarked) {
            self.idle.update(&self.topology, cpu, true);
        }
    }

    fn switch(&mut self, cpu: usize, prev: Option<TaskId>, next: Option<TaskId>, preempted: bool) {
        self.put_prev(cpu, prev, next);
        self.set_next(cpu, next);
        self.cpus[cpu].curr = next;
        self.without_task.set(cpu, next.is_none());
        self.note_cpu(cpu);
        if self.profile.reenqueues_anywhere && !self.is_baseline {
            self.op_sched_switch(cpu, preempted, next);
        }
        self.cpus[cpu].current = next;
        self.start_run(cpu, prev, next);
    }

    fn put_prev(&mut self, cpu: usize, prev: Option<TaskId>, next: Option<TaskId>) {
        let Some(id) = prev else {
            self.end_idleness(cpu);
            self.update_idle(cpu, false);
            return;
        };
        self.tasks[id].on_cpu = false;
        self.note_task(id);
        let now = self.now;
        self.trace.stop(cpu, now);
        if self.tasks[id].state == State::Runnable {
            self.begin_wait(id);
        }
        if self.tasks[id].class == TaskClass::Ext {
            self.put_prev_ext(cpu, id, next);
        }
        if self.tasks[id].kernel().migration_disabled != 0 {
            self.tasks[id].stay_on(cpu);
        }
    }

    /// `put_prev_task_scx()`.
    fn put_prev_ext(&mut self, cpu: usize, id: TaskId, next: Option<TaskId>) {
        if self.tasks[id].is_queued() {
            self.op_stopping(cpu, id, true);
            if self.tasks[id].kernel().scx.slice != 0 {
                self.dispatch_enqueue(id, DsqTarget::Local(cpu), ENQ_HEAD, false);
            } else {
                let flags = if next.is_none() { ENQ_LAST } else { 0 };
                self.do_enqueue(cpu, id, flags);
            }
        }
        if let Some(next) = next.filter(|next| self.tasks[*next].class != TaskClass::Ext)
            && !self.cpus[cpu].released
            && !self.profile.reenqueues_anywhere
        {
            self.op_cpu_release(cpu, next);
            self.cpus[cpu].released = true;
        }
    }

    fn set_next(&mut self, cpu: usize, next: Option<TaskId>) {
        let now = self.now;
        let Some(id) = next else {
            self.cpus[cpu].idle_since = now;
            self.stats.nr_idle_entries += 1;
            self.idle.update(&self.topology, cpu, true);
            self.update_idle(cpu, true);
            return;
        };
        self.cpus[cpu].charged_until = now;
        if self.tasks[id].class == TaskClass::Ext {
            const DEQ_CORE_SCHED_EXEC: u64 = 1 << 32;
            self.take_from_bpf(cpu, id, DEQ_CORE_SCHED_EXEC);
            self.leave_place(id);
            self.op_running(cpu, id);
        }
        let task = &mut self.tasks[id];
        task.on_cpu = true;
        task.nr_reenqueued = 0;
        task.was_parked = false;
        let waited = task.waits_since.take().map_or(0, |since| now - since);
        let woken = std::mem::take(&mut task.woken);
        self.stats.ran_after(task.group, waited, woken, woken && task.handed_over);
    }

    /// The context switch takes its time, and more if the task has to fetch its data from another CPU's cache.
    fn start_run(&mut self, cpu: usize, prev: Option<TaskId>, next: Option<TaskId>) {
        let mut begins = self.now + self.costs.switch_ns;
        if prev.is_none() {
            begins += self.costs.idle_exit_ns;
        }
        if let Some(id) = next {
            let last = self.tasks[id].last_cpu.replace(cpu).filter(|last| *last != cpu);
            if let Some(last) = last {
                let distance = self.topology.distance(last, cpu) as usize;
                begins += self.costs.migrate_ns[distance];
                self.stats.nr_moves[distance] += 1;
            }
            if self.trace.is_enabled() {
                let name = self.name(id);
                self.trace.start(cpu, self.now, name);
            }
        }
        self.stats.nr_switches += 1;
        let state = &mut self.cpus[cpu];
        state.run += 1;
        state.busy_until = self.now + self.costs.switch_ns;
        state.worked_until = begins;
        self.plan_end_of_work(cpu);
        self.start_tick(cpu);
    }

    /// The current task of a CPU has got new work.
    pub(crate) fn plan_work(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        state.worked_until = state.worked_until.max(self.now);
        self.plan_end_of_work(cpu);
    }

    /// Accounts for the idleness of a CPU so far.
    pub(crate) fn end_idleness(&mut self, cpu: usize) {
        let idle_ns = self.now.saturating_sub(self.cpus[cpu].idle_since.max(self.cpus[cpu].charged_until));
        self.cpus[cpu].charged_until = self.now;
        self.stats.idle_ns += idle_ns;
        self.stats.energy.add_idle(idle_ns, self.topology.slow.has(cpu));
    }

    /// When the current task of a CPU will have done its work.
    pub(super) fn plan_end_of_work(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr else { return };
        let remaining = self.tasks[id].remaining_ns;
        let speed_percent = self.speed_percent(cpu, id);
        if remaining < u64::MAX / 2 && speed_percent > 0 {
            let takes_ns = (remaining * 100).div_ceil(speed_percent);
            let at = self.cpus[cpu].worked_until + takes_ns;
            self.at(at, MachineEvent::Done(cpu, self.cpus[cpu].run));
        }
    }

    /// What the task gets done on the CPU in the time of a fast one, in percent; those that look at their CPU time go by that.
    fn speed_percent(&self, cpu: usize, id: TaskId) -> u64 {
        match self.tasks[id].goes_by_cpu_time {
            true => 100,
            false if self.is_paused(cpu) => 0,
            false => self.topology.speed_percent(cpu),
        }
    }

    /// `update_curr_scx()`: charges the current task for its time.
    pub(crate) fn charge(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        let Some(id) = state.curr else { return };
        let ran_ns = self.now.saturating_sub(state.charged_until);
        state.charged_until += ran_ns;
        let worked_ns = self.now.saturating_sub(state.worked_until);
        state.worked_until += worked_ns;
        let worked_ns = worked_ns * self.speed_percent(cpu, id) / 100;
        let state = &self.cpus[cpu];
        let task = &mut self.tasks[id];
        if task.remaining_ns < u64::MAX / 2 {
            task.remaining_ns = task.remaining_ns.saturating_sub(worked_ns);
        }
        task.ran_ns += ran_ns;
        task.kernel_mut().sum_exec_runtime += ran_ns;
        self.stats.charge(task.group, ran_ns, state.performance);
        self.stats.energy.add_active(ran_ns, self.topology.slow.has(cpu));
        if task.class == TaskClass::Ext && task.kernel().scx.slice != SLICE_INFINITE {
            let slice = &mut task.kernel_mut().scx.slice;
            *slice = slice.saturating_sub(ran_ns);
        }
        if task.class != TaskClass::Ext {
            self.withhold(ran_ns);
        }
    }

    fn start_tick(&mut self, cpu: usize) {
        if self.cpus[cpu].curr.is_some() && !std::mem::replace(&mut self.cpus[cpu].ticks, true) {
            self.at(self.next_tick(cpu), MachineEvent::Tick(cpu));
        }
    }

    /// Ticks of all CPUs come at the same time, and go on at multiples of their period after idleness.
    fn next_tick(&self, cpu: usize) -> u64 {
        let period = 1_000_000_000 / self.profile.hz;
        (self.now / period + 1) * period + self.tick_skew_ns(cpu)
    }

    /// `task_tick_scx()`; idle CPUs do not tick.
    pub(crate) fn tick(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr else {
            self.cpus[cpu].ticks = false;
            return;
        };
        let _locked = RunQueueLock::hold(cpu);
        self.charge(cpu);
        if self.tasks[id].class == TaskClass::Ext {
            if self.bypassing {
                self.tasks[id].kernel_mut().scx.slice = 0;
            } else {
                self.op_tick(cpu, id);
            }
            if self.tasks[id].kernel().scx.slice == 0 {
                self.resched_from(cpu, cpu);
            }
        }
        self.at(self.next_tick(cpu), MachineEvent::Tick(cpu));
    }
}
