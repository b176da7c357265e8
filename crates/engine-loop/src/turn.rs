//! The loop as steps that do not block.
//!
//! Blocking is also the doorbell: the CPU that the engine leaves runs a dispatch, which drains what was dispatched. Only when more
//! records are there already, so that the engine does not block, another CPU is kicked.

use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use scherzo_policy::Policy;
use scherzo_wire::layout::ControlPage;
use scherzo_wire::message::LoadSettings;

use crate::core::Core;
use crate::environment::{DispatchedRing, Doorbell, EnginePages, QueuedRing, RecordSink};
use crate::parking::{ParkedWord, park};

/// Most records taken at a time, so that everything else gets its turn as well.
pub const MAX_BATCH: usize = 1024;
/// While the ring of dispatched tasks is full, or a record is about to be finished, the engine looks again after so long.
pub const RETRY_NS: u64 = 1_000_000;

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopStep {
    /// It has read so many records.
    Read {
        /// Their number.
        nr_records: u64,
    },
    /// It has dispatched tasks: now is the time for everything that records are not about.
    Dispatched {
        /// Their number.
        nr_dispatched: u64,
    },
    /// It has parked. The next step is to come once the engine has slept.
    Parked {
        /// Records that it has found while it did so.
        nr_records: u64,
        /// How long to sleep.
        sleep: EngineSleep,
    },
}

/// How long the engine sleeps. A record that is announced, and everything that records are not about, ends it earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineSleep {
    /// Not at all: there is more to do.
    No,
    /// At most for so many nanoseconds.
    AtMost(u64),
    /// Until it is woken.
    UntilWoken,
}

/// What the next step does.
#[derive(Clone, Copy, Debug)]
enum NextStep {
    Read,
    Dispatch,
    Park,
}

/// The loop, and everything that it needs but the doorbell. Building it allocates.
pub struct EngineLoop<P, M, Q, D> {
    core: Core<P, M>,
    pages: Rc<M>,
    queued: Q,
    dispatched: D,
    next: NextStep,
    /// Of this turn.
    nr_dispatched: u64,
}

impl<P, M, Q, D> EngineLoop<P, M, Q, D>
where
    P: Policy,
    M: EnginePages,
    Q: QueuedRing<Core<P, M>>,
    D: DispatchedRing,
{
    /// A loop that has not begun yet.
    pub fn new(policy: P, pages: Rc<M>, queued: Q, dispatched: D) -> Self {
        let core = Core::new(policy, Rc::clone(&pages));
        Self { core, pages, queued, dispatched, next: NextStep::Read, nr_dispatched: 0 }
    }

    /// The control page.
    pub fn page(&self) -> &ControlPage {
        self.pages.control()
    }

    /// Follows new settings.
    pub fn apply(&mut self, settings: &LoadSettings) {
        self.core.apply(settings);
    }

    /// Goes on to where time passes: reads the records that are there, dispatches tasks for all that wait, or parks; in this order,
    /// again and again.
    pub fn step(&mut self, doorbell: &mut impl Doorbell) -> LoopStep {
        match self.next {
            NextStep::Read => self.read(),
            NextStep::Dispatch => self.dispatch(),
            NextStep::Park => self.park(doorbell),
        }
    }

    fn read(&mut self) -> LoopStep {
        self.pages.parked().say(false);
        self.next = NextStep::Dispatch;
        LoopStep::Read { nr_records: consume(&mut self.queued, &mut self.core, self.pages.control()) }
    }

    fn dispatch(&mut self) -> LoopStep {
        self.core.follow_hotplug();
        self.nr_dispatched = self.core.dispatch(&mut self.dispatched);
        self.core.publish_order();
        self.core.publish_totals();
        let page = self.page();
        page.nr_loops.fetch_add(1, Relaxed);
        page.nr_dispatched.fetch_add(self.nr_dispatched, Relaxed);
        self.next = NextStep::Park;
        LoopStep::Dispatched { nr_dispatched: self.nr_dispatched }
    }

    /// The engine first says that it parks, then looks at the ring once more. BPF first writes its record, then looks whether the
    /// engine is parked. One of the two sees the other, unless the record stands behind one that is still being written: then the
    /// ring is not empty, and the engine looks again soon.
    fn park(&mut self, doorbell: &mut impl Doorbell) -> LoopStep {
        self.answer_notice();
        let Self { core, pages, queued, .. } = self;
        let nr_records = park(pages.parked(), || consume(queued, core, pages.control()));
        let is_busy = nr_records > 0;
        if is_busy && self.nr_dispatched > 0 {
            self.page().nr_doorbells.fetch_add(1, Relaxed);
            doorbell.ring();
        }
        let sleep = if is_busy {
            EngineSleep::No
        } else if self.core.nr_pending() > 0 || !self.queued.is_empty() {
            EngineSleep::AtMost(RETRY_NS)
        } else {
            EngineSleep::UntilWoken
        };
        self.next = NextStep::Read;
        LoopStep::Parked { nr_records, sleep }
    }

    /// Degraded: everything that waited has been looked at, so the kernel side may trust user space again.
    fn answer_notice(&self) {
        let seq = self.page().degraded_seq.load(SeqCst);
        if seq & 1 == 1 && self.page().recovered_seq.load(Relaxed) != seq {
            self.page().recovered_seq.store(seq, SeqCst);
        }
    }
}

/// Takes the records that are there; their number.
fn consume<S: RecordSink>(queued: &mut impl QueuedRing<S>, sink: &mut S, page: &ControlPage) -> u64 {
    let nr_records = queued.consume(MAX_BATCH, sink) as u64;
    page.nr_records.fetch_add(nr_records, Relaxed);
    page.nr_max_batch.fetch_max(nr_records, Relaxed);
    nr_records
}

#[cfg(test)]
mod tests;
