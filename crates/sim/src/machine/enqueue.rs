//! Tasks become runnable and are dispatched: `enqueue_task_scx()`, `do_enqueue_task()`, `dispatch_enqueue()` and their like.

use super::queue::DsqTarget;
use super::{Dispatch, InjectedFault, Inserted, Machine, MachineEvent};
use crate::abi::Ops;
use crate::interleave::{self, QueueLock, SharedObject};
use crate::task::{DirectDispatch, OpsState, State, TaskClass, TaskId, TaskPlace};

/// `SCX_ENQ_WAKEUP`.
pub(super) const ENQ_WAKEUP: u64 = 0x1;
/// `SCX_ENQ_HEAD`.
pub(super) const ENQ_HEAD: u64 = 0x10;
/// `SCX_ENQ_PREEMPT`.
pub(super) const ENQ_PREEMPT: u64 = 1 << 32;
/// `SCX_ENQ_REENQ`.
const ENQ_REENQ: u64 = 1 << 40;
/// `SCX_ENQ_LAST`.
pub(super) const ENQ_LAST: u64 = 1 << 41;
/// `SCX_SLICE_DFL`.
pub(super) const SLICE_DEFAULT_NS: u64 = 20_000_000;
/// `SCX_SLICE_BYPASS`.
pub(super) const SLICE_BYPASS_NS: u64 = 5_000_000;
/// `SCX_SLICE_INF`.
pub(super) const SLICE_INFINITE: u64 = u64::MAX;

impl Machine {
    /// `enqueue_task_scx()`, on the run queue that was chosen. The callbacks run on `on_cpu`.
    pub(super) fn enqueue_task(&mut self, on_cpu: usize, id: TaskId, flags: u64) {
        self.tasks[id].set_queued(true);
        self.op_runnable(on_cpu, id, flags);
        self.do_enqueue(on_cpu, id, flags);
    }

    /// `do_enqueue_task()`.
    pub(super) fn do_enqueue(&mut self, on_cpu: usize, id: TaskId, flags: u64) {
        let cpu = self.tasks[id].cpu;
        if !self.topology.active.has(cpu) {
            self.enqueue_by_kernel(id, DsqTarget::Local(cpu), flags);
            return;
        }
        if self.bypassing {
            self.enqueue_bypassing(id, cpu, flags);
            return;
        }
        if self.tasks[id].direct.is_none() && self.is_kept(id) {
            self.enqueue_by_kernel(id, DsqTarget::Local(cpu), flags);
            return;
        }
        if self.tasks[id].direct.is_none() && self.ops().enqueue.is_none() {
            self.enqueue_by_kernel(id, DsqTarget::Queue(super::queue::GLOBAL), flags);
            return;
        }
        if self.tasks[id].direct.is_none() {
            let task = &mut self.tasks[id];
            task.ops_state = OpsState::Queueing;
            task.in_custody = self.profile.dequeues_from_queues;
            task.queue_seq += 1;
            self.note_task(id);
            let outer = self.enqueuing.replace(id);
            self.op_enqueue(on_cpu, id, flags);
            self.enqueuing = outer;
            if self.tasks[id].direct.is_none() {
                self.tasks[id].ops_state = OpsState::Queued;
            }
        }
        if let Some(direct) = self.tasks[id].direct.take() {
            // `task_dsq_custody`: what goes to a queue of the kernel's at once never was the scheduler's.
            let own = self.profile.dequeues_from_queues && direct.dsq_id & super::queue::BUILTIN == 0;
            self.tasks[id].in_custody = own;
            self.direct_dispatch(id, direct, flags);
        }
    }

    /// What the kernel does not ask the scheduler about, unless it wants to be asked.
    fn is_kept(&self, id: TaskId) -> bool {
        const EXITING: u32 = 0x4;
        let (task, ops) = (self.tasks[id].kernel(), self.ops());
        let exits = task.flags & EXITING != 0 && !ops.has_flag(Ops::ENQ_EXITING);
        let is_asked_if_pinned =
            ops.has_flag(Ops::ENQ_MIGRATION_DISABLED) && self.fault != Some(InjectedFault::KeptFromMigrating);
        exits || task.migration_disabled != 0 && !is_asked_if_pinned
    }

    /// `do_enqueue_task()` where the scheduler is not asked.
    pub(super) fn enqueue_by_kernel(&mut self, id: TaskId, target: DsqTarget, flags: u64) {
        self.tasks[id].direct = None;
        self.tasks[id].kernel_mut().scx.slice = SLICE_DEFAULT_NS;
        self.dispatch_enqueue(id, target, flags, false);
    }

