//! The ordered pool of waiting tasks.
//!
//! An implicit heap with four children per node over 16-byte entries, beside a table that says for each slot
//! where in the heap it is. So inserting, taking the first and removing any one task cost O(log n), a slot is in the
//! pool at most once, and nothing is allocated after construction. A B-tree keyed by (key, pid), as scx_rustland has
//! it, needs an allocator and a second index by pid.
//!
//! Keys wrap and are compared by signed difference; equal keys leave in the order of their arrival.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::SlotId;
use crate::time::signed_diff;

/// Children per node: as many entries as fill a cache line.
const ARITY: usize = 4;
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key_ns: u64,
    /// Number of the arrival; wraps. Fewer than 2³¹ tasks wait at a time.
    arrival: u32,
    slot: SlotId,
}

impl Entry {
    #[expect(clippy::needless_bitwise_bool, reason = "no branch can be predicted here, and a wrong guess costs most")]
    const fn precedes(self, other: Self) -> bool {
        let diff = signed_diff(self.key_ns, other.key_ns);
        let came_first = (self.arrival.wrapping_sub(other.arrival) as i32) < 0;
        (diff < 0) | ((diff == 0) & came_first)
    }
}

/// The pool has no room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull;

/// Waiting tasks by ordering key.
#[derive(Debug)]
pub struct Pool {
    heap: Vec<Entry>,
    capacity: usize,
    /// Per slot: its index in `heap`, or [`NOWHERE`].
    position: Vec<u32>,
    next_arrival: u32,
}

impl Pool {
    /// A pool for `capacity` tasks with slots below `nr_slots`. Everything is allocated here.
    #[must_use]
    pub fn new(capacity: usize, nr_slots: u32) -> Self {
        Self {
            heap: Vec::with_capacity(capacity),
            capacity,
            position: vec![NOWHERE; nr_slots as usize],
            next_arrival: 0,
        }
    }

    /// Tasks waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Whether this task waits here. False for slots out of range.
    #[must_use]
    pub fn contains(&self, slot: SlotId) -> bool {
        self.position.get(slot.index()).is_some_and(|&position| position != NOWHERE)
    }

    /// Adds a task. One already here leaves its old place first.
    ///
    /// # Panics
    ///
    /// If the slot is out of range.
    pub fn insert(&mut self, slot: SlotId, key_ns: u64) -> Result<(), PoolFull> {
        self.remove(slot);
        if self.heap.len() == self.capacity {
            return Err(PoolFull);
        }
        let entry = Entry { key_ns, arrival: self.next_arrival, slot };
        self.next_arrival = self.next_arrival.wrapping_add(1);
        self.heap.push(entry);
        self.rise(self.heap.len() - 1, entry);
        Ok(())
    }

    /// The task that goes first.
    #[must_use]
    pub fn first(&self) -> Option<SlotId> {
        self.heap.first().map(|entry| entry.slot)
    }

    /// Takes the task that goes first.
    pub fn pop(&mut self) -> Option<SlotId> {
        let slot = self.first()?;
        self.remove_at(0);
        Some(slot)
    }

    /// Takes a certain task out; says whether it was here.
    pub fn remove(&mut self, slot: SlotId) -> bool {
        let here = self.contains(slot);
        if here {
            self.remove_at(self.position[slot.index()] as usize);
        }
        here
    }

    fn remove_at(&mut self, index: usize) {
        let removed = self.heap.swap_remove(index);
        self.position[removed.slot.index()] = NOWHERE;
        let Some(&moved) = self.heap.get(index) else { return };
        if index > 0 && moved.precedes(self.heap[parent(index)]) {
            self.rise(index, moved);
        } else {
            self.sink(index, moved);
        }
    }

    /// Finds the place of `entry` from the hole at `index` upwards.
    fn rise(&mut self, mut index: usize, entry: Entry) {
        while index > 0 {
            let above = self.heap[parent(index)];
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
            self.put(index, self.heap[child]);
            index = child;
        }
        self.rise(index, entry);
    }

