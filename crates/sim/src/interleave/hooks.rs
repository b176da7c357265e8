//! Where a CPU may be interrupted, or has to wait: called by the machine, the kernel's functions and the instrumented scheduler.

#![allow(unsafe_code)]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::{CALL, EXPLORER, Explorer, LaneWait, SharedObject, coroutine};
use crate::task::TaskId;

/// The explorer of this run, if there is one.
pub(super) fn with_explorer<R>(f: impl FnOnce(&mut Explorer) -> R) -> Option<R> {
    let explorer = EXPLORER.get();
    // SAFETY: it lives as long as the run, and no reference to it is kept while another coroutine runs.
    (!explorer.is_null()).then(|| f(unsafe { &mut *explorer }))
}

/// Whether CPUs interrupt each other. Runs where they do not are to lose no time here.
#[inline]
pub(super) fn is_exploring() -> bool {
    !EXPLORER.get().is_null()
}

/// The CPU has come to a place where another one may go on.
pub(crate) fn point() {
    at_point(CALL);
}

/// The same, where nothing may stay in the store buffer.
pub(crate) fn barrier() {
    with_explorer(Explorer::drain_running);
    at_point(CALL);
}

/// A plain store outside of the scheduler to memory that it reads: before it another CPU may go on, and after it others may not see it yet.
pub(crate) fn store(word: &AtomicU64, value: u64) {
    let address = std::ptr::from_ref(word) as usize;
    with_explorer(|explorer| explorer.note_access(address, true, CALL));
    at_point(CALL);
    with_explorer(|explorer| explorer.buffer(address, size_of::<AtomicU64>()));
    word.store(value, Relaxed);
}

/// The CPU is about to change what others may look at; before that another one may go on.
pub(crate) fn touch(what: SharedObject) {
    access(what, true);
}

/// The CPU is about to look at what others may change.
pub(crate) fn look(what: SharedObject) {
    access(what, false);
}

fn access(what: SharedObject, changes: bool) {
    if !is_exploring() {
        return;
    }
    let number = what.number();
    with_explorer(|explorer| explorer.note_access(number, changes, number));
    at_point(number);
}

/// Whether somebody holds the lock of the CPU's run queue.
pub(crate) fn is_locked(cpu: usize) -> bool {
    with_explorer(|explorer| explorer.locks[cpu].is_some()).unwrap_or(false)
}

/// Waits until the task has left its CPU.
pub(crate) fn wait_until_off_cpu(id: TaskId) {
    wait_for(LaneWait::OffCpu(id));
}

/// Waits until `ops.enqueue` is over for the task.
pub(crate) fn wait_until_enqueued(id: TaskId) {
    wait_for(LaneWait::Enqueued(id));
}

/// Waits until the task is in the queue that it is being dispatched to.
pub(crate) fn wait_until_dispatched(id: TaskId) {
    wait_for(LaneWait::Dispatched(id));
}

/// Waits until the task has arrived where it is being moved to.
pub(crate) fn wait_until_migrated(id: TaskId) {
    wait_for(LaneWait::Migrated(id));
}

pub(super) fn wait_for(what: LaneWait) {
    while is_exploring() {
        let waits = with_explorer(|explorer| explorer.must_wait(what)).unwrap_or(false);
        if !waits {
            return;
        }
        with_explorer(|explorer| explorer.block(what));
        stop_here();
    }
}

fn at_point(site: usize) {
    if with_explorer(|explorer| explorer.is_interrupted(site)).unwrap_or(false) {
        stop_here();
    }
}

/// Back to [`Simulation::explore_until`], until this CPU goes on.
fn stop_here() {
    let coroutine = with_explorer(Explorer::leave);
    if let Some(Some(coroutine)) = coroutine {
        coroutine::stop(coroutine);
    }
    with_explorer(Explorer::come_back);
}

#[unsafe(no_mangle)]
extern "C" fn sim_access(address: *mut u8, nr_bytes: u32, is_store: bool, site: usize) {
    let address = address as usize;
    if with_explorer(|explorer| explorer.is_private(address)).unwrap_or(true) {
        return;
    }
    with_explorer(|explorer| explorer.note_access(address, is_store, site));
    at_point(site);
    if is_store {
        with_explorer(|explorer| explorer.buffer(address, nr_bytes as usize));
    }
}

#[unsafe(no_mangle)]
extern "C" fn sim_atomic(address: *mut u8, _size: u32, site: usize) {
    let address = address as usize;
    if with_explorer(|explorer| explorer.is_private(address)).unwrap_or(true) {
        return;
    }
    with_explorer(|explorer| explorer.note_access(address, true, site));
    at_point(site);
    with_explorer(Explorer::drain_running);
}
