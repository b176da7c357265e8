//! What the engine's code takes for the rings.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;

use scherzo_wire::layout::{DECISION_RING_BYTES, Decision, Facts};

use crate::machine::Rings;

/// Decisions going down.
pub struct DecisionRing(pub(crate) Rc<RefCell<Rings>>);

impl DecisionRing {
    /// Writes one decision; false if there is no room.
    pub fn submit(&self, decision: &Decision) -> bool {
        let from = std::ptr::from_ref(decision).cast::<u8>();
        // SAFETY: the type is plain integers without padding.
        let bytes = unsafe { std::slice::from_raw_parts(from, size_of::<Decision>()) };
        self.0.borrow_mut().send_down(u64::from(DECISION_RING_BYTES), bytes)
    }
}

/// Reads a record; `None` if it has another size.
pub(crate) fn read_facts(bytes: &[u8]) -> Option<Facts> {
    if bytes.len() != size_of::<Facts>() {
        return None;
    }
    // SAFETY: the source has the size of the target, which is plain integers.
    Some(unsafe { bytes.as_ptr().cast::<Facts>().read_unaligned() })
}
