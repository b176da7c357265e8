//! Tasks that go later, sorted only as finely as they must be for now.
//!
//! A ring of buckets of 33 µs each, 268 ms in all, with a bit for each bucket that holds anything, as kernels keep their
//! timers. A bucket is a list of chunks of seven tasks: what has not been touched for long is fetched from memory a
//! chunk at a time, not a task at a time. A task that is removed leaves a dead entry behind until its bucket is handed
//! out, so inserting and removing cost the same however many tasks wait.

use alloc::vec;
use alloc::vec::Vec;

use super::heap::Entry;
use crate::ids::SlotId;

const BUCKET_NS_LOG2: u32 = 15;
const NR_BUCKETS: usize = 8_192;
/// The wheel holds keys from its start up to here.
const HORIZON_NS: u64 = (NR_BUCKETS as u64) << BUCKET_NS_LOG2;
const WORD_BITS: usize = u64::BITS as usize;
const NR_WORDS: usize = NR_BUCKETS / WORD_BITS;
/// Such that a chunk fills two cache lines.
const CHUNK_LENGTH: usize = 7;
/// No chunk.
const NONE: u32 = u32::MAX;
/// The place of a task that is not here.
const NOWHERE: u32 = u32::MAX;
/// In an entry whose task was removed.
const DEAD: SlotId = SlotId(u32::MAX);

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    entries: [Entry; CHUNK_LENGTH],
    len: u32,
    /// The next chunk of the bucket, or of those that are free.
    next: u32,
}

/// Tasks by bucket.
#[derive(Debug)]
pub(super) struct Wheel {
    /// Where the window begins; a bucket begins there too.
    start_ns: u64,
    /// Per bucket: its first chunk, or [`NONE`].
    heads: Vec<u32>,
    /// A bit per bucket that has a chunk.
    occupied: Vec<u64>,
    chunks: Vec<Chunk>,
    /// The first free chunk, or [`NONE`].
    free: u32,
    /// Per slot: chunk × [`CHUNK_LENGTH`] + index in the chunk, or [`NOWHERE`].
    place: Vec<u32>,
    /// Without the dead.
    len: usize,
}

