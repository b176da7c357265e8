//! Wake-ups and forks: `try_to_wake_up()` and `wake_up_new_task()`.

use super::Machine;
use super::enqueue::{ENQ_WAKEUP, SLICE_DEFAULT_NS};
use super::queue::LOCAL;
use crate::interleave::{self, RunQueueLock, TaskLock};
use crate::task::{DirectDispatch, State, TaskClass, TaskId};

/// `SCX_WAKE_FORK`.
const WAKE_FORK: u64 = 0x4;
/// `SCX_WAKE_TTWU`.
const WAKE_TTWU: u64 = 0x8;
/// `SCX_WAKE_SYNC`.
const WAKE_SYNC: u64 = 0x10;

impl Machine {
    /// `try_to_wake_up()`, on the waker's CPU. Nothing for a task that is not asleep.
    pub(crate) fn wake(&mut self, on_cpu: usize, id: TaskId, sync: bool) {
        let wake_flags = if sync { WAKE_TTWU | WAKE_SYNC } else { WAKE_TTWU };
        self.activate(on_cpu, id, wake_flags, ENQ_WAKEUP);
    }

    /// `wake_up_new_task()`, on the parent's CPU.
    pub(crate) fn start(&mut self, on_cpu: usize, id: TaskId) {
        if self.usable(id).has(on_cpu) {
            self.tasks[id].cpu = on_cpu;
        }
        self.activate(on_cpu, id, WAKE_FORK, 0);
    }

    fn activate(&mut self, on_cpu: usize, id: TaskId, wake_flags: u64, enq_flags: u64) {
        let _locked = (self.tasks[id].class == TaskClass::Ext).then(|| TaskLock::hold(id));
        if self.tasks[id].state != State::Sleeping {
            return;
        }
        interleave::wait_until_off_cpu(id);
        if self.tasks[id].state != State::Sleeping {
            return;
        }
        self.note_task(id);
        self.begin_wait(id);
        let task = &mut self.tasks[id];
        task.state = State::Runnable;
        task.woken = true;
        task.handed_over = wake_flags & WAKE_SYNC != 0;
        if task.class != TaskClass::Ext {
            let class = task.class;
            let cpu = self.cpu_of_higher_class(id);
            self.tasks[id].cpu = cpu;
            let _locked = RunQueueLock::hold(cpu);
            if class == TaskClass::Stop {
                self.cpus[cpu].realtime.push_front(id);
            } else {
                self.cpus[cpu].realtime.push_back(id);
            }
            let gives_way = |curr: TaskId| class == TaskClass::Stop || self.tasks[curr].class == TaskClass::Ext;
            if self.cpus[cpu].curr.is_none_or(gives_way) {
                self.resched_from(on_cpu, cpu);
            }
            return;
        }
        let cpu = self.select_cpu(on_cpu, id, wake_flags);
        self.tasks[id].cpu = cpu;
        let _locked = RunQueueLock::hold(cpu);
        // What a callback or `dispatch_enqueue()` interrupts is interrupted from the waker's CPU.
        let outer = std::mem::replace(&mut self.this_cpu, on_cpu);
        self.enqueue_task(on_cpu, id, enq_flags);
        self.this_cpu = outer;
        // wakeup_preempt(): an idle CPU looks for work even if the task went elsewhere.
        if self.cpus[cpu].curr.is_none() {
            self.resched_from(on_cpu, cpu);
        }
    }

    /// Higher classes stay where they are, unless that CPU takes no tasks.
    fn cpu_of_higher_class(&mut self, id: TaskId) -> usize {
        let cpu = self.tasks[id].cpu;
        if self.tasks[id].class == TaskClass::Stop || self.usable(id).has(cpu) {
            return cpu;
        }
        if self.usable(id).is_empty() {
            self.break_affinity(id);
        }
        self.usable(id).first().unwrap_or(cpu)
    }

    /// `select_task_rq()`: tasks that may run in one place only are not asked about.
    fn select_cpu(&mut self, on_cpu: usize, id: TaskId, wake_flags: u64) -> usize {
        if self.usable(id).is_empty() {
            self.break_affinity(id);
        }
        let task = &self.tasks[id];
        let (prev, usable) = (task.cpu, self.usable(id));
        if task.kernel().nr_cpus_allowed == 1 || task.kernel().migration_disabled != 0 {
            return usable.first().unwrap_or(prev);
        }
        if self.bypassing {
            let idle = self.select_cpu_default(id, prev, wake_flags);
            return idle.or_else(|| usable.has(prev).then_some(prev)).or_else(|| usable.first()).unwrap_or(prev);
        }
        let outer = self.enqueuing.replace(id);
        let chosen = self.op_select_cpu(on_cpu, id, wake_flags);
        self.enqueuing = outer;
        let chosen = chosen.unwrap_or_else(|| self.select_cpu_for_scheduler(on_cpu, id, wake_flags) as i32);
        match usize::try_from(chosen) {
            Ok(cpu) if cpu < self.cpus.len() => {
                if usable.has(cpu) {
                    cpu
                } else {
                    usable.first().unwrap_or(prev)
                }
            }
            _ => {
                self.fail(format!("invalid CPU {chosen} from ops.select_cpu"));
                prev
            }
        }
    }

    /// `select_task_rq_scx()` without `ops.select_cpu`: a task for which there is an idle CPU is dispatched to it at once.
    fn select_cpu_for_scheduler(&mut self, on_cpu: usize, id: TaskId, wake_flags: u64) -> usize {
        let prev = self.tasks[id].cpu;
        let Some(cpu) = self.on(on_cpu, |machine| machine.select_cpu_default(id, prev, wake_flags)) else {
            return prev;
        };
        self.tasks[id].kernel_mut().scx.slice = SLICE_DEFAULT_NS;
        self.tasks[id].direct = Some(DirectDispatch { dsq_id: LOCAL, flags: 0, by_vtime: false });
        cpu
    }
}
