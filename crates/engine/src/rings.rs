//! The two rings, with typed records.

use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use libbpf_rs::{AsRawLibbpf, MapCore, RingBuffer, RingBufferBuilder, UserRingBuffer, libbpf_sys};
use scherzo_wire::layout::{DispatchedTaskRecord, QueuedTaskRecord};

/// Most records taken in one turn, so that the control socket gets its turn as well.
const MAX_BATCH: usize = 1024;

/// QueuedTaskRecord coming up.
pub struct QueuedRing(RingBuffer<'static>);

impl QueuedRing {
    /// Calls `on_record` for each record that [`Self::consume`] finds. Records of the wrong size come as `None`.
    pub fn new(map: &dyn MapCore, mut on_record: impl FnMut(Option<QueuedTaskRecord>) + 'static) -> Result<Self> {
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes: &[u8]| {
            on_record(read_queued(bytes));
            0
        })?;
        Ok(Self(builder.build().context("cannot map the ring of queued tasks")?))
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

fn read_queued(bytes: &[u8]) -> Option<QueuedTaskRecord> {
    if bytes.len() != size_of::<QueuedTaskRecord>() {
        return None;
    }
    let mut record = MaybeUninit::<QueuedTaskRecord>::uninit();
    // SAFETY: the source has exactly the size of the target, and `QueuedTaskRecord` is plain integers.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), record.as_mut_ptr().cast(), bytes.len());
        Some(record.assume_init())
    }
}

/// Dispatched tasks going down.
pub struct DispatchedRing(UserRingBuffer);

impl DispatchedRing {
    /// Maps the ring.
    pub fn new(map: &dyn MapCore) -> Result<Self> {
        Ok(Self(UserRingBuffer::new(map).context("cannot map the ring of dispatched tasks")?))
    }

    /// Writes one dispatched task; false if there is no room. Unlike the library's own wrapper, this allocates no error.
    pub fn submit(&self, dispatched: &DispatchedTaskRecord) -> bool {
        let ring = self.0.as_libbpf_object().as_ptr();
        // SAFETY: the ring lives as long as `self`; a null answer means that there is no room.
        let sample = unsafe { libbpf_sys::user_ring_buffer__reserve(ring, size_of::<DispatchedTaskRecord>() as u32) };
        if sample.is_null() {
            return false;
        }
        // SAFETY: the sample has room for one dispatched task, is aligned to 8 bytes, and is submitted exactly once.
        unsafe {
            sample.cast::<DispatchedTaskRecord>().write(*dispatched);
            libbpf_sys::user_ring_buffer__submit(ring, sample);
        }
        true
    }
}
