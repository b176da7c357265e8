//! Dispatch queues: by arrival or by `dsq_vtime`, never both at a time.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{Machine, is_park};
use crate::interleave::QueueLock;
use crate::task::{TaskId, TaskPlace};

/// `SCX_DSQ_FLAG_BUILTIN`.
pub(super) const BUILTIN: u64 = 1 << 63;
/// `SCX_DSQ_FLAG_LOCAL_ON`.
const LOCAL_ON_FLAG: u64 = 1 << 62;
/// `SCX_DSQ_GLOBAL`.
pub(super) const GLOBAL: u64 = BUILTIN | 1;
/// `SCX_DSQ_LOCAL`.
pub(super) const LOCAL: u64 = BUILTIN | 2;
/// `SCX_DSQ_LOCAL_ON`.
pub(super) const LOCAL_ON: u64 = BUILTIN | LOCAL_ON_FLAG;

/// Tasks in the order in which CPUs take them.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// By key; tasks of the same key in the order of their arrival.
    pub tasks: BTreeMap<(i64, u64), TaskId>,
    by_vtime: bool,
}

/// A walk through a queue: `struct bpf_iter_scx_dsq_kern`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub(super) dsq_id: u64,
    /// Tasks with a later number came after the walk had begun.
    pub(super) began: u64,
    /// Where the last task was.
    at: Option<(i64, u64)>,
}

/// What a queue's number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DsqTarget {
    /// The local queue of a CPU.
    Local(usize),
    /// Any other.
    Queue(u64),
}

impl Machine {
    /// `find_dsq_for_dispatch()`: a number that means nothing ends the scheduler, and the task goes to the global queue.
    pub(super) fn target(&mut self, dsq_id: u64, local_cpu: usize) -> DsqTarget {
        if dsq_id == LOCAL {
            return DsqTarget::Local(local_cpu);
        }
        if dsq_id & LOCAL_ON == LOCAL_ON {
            let cpu = (dsq_id & 0xffff_ffff) as usize;
            if cpu < self.cpus.len() {
                return DsqTarget::Local(cpu);
            }
            self.fail(format!("invalid CPU {cpu} in SCX_DSQ_LOCAL_ON"));
            return DsqTarget::Queue(GLOBAL);
        }
        if !self.queues.contains_key(&dsq_id) {
            self.fail(format!("non-existent DSQ 0x{dsq_id:x}"));
            return DsqTarget::Queue(GLOBAL);
        }
        DsqTarget::Queue(dsq_id)
    }

    /// `scx_bpf_create_dsq()`.
    pub(crate) fn create_queue(&mut self, dsq_id: u64) -> i32 {
        const EINVAL: i32 = -22;
        const EEXIST: i32 = -17;
        if dsq_id & BUILTIN != 0 {
            return EINVAL;
        }
        if self.queues.contains_key(&dsq_id) {
            return EEXIST;
        }
        self.queues.insert(dsq_id, Queue::default());
        0
    }

    /// `scx_bpf_dsq_nr_queued()`.
    pub(crate) fn nr_queued(&self, dsq_id: u64) -> i32 {
        const ENOENT: i32 = -2;
        if dsq_id == LOCAL {
            return self.cpus[self.this_cpu()].local.len() as i32;
        }
        if dsq_id & LOCAL_ON == LOCAL_ON {
            return self.cpus.get((dsq_id & 0xffff_ffff) as usize).map_or(ENOENT, |cpu| cpu.local.len() as i32);
        }
        self.queues.get(&dsq_id).map_or(ENOENT, |queue| queue.tasks.len() as i32)
    }

    /// `scx_bpf_dsq_peek()`.
    pub(crate) fn peek(&self, dsq_id: u64) -> Option<TaskId> {
        self.queues.get(&dsq_id)?.tasks.first_key_value().map(|(_, id)| *id)
    }

    /// Tasks of a queue, in its order.
    pub(crate) fn queued_in(&self, dsq_id: u64) -> Vec<TaskId> {
        self.queues.get(&dsq_id).map_or(Vec::new(), |queue| queue.tasks.values().copied().collect())
    }

