//! The loop over made-up rings: what is read and written when, and when the engine sleeps.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use scherzo_policy::{FifoPolicy, PolicySettings};
use scherzo_wire::layout::{DispatchedTaskRecord, QueuedTaskRecord, RecordKind, Slot};

use super::*;

const NR_SLOTS: u32 = 2048;

#[derive(Default)]
struct PlainPages {
    control: ControlPage,
    slots: Vec<Slot>,
}

impl EnginePages for PlainPages {
    type Parked = AtomicU64;

    fn control(&self) -> &ControlPage {
        &self.control
    }

    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn parked(&self) -> &AtomicU64 {
        &self.control.parked
    }

    fn tick_us(&self) -> u32 {
        4_000
    }
}

/// What BPF has written, and what it writes as soon as the engine is parked.
#[derive(Default)]
struct Bpf {
    records: RefCell<VecDeque<QueuedTaskRecord>>,
    while_parking: RefCell<VecDeque<QueuedTaskRecord>>,
    /// A record that is still being written comes first.
    is_writing: Cell<bool>,
    dispatched: RefCell<Vec<u32>>,
    room: Cell<usize>,
}

struct PlainQueuedRing {
    bpf: Rc<Bpf>,
    pages: Rc<PlainPages>,
}

impl<S: RecordSink> QueuedRing<S> for PlainQueuedRing {
    fn consume(&mut self, nr_most: usize, sink: &mut S) -> usize {
        if self.pages.control.parked.load(Relaxed) == 1 {
            self.bpf.records.borrow_mut().append(&mut self.bpf.while_parking.borrow_mut());
        }
        if self.bpf.is_writing.get() {
            return 0;
        }
        let mut records = self.bpf.records.borrow_mut();
        let nr_records = nr_most.min(records.len());
        records.drain(..nr_records).for_each(|record| sink.take(Some(record)));
        nr_records
    }

    fn is_empty(&self) -> bool {
        self.bpf.records.borrow().is_empty() && !self.bpf.is_writing.get()
    }
}

struct PlainDispatchedRing(Rc<Bpf>);

impl DispatchedRing for PlainDispatchedRing {
    fn submit(&mut self, dispatched: &DispatchedTaskRecord) -> bool {
        let mut submitted = self.0.dispatched.borrow_mut();
        let fits = submitted.len() < self.0.room.get();
        if fits {
            submitted.push(dispatched.slot);
        }
        fits
    }
}

#[derive(Default)]
struct CountingDoorbell {
    nr_rings: u32,
}

impl Doorbell for CountingDoorbell {
    fn ring(&mut self) {
        self.nr_rings += 1;
    }
}

/// A loop, and both of its ends.
struct Bench {
    bpf: Rc<Bpf>,
    pages: Rc<PlainPages>,
    engine: EngineLoop<FifoPolicy, PlainPages, PlainQueuedRing, PlainDispatchedRing>,
    doorbell: CountingDoorbell,
}

impl Bench {
    fn new() -> Self {
        let bpf = Rc::new(Bpf::default());
        bpf.room.set(usize::MAX);
        let pages = Rc::new(PlainPages::default());
        let queued = PlainQueuedRing { bpf: Rc::clone(&bpf), pages: Rc::clone(&pages) };
        let policy = FifoPolicy::new(NR_SLOTS, PolicySettings::default());
        let engine = EngineLoop::new(policy, Rc::clone(&pages), queued, PlainDispatchedRing(Rc::clone(&bpf)));
        Self { bpf, pages, engine, doorbell: CountingDoorbell::default() }
    }

    fn write(&self, slots: std::ops::Range<u32>) {
        self.bpf.records.borrow_mut().extend(slots.map(record));
    }

    fn step(&mut self) -> LoopStep {
        self.engine.step(&mut self.doorbell)
    }

    /// A whole turn: records read, tasks dispatched, records found while it parked, sleep.
    fn turn(&mut self) -> (u64, u64, u64, EngineSleep) {
        match [self.step(), self.step(), self.step()] {
            [
                LoopStep::Read { nr_records },
                LoopStep::Dispatched { nr_dispatched },
                LoopStep::Parked { nr_records: nr_more, sleep },
            ] => (nr_records, nr_dispatched, nr_more, sleep),
            steps => panic!("{steps:?}"),
        }
    }

    fn is_parked(&self) -> bool {
        self.pages.control.parked.load(Relaxed) == 1
    }
}

fn record(slot: u32) -> QueuedTaskRecord {
    QueuedTaskRecord { kind: RecordKind::Enqueue as u32, slot, pid: slot + 1, ..QueuedTaskRecord::default() }
}

