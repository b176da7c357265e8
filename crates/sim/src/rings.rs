//! What the engine's loop takes for libbpf's rings.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;

use scherzo_engine_loop::{DispatchedRing, QueuedRing, RecordSink};
use scherzo_wire::layout::{DISPATCHED_RING_BYTES, DispatchedTaskRecord, QueuedTaskRecord};

use crate::interleave;
use crate::machine::Rings;
use crate::rubbish::RubbishWriter;

/// Records coming up.
pub struct EmulatedQueuedRing(pub(crate) Rc<RefCell<Rings>>);

impl<S: RecordSink> QueuedRing<S> for EmulatedQueuedRing {
    /// BPF may go on before each record is looked at. That is a load: what this CPU has written may still be in its store buffer.
    fn consume(&mut self, nr_most: usize, sink: &mut S) -> usize {
        let mut nr_records = 0;
        while nr_records < nr_most {
            interleave::point();
            let Some(bytes) = self.0.borrow_mut().take_up() else { break };
            sink.take(read_queued(&bytes));
            nr_records += 1;
        }
        nr_records
    }

    fn is_empty(&self) -> bool {
        interleave::point();
        self.0.borrow().available() == 0
    }
}

/// Dispatched tasks going down.
pub struct EmulatedDispatchedRing {
    pub(crate) rings: Rc<RefCell<Rings>>,
    /// Writes in place of the loop.
    pub(crate) rubbish: Option<Rc<RefCell<RubbishWriter>>>,
}

impl DispatchedRing for EmulatedDispatchedRing {
    fn submit(&mut self, dispatched: &DispatchedTaskRecord) -> bool {
        // The submission is an atomic exchange.
        interleave::barrier();
        match &self.rubbish {
            Some(rubbish) => rubbish.borrow_mut().submit(dispatched),
            None => self.rings.borrow_mut().send_down(u64::from(DISPATCHED_RING_BYTES), bytes_of(dispatched)),
        }
    }
}

/// The record as the ring has it.
pub fn bytes_of(record: &DispatchedTaskRecord) -> &[u8] {
    let from = std::ptr::from_ref(record).cast::<u8>();
    // SAFETY: the type is plain integers without padding, and the slice borrows the record.
    unsafe { std::slice::from_raw_parts(from, size_of::<DispatchedTaskRecord>()) }
}

/// Reads a record; `None` if it has another size.
fn read_queued(bytes: &[u8]) -> Option<QueuedTaskRecord> {
    if bytes.len() != size_of::<QueuedTaskRecord>() {
        return None;
    }
    // SAFETY: the source has the size of the target, which is plain integers.
    Some(unsafe { bytes.as_ptr().cast::<QueuedTaskRecord>().read_unaligned() })
}
