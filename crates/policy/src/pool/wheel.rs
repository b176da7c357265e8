//! Tasks that go later, sorted only as finely as they must be for now.
//!
//! A ring of buckets of 33 µs each, 268 ms in all, with a bit for each bucket that holds anything, as kernels keep their
//! timers. A bucket is a list of chunks of eight tasks, all but the first of them full: what has not been touched for
//! long is fetched from memory a chunk at a time, not a task at a time. How far a chunk is filled and which one follows
//! stands in tables of their own that stay in a near cache: inserting only writes where the tasks lie, and need not wait
//! for that memory. A task that is removed leaves a dead entry behind until its bucket is handed out, so inserting and
//! removing cost the same however many tasks wait.

use alloc::vec;
use alloc::vec::Vec;

use super::heap::HeapEntry;
use crate::ids::SlotId;

const BUCKET_NS_LOG2: u32 = 15;
const NR_BUCKETS: usize = 8_192;
/// The wheel holds keys from its start up to here.
const HORIZON_NS: u64 = (NR_BUCKETS as u64) << BUCKET_NS_LOG2;
const WORD_BITS: usize = u64::BITS as usize;
const NR_WORDS: usize = NR_BUCKETS / WORD_BITS;
const CHUNK_LENGTH: usize = 8;
/// No place. It looks like the last one of a chunk, so a bucket without tasks gets a chunk as one with a full one does.
const NONE: u32 = u32::MAX;
/// In an entry whose task was removed.
const DEAD: SlotId = SlotId(u32::MAX);

/// Tasks by bucket.
#[derive(Debug)]
pub(super) struct Wheel {
    /// Where the window begins; a bucket begins there too.
    start_ns: u64,
    /// Per bucket: the place of its newest task, or [`NONE`].
    newest: Vec<u32>,
    /// A bit per bucket that has a chunk.
    occupied: Vec<u64>,
    /// By place: chunk after chunk.
    entries: Vec<HeapEntry>,
    /// Per chunk: the last place of the bucket's next chunk, or the first place of the next free one, or [`NONE`].
    next: Vec<u32>,
    /// The first place of the first free chunk, or [`NONE`].
    free: u32,
    /// Without the dead.
    len: usize,
}

impl Wheel {
    /// For about `capacity` tasks.
    pub(super) fn new(capacity: usize) -> Self {
        let nr_chunks = capacity / CHUNK_LENGTH + NR_BUCKETS.min(capacity) + 1;
        let mut wheel = Self {
            start_ns: 0,
            newest: vec![NONE; NR_BUCKETS],
            occupied: vec![0; NR_WORDS],
            entries: vec![HeapEntry::default(); nr_chunks * CHUNK_LENGTH],
            next: (1..=nr_chunks).map(|chunk| (chunk * CHUNK_LENGTH) as u32).collect(),
            free: 0,
            len: 0,
        };
        wheel.next[nr_chunks - 1] = NONE;
        wheel
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Every key here is at or after this time.
    pub(super) fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Adds a task, if its key lies in the window and the dead leave room, and says in which place. An empty wheel turns
    /// to where the key is.
    pub(super) fn insert(&mut self, entry: HeapEntry) -> Option<u32> {
        if self.len == 0 {
            self.start_ns = entry.deadline_ns >> BUCKET_NS_LOG2 << BUCKET_NS_LOG2;
        }
        if entry.deadline_ns.wrapping_sub(self.start_ns) >= HORIZON_NS {
            return None;
        }
        let place = self.next_place(bucket_of(entry.deadline_ns))?;
        self.entries[place as usize] = entry;
        self.len += 1;
        Some(place)
    }

    /// The place after the newest one of a bucket, in one more chunk if that was the last of its own.
    fn next_place(&mut self, bucket: usize) -> Option<u32> {
        let newest = self.newest[bucket];
        let place = if newest as usize % CHUNK_LENGTH < CHUNK_LENGTH - 1 {
            newest + 1
        } else {
            let added = self.free;
            self.free = core::mem::replace(self.next.get_mut(added as usize / CHUNK_LENGTH)?, newest);
            self.occupied[bucket / WORD_BITS] |= 1 << (bucket % WORD_BITS);
            added
        };
        self.newest[bucket] = place;
        Some(place)
    }

    /// Takes out the task in a place.
    pub(super) fn remove(&mut self, place: u32) {
        self.entries[place as usize].slot = DEAD;
        self.len -= 1;
        // Dead entries leave with their bucket, and nothing asks an empty wheel for a bucket.
        while self.len == 0
            && let Some(bucket) = self.first_occupied()
        {
            self.hand_out(bucket, &mut |_| {});
        }
    }

    /// Hands out the tasks of the first bucket that may hold any, and begins after it from now on.
    pub(super) fn advance(&mut self, mut receive: impl FnMut(HeapEntry)) {
        let Some(bucket) = self.first_occupied() else { return };
        self.hand_out(bucket, &mut receive);
        let nr_passed = (bucket + NR_BUCKETS - bucket_of(self.start_ns)) % NR_BUCKETS + 1;
        self.start_ns = self.start_ns.wrapping_add((nr_passed as u64) << BUCKET_NS_LOG2);
    }

    fn hand_out(&mut self, bucket: usize, receive: &mut impl FnMut(HeapEntry)) {
        self.occupied[bucket / WORD_BITS] &= !(1 << (bucket % WORD_BITS));
        let mut last = core::mem::replace(&mut self.newest[bucket], NONE);
        while last != NONE {
            let chunk = last as usize / CHUNK_LENGTH;
            for entry in &self.entries[chunk * CHUNK_LENGTH..=last as usize] {
                if entry.slot != DEAD {
                    self.len -= 1;
                    receive(*entry);
                }
            }
            last = core::mem::replace(&mut self.next[chunk], self.free);
            self.free = (chunk * CHUNK_LENGTH) as u32;
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
fn bucket_of(deadline_ns: u64) -> usize {
    (deadline_ns >> BUCKET_NS_LOG2) as usize % NR_BUCKETS
}

#[cfg(test)]
impl Wheel {
    /// Every task is in its bucket, inside the window, and where the table says; no chunk is lost.
    pub(super) fn verify_invariants(&self, place_of: impl Fn(SlotId) -> u32) {
        let (mut nr_alive, mut nr_chunks) = (0, self.chunks(self.free).count());
        let is_marked = |bucket: &usize| self.occupied[bucket / WORD_BITS] >> (bucket % WORD_BITS) & 1 == 1;
        for bucket in (0..NR_BUCKETS).filter(is_marked) {
            for (nth, last) in self.chunks(self.newest[bucket]).enumerate() {
                nr_chunks += 1;
                assert!(nth == 0 || last % CHUNK_LENGTH == CHUNK_LENGTH - 1, "every chunk but the first is full");
                for place in last - last % CHUNK_LENGTH..=last {
                    let entry = self.entries[place];
                    if entry.slot != DEAD {
                        nr_alive += 1;
                        assert_eq!(bucket_of(entry.deadline_ns), bucket);
                        assert!(entry.deadline_ns.wrapping_sub(self.start_ns) < HORIZON_NS);
                        assert_eq!(place_of(entry.slot) as usize, place);
                    }
                }
            }
        }
        assert_eq!((nr_alive, nr_chunks), (self.len, self.next.len()));
    }

    /// A list of chunks, each by the place that the list has of it.
    fn chunks(&self, first: u32) -> impl Iterator<Item = usize> {
        let place = |place: u32| (place != NONE).then_some(place as usize);
        core::iter::successors(place(first), move |&last| place(self.next[last / CHUNK_LENGTH]))
    }
}
