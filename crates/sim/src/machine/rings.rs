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

/// A record that user space has written.
struct DownRecord {
    words: Vec<u64>,
    size: usize,
    is_discarded: bool,
}

/// Both rings. Each record is an allocation of its own, so that tools which look for stray pointers find them.
#[derive(Default)]
pub struct Rings {
    up: VecDeque<RingRecord>,
    produced: u64,
    consumed: u64,
    /// The reader has been notified, and has not found it empty since.
    is_ready: bool,
    down: VecDeque<DownRecord>,
    down_bytes: u64,
    /// What user space says of how far it has read, if that is not true.
    claimed: Option<u64>,
    /// The header of the next record down makes no sense.
    is_damaged: bool,
}

impl Rings {
    /// `bpf_ringbuf_reserve()`; 0 if there is no room.
    pub(crate) fn reserve(&mut self, capacity: u64, size: u64) -> usize {
        let taken_bytes = (size + HEADER_BYTES).next_multiple_of(8);
        if (self.produced + taken_bytes).wrapping_sub(self.said_consumed()) > capacity - 1 {
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
        self.produced.wrapping_sub(self.said_consumed())
    }

    /// `BPF_RB_CONS_POS` and `BPF_RB_PROD_POS`.
    pub(crate) fn positions(&self) -> (u64, u64) {
        (self.said_consumed(), self.produced)
    }

    /// The position is in a page that user space writes.
    fn said_consumed(&self) -> u64 {
        self.claimed.unwrap_or(self.consumed)
    }

    /// User space writes a position that is not where it has read to. The true one follows when it reads again.
    pub(crate) fn claim_consumed(&mut self, position: u64) {
        self.claimed = Some(position);
    }

    /// What user space has written in front of the next record down is no header, or is one again.
    pub(crate) fn damage_down(&mut self, is_damaged: bool) {
        self.is_damaged = is_damaged;
    }

    /// The next complete record, as bytes; those that were discarded are passed over.
    pub fn take_up(&mut self) -> Option<Vec<u8>> {
        self.claimed = None;
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
        self.write_down(capacity, record, false)
    }

    /// The same of one that is discarded: it takes room, and is passed over.
    pub(crate) fn discard_down(&mut self, capacity: u64, record: &[u8]) -> bool {
        self.write_down(capacity, record, true)
    }

    fn write_down(&mut self, capacity: u64, record: &[u8], is_discarded: bool) -> bool {
        let taken = taken_down(record.len());
        if self.down_bytes + taken > capacity {
            return false;
        }
        self.down_bytes += taken;
        let words = record.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        self.down.push_back(DownRecord { words: words.collect(), size: record.len(), is_discarded });
        true
    }

    /// The next record for BPF, and its size: `__bpf_user_ringbuf_peek()`. Nothing can be read behind a header that makes no sense.
    pub(crate) fn take_down(&mut self) -> Option<(Vec<u64>, usize)> {
        while !self.is_damaged {
            let record = self.down.pop_front()?;
            self.down_bytes -= taken_down(record.size);
            if !record.is_discarded {
                return Some((record.words, record.size));
            }
        }
        None
    }
}

/// The room that a record takes.
fn taken_down(size: usize) -> u64 {
    (size as u64 + HEADER_BYTES).next_multiple_of(8)
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

    #[test]
    fn records_that_are_discarded_take_room_and_are_passed_over() {
        let mut rings = Rings::default();
        assert!(rings.discard_down(64, &[1; 40]) && rings.send_down(64, &[2; 3]) && !rings.send_down(64, &[3; 40]));
        rings.damage_down(true);
        assert!(rings.take_down().is_none());
        rings.damage_down(false);
        assert_eq!(rings.take_down(), Some((vec![0x02_0202], 3)));
        assert!(rings.send_down(64, &[3; 40]));
    }

    #[test]
    fn a_position_that_is_made_up_holds_until_the_next_record_is_read() {
        let mut rings = Rings::default();
        let record = rings.reserve(64, 8);
        rings.finish(record, true);
        rings.claim_consumed(1000);
        assert_eq!((rings.positions(), rings.reserve(64, 8)), ((1000, 16), 0));
        assert!(rings.take_up().is_some());
        assert_eq!((rings.positions(), rings.available()), ((16, 16), 0));
    }
}