    /// The child of `index` that goes first.
    fn first_child(&self, index: usize) -> Option<usize> {
        let begin = index * ARITY + 1;
        let children = self.heap.get(begin..)?;
        if let Some(&[first, second, third, fourth]) = children.first_chunk::<ARITY>() {
            // Two semifinals that do not wait for each other, and a final, by arithmetic instead of branches.
            let left = usize::from(second.precedes(first));
            let right = 2 + usize::from(fourth.precedes(third));
            let right_wins = children[right].precedes(children[left]);
            return Some(begin + if right_wins { right } else { left });
        }
        (begin..self.heap.len())
            .reduce(|first, child| if self.heap[child].precedes(self.heap[first]) { child } else { first })
    }

    fn put(&mut self, index: usize, entry: Entry) {
        self.heap[index] = entry;
        self.position[entry.slot.index()] = index as u32;
    }
}

const fn parent(index: usize) -> usize {
    (index - 1) / ARITY
}

#[cfg(test)]
impl Pool {
    /// Heap order holds and the table agrees with the heap.
    pub(crate) fn verify_invariants(&self) {
        assert!(self.heap.len() <= self.capacity);
        for (index, entry) in self.heap.iter().enumerate() {
            assert_eq!(self.position[entry.slot.index()] as usize, index);
            assert!(index == 0 || !entry.precedes(self.heap[parent(index)]), "heap order at {index}");
        }
        let nr_placed = self.position.iter().filter(|&&position| position != NOWHERE).count();
        assert_eq!(nr_placed, self.heap.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NR_SLOTS: u32 = 64;
    const CAPACITY: usize = 48;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u32, u64),
        Remove(u32),
        Pop,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            4 => (0..NR_SLOTS, 0u64..50).prop_map(|(slot, key)| Op::Insert(slot, key)),
            1 => (0..NR_SLOTS + 2).prop_map(Op::Remove),
            2 => Just(Op::Pop),
        ];
        proptest::collection::vec(op, 0..300)
    }

    /// The obvious implementation: sorted by (key, arrival).
    #[derive(Default)]
    struct Model(Vec<(u64, usize, u32)>);

    impl Model {
        fn remove(&mut self, slot: u32) -> bool {
            let before = self.0.len();
            self.0.retain(|entry| entry.2 != slot);
            self.0.len() < before
        }

        fn insert(&mut self, slot: u32, key: u64, arrival: usize) -> Result<(), PoolFull> {
            self.remove(slot);
            if self.0.len() == CAPACITY {
                return Err(PoolFull);
            }
            self.0.push((key, arrival, slot));
            self.0.sort_unstable();
            Ok(())
        }

        fn pop(&mut self) -> Option<SlotId> {
            (!self.0.is_empty()).then(|| SlotId(self.0.remove(0).2))
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_list(ops in ops(), base: u64) {
            let mut pool = Pool::new(CAPACITY, NR_SLOTS);
            let mut model = Model::default();
            for (arrival, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Insert(slot, key) => {
                        let inserted = pool.insert(SlotId(slot), base.wrapping_add(key));
                        prop_assert_eq!(inserted, model.insert(slot, key, arrival));
                    }
                    Op::Remove(slot) => prop_assert_eq!(pool.remove(SlotId(slot)), model.remove(slot)),
                    Op::Pop => prop_assert_eq!(pool.pop(), model.pop()),
                }
                pool.verify_invariants();
                prop_assert_eq!(pool.len(), model.0.len());
                prop_assert_eq!(pool.is_empty(), model.0.is_empty());
            }
        }
    }

    #[test]
    fn order_survives_the_wrap_of_time_and_of_arrivals() {
        let mut pool = Pool::new(8, 8);
        pool.next_arrival = u32::MAX;
        for (slot, key) in [(0, 3), (1, u64::MAX - 3), (2, 3), (3, u64::MAX)] {
            pool.insert(SlotId(slot), key).unwrap();
        }
        let order: Vec<u32> = core::iter::from_fn(|| pool.pop()).map(|slot| slot.0).collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }
}
