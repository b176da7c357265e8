//! `loom` tries every order in which engine and BPF can see each other's accesses while the engine falls asleep.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use scherzo_wire::parking::{ParkedWord, park};

#[derive(Default)]
struct Word(AtomicU64);

impl ParkedWord for Word {
    fn say(&self, parked: bool) {
        self.0.store(parked.into(), Relaxed);
    }

    fn full_barrier() {
        fence(SeqCst);
    }
}

/// What [`Word`] would be without its barrier.
#[derive(Default)]
struct Careless(Word);

impl ParkedWord for Careless {
    fn say(&self, parked: bool) {
        self.0.say(parked);
    }

    fn full_barrier() {}
}

impl AsRef<AtomicU64> for Word {
    fn as_ref(&self) -> &AtomicU64 {
        &self.0
    }
}

impl AsRef<AtomicU64> for Careless {
    fn as_ref(&self) -> &AtomicU64 {
        self.0.as_ref()
    }
}

/// A record is written while the engine parks: it is seen, or the engine is woken.
fn every_record_is_noticed<W: ParkedWord + AsRef<AtomicU64> + Default + Send + Sync + 'static>() {
    loom::model(|| {
        let (parked, nr_records) = (Arc::new(W::default()), Arc::new(AtomicU64::new(0)));
        let bpf = {
            let (parked, nr_records) = (Arc::clone(&parked), Arc::clone(&nr_records));
            thread::spawn(move || {
                nr_records.store(1, Relaxed);
                // The kernel ends a record with an atomic exchange, which is a full barrier.
                fence(SeqCst);
                (*parked).as_ref().load(Relaxed) == 1
            })
        };
        let is_seen = park(&*parked, || nr_records.load(Relaxed) > 0);
        let is_woken = matches!(bpf.join(), Ok(true));
        assert!(is_seen || is_woken, "the engine sleeps beside a record");
    });
}

#[test]
fn an_engine_never_sleeps_beside_a_record() {
    every_record_is_noticed::<Word>();
}

#[test]
#[should_panic = "the engine sleeps beside a record"]
fn without_the_barrier_it_would() {
    every_record_is_noticed::<Careless>();
}
