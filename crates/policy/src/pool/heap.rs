//! A heap that says where each task is.
//!
//! Implicit, with four children per node over 16-byte entries. The caller brings a table that says for each slot
//! where in the heap it is: inserting, taking the first and removing any one task cost O(log n).

use alloc::vec::Vec;

use crate::ids::SlotId;
use crate::time::signed_diff;

/// Children per node: as many entries as fill a cache line.
const ARITY: usize = 4;

/// A waiting task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeapEntry {
    pub(crate) deadline_ns: u64,
    /// Number of the arrival; wraps. Fewer than 2³¹ tasks wait at a time.
    pub(crate) arrival: u32,
    pub(crate) slot: SlotId,
}

impl HeapEntry {
    #[expect(clippy::needless_bitwise_bool, reason = "no branch can be predicted here, and a wrong guess costs most")]
    const fn precedes(self, other: Self) -> bool {
        let diff = signed_diff(self.deadline_ns, other.deadline_ns);
        let came_first = (self.arrival.wrapping_sub(other.arrival) as i32) < 0;
        (diff < 0) | ((diff == 0) & came_first)
    }
}

/// Tasks in order of (key, arrival).
#[derive(Debug)]
pub(crate) struct Heap {
    entries: Vec<HeapEntry>,
}

impl Heap {
    /// Room for `capacity` tasks.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity) }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a task that is not here.
    pub(crate) fn insert(&mut self, entry: HeapEntry, places: &mut [u32]) {
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, entry, places);
    }

    pub(crate) fn first(&self) -> Option<&HeapEntry> {
        self.entries.first()
    }

    /// Takes out the task in a place.
    pub(crate) fn remove(&mut self, place: u32, places: &mut [u32]) {
        let index = place as usize;
        self.entries.swap_remove(index);
        let Some(&moved) = self.entries.get(index) else { return };
        if index > 0 && moved.precedes(self.entries[parent(index)]) {
            self.rise(index, moved, places);
        } else {
            self.sink(index, moved, places);
        }
    }

    /// Finds the place of `entry` from the hole at `index` upwards.
    fn rise(&mut self, mut index: usize, entry: HeapEntry, places: &mut [u32]) {
        while index > 0 {
            let above = self.entries[parent(index)];
            if !entry.precedes(above) {
                break;
            }
            self.put(index, above, places);
            index = parent(index);
        }
        self.put(index, entry, places);
    }

    /// Finds the place of `entry` from the hole at `index` downwards: first the hole goes all the way down, then the
    /// entry, which came from the bottom and mostly belongs there, rises from it.
    fn sink(&mut self, mut index: usize, entry: HeapEntry, places: &mut [u32]) {
        while let Some(child) = self.first_child(index) {
            self.put(index, self.entries[child], places);
            index = child;
        }
        self.rise(index, entry, places);
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

    fn put(&mut self, index: usize, entry: HeapEntry, places: &mut [u32]) {
        self.entries[index] = entry;
        places[entry.slot.index()] = index as u32;
    }
}

const fn parent(index: usize) -> usize {
    (index - 1) / ARITY
}

#[cfg(test)]
impl Heap {
    /// Heap order holds and the table agrees with the heap.
    pub(crate) fn verify_invariants(&self, places: &[u32]) {
        for (index, entry) in self.entries.iter().enumerate() {
            assert_eq!(places[entry.slot.index()] as usize, index);
            assert!(index == 0 || !entry.precedes(self.entries[parent(index)]), "heap order at {index}");
        }
    }
}
