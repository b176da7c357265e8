//! User space that writes whatever it likes to the rings, beside what its loop writes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use fastrand::Rng;
use scherzo_wire::layout::{ControlPage, DISPATCHED_RING_BYTES, DispatchedTaskRecord, NR_SLOTS, Slot};

use crate::machine::{FIRST_PID, Rings};
use crate::rings::bytes_of;

/// So many true records are remembered, to be written again and to be distorted.
const NR_REMEMBERED: usize = 32;
/// As long as a deadline may be ahead or behind.
const REACH_NS: u64 = 10_000_000_000;

/// Writes rubbish.
pub struct RubbishWriter {
    rng: Rng,
    rings: Rc<RefCell<Rings>>,
    remembered: VecDeque<DispatchedTaskRecord>,
    nr_cpus: u32,
    /// `nr_submitted` is so much more than what the loop has added.
    off_by: u64,
}

impl RubbishWriter {
    /// What it writes follows from the seed.
    pub(crate) fn new(rings: Rc<RefCell<Rings>>, nr_cpus: usize, seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed ^ 0x5eed),
            rings,
            remembered: VecDeque::new(),
            nr_cpus: nr_cpus as u32,
            off_by: 0,
        }
    }

    /// Writes what the loop has to say about a task: as it is, twice, distorted, in another size, or not at all. False if there
    /// was no room, so far as the loop is told.
    pub(crate) fn submit(&mut self, record: &DispatchedTaskRecord) -> bool {
        if self.remembered.len() == NR_REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back(*record);
        match self.rng.u8(0..10) {
            0 => true,
            1 => {
                let distorted = self.distorted(*record);
                self.write(&distorted)
            }
            2 => self.write(record) && self.write(record),
            3 => self.write_cut(record),
            4 => {
                let distorted = self.distorted(*record);
                self.write(&distorted) && self.write(record)
            }
            _ => self.write(record),
        }
    }

    /// Writes what nobody has asked for, once the loop has gone a step.
    pub(crate) fn scribble(&mut self, page: &ControlPage, slots: &[Slot]) {
        for _ in 0..self.rng.usize(0..4) {
            let nr = self.remembered.len();
            let known = (nr > 0 && self.rng.bool()).then(|| self.remembered[self.rng.usize(0..nr)]);
            let template = known.unwrap_or_else(|| self.made_up());
            let record = self.distorted(template);
            self.write(&record);
        }
        match self.rng.u8(0..16) {
            0 => {
                let record = self.made_up();
                self.rings.borrow_mut().discard_down(DISPATCHED_RING_BYTES.into(), bytes_of(&record));
            }
            1 => self.rings.borrow_mut().damage_down(true),
            2 | 3 => self.rings.borrow_mut().damage_down(false),
            4 => {
                let position = self.position();
                self.rings.borrow_mut().claim_consumed(position);
            }
            5 => {
                let by = self.number_off();
                self.off_by = self.off_by.wrapping_add(by);
                page.nr_submitted.fetch_add(by, Relaxed);
            }
            6 => {
                page.nr_submitted.fetch_sub(std::mem::take(&mut self.off_by), Relaxed);
            }
            7 => {
                let slot = self.rng.usize(0..64);
                self.publish(&slots[slot]);
            }
            _ => {}
        }
    }

    /// By how much the number of records that it says to have written is off.
    fn number_off(&mut self) -> u64 {
        match self.rng.u8(0..3) {
            0 => self.rng.u64(1..100),
            1 => self.rng.u64(1..100).wrapping_neg(),
            _ => self.rng.u64(..),
        }
    }

    /// Where it has not read to.
    fn position(&mut self) -> u64 {
        let (consumed, produced) = self.rings.borrow().positions();
        match self.rng.u8(0..4) {
            0 => produced,
            1 => produced.wrapping_add(self.rng.u64(1..1 << 20)),
            2 => consumed.saturating_sub(self.rng.u64(1..1 << 21)),
            _ => self.rng.u64(..),
        }
    }

    /// What the policy is said to think of a task.
    fn publish(&mut self, slot: &Slot) {
        slot.deadline_ns.store(self.rng.u64(..), Relaxed);
        slot.classified_ns.store(self.rng.u64(..), Relaxed);
        slot.slice_ns.store(self.slice_ns(), Relaxed);
        slot.class.store(self.rng.u32(0..6), Relaxed);
    }

    /// Of a task that it may never have been given.
    fn made_up(&mut self) -> DispatchedTaskRecord {
        let slot = self.rng.u32(0..48);
        DispatchedTaskRecord {
            slot,
            pid: FIRST_PID as u32 + slot,
            generation: self.rng.u64(0..200),
            slice_ns: self.slice_ns(),
            deadline_ns: self.rng.u64(..),
            cpu: self.rng.u32(0..self.nr_cpus + 2),
            flags: self.rng.u32(0..32),
        }
    }

    fn slice_ns(&mut self) -> u64 {
        match self.rng.u8(0..4) {
            0 => 0,
            1 => u64::MAX,
            _ => self.rng.u64(1..200_000_000),
        }
    }

    /// The same record with some of it changed.
    fn distorted(&mut self, mut record: DispatchedTaskRecord) -> DispatchedTaskRecord {
        for _ in 0..self.rng.usize(1..4) {
            match self.rng.u8(0..7) {
                0 => record.slot = *self.choose(&[record.slot.wrapping_add(1), NR_SLOTS, u32::MAX, 0]),
                1 => record.pid = *self.choose(&[record.pid.wrapping_add(1), FIRST_PID as u32, 0, u32::MAX]),
                2 => record.generation = record.generation.wrapping_add(*self.choose(&[1, 2, u64::MAX, 1 << 63])),
                3 => record.slice_ns = self.slice_ns(),
                4 => {
                    let by = self.rng.u64(0..2 * REACH_NS);
                    record.deadline_ns = record.deadline_ns.wrapping_add(by).wrapping_sub(REACH_NS);
                }
                5 => record.cpu = *self.choose(&[0, self.nr_cpus - 1, self.nr_cpus, u32::MAX - 1]),
                _ => record.flags = self.rng.u32(..),
            }
        }
        record
    }

    fn choose<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.rng.usize(0..among.len())]
    }

    fn write(&self, record: &DispatchedTaskRecord) -> bool {
        self.rings.borrow_mut().send_down(DISPATCHED_RING_BYTES.into(), bytes_of(record))
    }

    /// Only the beginning of it, or none; or with more behind it.
    fn write_cut(&mut self, record: &DispatchedTaskRecord) -> bool {
        let mut bytes = bytes_of(record).to_vec();
        bytes.resize(self.rng.usize(0..2 * bytes.len()), 0xff);
        self.rings.borrow_mut().send_down(DISPATCHED_RING_BYTES.into(), &bytes)
    }
}
