//! The kernel's locks that keep CPUs from interrupting each other, and what else CPUs share of the emulated kernel.

use super::hooks::{is_exploring, touch, wait_for, with_explorer};
use super::{Explorer, LaneWait};
use crate::task::TaskId;

/// What CPUs share of the emulated kernel. Where one of them accesses it, others may go on before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SharedObject {
    /// A queue that belongs to no CPU.
    Queue(u64),
    /// The run queue of a CPU.
    RunQueue(usize),
    /// `p->scx.ops_state`.
    OpsState(TaskId),
    /// `p->pi_lock`.
    Task(TaskId),
}

impl SharedObject {
    /// A number of its own, among those of addresses and instructions.
    pub(super) fn number(self) -> usize {
        const KERNEL: usize = 1 << 60;
        let (kind, index) = match self {
            // The kernel's own queues have their highest bit set.
            Self::Queue(dsq_id) => (1, (dsq_id.rotate_left(1) & ((1 << 48) - 1)) as usize),
            Self::RunQueue(cpu) => (2, cpu),
            Self::OpsState(id) => (3, id),
            Self::Task(id) => (4, id),
        };
        KERNEL | kind << 56 | index << 3
    }
}

/// Holds the lock of a CPU's run queue as long as it is there.
pub(crate) struct RunQueueLock(Option<usize>);

impl RunQueueLock {
    /// Waits until the lock is free.
    pub(crate) fn hold(cpu: usize) -> Self {
        if !is_exploring() {
            return Self(None);
        }
        touch(SharedObject::RunQueue(cpu));
        with_explorer(Explorer::drain_running);
        wait_for(LaneWait::RunQueue(cpu));
        Self(with_explorer(|explorer| explorer.lock(cpu)).map(|()| cpu))
    }
}

impl Drop for RunQueueLock {
    fn drop(&mut self) {
        if let Some(cpu) = self.0 {
            with_explorer(|explorer| explorer.unlock(cpu));
        }
    }
}

/// Holds a task's lock (`p->pi_lock`) as long as it is there: a task that is woken is not changed, nor the other way round. It is taken
/// before that of a run queue.
pub(crate) struct TaskLock(Option<TaskId>);

impl TaskLock {
    /// Waits until the lock is free.
    pub(crate) fn hold(id: TaskId) -> Self {
        if !is_exploring() {
            return Self(None);
        }
        touch(SharedObject::Task(id));
        with_explorer(Explorer::drain_running);
        wait_for(LaneWait::Task(id));
        Self(with_explorer(|explorer| explorer.lock_task(id)).map(|()| id))
    }
}

impl Drop for TaskLock {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            with_explorer(|explorer| explorer.unlock_task(id));
        }
    }
}

/// Holds the lock of a queue that belongs to no CPU as long as it is there.
pub(crate) struct QueueLock(Option<u64>);

impl QueueLock {
    /// Waits until the lock is free. Before that another CPU may go on.
    pub(crate) fn hold(dsq_id: u64) -> Self {
        touch(SharedObject::Queue(dsq_id));
        Self::hold_at_once(dsq_id)
    }

    /// The same where another CPU could have gone on just before.
    pub(crate) fn hold_at_once(dsq_id: u64) -> Self {
        if !is_exploring() {
            return Self(None);
        }
        with_explorer(Explorer::drain_running);
        wait_for(LaneWait::Queue(dsq_id));
        Self(with_explorer(|explorer| explorer.lock_queue(dsq_id)).map(|()| dsq_id))
    }
}

impl Drop for QueueLock {
    fn drop(&mut self) {
        if let Some(dsq_id) = self.0 {
            with_explorer(|explorer| explorer.unlock_queue(dsq_id));
        }
    }
}

/// A CPU that goes from the lock of one run queue to another, `locked_rq` in the kernel: it never holds two.
pub(crate) struct LockWalk {
    own: Option<usize>,
    /// The lock of `own` while it is not held: by which lane, and how often.
    set_aside: Option<(usize, u32)>,
    locked: Option<usize>,
}

impl LockWalk {
    /// From the lock of `own`, which is held; from none where there is none.
    pub(crate) fn from(own: Option<usize>) -> Self {
        Self { own, set_aside: None, locked: own }
    }

    /// Lets go of the lock.
    pub(crate) fn unlock(&mut self) {
        let Some(cpu) = self.locked.take() else { return };
        if Some(cpu) == self.own {
            self.set_aside = with_explorer(|explorer| explorer.locks[cpu].take()).flatten();
        } else {
            with_explorer(|explorer| explorer.unlock(cpu));
        }
    }

    /// Takes a lock, when none is held.
    pub(crate) fn lock(&mut self, cpu: usize) {
        // From here on it is this walk that lets go of it.
        std::mem::forget(RunQueueLock::hold(cpu));
        if Some(cpu) == self.own {
            with_explorer(|explorer| explorer.locks[cpu] = self.set_aside.take());
        }
        self.locked = Some(cpu);
    }

    /// Takes a lock instead of the one that is held.
    pub(crate) fn switch_to(&mut self, cpu: usize) {
        if self.locked != Some(cpu) {
            self.unlock();
            self.lock(cpu);
        }
    }

    /// Holds what was held at the beginning.
    pub(crate) fn back(&mut self) {
        match self.own {
            Some(own) => self.switch_to(own),
            None => self.unlock(),
        }
    }
}
