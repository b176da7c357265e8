//! Tasks are moved from queue to queue, and from one run queue to another: `consume_dispatch_q()`, `dispatch_to_local_dsq()`,
//! `scx_dsq_move()` and their like.
//!
//! Whoever moves a task to another run queue has neither that lock nor the one of the queue for a moment. In that time the task is in its
//! hands (`holding_cpu`), and may be dequeued nevertheless.

use super::enqueue::{ENQ_HEAD, ENQ_PREEMPT};
use super::queue::{DsqTarget, GLOBAL};
use super::{InjectedFault, Machine};
use crate::interleave::{self, LockWalk, QueueLock, SharedObject};
use crate::task::{OpsState, TaskId, TaskPlace};

/// What `scx_bpf_dsq_move()` and its twin for `dsq_vtime` ask for.
pub(crate) struct QueueMove {
    pub(crate) dsq_id: u64,
    pub(crate) flags: u64,
    pub(crate) by_vtime: bool,
    /// The slice that was set for it.
    pub(crate) slice_ns: Option<u64>,
    pub(crate) vtime: u64,
}

impl Machine {
    /// `scx_bpf_dsq_move_to_local()`.
    pub(crate) fn move_to_local(&mut self, dsq_id: u64) -> bool {
        self.flush_dispatch();
        let Some(cpu) = self.dispatch.as_ref().map(|dispatch| dispatch.cpu) else {
            self.fail("move to a local DSQ outside of a dispatch".to_owned());
            return false;
        };
        if !self.queues.contains_key(&dsq_id) {
            self.fail(format!("invalid DSQ ID 0x{dsq_id:016x}"));
            return false;
        }
        let moved = self.consume(dsq_id, cpu);
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.nr_moved += u32::from(moved);
        }
        moved
    }

    /// `consume_dispatch_q()`: the first task that the CPU may run.
    pub(super) fn consume(&mut self, dsq_id: u64, cpu: usize) -> bool {
        loop {
            // Whether it is empty is asked without its lock, and so before what this CPU has written must be seen by others.
            interleave::look(SharedObject::Queue(dsq_id));
            if self.queues.get(&dsq_id).is_none_or(|queue| queue.tasks.is_empty()) {
                return false;
            }
            let (found, locked) = if self.fault == Some(InjectedFault::UnlockedSearch) {
                (self.first_for(dsq_id, cpu), QueueLock::hold(dsq_id))
            } else {
                let locked = QueueLock::hold_at_once(dsq_id);
                (self.first_for(dsq_id, cpu), locked)
            };
            let Some(id) = found else { return false };
            if self.tasks[id].cpu == cpu {
                // `move_local_task_to_local_dsq()`: the queue stays locked until it is over.
                self.unlink(id);
                self.link_local(id, cpu, 0);
                self.leave_custody(id);
                return true;
            }
            if self.fetch(id, cpu, Some(locked)) {
                return true;
            }
        }
    }

    fn first_for(&self, dsq_id: u64, cpu: usize) -> Option<TaskId> {
        let may_run = |id: &TaskId| self.tasks[*id].cpu == cpu || self.may_move_to(*id, cpu);
        self.queues.get(&dsq_id)?.tasks.values().copied().find(may_run)
    }

    /// `consume_remote_task()`: false if the task was dequeued while its run queue and its queue were not locked.
    pub(super) fn fetch(&mut self, id: TaskId, cpu: usize, queue: Option<QueueLock>) -> bool {
        let from = self.tasks[id].cpu;
        let mut locks = LockWalk::from(Some(cpu));
        locks.unlock();
        let held = match self.tasks[id].place {
            TaskPlace::Queue(dsq_id, _) => TaskPlace::Held(cpu, Some(dsq_id)),
            _ => TaskPlace::Held(cpu, None),
        };
        self.unlink(id);
        self.tasks[id].place = held;
        drop(queue);
        locks.lock(from);
        let is_held = self.tasks[id].place == held || self.fault == Some(InjectedFault::OverlookedDequeue);
        if is_held {
            self.migrate(id, cpu, 0, &mut locks);
        }
        locks.switch_to(cpu);
        is_held
    }

    /// `move_remote_task_to_local_dsq()`: the task's run queue is locked, and afterwards the one that it has come to is.
    fn migrate(&mut self, id: TaskId, to: usize, flags: u64, locks: &mut LockWalk) {
        self.tasks[id].is_migrating = true;
        self.leave_place(id);
        self.tasks[id].cpu = to;
        locks.switch_to(to);
        self.tasks[id].is_migrating = false;
        // `call_task_dequeue()` does nothing here: the scheduler is told when the task gets the CPU.
        self.link_local(id, to, flags);
    }

    /// Into the local queue of a CPU, whose run queue is locked.
    pub(super) fn link_local(&mut self, id: TaskId, cpu: usize, flags: u64) {
        self.note_task(id);
        self.tasks[id].place = TaskPlace::Local(cpu);
        if flags & (ENQ_HEAD | ENQ_PREEMPT) != 0 {
            self.cpus[cpu].local.push_front(id);
        } else {
            self.cpus[cpu].local.push_back(id);
        }
    }

    /// `finish_dispatch()`: an insertion of a task that is no longer the scheduler's is dropped.
    pub(super) fn finish_dispatch(&mut self, cpu: usize, id: TaskId, queue_seq: u64, insertion: (u64, u64, bool)) {
        let (dsq_id, flags, by_vtime) = insertion;
        interleave::touch(SharedObject::OpsState(id));
        interleave::wait_until_enqueued(id);
        if self.tasks[id].ops_state != OpsState::Queued || self.tasks[id].queue_seq != queue_seq {
            self.stats.nr_dropped += 1;
            return;
        }
        self.tasks[id].ops_state = OpsState::Dispatching;
        match self.target(dsq_id, cpu) {
            DsqTarget::Local(to) => self.dispatch_to_local(id, cpu, to, flags),
            target @ DsqTarget::Queue(_) => self.dispatch_enqueue(id, target, flags, by_vtime),
        }
    }

    /// `dispatch_to_local_dsq()`, on a CPU whose run queue is locked. Others may dequeue the task as soon as it is not being dispatched
    /// any more: before its run queue is locked.
    pub(super) fn dispatch_to_local(&mut self, id: TaskId, own: usize, to: usize, flags: u64) {
        let from = self.tasks[id].cpu;
        if own == from && own == to {
            self.dispatch_enqueue(id, DsqTarget::Local(to), flags, false);
            return;
        }
        if from != to && !self.enforce_may_move_to(id, to) {
            self.dispatch_enqueue(id, DsqTarget::Queue(GLOBAL), flags, false);
            return;
        }
        let held = TaskPlace::Held(own, None);
        self.tasks[id].place = held;
        self.tasks[id].ops_state = OpsState::None;
        let mut locks = LockWalk::from(Some(own));
        locks.switch_to(from);
        if self.tasks[id].place == held {
            if from == to {
                self.tasks[id].place = TaskPlace::None;
                self.dispatch_enqueue(id, DsqTarget::Local(to), flags, false);
            } else {
                self.migrate(id, to, flags, &mut locks);
                self.notice_local(id, to, flags & ENQ_PREEMPT != 0);
            }
        }
        locks.switch_to(own);
    }

    /// `task_can_run_on_remote_rq()`.
    pub(crate) fn may_move_to(&self, id: TaskId, cpu: usize) -> bool {
        self.is_allowed_on(id, cpu) && self.topology.active.has(cpu)
    }

    fn is_allowed_on(&self, id: TaskId, cpu: usize) -> bool {
        let task = &self.tasks[id];
        task.may_run_on(cpu) && task.kernel().migration_disabled == 0
    }

    /// The same with `enforce`: a CPU where the task may not run ends the scheduler, one that is going offline does not.
    fn enforce_may_move_to(&mut self, id: TaskId, cpu: usize) -> bool {
        if !self.is_allowed_on(id, cpu) {
            let name = self.name(id);
            self.fail(format!("SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {name}"));
        }
        self.may_move_to(id, cpu)
    }

    /// The same as [`Self::move_between`], for schedulers that are not interrupted: from whichever queue the task is in.
    pub(crate) fn requeue(&mut self, id: TaskId, dsq_id: u64) {
        let TaskPlace::Queue(from, _) = self.tasks[id].place else { return };
        let vtime = self.tasks[id].kernel().scx.dsq_vtime;
        let walk = self.begin_walk(from);
        self.move_between(walk, id, &QueueMove { dsq_id, flags: 0, by_vtime: false, slice_ns: None, vtime });
        self.end_walk(walk);
    }

    /// `scx_dsq_move()`: from the queue of a walk, unless the task has left it meanwhile.
    pub(crate) fn move_between(&mut self, walk: u64, id: TaskId, asked: &QueueMove) -> bool {
        let Some(walk) = self.walks.get(&walk).copied() else { return false };
        let own = self.this_cpu();
        let from = self.tasks[id].cpu;
        let mut locks = LockWalk::from(self.cpus[own].in_balance.then_some(own));
        locks.switch_to(from);
        let queue = QueueLock::hold(walk.dsq_id);
        let is_there = matches!(
            self.tasks[id].place,
            TaskPlace::Queue(dsq_id, (_, sequence)) if dsq_id == walk.dsq_id && sequence <= walk.began
        );
        let moves = is_there && self.tasks[id].cpu == from;
        if moves {
            let scx = &mut self.tasks[id].kernel_mut().scx;
            scx.slice = asked.slice_ns.unwrap_or(scx.slice);
            scx.dsq_vtime = asked.vtime;
            self.move_out_of(queue, id, asked, &mut locks);
        } else {
            drop(queue);
        }
        locks.back();
        moves
    }

    /// `move_task_between_dsqs()`: the task's run queue and its queue are locked.
    fn move_out_of(&mut self, queue: QueueLock, id: TaskId, asked: &QueueMove, locks: &mut LockWalk) {
        let from = self.tasks[id].cpu;
        let target = match self.target(asked.dsq_id, self.this_cpu()) {
            DsqTarget::Local(to) if to != from && !self.enforce_may_move_to(id, to) => DsqTarget::Queue(GLOBAL),
            target => target,
        };
        match target {
            DsqTarget::Local(to) if to == from => {
                self.unlink(id);
                self.link_local(id, to, asked.flags);
                self.leave_custody(id);
                drop(queue);
                // `local_dsq_post_enq()`; before 7.1 `move_local_task_to_local_dsq()` tells nobody.
                if self.profile.dequeues_from_queues {
                    self.notice_local(id, to, asked.flags & ENQ_PREEMPT != 0);
                }
            }
            DsqTarget::Local(to) => {
                drop(queue);
                self.migrate(id, to, asked.flags, locks);
                self.notice_local(id, to, asked.flags & ENQ_PREEMPT != 0);
            }
            DsqTarget::Queue(_) => {
                self.unlink(id);
                drop(queue);
                self.dispatch_enqueue(id, target, asked.flags, asked.by_vtime);
            }
        }
    }
}
