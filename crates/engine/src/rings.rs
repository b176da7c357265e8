//! The two rings, with typed records.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use anyhow::{Context, Result};
use libbpf_rs::{AsRawLibbpf, MapCore, RingBuffer, RingBufferBuilder, UserRingBuffer, libbpf_sys};
use scherzo_engine_loop::{DispatchedRing, QueuedRing, RecordSink};
use scherzo_wire::layout::{DispatchedTaskRecord, QueuedTaskRecord};

/// Records coming up.
pub struct LibbpfQueuedRing<S> {
    ring: RingBuffer<'static>,
    /// Where they go while somebody takes them, else null: libbpf wants to know at the beginning what to call.
    sink: Rc<Cell<*mut S>>,
}

impl<S: RecordSink + 'static> LibbpfQueuedRing<S> {
    /// Maps the ring.
    pub fn new(map: &dyn MapCore) -> Result<Self> {
        let sink = Rc::new(Cell::new(ptr::null_mut::<S>()));
        let target = Rc::clone(&sink);
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes: &[u8]| {
            if let Some(mut sink) = NonNull::new(target.get()) {
                // SAFETY: `consume()` has set it to what it has borrowed, does not use that meanwhile, and clears it at its end.
                unsafe { sink.as_mut() }.take(read_queued(bytes));
            }
            0
        })?;
        Ok(Self { ring: builder.build().context("cannot map the ring of queued tasks")?, sink })
    }
}

impl<S: RecordSink + 'static> QueuedRing<S> for LibbpfQueuedRing<S> {
    fn consume(&mut self, nr_most: usize, sink: &mut S) -> usize {
        self.sink.set(sink);
        let nr_records = self.ring.consume_raw_n(nr_most);
        self.sink.set(ptr::null_mut());
        usize::try_from(nr_records).unwrap_or(0)
    }

    fn is_empty(&self) -> bool {
        let ring = self.ring.as_libbpf_object().as_ptr();
        // SAFETY: both pointers are valid as long as `self`, and the first ring is the one that `new()` has added.
        unsafe { libbpf_sys::ring__avail_data_size(libbpf_sys::ring_buffer__ring(ring, 0)) == 0 }
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
pub struct LibbpfDispatchedRing(UserRingBuffer);

impl LibbpfDispatchedRing {
    /// Maps the ring.
    pub fn new(map: &dyn MapCore) -> Result<Self> {
        Ok(Self(UserRingBuffer::new(map).context("cannot map the ring of dispatched tasks")?))
    }
}

impl DispatchedRing for LibbpfDispatchedRing {
    /// Unlike the library's own wrapper, this allocates no error.
    fn submit(&mut self, dispatched: &DispatchedTaskRecord) -> bool {
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