    /// Part of `dispatch_enqueue()` for queues that belong to no CPU.
    pub(super) fn insert_into_queue(&mut self, id: TaskId, dsq_id: u64, by_vtime: bool, at_head: bool) {
        let vtime = self.tasks[id].kernel().scx.dsq_vtime as i64;
        self.next_sequence += 1;
        let sequence = self.next_sequence;
        let Some(queue) = self.queues.get_mut(&dsq_id) else { return };
        if !queue.tasks.is_empty() && queue.by_vtime != by_vtime {
            self.fail(format!("DSQ ID 0x{dsq_id:016x} already had tasks in the other order"));
            return;
        }
        queue.by_vtime = by_vtime;
        let key = match queue.tasks.first_key_value() {
            _ if by_vtime => (vtime, sequence),
            Some(((first, _), _)) if at_head => (first - 1, sequence),
            _ => (queue.tasks.last_key_value().map_or(0, |((last, _), _)| *last), sequence),
        };
        queue.tasks.insert(key, id);
        self.tasks[id].place = TaskPlace::Queue(dsq_id, key);
        self.tasks[id].queued_at = self.now;
        self.note_task(id);
        self.note_waiting(id, dsq_id);
    }

    /// `dispatch_dequeue()`: out of whichever queue the task is in. Its run queue is locked, so that it leaves that queue in no other way
    /// than into the hands of a CPU that moves it, and that one notices.
    pub(super) fn leave_place(&mut self, id: TaskId) {
        let queue = match self.tasks[id].place {
            TaskPlace::Queue(dsq_id, _) => Some(dsq_id),
            TaskPlace::Held(_, dsq_id) => dsq_id,
            _ => None,
        };
        let _locked = queue.map(QueueLock::hold);
        self.unlink(id);
    }

    /// `task_unlink_from_dsq()`: the same where the queue is locked.
    pub(super) fn unlink(&mut self, id: TaskId) {
        match std::mem::replace(&mut self.tasks[id].place, TaskPlace::None) {
            TaskPlace::None | TaskPlace::Held(..) => {}
            TaskPlace::Local(cpu) => self.cpus[cpu].local.retain(|other| *other != id),
            TaskPlace::Deferred(cpu) => self.cpus[cpu].deferred.retain(|other| *other != id),
            TaskPlace::Bypassed(cpu) => self.cpus[cpu].bypassed.retain(|other| *other != id),
            TaskPlace::Queue(dsq_id, key) => {
                if let Some(queue) = self.queues.get_mut(&dsq_id) {
                    queue.tasks.remove(&key);
                }
                self.note_not_waiting(id);
                if is_park(dsq_id) {
                    self.tasks[id].was_parked = true;
                    self.restart_answerable_wait(id);
                }
            }
        }
    }

    /// `bpf_iter_scx_dsq_new()`: begins to walk through a queue.
    pub(crate) fn begin_walk(&mut self, dsq_id: u64) -> u64 {
        self.nr_walks += 1;
        self.walks.insert(self.nr_walks, Walk { dsq_id, began: self.next_sequence, at: None });
        self.nr_walks
    }

    /// `bpf_iter_scx_dsq_next()`: the next task of those that are in the queue since before the walk began.
    pub(crate) fn walk(&mut self, walk: u64) -> Option<TaskId> {
        let Walk { dsq_id, began, at } = *self.walks.get(&walk)?;
        let _locked = QueueLock::hold(dsq_id);
        let behind = at.map_or(Bound::Unbounded, Bound::Excluded);
        let mut left = self.queues.get(&dsq_id)?.tasks.range((behind, Bound::Unbounded));
        let next = left.find(|((_, sequence), _)| *sequence <= began).map(|(key, id)| (*key, *id));
        let (key, id) = next?;
        self.walks.insert(walk, Walk { dsq_id, began, at: Some(key) });
        Some(id)
    }

    /// The walk is over.
    pub(crate) fn end_walk(&mut self, walk: u64) {
        self.walks.remove(&walk);
    }
}
