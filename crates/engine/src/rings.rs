//! The two rings, with typed records.

use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use libbpf_rs::{AsRawLibbpf, MapCore, RingBuffer, RingBufferBuilder, UserRingBuffer, libbpf_sys};
use scherzo_wire::layout::{Decision, Facts};

/// Most records taken in one turn, so that the control socket gets its turn as well.
const MAX_BATCH: usize = 1024;

/// Facts coming up.
pub struct FactsRing(RingBuffer<'static>);

impl FactsRing {
    /// Calls `on_facts` for each record that [`Self::consume`] finds. Records of the wrong size come as `None`.
    pub fn new(map: &dyn MapCore, mut on_facts: impl FnMut(Option<Facts>) + 'static) -> Result<Self> {
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes: &[u8]| {
            on_facts(read_facts(bytes));
            0
        })?;
        Ok(Self(builder.build().context("cannot map the ring of facts")?))
    }

    /// Whether there are records, or one that is still being written: those behind it were announced before anybody parked.
    pub fn is_empty(&self) -> bool {
        let ring = self.0.as_libbpf_object().as_ptr();
        // SAFETY: both pointers are valid as long as `self`, and the first ring is the one that `new()` has added.
        unsafe { libbpf_sys::ring__avail_data_size(libbpf_sys::ring_buffer__ring(ring, 0)) == 0 }
    }

    /// Takes what is there; the number of records.
    pub fn consume(&self) -> usize {
        usize::try_from(self.0.consume_raw_n(MAX_BATCH)).unwrap_or(0)
    }
}

fn read_facts(bytes: &[u8]) -> Option<Facts> {
    if bytes.len() != size_of::<Facts>() {
        return None;
    }
    let mut facts = MaybeUninit::<Facts>::uninit();
    // SAFETY: the source has exactly the size of the target, and `Facts` is plain integers.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), facts.as_mut_ptr().cast(), bytes.len());
        Some(facts.assume_init())
    }
}

/// Decisions going down.
pub struct DecisionRing(UserRingBuffer);

impl DecisionRing {
    /// Maps the ring.
    pub fn new(map: &dyn MapCore) -> Result<Self> {
        Ok(Self(UserRingBuffer::new(map).context("cannot map the ring of decisions")?))
    }

    /// Writes one decision; false if there is no room. Unlike the library's own wrapper, this allocates no error.
    pub fn submit(&self, decision: &Decision) -> bool {
        let ring = self.0.as_libbpf_object().as_ptr();
        // SAFETY: the ring lives as long as `self`; a null answer means that there is no room.
        let sample = unsafe { libbpf_sys::user_ring_buffer__reserve(ring, size_of::<Decision>() as u32) };
        if sample.is_null() {
            return false;
        }
        // SAFETY: the sample has room for one decision, is aligned to 8 bytes, and is submitted exactly once.
        unsafe {
            sample.cast::<Decision>().write(*decision);
            libbpf_sys::user_ring_buffer__submit(ring, sample);
        }
        true
    }
}