    /// `direct_dispatch()`: another CPU's local queue takes the task in later.
    fn direct_dispatch(&mut self, id: TaskId, direct: DirectDispatch, flags: u64) {
        let cpu = self.tasks[id].cpu;
        let flags = direct.flags | flags;
        match self.target(direct.dsq_id, cpu) {
            DsqTarget::Local(other) if other != cpu => {
                self.tasks[id].direct = Some(DirectDispatch { flags, ..direct });
                self.tasks[id].ops_state = OpsState::None;
                self.tasks[id].place = TaskPlace::Deferred(cpu);
                self.cpus[cpu].deferred.push(id);
                self.interrupt_soon(cpu);
            }
            target => self.dispatch_enqueue(id, target, flags, direct.by_vtime),
        }
    }

    /// `process_ddsp_deferred_locals()`: the run queue is not locked all the time, so that tasks come and go meanwhile.
    pub(super) fn take_in_deferred(&mut self, cpu: usize) {
        while let Some(&id) = self.cpus[cpu].deferred.first() {
            self.unlink(id);
            if let Some(direct) = self.tasks[id].direct.take()
                && let DsqTarget::Local(to) = self.target(direct.dsq_id, cpu)
            {
                self.dispatch_to_local(id, cpu, to, direct.flags);
            }
        }
    }

    /// `dispatch_enqueue()`. The scheduler is done with the task only once it is in its queue: until then others wait.
    pub(super) fn dispatch_enqueue(&mut self, id: TaskId, target: DsqTarget, flags: u64, by_vtime: bool) {
        match target {
            DsqTarget::Queue(dsq_id) => {
                let _locked = QueueLock::hold(dsq_id);
                self.insert_into_queue(id, dsq_id, by_vtime, flags & (ENQ_HEAD | ENQ_PREEMPT) != 0);
                if dsq_id == super::queue::GLOBAL {
                    self.leave_custody(id);
                }
            }
            DsqTarget::Local(cpu) => {
                self.link_local(id, cpu, flags);
                self.leave_custody(id);
                self.notice_local(id, cpu, flags & ENQ_PREEMPT != 0);
            }
        }
        self.tasks[id].ops_state = OpsState::None;
    }

    /// `call_task_dequeue()`, from 7.1.
    pub(super) fn leave_custody(&mut self, id: TaskId) {
        if std::mem::take(&mut self.tasks[id].in_custody) {
            self.op_dequeue(self.this_cpu(), id, 0);
        }
    }

    /// The end of `dispatch_enqueue()` for a local queue: the CPU is interrupted if it idles, or has to give way.
    pub(super) fn notice_local(&mut self, id: TaskId, cpu: usize, preempt: bool) {
        match self.cpus[cpu].curr {
            None => self.resched(cpu),
            Some(curr) if preempt && curr != id && self.tasks[curr].class == TaskClass::Ext => {
                self.charge(cpu);
                self.tasks[curr].kernel_mut().scx.slice = 0;
                self.resched(cpu);
            }
            Some(_) => {}
        }
    }

    /// An insertion, as the scheduler asks for it or as a fault changes it.
    pub(crate) fn insert_from_bpf(&mut self, id: TaskId, dsq_id: u64, slice_ns: u64, vtime: Option<u64>, flags: u64) {
        let dsq_id = match self.fault {
            Some(InjectedFault::LostInsertion) => {
                self.fault = None;
                return;
            }
            Some(InjectedFault::DoubleInsertion) => {
                self.insert(id, dsq_id, slice_ns, vtime, flags);
                dsq_id
            }
            Some(InjectedFault::ForbiddenCpu) => super::queue::LOCAL_ON | (self.cpus.len() - 1) as u64,
            _ => dsq_id,
        };
        self.insert(id, dsq_id, slice_ns, vtime, flags);
    }

    /// `scx_dsq_insert_preamble()` and `scx_dsq_insert_commit()`.
    fn insert(&mut self, id: TaskId, dsq_id: u64, slice_ns: u64, vtime: Option<u64>, flags: u64) {
        let scx = &mut self.tasks[id].kernel_mut().scx;
        if slice_ns != 0 {
            scx.slice = slice_ns;
        } else if scx.slice == 0 {
            scx.slice = 1;
        }
        if let Some(vtime) = vtime {
            scx.dsq_vtime = vtime;
        }
        let by_vtime = vtime.is_some();
        if let Some(enqueuing) = self.enqueuing {
            if enqueuing != id || self.tasks[id].direct.is_some() {
                let names = (self.name(id), self.name(enqueuing));
                self.fail(format!("{} cannot be dispatched directly in the enqueue of {}", names.0, names.1));
            } else {
                self.tasks[id].direct = Some(DirectDispatch { dsq_id, flags, by_vtime });
            }
            return;
        }
        let queue_seq = self.tasks[id].queue_seq;
        if self.nr_dispatch_slots() == 0 {
            self.fail("dispatch buffer overflow, or insertion outside of a dispatch".to_owned());
        } else if let Some(dispatch) = &mut self.dispatch {
            dispatch.inserted.push(Inserted { task: id, queue_seq, dsq_id, flags, by_vtime });
        }
    }

