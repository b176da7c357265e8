//! How an engine that is about to sleep and BPF agree on which of them acts: the engine looks at the ring, or BPF wakes it.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The word of the control page that says so. A test has one that tries every order of memory accesses.
pub trait ParkedWord {
    /// Writes it, in no order with what comes next.
    fn say(&self, parked: bool);

    /// No access after this takes effect before one that comes before it.
    fn full_barrier(&self);
}

impl ParkedWord for AtomicU64 {
    fn say(&self, parked: bool) {
        self.store(parked.into(), Ordering::Relaxed);
    }

    fn full_barrier(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Says that the engine is parked, and only then looks for records. BPF does it the other way round: it writes a record,
/// then reads whether the engine is parked. So a record that is not seen here wakes the engine.
pub fn park<W: ParkedWord, T>(parked: &W, look: impl FnOnce() -> T) -> T {
    parked.say(true);
    parked.full_barrier();
    look()
}
