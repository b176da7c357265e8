//! What the loop runs on: the engine has libbpf and mapped pages for it, the simulator emulates them, tests make them up.

use scherzo_wire::layout::{ControlPage, DispatchedTaskRecord, QueuedTaskRecord, Slot};

use crate::parking::ParkedWord;

/// Where records go.
pub trait RecordSink {
    /// One record; `None` is one of the wrong size.
    fn take(&mut self, record: Option<QueuedTaskRecord>);
}

/// The ring from BPF to the engine.
pub trait QueuedRing<S: RecordSink> {
    /// Hands over the records that are there, up to so many; their number. It stops at one that is still being written.
    fn consume(&mut self, nr_most: usize, sink: &mut S) -> usize;

    /// Whether there are no records, and none that is still being written: those behind it were announced before the engine parked.
    fn is_empty(&self) -> bool;
}

/// The ring from the engine to BPF.
pub trait DispatchedRing {
    /// Writes one dispatched task; false if there is no room.
    fn submit(&mut self, dispatched: &DispatchedTaskRecord) -> bool;
}

/// Makes one CPU carry out dispatched tasks although the engine does not block.
pub trait Doorbell {
    /// Kicks the CPU.
    fn ring(&mut self);
}

/// The memory that BPF and the engine share.
pub trait EnginePages {
    /// The word that says whether the engine is parked.
    type Parked: ParkedWord;

    /// The control page.
    fn control(&self) -> &ControlPage;

    /// The slot table.
    fn slots(&self) -> &[Slot];

    /// [`ControlPage::parked`].
    fn parked(&self) -> &Self::Parked;

    /// The time between two ticks of the kernel.
    fn tick_us(&self) -> u32;
}