    /// `scx_bpf_dispatch_nr_slots()`.
    pub(crate) fn nr_dispatch_slots(&mut self) -> u32 {
        const DEFAULT: u32 = 32;
        let max = self.bpf(self.this_cpu(), |ops| ops.dispatch_max_batch);
        let max = if max == 0 { DEFAULT } else { max };
        self.dispatch.as_ref().map_or(0, |dispatch| max - dispatch.inserted.len() as u32)
    }

    /// `flush_dispatch_buf()`: insertions of tasks that are no longer the scheduler's are dropped.
    pub(super) fn flush_dispatch(&mut self) {
        let Some(Dispatch { cpu, inserted, .. }) = &mut self.dispatch else { return };
        let (cpu, inserted) = (*cpu, std::mem::take(inserted));
        for Inserted { task, queue_seq, dsq_id, flags, by_vtime } in inserted {
            if let Some(dispatch) = &mut self.dispatch {
                dispatch.nr_moved += 1;
            }
            self.finish_dispatch(cpu, task, queue_seq, (dsq_id, flags, by_vtime));
        }
    }

    /// `reenq_local()`: what waits in the CPU's local queue is enqueued anew.
    pub(crate) fn reenqueue_local(&mut self, cpu: usize) -> u32 {
        let waiting: Vec<TaskId> = self.cpus[cpu].local.iter().copied().collect();
        for &id in &waiting {
            self.leave_place(id);
        }
        for &id in &waiting {
            self.tasks[id].nr_reenqueued += 1;
            let nr = self.tasks[id].nr_reenqueued;
            self.stats.most_reenqueued = self.stats.most_reenqueued.max(nr);
            if self.profile.reenqueue_limit.is_some_and(|limit| nr > limit) {
                let name = self.name(id);
                self.fail(format!("reenqueue limit ({name} reenqueued {nr} times without running)"));
            }
            let outer = self.enqueuing.take();
            self.do_enqueue(cpu, id, ENQ_REENQ);
            self.enqueuing = outer;
        }
        waiting.len() as u32
    }

    /// `scx_bpf_reenqueue_local___v2()`: the same, as soon as the CPU gets to it.
    pub(crate) fn reenqueue_local_soon(&mut self) {
        let cpu = self.this_cpu();
        self.cpus[cpu].reenqueues = true;
        self.interrupt_soon(cpu);
    }

    /// `ops_dequeue()`: the scheduler loses a task that it had in hand; from 7.1 also one that waits in a queue of its own. One that is being
    /// dispatched arrives first.
    pub(super) fn take_from_bpf(&mut self, cpu: usize, id: TaskId, flags: u64) {
        interleave::touch(SharedObject::OpsState(id));
        let is_told_first = !self.profile.dequeues_from_queues;
        if self.tasks[id].ops_state == OpsState::Queued {
            self.note_task(id);
            if is_told_first {
                self.op_dequeue(cpu, id, flags);
            }
            // While it was told another CPU may have begun to dispatch the task.
            if self.tasks[id].ops_state == OpsState::Queued {
                self.tasks[id].ops_state = OpsState::None;
            }
        }
        interleave::wait_until_dispatched(id);
        if std::mem::take(&mut self.tasks[id].in_custody) {
            self.op_dequeue(cpu, id, flags);
        }
    }

    /// `dequeue_task_scx()` of the CPU's current task, which sleeps or is gone.
    pub(super) fn dequeue_current(&mut self, cpu: usize, id: TaskId) {
        const DEQ_SLEEP: u64 = 0x1;
        self.take_from_bpf(cpu, id, DEQ_SLEEP);
        self.op_stopping(cpu, id, false);
        self.op_quiescent(cpu, id, DEQ_SLEEP);
        self.tasks[id].set_queued(false);
        if self.tasks[id].state == State::Dead {
            self.op_exit_task(cpu, id);
            self.forget_pid(id);
        }
    }

    /// Name and pid, as the kernel's messages have them.
    pub(crate) fn name(&self, id: TaskId) -> String {
        let task = self.tasks[id].kernel();
        let comm = task.comm.split(|byte| *byte == 0).next().unwrap_or_default();
        format!("{}[{}]", String::from_utf8_lossy(comm), task.pid)
    }

    /// Interrupt work of a CPU runs a moment later.
    pub(super) fn interrupt_soon(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.cpus[cpu].interrupt_pending, true) {
            let at = self.now + self.costs.interrupt_ns;
            self.at(at, MachineEvent::Interrupt(cpu));
        }
    }
}
