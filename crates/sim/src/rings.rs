//! What the engine's code takes for the rings.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;

use scherzo_wire::layout::{DISPATCHED_RING_BYTES, DispatchedTaskRecord, QueuedTaskRecord};

use crate::machine::Rings;

/// Dispatched tasks going down.
pub struct DispatchedRing(pub(crate) Rc<RefCell<Rings>>);

impl DispatchedRing {
    /// Writes one dispatched task; false if there is no room.
    pub fn submit(&self, dispatched: &DispatchedTaskRecord) -> bool {
        let from = std::ptr::from_ref(dispatched).cast::<u8>();
        // SAFETY: the type is plain integers without padding.
        let bytes = unsafe { std::slice::from_raw_parts(from, size_of::<DispatchedTaskRecord>()) };
        self.0.borrow_mut().send_down(u64::from(DISPATCHED_RING_BYTES), bytes)
    }
}

/// Reads a record; `None` if it has another size.
pub(crate) fn read_queued(bytes: &[u8]) -> Option<QueuedTaskRecord> {
    if bytes.len() != size_of::<QueuedTaskRecord>() {
        return None;
    }
    // SAFETY: the source has the size of the target, which is plain integers.
    Some(unsafe { bytes.as_ptr().cast::<QueuedTaskRecord>().read_unaligned() })
}