impl Wheel {
    /// For about `capacity` tasks with slots below `nr_slots`.
    pub(super) fn new(capacity: usize, nr_slots: u32) -> Self {
        let nr_chunks = capacity / CHUNK_LENGTH + NR_BUCKETS.min(capacity) + 1;
        let entries = [Entry::default(); CHUNK_LENGTH];
        let chunks = (1..=nr_chunks as u32).map(|next| Chunk { entries, len: 0, next }).collect::<Vec<_>>();
        let mut wheel = Self {
            start_ns: 0,
            heads: vec![NONE; NR_BUCKETS],
            occupied: vec![0; NR_WORDS],
            chunks,
            free: 0,
            place: vec![NOWHERE; nr_slots as usize],
            len: 0,
        };
        wheel.chunks[nr_chunks - 1].next = NONE;
        wheel
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Every key here is at or after this time.
    pub(super) fn start_ns(&self) -> u64 {
        self.start_ns
    }

    pub(super) fn contains(&self, slot: SlotId) -> bool {
        self.place.get(slot.index()).is_some_and(|&place| place != NOWHERE)
    }

    /// Adds a task that is not here, if its key lies in the window and the dead leave room; says whether it did. An empty
    /// wheel turns to where the key is.
    pub(super) fn insert(&mut self, entry: Entry) -> bool {
        if self.len == 0 {
            self.start_ns = entry.key_ns >> BUCKET_NS_LOG2 << BUCKET_NS_LOG2;
        }
        if entry.key_ns.wrapping_sub(self.start_ns) >= HORIZON_NS {
            return false;
        }
        let Some(chunk) = self.chunk_with_room(bucket_of(entry.key_ns)) else { return false };
        let index = self.chunks[chunk].len as usize;
        self.chunks[chunk].entries[index] = entry;
        self.chunks[chunk].len += 1;
        self.place[entry.slot.index()] = (chunk * CHUNK_LENGTH + index) as u32;
        self.len += 1;
        true
    }

    /// The first chunk of a bucket, or one more if that is full.
    fn chunk_with_room(&mut self, bucket: usize) -> Option<usize> {
        let head = self.heads[bucket];
        if self.chunks.get(head as usize).is_some_and(|chunk| (chunk.len as usize) < CHUNK_LENGTH) {
            return Some(head as usize);
        }
        let added = self.free;
        let chunk = self.chunks.get_mut(added as usize)?;
        self.free = core::mem::replace(&mut chunk.next, head);
        self.heads[bucket] = added;
        self.occupied[bucket / WORD_BITS] |= 1 << (bucket % WORD_BITS);
        Some(added as usize)
    }

    /// Takes a task out; says whether it was here.
    pub(super) fn remove(&mut self, slot: SlotId) -> bool {
        if !self.contains(slot) {
            return false;
        }
        let place = core::mem::replace(&mut self.place[slot.index()], NOWHERE) as usize;
        self.chunks[place / CHUNK_LENGTH].entries[place % CHUNK_LENGTH].slot = DEAD;
        self.len -= 1;
        // Nobody comes for the dead of an empty wheel.
        while self.len == 0
            && let Some(bucket) = self.first_occupied()
        {
            self.hand_out(bucket, &mut |_| {});
        }
        true
    }

    /// Hands out the tasks of the first bucket that may hold any, and begins after it from now on.
    pub(super) fn advance(&mut self, mut receive: impl FnMut(Entry)) {
        let Some(bucket) = self.first_occupied() else { return };
        self.hand_out(bucket, &mut receive);
        let nr_passed = (bucket + NR_BUCKETS - bucket_of(self.start_ns)) % NR_BUCKETS + 1;
        self.start_ns = self.start_ns.wrapping_add((nr_passed as u64) << BUCKET_NS_LOG2);
    }

    fn hand_out(&mut self, bucket: usize, receive: &mut impl FnMut(Entry)) {
        self.occupied[bucket / WORD_BITS] &= !(1 << (bucket % WORD_BITS));
        let mut index = core::mem::replace(&mut self.heads[bucket], NONE);
        while let Some(chunk) = self.chunks.get_mut(index as usize) {
            for entry in &chunk.entries[..chunk.len as usize] {
                if entry.slot != DEAD {
                    self.place[entry.slot.index()] = NOWHERE;
                    self.len -= 1;
                    receive(*entry);
                }
            }
            chunk.len = 0;
            let next = core::mem::replace(&mut chunk.next, self.free);
            self.free = core::mem::replace(&mut index, next);
        }
    }

    /// From the start around the ring: the rest of the start's word, the other words, and the beginning of the first.
    fn first_occupied(&self) -> Option<usize> {
        let start = bucket_of(self.start_ns);
        let (first, passed) = (start / WORD_BITS, (1 << (start % WORD_BITS)) - 1);
        let words = (0..=NR_WORDS).map(|nth| {
            let word = (first + nth) % NR_WORDS;
            let bits = self.occupied[word];
            (word, if nth == 0 { bits & !passed } else { bits })
        });
        let mut occupied = words.filter(|&(_, bits)| bits != 0);
        occupied.next().map(|(word, bits)| word * WORD_BITS + bits.trailing_zeros() as usize)
    }
}

/// The ring divides the range of times, so this stays right where they wrap.
fn bucket_of(key_ns: u64) -> usize {
    (key_ns >> BUCKET_NS_LOG2) as usize % NR_BUCKETS
}

#[cfg(test)]
impl Wheel {
    /// Every task is in its bucket, inside the window, and where the table says; no chunk is lost.
    pub(super) fn verify_invariants(&self) {
        let chunks = |first| core::iter::successors(self.chunk(first), |(_, chunk)| self.chunk(chunk.next));
        let (mut nr_alive, mut nr_chunks) = (0, chunks(self.free).count());
        let is_marked = |bucket: &usize| self.occupied[bucket / WORD_BITS] >> (bucket % WORD_BITS) & 1 == 1;
        for bucket in (0..NR_BUCKETS).filter(is_marked) {
            for (index, chunk) in chunks(self.heads[bucket]) {
                nr_chunks += 1;
                for (nth, entry) in chunk.entries[..chunk.len as usize].iter().enumerate() {
                    if entry.slot != DEAD {
                        nr_alive += 1;
                        assert_eq!(bucket_of(entry.key_ns), bucket);
                        assert!(entry.key_ns.wrapping_sub(self.start_ns) < HORIZON_NS);
                        assert_eq!(self.place[entry.slot.index()] as usize, index as usize * CHUNK_LENGTH + nth);
                    }
                }
            }
        }
        assert_eq!((nr_alive, nr_chunks), (self.len, self.chunks.len()));
        assert_eq!(self.place.iter().filter(|&&place| place != NOWHERE).count(), self.len);
    }

    fn chunk(&self, index: u32) -> Option<(u32, &Chunk)> {
        self.chunks.get(index as usize).map(|chunk| (index, chunk))
    }
}
