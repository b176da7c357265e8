//! A heap that knows where each task is.
//!
//! Implicit, with four children per node over 16-byte entries, beside a table that says for each slot where in the heap
//! it is: inserting, taking the first and removing any one task cost O(log n).

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::SlotId;
use crate::time::signed_diff;

/// Children per node: as many entries as fill a cache line.
const ARITY: usize = 4;
const NOWHERE: u32 = u32::MAX;

/// A waiting task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) key_ns: u64,
    /// Number of the arrival; wraps. Fewer than 2³¹ tasks wait at a time.
    pub(crate) arrival: u32,
    pub(crate) slot: SlotId,
}

impl Entry {
    #[expect(clippy::needless_bitwise_bool, reason = "no branch can be predicted here, and a wrong guess costs most")]
    const fn precedes(self, other: Self) -> bool {
        let diff = signed_diff(self.key_ns, other.key_ns);
        let came_first = (self.arrival.wrapping_sub(other.arrival) as i32) < 0;
        (diff < 0) | ((diff == 0) & came_first)
    }
}

/// Tasks in order of (key, arrival).
#[derive(Debug)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
    /// Per slot: its index in `entries`, or [`NOWHERE`].
    position: Vec<u32>,
}

impl Heap {
    /// Room for `capacity` tasks with slots below `nr_slots`.
    pub(crate) fn new(capacity: usize, nr_slots: u32) -> Self {
        Self { entries: Vec::with_capacity(capacity), position: vec![NOWHERE; nr_slots as usize] }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn contains(&self, slot: SlotId) -> bool {
        self.position.get(slot.index()).is_some_and(|&position| position != NOWHERE)
    }

    /// Adds a task that is not here.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, entry);
    }

    pub(crate) fn first(&self) -> Option<&Entry> {
        self.entries.first()
    }

    /// Takes a task out; says whether it was here.
    pub(crate) fn remove(&mut self, slot: SlotId) -> bool {
        let here = self.contains(slot);
        if here {
            self.remove_at(self.position[slot.index()] as usize);
        }
        here
    }

    fn remove_at(&mut self, index: usize) {
        let removed = self.entries.swap_remove(index);
        self.position[removed.slot.index()] = NOWHERE;
        let Some(&moved) = self.entries.get(index) else { return };
        if index > 0 && moved.precedes(self.entries[parent(index)]) {
            self.rise(index, moved);
        } else {
            self.sink(index, moved);
        }
    }

    /// Finds the place of `entry` from the hole at `index` upwards.
    fn rise(&mut self, mut index: usize, entry: Entry) {
        while index > 0 {
            let above = self.entries[parent(index)];
            if !entry.precedes(above) {
                break;
            }
            self.put(index, above);
            index = parent(index);
        }
        self.put(index, entry);
    }

    /// Finds the place of `entry` from the hole at `index` downwards: first the hole goes all the way down, then the
    /// entry, which came from the bottom and mostly belongs there, rises from it.
    fn sink(&mut self, mut index: usize, entry: Entry) {
        while let Some(child) = self.first_child(index) {
            self.put(index, self.entries[child]);
            index = child;
        }
        self.rise(index, entry);
    }

    /// The child of `index` that goes first.
    fn first_child(&self, index: usize) -> Option<usize> {
        let begin = index * ARITY + 1;
        let children = self.entries.get(begin..)?;
        if let Some(&[first, second, third, fourth]) = children.first_chunk::<ARITY>() {
            // Two semifinals that do not wait for each other, and a final, by arithmetic instead of branches.
            let left = usize::from(second.precedes(first));
            let right = 2 + usize::from(fourth.precedes(third));
            let right_wins = children[right].precedes(children[left]);
            return Some(begin + if right_wins { right } else { left });
        }
        (begin..self.entries.len())
            .reduce(|first, child| if self.entries[child].precedes(self.entries[first]) { child } else { first })
    }

    fn put(&mut self, index: usize, entry: Entry) {
        self.entries[index] = entry;
        self.position[entry.slot.index()] = index as u32;
    }
}

const fn parent(index: usize) -> usize {
    (index - 1) / ARITY
}

#[cfg(test)]
impl Heap {
    /// Heap order holds and the table agrees with the heap.
    pub(crate) fn verify_invariants(&self) {
        for (index, entry) in self.entries.iter().enumerate() {
            assert_eq!(self.position[entry.slot.index()] as usize, index);
            assert!(index == 0 || !entry.precedes(self.entries[parent(index)]), "heap order at {index}");
        }
        let nr_placed = self.position.iter().filter(|&&position| position != NOWHERE).count();
        assert_eq!(nr_placed, self.entries.len());
    }
}