#[test]
fn with_nothing_to_do_it_parks_and_sleeps_until_it_is_woken() {
    let mut bench = Bench::new();
    assert_eq!(bench.turn(), (0, 0, 0, EngineSleep::UntilWoken));
    assert!(bench.is_parked());
    assert_eq!(bench.step(), LoopStep::Read { nr_records: 0 });
    assert!(!bench.is_parked());
}

#[test]
fn tasks_are_dispatched_in_the_turn_that_reads_their_records() {
    let mut bench = Bench::new();
    bench.write(0..3);
    assert_eq!(bench.turn(), (3, 3, 0, EngineSleep::UntilWoken));
    assert_eq!(*bench.bpf.dispatched.borrow(), [0, 1, 2]);
    let page = bench.engine.page();
    let counted = [&page.nr_records, &page.nr_max_batch, &page.nr_dispatched, &page.nr_submitted, &page.nr_loops];
    assert_eq!(counted.map(|word| word.load(Relaxed)), [3, 3, 3, 3, 1]);
}

#[test]
fn no_more_than_a_batch_is_read_at_a_time() {
    let mut bench = Bench::new();
    bench.write(0..1030);
    assert_eq!(bench.turn(), (1024, 1024, 6, EngineSleep::No));
    assert_eq!(bench.doorbell.nr_rings, 1, "it does not block, so another CPU takes what was dispatched");
    assert_eq!(bench.turn(), (0, 6, 0, EngineSleep::UntilWoken));
    assert_eq!(bench.engine.page().nr_max_batch.load(Relaxed), 1024);
}

#[test]
fn a_full_ring_keeps_tasks_waiting_in_order_and_loses_none() {
    let mut bench = Bench::new();
    bench.bpf.room.set(2);
    bench.write(0..5);
    assert_eq!(bench.turn(), (5, 2, 0, EngineSleep::AtMost(RETRY_NS)));
    assert_eq!(bench.turn(), (0, 0, 0, EngineSleep::AtMost(RETRY_NS)));
    bench.bpf.room.set(4);
    assert_eq!(bench.turn(), (0, 2, 0, EngineSleep::AtMost(RETRY_NS)));
    bench.bpf.room.set(5);
    assert_eq!(bench.turn(), (0, 1, 0, EngineSleep::UntilWoken));
    assert_eq!(*bench.bpf.dispatched.borrow(), [0, 1, 2, 3, 4]);
    assert_eq!(bench.engine.page().nr_submitted.load(Relaxed), 5);
}

#[test]
fn behind_a_record_that_is_still_being_written_it_looks_again_soon() {
    let mut bench = Bench::new();
    bench.bpf.is_writing.set(true);
    assert_eq!(bench.turn(), (0, 0, 0, EngineSleep::AtMost(RETRY_NS)));
    bench.write(0..2);
    assert_eq!(bench.turn(), (0, 0, 0, EngineSleep::AtMost(RETRY_NS)));
    bench.bpf.is_writing.set(false);
    assert_eq!(bench.turn(), (2, 2, 0, EngineSleep::UntilWoken));
}

#[test]
fn a_record_that_comes_while_it_parks_keeps_it_awake() {
    let mut bench = Bench::new();
    bench.bpf.while_parking.borrow_mut().push_back(record(7));
    assert_eq!(bench.turn(), (0, 0, 1, EngineSleep::No));
    assert_eq!(bench.doorbell.nr_rings, 0, "nothing was dispatched that a CPU could take");
    assert_eq!(bench.turn(), (0, 1, 0, EngineSleep::UntilWoken));
    bench.write(8..9);
    bench.bpf.while_parking.borrow_mut().push_back(record(9));
    assert_eq!(bench.turn(), (1, 1, 1, EngineSleep::No));
    assert_eq!((bench.doorbell.nr_rings, bench.engine.page().nr_doorbells.load(Relaxed)), (1, 1));
}

#[test]
fn a_notice_is_answered_once_and_after_what_waited() {
    let mut bench = Bench::new();
    let page = Rc::clone(&bench.pages);
    page.control.degraded_seq.store(3, Relaxed);
    assert!(matches!([bench.step(), bench.step()], [LoopStep::Read { .. }, LoopStep::Dispatched { .. }]));
    assert_eq!(page.control.recovered_seq.load(Relaxed), 0);
    bench.step();
    assert_eq!(page.control.recovered_seq.load(Relaxed), 3);
    page.control.degraded_seq.store(4, Relaxed);
    bench.turn();
    assert_eq!(page.control.recovered_seq.load(Relaxed), 3, "nothing to answer: it is not degraded any more");
}
