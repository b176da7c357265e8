//! Schedulers to compare with: over the same emulated kernel, with the same tasks and costs.
//!
//! Those here are as small as a scheduler of sched_ext can be: one queue for all CPUs, and an idle CPU as the kernel picks it.
//! [`eevdf`] follows the kernel's own.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::abi::{Ops, TaskStruct};
use crate::eevdf;
use crate::loaded::SourceScheduler;
use crate::machine::with_machine;

/// The queue.
const SHARED: u64 = 0;
/// `SCX_DSQ_LOCAL`.
const LOCAL: u64 = 1 << 63 | 2;
/// `SCX_SLICE_DFL`.
const SLICE_NS: u64 = 20_000_000;

/// Which one.
#[derive(Clone, Debug)]
pub enum BaselineScheduler {
    /// In the order of arrival, whatever the weight.
    Fifo,
    /// The task goes first that has run least for its weight; what sleeps loses all but a slice of that.
    Vruntime,
    /// The kernel's own: see [`eevdf`].
    Eevdf,
    /// One that was compiled from a file.
    Loaded(Arc<SourceScheduler>),
}

impl BaselineScheduler {
    /// Those that need no file.
    pub const BUILT_IN: [Self; 3] = [Self::Fifo, Self::Vruntime, Self::Eevdf];

    /// Its name for the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Vruntime => "vruntime",
            Self::Eevdf => "eevdf",
            Self::Loaded(_) => "loaded",
        }
    }

    /// A CPU may idle while a task waits for another one: EEVDF balances work later, and a loaded scheduler may do anything.
    pub(crate) const fn may_idle_beside_work(&self) -> bool {
        matches!(self, Self::Eevdf | Self::Loaded(_))
    }

    /// Whether it comes from a file.
    pub(crate) const fn is_loaded(&self) -> bool {
        matches!(self, Self::Loaded(_))
    }

    /// Its callbacks, with its memory as at the beginning.
    pub(crate) fn ops(&self) -> *const Ops {
        CLOCK.store(0, Relaxed);
        match self {
            Self::Fifo => &raw const FIFO,
            Self::Vruntime => &raw const VRUNTIME,
            Self::Eevdf => &raw const eevdf::EEVDF,
            Self::Loaded(scheduler) => scheduler.begin(),
        }
    }
}

/// Virtual runtime of the task that ran last.
static CLOCK: AtomicU64 = AtomicU64::new(0);

const COMMON: Ops = Ops {
    select_cpu: Some(select_cpu),
    dispatch: Some(dispatch),
    init: Some(init),
    dispatch_max_batch: 8,
    flags: Ops::ENQ_MIGRATION_DISABLED,
    ..Ops::NONE
};

static FIFO: Ops = Ops { enqueue: Some(enqueue_by_arrival), ..COMMON };

static VRUNTIME: Ops = Ops {
    enqueue: Some(enqueue_by_vruntime),
    running: Some(running),
    stopping: Some(stopping),
    enable: Some(enable),
    ..COMMON
};

extern "C" fn init() -> i32 {
    with_machine(|machine| machine.create_queue(SHARED))
}

extern "C" fn select_cpu(p: *mut TaskStruct, prev: i32, wake_flags: u64) -> i32 {
    let id = id_of(p);
    with_machine(|machine| {
        let idle = machine.select_cpu_default(id, prev as usize, wake_flags);
        if idle.is_some() {
            machine.insert_from_bpf(id, LOCAL, SLICE_NS, None, 0);
        }
        idle.map_or(prev, |cpu| cpu as i32)
    })
}

extern "C" fn enqueue_by_arrival(p: *mut TaskStruct, flags: u64) {
    with_machine(|machine| machine.insert_from_bpf(id_of(p), SHARED, SLICE_NS, None, flags));
}

extern "C" fn enqueue_by_vruntime(p: *mut TaskStruct, flags: u64) {
    let id = id_of(p);
    with_machine(|machine| {
        let least = CLOCK.load(Relaxed).saturating_sub(SLICE_NS);
        let vruntime = machine.tasks[id].kernel().scx.dsq_vtime.max(least);
        machine.insert_from_bpf(id, SHARED, SLICE_NS, Some(vruntime), flags);
    });
}

extern "C" fn dispatch(_cpu: i32, _prev: *mut TaskStruct) {
    with_machine(|machine| machine.move_to_local(SHARED));
}

extern "C" fn running(p: *mut TaskStruct) {
    let id = id_of(p);
    with_machine(|machine| CLOCK.fetch_max(machine.tasks[id].kernel().scx.dsq_vtime, Relaxed));
}

/// What is left of the slice has not been used.
extern "C" fn stopping(p: *mut TaskStruct, _runnable: bool) {
    let id = id_of(p);
    with_machine(|machine| {
        let scx = &mut machine.tasks[id].kernel_mut().scx;
        scx.dsq_vtime += SLICE_NS.saturating_sub(scx.slice) * 100 / u64::from(scx.weight);
    });
}

extern "C" fn enable(p: *mut TaskStruct) {
    let id = id_of(p);
    with_machine(|machine| machine.tasks[id].kernel_mut().scx.dsq_vtime = CLOCK.load(Relaxed));
}

fn id_of(p: *mut TaskStruct) -> usize {
    #[allow(unsafe_code)]
    // SAFETY: the machine calls with a task that is alive.
    unsafe {
        (*p).sim_id as usize
    }
}
