//! `loom` tries every order in which the loop and BPF can see each other's accesses while the engine falls asleep. The loop is the
//! engine's own, over rings and a word that `loom` looks into.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use scherzo_engine_loop::parking::ParkedWord;
use scherzo_engine_loop::{DispatchedRing, Doorbell, EngineLoop, EngineSleep, LoopStep, QueuedRing, RecordSink};
use scherzo_engine_loop::{EnginePages, RETRY_NS};
use scherzo_policy::{FifoPolicy, PolicySettings};
use scherzo_wire::layout::{ControlPage, DispatchedTaskRecord, QueuedTaskRecord, RecordKind, Slot};

/// Most times that one is interrupted by another where not all orders are tried.
const NR_PREEMPTIONS: usize = 2;

/// What is left out on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Nothing,
    Barrier,
    SecondLook,
    /// The ring counts as empty if no record can be taken.
    UnfinishedRecords,
}

/// What both sides see.
#[derive(Default)]
struct Shared {
    parked: AtomicU64,
    /// Records that have been begun.
    produced: AtomicU64,
    /// Two bits for each record: the kind of one that has been finished.
    finished: AtomicU64,
}

struct Word {
    shared: Arc<Shared>,
    missing: Missing,
}

impl ParkedWord for Word {
    fn say(&self, parked: bool) {
        self.shared.parked.store(parked.into(), Relaxed);
    }

    fn full_barrier(&self) {
        if self.missing != Missing::Barrier {
            fence(SeqCst);
        }
    }
}

struct Pages {
    control: ControlPage,
    parked: Word,
}

impl EnginePages for Pages {
    type Parked = Word;

    fn control(&self) -> &ControlPage {
        &self.control
    }

    fn slots(&self) -> &[Slot] {
        &[]
    }

    fn parked(&self) -> &Word {
        &self.parked
    }

    fn tick_us(&self) -> u32 {
        4_000
    }
}

/// The engine's side of the ring.
struct Records {
    shared: Arc<Shared>,
    missing: Missing,
    nr_looks: u32,
    consumed: u64,
}

impl<S: RecordSink> QueuedRing<S> for Records {
    fn consume(&mut self, nr_most: usize, sink: &mut S) -> usize {
        self.nr_looks += 1;
        if self.missing == Missing::SecondLook && self.nr_looks.is_multiple_of(2) {
            return 0;
        }
        let mut nr_records = 0;
        while nr_records < nr_most && self.consumed < self.shared.produced.load(SeqCst) {
            let kind = (self.shared.finished.load(SeqCst) >> (2 * self.consumed)) as u32 & 3;
            if kind == 0 {
                break;
            }
            sink.take(Some(QueuedTaskRecord { kind, slot: 0, pid: 1, ..QueuedTaskRecord::default() }));
            self.consumed += 1;
            nr_records += 1;
        }
        nr_records
    }

    fn is_empty(&self) -> bool {
        self.missing == Missing::UnfinishedRecords || self.consumed == self.shared.produced.load(SeqCst)
    }
}

/// How many tasks were dispatched.
struct Dispatched(Rc<Cell<u64>>);

impl DispatchedRing for Dispatched {
    fn submit(&mut self, _: &DispatchedTaskRecord) -> bool {
        self.0.set(self.0.get() + 1);
        true
    }
}

struct NoDoorbell;

impl Doorbell for NoDoorbell {
    fn ring(&mut self) {}
}

/// One CPU writes a record. What it writes of the ring's state it writes by atomic operations, which are full barriers.
fn write_record(shared: &Shared, kind: RecordKind) {
    let number = shared.produced.fetch_add(1, AcqRel);
    fence(SeqCst);
    shared.finished.fetch_or(u64::from(kind as u32) << (2 * number), AcqRel);
    fence(SeqCst);
}

/// One CPU has a task for the engine, and another one perhaps news that are not worth a wake-up, while the engine goes through its loop
/// until it sleeps: the task has been dispatched then, or the engine is woken, or it looks again by itself because of the other record.
fn every_task_is_noticed(has_news: bool, missing: Missing) {
    let mut model = loom::model::Builder::new();
    // With two of them there are too many orders to try all.
    model.preemption_bound = has_news.then_some(NR_PREEMPTIONS);
    model.check(move || {
        let shared = Arc::new(Shared::default());
        let with_task = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                write_record(&shared, RecordKind::Enqueue);
                shared.parked.load(Relaxed) == 1
            })
        };
        if has_news {
            let shared = Arc::clone(&shared);
            thread::spawn(move || write_record(&shared, RecordKind::Refresh));
        }
        let nr_dispatched = Rc::new(Cell::new(0));
        let sleep = run_until_it_sleeps(&shared, missing, &nr_dispatched);
        let looks_again = has_news && sleep == EngineSleep::AtMost(RETRY_NS);
        let is_woken = with_task.join().expect("it does not panic");
        assert!(nr_dispatched.get() == 1 || is_woken || looks_again, "the engine sleeps beside a record");
    });
}

fn run_until_it_sleeps(shared: &Arc<Shared>, missing: Missing, nr_dispatched: &Rc<Cell<u64>>) -> EngineSleep {
    let parked = Word { shared: Arc::clone(shared), missing };
    let pages = Rc::new(Pages { control: ControlPage::default(), parked });
    let records = Records { shared: Arc::clone(shared), missing, nr_looks: 0, consumed: 0 };
    let policy = FifoPolicy::new(1, PolicySettings::default());
    let mut engine = EngineLoop::new(policy, pages, records, Dispatched(Rc::clone(nr_dispatched)));
    loop {
        match engine.step(&mut NoDoorbell) {
            LoopStep::Parked { sleep: EngineSleep::No, .. } | LoopStep::Read { .. } | LoopStep::Dispatched { .. } => {}
            LoopStep::Parked { sleep, .. } => return sleep,
        }
    }
}

#[test]
fn an_engine_never_sleeps_beside_a_record() {
    every_task_is_noticed(false, Missing::Nothing);
}

#[test]
fn nor_beside_one_behind_another_that_is_still_being_written() {
    every_task_is_noticed(true, Missing::Nothing);
}

#[test]
#[should_panic = "the engine sleeps beside a record"]
fn without_the_barrier_it_would() {
    every_task_is_noticed(false, Missing::Barrier);
}

#[test]
#[should_panic = "the engine sleeps beside a record"]
fn without_the_second_look_it_would() {
    every_task_is_noticed(false, Missing::SecondLook);
}

#[test]
#[should_panic = "the engine sleeps beside a record"]
fn without_regard_to_unfinished_records_it_would() {
    every_task_is_noticed(true, Missing::UnfinishedRecords);
}
