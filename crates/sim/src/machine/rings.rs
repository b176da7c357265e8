//! The two rings between BPF and user space, with the room that the kernel's have.

use std::collections::VecDeque;

/// Before each record.
const HEADER_BYTES: u64 = 8;

struct RingRecord {
    address: usize,
    data: Box<[u64]>,
    size: usize,
    taken_bytes: u64,
    state: RecordState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordState {
    Busy,
    Submitted,
    Discarded,
}

/// Both rings. Each record is an allocation of its own, so that tools which look for stray pointers find them.
#[derive(Default)]
pub struct Rings {
    up: VecDeque<RingRecord>,
    produced: u64,
    consumed: u64,
    /// The reader has been notified, and has not found it empty since.
    is_ready: bool,
    down: VecDeque<Vec<u64>>,
    down_bytes: u64,
}

impl Rings {
    /// `bpf_ringbuf_reserve()`; 0 if there is no room.
    pub(crate) fn reserve(&mut self, capacity: u64, size: u64) -> usize {
        let taken_bytes = (size + HEADER_BYTES).next_multiple_of(8);
        if self.produced + taken_bytes - self.consumed > capacity - 1 {
            return 0;
        }
        self.produced += taken_bytes;
        let mut data = vec![0; size.div_ceil(8) as usize].into_boxed_slice();
        let address = data.as_mut_ptr() as usize;
        self.up.push_back(RingRecord { address, data, size: size as usize, taken_bytes, state: RecordState::Busy });
        address
    }

    /// The record is complete.
    pub(crate) fn finish(&mut self, address: usize, submitted: bool) {
        let state = if submitted { RecordState::Submitted } else { RecordState::Discarded };
        if let Some(record) = self.up.iter_mut().rev().find(|record| record.address == address) {
            record.state = state;
        }
    }

    /// The reader is woken, if it waits.
    pub(crate) fn notify(&mut self) {
        self.is_ready = true;
    }

    /// `ep_send_events()`: whether a wait for it is over at once. It is asked (`ringbuf_map_poll()`) only if it has notified its reader since
    /// it was found empty last: what this has been for is still there.
    pub(crate) fn poll(&mut self) -> bool {
        self.is_ready &= self.available() > 0;
        self.is_ready
    }

    /// Whether a task waits for the answer to a record that is complete.
    pub(crate) fn has_task(&self) -> bool {
        const ENQUEUE: u64 = scherzo_wire::layout::RecordKind::Enqueue as u64;
        let is_task = |record: &RingRecord| record.data.first().is_some_and(|word| word & 0xffff_ffff == ENQUEUE);
        self.up.iter().any(|record| record.state == RecordState::Submitted && is_task(record))
    }

    /// `BPF_RB_AVAIL_DATA`.
    pub(crate) fn available(&self) -> u64 {
        self.produced - self.consumed
    }

    /// `BPF_RB_CONS_POS` and `BPF_RB_PROD_POS`.
    pub(crate) fn positions(&self) -> (u64, u64) {
        (self.consumed, self.produced)
    }

    /// The next complete record, as bytes; those that were discarded are passed over.
    pub fn take_up(&mut self) -> Option<Vec<u8>> {
        while self.up.front().is_some_and(|record| record.state != RecordState::Busy) {
            let record = self.up.pop_front()?;
            self.consumed += record.taken_bytes;
            if record.state == RecordState::Submitted {
                let bytes = record.data.iter().flat_map(|word| word.to_ne_bytes());
                return Some(bytes.take(record.size).collect());
            }
        }
        None
    }

    /// Writes a record for BPF; false if there is no room.
    pub fn send_down(&mut self, capacity: u64, record: &[u8]) -> bool {
        let taken = record.len() as u64 + HEADER_BYTES;
        if self.down_bytes + taken > capacity {
            return false;
        }
        self.down_bytes += taken;
        let words = record.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        self.down.push_back(words.collect());
        true
    }

    /// The next record for BPF.
    pub(crate) fn take_down(&mut self) -> Option<Vec<u64>> {
        let record = self.down.pop_front()?;
        self.down_bytes -= record.len() as u64 * 8 + HEADER_BYTES;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_being_written_holds_those_behind_it_back() {
        let mut rings = Rings::default();
        let (first, second) = (rings.reserve(64, 8), rings.reserve(64, 8));
        rings.finish(second, true);
        assert!(rings.take_up().is_none());
        rings.finish(first, false);
        assert_eq!(rings.take_up(), Some(vec![0; 8]));
        assert_eq!(rings.positions(), (32, 32));
    }

    #[test]
    fn a_full_ring_takes_nothing() {
        let mut rings = Rings::default();
        assert_ne!(rings.reserve(64, 40), 0);
        assert_eq!(rings.reserve(64, 8), 0);
        assert!(rings.send_down(48, &[1; 40]));
        assert!(!rings.send_down(48, &[1; 40]));
    }
}
