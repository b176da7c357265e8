//! Slots in the order of their arrival: a queue that any member may leave.
//!
//! A doubly linked list threaded through a table by slot: constant time, no duplicates, and always room for all.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::SlotId;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct ArrivalLink {
    before: u32,
    after: u32,
    linked: bool,
}

/// First in, first out, by slot.
#[derive(Debug)]
pub struct Arrivals {
    links: Vec<ArrivalLink>,
    first: u32,
    last: u32,
    len: usize,
}

impl Arrivals {
    /// An empty queue for slots below `nr_slots`. Everything is allocated here.
    #[must_use]
    pub fn new(nr_slots: u32) -> Self {
        let unlinked = ArrivalLink { before: NONE, after: NONE, linked: false };
        Self { links: vec![unlinked; nr_slots as usize], first: NONE, last: NONE, len: 0 }
    }

    /// Slots queued.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether this slot is queued. False for slots out of range.
    #[must_use]
    pub fn contains(&self, slot: SlotId) -> bool {
        self.links.get(slot.index()).is_some_and(|link| link.linked)
    }

    /// The slot that came first.
    #[must_use]
    pub const fn first(&self) -> Option<SlotId> {
        if self.first == NONE { None } else { Some(SlotId(self.first)) }
    }

    /// Adds a slot at the end; one already queued moves there.
    ///
    /// # Panics
    ///
    /// If the slot is out of range.
    pub fn push(&mut self, slot: SlotId) {
        self.remove(slot);
        self.links[slot.index()] = ArrivalLink { before: self.last, after: NONE, linked: true };
        if self.last == NONE {
            self.first = slot.0;
        } else {
            self.links[self.last as usize].after = slot.0;
        }
        self.last = slot.0;
        self.len += 1;
    }

    /// Takes the slot that came first.
    pub fn pop(&mut self) -> Option<SlotId> {
        let slot = self.first()?;
        self.remove(slot);
        Some(slot)
    }

    /// Takes a certain slot out; says whether it was queued.
    pub fn remove(&mut self, slot: SlotId) -> bool {
        let Some(link) = self.links.get_mut(slot.index()).filter(|link| link.linked) else { return false };
        let ArrivalLink { before, after, .. } = *link;
        link.linked = false;
        if before == NONE {
            self.first = after;
        } else {
            self.links[before as usize].after = after;
        }
        if after == NONE {
            self.last = before;
        } else {
            self.links[after as usize].before = before;
        }
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_deque(ops in proptest::collection::vec((0u32..3, 0u32..10), 0..200)) {
            let mut arrivals = Arrivals::new(8);
            let mut model = VecDeque::new();
            for (op, slot) in ops {
                match op {
                    0 if slot < 8 => {
                        arrivals.push(SlotId(slot));
                        model.retain(|&other| other != slot);
                        model.push_back(slot);
                    }
                    1 => {
                        let before = model.len();
                        model.retain(|&other| other != slot);
                        prop_assert_eq!(arrivals.remove(SlotId(slot)), model.len() < before);
                    }
                    _ => prop_assert_eq!(arrivals.pop(), model.pop_front().map(SlotId)),
                }
                prop_assert_eq!(arrivals.contains(SlotId(slot)), model.contains(&slot));
                prop_assert_eq!(arrivals.len(), model.len());
                prop_assert_eq!(arrivals.first(), model.front().copied().map(SlotId));
            }
        }
    }
}
