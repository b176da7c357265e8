//! The ordered pool of waiting tasks.
//!
//! Few tasks wait in a heap. Where there are many, only those that go next are in the heap; the others lie in a wheel of
//! buckets, and each bucket moves into the heap when its turn comes. New tasks go to the wheel until it is empty again,
//! so that the heap stays small. So a task costs about the same however many others wait: what grows with their number
//! is the part of a B-tree or of one large heap that does not fit a near cache. Keys outside the wheel's window are in
//! the heap too, so that no distribution of keys makes it worse than O(log n), over all the tasks that a bucket held.
//!
//! A slot is in the pool at most once, any task can be removed, and nothing is allocated after construction. One table
//! says for each slot where its task is, in the heap or in the wheel: one look, at one line of memory. A B-tree keyed by
//! (key, pid), as scx_rustland has it, needs an allocator and a second index by pid.
//!
//! Keys wrap and are compared by signed difference; equal keys leave in the order of their arrival.

mod heap;
mod wheel;

use alloc::vec;
use alloc::vec::Vec;

use self::heap::{Heap, HeapEntry};
use self::wheel::Wheel;
use crate::ids::SlotId;
use crate::time::signed_diff;

/// Up to here a heap costs no more than a heap and a wheel, and touches less memory.
const NR_FEW: usize = 16;
/// Where a task is that is not in the pool.
const NOWHERE: u32 = u32::MAX;
/// Set where a task is in the wheel: no index in the heap and no place in the wheel is as large.
const LATER: u32 = 1 << 31;

/// The pool has no room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull;

/// Waiting tasks by deadline; those with the same one in the order of their arrival.
///
/// ```
/// use scherzo_policy::SlotId;
/// use scherzo_policy::pool::Pool;
///
/// let mut pool = Pool::new(8, 16);
/// for (slot, deadline_ns) in [(3, 200), (5, 100), (7, 200)] {
///     pool.insert(SlotId(slot), deadline_ns).expect("there is room");
/// }
/// pool.remove(SlotId(7));
/// assert_eq!([pool.pop(), pool.pop(), pool.pop()], [Some(SlotId(5)), Some(SlotId(3)), None]);
/// ```
#[derive(Debug)]
pub struct Pool {
    /// The task that goes first is here, if there is any.
    next: Heap,
    later: Wheel,
    /// Per slot: its index in the heap, its place in the wheel with [`LATER`] set, or [`NOWHERE`].
    places: Vec<u32>,
    capacity: usize,
    next_arrival: u32,
}

impl Pool {
    /// A pool for `capacity` tasks with slots below `nr_slots`. Everything is allocated here.
    #[must_use]
    pub fn new(capacity: usize, nr_slots: u32) -> Self {
        Self {
            next: Heap::new(capacity),
            later: Wheel::new(capacity),
            places: vec![NOWHERE; nr_slots as usize],
            capacity,
            next_arrival: 0,
        }
    }

    /// Tasks waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.next.len() + self.later.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this task waits here. False for slots out of range.
    #[must_use]
    pub fn contains(&self, slot: SlotId) -> bool {
        self.places.get(slot.index()).is_some_and(|&place| place != NOWHERE)
    }

    /// Adds a task. One already here leaves its old place first.
    ///
    /// # Panics
    ///
    /// If the slot is out of range.
    pub fn insert(&mut self, slot: SlotId, deadline_ns: u64) -> Result<(), PoolFull> {
        self.remove(slot);
        if self.len() == self.capacity {
            return Err(PoolFull);
        }
        let entry = HeapEntry { deadline_ns, arrival: self.next_arrival, slot };
        self.next_arrival = self.next_arrival.wrapping_add(1);
        let many = self.later.len() > 0 || self.next.len() >= NR_FEW;
        if many && let Some(place) = self.later.insert(entry) {
            self.places[slot.index()] = LATER | place;
        } else {
            self.next.insert(entry, &mut self.places);
        }
        self.settle();
        Ok(())
    }

    /// The task that goes first.
    #[must_use]
    pub fn first(&self) -> Option<SlotId> {
        self.next.first().map(|entry| entry.slot)
    }

    /// Takes the task that goes first.
    pub fn pop(&mut self) -> Option<SlotId> {
        let slot = self.first()?;
        self.remove(slot);
        Some(slot)
    }

    /// Takes a certain task out; says whether it was here.
    pub fn remove(&mut self, slot: SlotId) -> bool {
        if !self.contains(slot) {
            return false;
        }
        let place = core::mem::replace(&mut self.places[slot.index()], NOWHERE);
        if place & LATER == 0 {
            self.next.remove(place, &mut self.places);
        } else {
            self.later.remove(place & !LATER);
        }
        self.settle();
        true
    }

    /// Moves buckets into the heap until its first task precedes all that are left in the wheel.
    fn settle(&mut self) {
        while self.later.len() > 0 && !self.first_precedes_later() {
            self.later.advance(|entry| self.next.insert(entry, &mut self.places));
        }
    }

    fn first_precedes_later(&self) -> bool {
        self.next.first().is_some_and(|first| signed_diff(first.deadline_ns, self.later.start_ns()) < 0)
    }
}

#[cfg(test)]
impl Pool {
    /// Both parts are sound and the first task is where it is looked for.
    pub(crate) fn verify_invariants(&self) {
        self.next.verify_invariants(&self.places);
        self.later.verify_invariants(|slot| self.places[slot.index()] ^ LATER);
        assert_eq!(self.places.iter().filter(|&&place| place != NOWHERE).count(), self.len());
        assert!(self.len() <= self.capacity);
        assert!(self.later.len() == 0 || self.first_precedes_later());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NR_SLOTS: u32 = 160;
    const CAPACITY: usize = 120;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u32, u64),
        Remove(u32),
        Pop,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            2 => (0..NR_SLOTS, 0u64..50).prop_map(|(slot, key)| Op::Insert(slot, key)),
            4 => (0..NR_SLOTS, 0u64..300_000_000).prop_map(|(slot, key)| Op::Insert(slot, key)),
            1 => (0..NR_SLOTS, 0u64..1 << 40).prop_map(|(slot, key)| Op::Insert(slot, key)),
            1 => (0..NR_SLOTS + 2).prop_map(Op::Remove),
            2 => Just(Op::Pop),
        ];
        proptest::collection::vec(op, 0..400)
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
