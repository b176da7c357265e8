//! What competes for a CPU on one level of the control groups: `struct cfs_rq` and its entities.

use std::collections::BTreeSet;

use crate::task::TaskId;

/// `NICE_0_LOAD`: the weight of nice 0, at which virtual time passes like time.
pub const NICE_0_LOAD: u64 = 1 << 20;

/// Index in the table of entities.
pub type EntityId = usize;
/// Index in the table of queues.
pub type QueueId = usize;

/// For whom an entity stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FairOwner {
    /// A task.
    Task(TaskId),
    /// What a control group has on a CPU: this queue.
    Group(QueueId),
}

/// `struct sched_entity`. Virtual times are in nanoseconds of nice 0.
#[derive(Clone, Debug)]
pub struct FairEntity {
    /// For whom.
    pub owner: FairOwner,
    /// The queue that it is on, or was on last.
    pub queue: QueueId,
    /// Its weight, 1024 times that of the table of nice levels.
    pub weight: u64,
    /// What it has had.
    pub vruntime_ns: i64,
    /// When it should have had its slice; relative to its vruntime while it moves from queue to queue.
    pub deadline_ns: i64,
    /// What it is owed, in virtual time, while it is on no queue.
    pub lag_ns: i64,
    /// While it has a CPU no other of its queue takes that before this vruntime.
    pub protected_until_ns: i64,
    /// It is on its queue, waiting or with a CPU.
    pub is_queued: bool,
    /// It sleeps, and stays on the queue until it has paid back what it had too much.
    pub is_delayed: bool,
    /// See there.
    pub deadline_is_relative: bool,
}

impl FairEntity {
    /// One that has not run yet.
    pub fn new(owner: FairOwner, queue: QueueId, weight: u64) -> Self {
        Self {
            owner,
            queue,
            weight,
            vruntime_ns: 0,
            deadline_ns: 0,
            lag_ns: 0,
            protected_until_ns: 0,
            is_queued: false,
            is_delayed: false,
            deadline_is_relative: false,
        }
    }

    /// `calc_delta_fair()`: what so much time is in the virtual time of this weight.
    pub fn virtual_ns(&self, ns: u64) -> i64 {
        (u128::from(ns) * u128::from(NICE_0_LOAD) / u128::from(self.weight)) as i64
    }

    /// `rescale_entity()`, for one that is on no queue: what it is owed stays the same in time.
    pub fn set_weight(&mut self, weight: u64) {
        self.lag_ns = rescaled(self.lag_ns, self.weight, weight);
        if self.deadline_is_relative {
            self.deadline_ns = rescaled(self.deadline_ns, self.weight, weight);
        }
        self.weight = weight;
    }
}

fn rescaled(virtual_ns: i64, from_weight: u64, to_weight: u64) -> i64 {
    (i128::from(virtual_ns) * i128::from(from_weight) / i128::from(to_weight)) as i64
}

/// `struct cfs_rq`.
#[derive(Clone, Debug, Default)]
pub struct FairQueue {
    /// Those that wait, by deadline.
    waiting: BTreeSet<(i64, EntityId)>,
    /// The one that has the CPU.
    pub curr: Option<EntityId>,
    /// How many there are, with the current one.
    pub nr_queued: usize,
    /// Their weights together.
    pub weight: u64,
    /// The sum of their vruntimes, each times its weight.
    weighted_vruntime: i128,
    /// The average when the queue was last empty.
    empty_average_ns: i64,
    /// What stands for it on the level above; nothing on the topmost one.
    pub entity: Option<EntityId>,
}

impl FairQueue {
    /// That of a group, for which this entity stands on the level above.
    pub fn below(entity: EntityId) -> Self {
        Self { entity: Some(entity), ..Self::default() }
    }

    /// `avg_vruntime()`: the virtual time up to which everybody should have run.
    pub fn average_ns(&self) -> i64 {
        if self.weight == 0 {
            return self.empty_average_ns;
        }
        self.weighted_vruntime.div_euclid(i128::from(self.weight)) as i64
    }

    /// `entity_eligible()`: it has had no more than the average, computed exactly.
    pub fn is_eligible(&self, entity: &FairEntity) -> bool {
        i128::from(entity.vruntime_ns) * i128::from(self.weight) <= self.weighted_vruntime
    }

    /// `update_entity_lag()`: what the entity is owed, at most two slices or a tick.
    pub fn lag_ns(&self, entity: &FairEntity, slice_ns: u64, tick_ns: u64) -> i64 {
        let limit_ns = entity.virtual_ns((2 * slice_ns).max(tick_ns));
        (self.average_ns() - entity.vruntime_ns).clamp(-limit_ns, limit_ns)
    }

    /// `place_entity()`: where the entity goes on. Its own weight moves the average, so it is given the lag that leaves it with what
    /// it is owed afterwards.
    pub fn place(&self, entity: &mut FairEntity, slice_ns: u64, is_new: bool) {
        let mut lag_ns = 0;
        if self.weight > 0 {
            let with_it = i128::from(self.weight + entity.weight);
            lag_ns = (i128::from(entity.lag_ns) * with_it / i128::from(self.weight)) as i64;
        }
        entity.vruntime_ns = self.average_ns() - lag_ns;
        if std::mem::take(&mut entity.deadline_is_relative) {
            entity.deadline_ns += entity.vruntime_ns;
            return;
        }
        // `PLACE_DEADLINE_INITIAL`: a new one begins with half a slice.
        let slice_ns = if is_new { slice_ns / 2 } else { slice_ns };
        entity.deadline_ns = entity.vruntime_ns + entity.virtual_ns(slice_ns);
    }

    /// `enqueue_entity()`, for one that has been placed.
    pub fn insert(&mut self, id: EntityId, entity: &mut FairEntity) {
        entity.is_queued = true;
        self.add_weight(entity);
        self.nr_queued += 1;
        self.waiting.insert((entity.deadline_ns, id));
    }

    /// `__dequeue_entity()` and `account_entity_dequeue()`.
    pub fn remove(&mut self, id: EntityId, entity: &mut FairEntity) {
        if self.curr == Some(id) {
            self.curr = None;
        } else {
            self.waiting.remove(&(entity.deadline_ns, id));
        }
        self.empty_average_ns = self.average_ns();
        entity.is_queued = false;
        self.subtract_weight(entity);
        self.nr_queued -= 1;
    }

    fn add_weight(&mut self, entity: &FairEntity) {
        self.weight += entity.weight;
        self.weighted_vruntime += i128::from(entity.weight) * i128::from(entity.vruntime_ns);
    }

    fn subtract_weight(&mut self, entity: &FairEntity) {
        self.weight -= entity.weight;
        self.weighted_vruntime -= i128::from(entity.weight) * i128::from(entity.vruntime_ns);
    }

    /// `set_next_entity()`: it gets the CPU, for a slice.
    pub fn give_cpu(&mut self, id: EntityId, entity: &mut FairEntity) {
        self.waiting.remove(&(entity.deadline_ns, id));
        self.curr = Some(id);
        entity.protected_until_ns = entity.deadline_ns;
    }

    /// `put_prev_entity()`: the current one waits again.
    pub fn take_cpu(&mut self, id: EntityId, entity: &FairEntity) {
        self.curr = None;
        self.waiting.insert((entity.deadline_ns, id));
    }

    /// `update_curr()` for one level; whether the CPU should look for another entity.
    pub fn charge(&mut self, entity: &mut FairEntity, ran_ns: u64, slice_ns: u64) -> bool {
        let virtual_ns = entity.virtual_ns(ran_ns);
        entity.vruntime_ns += virtual_ns;
        self.weighted_vruntime += i128::from(entity.weight) * i128::from(virtual_ns);
        let is_over = entity.vruntime_ns >= entity.deadline_ns;
        if is_over {
            entity.deadline_ns = entity.vruntime_ns + entity.virtual_ns(slice_ns);
        }
        self.nr_queued > 1 && (is_over || entity.vruntime_ns >= entity.protected_until_ns)
    }

    /// `reweight_entity()`, for one that is on the queue: lag, slice and protection stay the same in time, the average as it is.
    pub fn reweight(&mut self, id: EntityId, entity: &mut FairEntity, weight: u64) {
        if entity.weight == weight {
            return;
        }
        let is_current = self.curr == Some(id);
        if !is_current {
            self.waiting.remove(&(entity.deadline_ns, id));
        }
        let average_ns = self.average_ns();
        let scaled = |virtual_ns: i64| average_ns + rescaled(virtual_ns - average_ns, entity.weight, weight);
        let (vruntime_ns, deadline_ns) = (scaled(entity.vruntime_ns), scaled(entity.deadline_ns));
        let protected_until_ns = scaled(entity.protected_until_ns);
        self.subtract_weight(entity);
        (entity.weight, entity.vruntime_ns, entity.deadline_ns) = (weight, vruntime_ns, deadline_ns);
        entity.protected_until_ns = protected_until_ns;
        self.add_weight(entity);
        if !is_current {
            self.waiting.insert((entity.deadline_ns, id));
        }
    }

    /// `pick_eevdf()`: of those that have had no more than the average the one whose deadline is first. The current one keeps the CPU
    /// while it is protected (`RUN_TO_PARITY`).
    pub fn pick(&self, entities: &[FairEntity]) -> Option<EntityId> {
        let curr = self.curr.filter(|id| self.nr_queued == 1 || self.is_eligible(&entities[*id]));
        if let Some(id) = curr
            && (self.nr_queued == 1 || entities[id].vruntime_ns < entities[id].protected_until_ns)
        {
            return curr;
        }
        let first = self.waiting.iter().find(|(_, id)| self.is_eligible(&entities[*id]));
        match (curr, first) {
            (Some(id), Some((deadline_ns, _))) if entities[id].deadline_ns < *deadline_ns => curr,
            (_, Some((_, id))) => Some(*id),
            (curr, None) => curr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: u64 = 2_800_000;
    const TICK_NS: u64 = 4_000_000;

    /// A queue of tasks with these weights, in units of nice 0.
    fn queue_of(weights: &[u64]) -> (FairQueue, Vec<FairEntity>) {
        let mut queue = FairQueue::default();
        let new = |(id, weight): (usize, &u64)| FairEntity::new(FairOwner::Task(id), 0, weight * NICE_0_LOAD);
        let mut entities: Vec<FairEntity> = weights.iter().enumerate().map(new).collect();
        for (id, entity) in entities.iter_mut().enumerate() {
            queue.place(entity, SLICE_NS, false);
            queue.insert(id, entity);
        }
        (queue, entities)
    }

    /// Runs the queue in turns of a millisecond; what each got, in milliseconds.
    fn run(queue: &mut FairQueue, entities: &mut [FairEntity], for_ms: u64) -> Vec<u64> {
        let mut got_ms = vec![0; entities.len()];
        for _ in 0..for_ms {
            let id = queue.pick(entities).expect("somebody is eligible");
            if queue.curr != Some(id) {
                if let Some(prev) = queue.curr {
                    queue.take_cpu(prev, &entities[prev]);
                }
                queue.give_cpu(id, &mut entities[id]);
            }
            queue.charge(&mut entities[id], 1_000_000, SLICE_NS);
            got_ms[id] += 1;
        }
        got_ms
    }

    #[test]
    fn weights_divide_the_time() {
        let (mut queue, mut entities) = queue_of(&[1, 1, 2]);
        let got_ms = run(&mut queue, &mut entities, 4000);
        for (got, fair) in got_ms.iter().zip([1000, 1000, 2000]) {
            assert!(got.abs_diff(fair) < 10, "{got_ms:?}");
        }
    }

    #[test]
    fn the_first_deadline_of_the_eligible_goes_first() {
        let (queue, mut entities) = queue_of(&[1, 4, 2]);
        // All have had the same, and the heaviest one's slice ends first in virtual time.
        assert_eq!(queue.pick(&entities), Some(1));
        let mut queue = queue;
        queue.give_cpu(1, &mut entities[1]);
        queue.charge(&mut entities[1], 4_000_000, SLICE_NS);
        assert!(!queue.is_eligible(&entities[1]), "it has had more than the average");
        assert_eq!(queue.pick(&entities), Some(2));
    }

    #[test]
    fn who_has_the_cpu_keeps_it_for_its_slice() {
        let (mut queue, mut entities) = queue_of(&[1, 1]);
        queue.give_cpu(0, &mut entities[0]);
        let behind = FairEntity { lag_ns: 10_000_000, ..FairEntity::new(FairOwner::Task(2), 0, NICE_0_LOAD) };
        entities.push(behind);
        queue.place(&mut entities[2], SLICE_NS, false);
        let owed_ns = queue.average_ns() - entities[2].vruntime_ns;
        assert!(owed_ns > 10_000_000, "what is asked for is more than what is owed, as the average moves");
        queue.insert(2, &mut entities[2]);
        let lag_ns = queue.lag_ns(&entities[2], 100 * SLICE_NS, TICK_NS);
        assert!(lag_ns.abs_diff(10_000_000) <= 1, "{lag_ns}");
        assert!(!queue.is_eligible(&entities[0]), "the average has moved back");
        assert_eq!(queue.pick(&entities), Some(2));
        queue.remove(2, &mut entities[2]);
        assert_eq!(queue.pick(&entities), Some(0), "it is protected until its slice is over");
        assert!(queue.charge(&mut entities[0], SLICE_NS, SLICE_NS), "then another is looked for");
        assert_eq!(queue.pick(&entities), Some(1));
    }

    #[test]
    fn lag_is_bounded_by_two_slices() {
        let (mut queue, mut entities) = queue_of(&[1, 1]);
        queue.give_cpu(0, &mut entities[0]);
        queue.charge(&mut entities[0], 500_000_000, SLICE_NS);
        assert_eq!(queue.lag_ns(&entities[0], SLICE_NS, TICK_NS), -2 * SLICE_NS as i64);
        assert_eq!(queue.lag_ns(&entities[1], SLICE_NS, 10_000_000), 10_000_000, "a tick, where that is longer");
    }

    #[test]
    fn another_weight_changes_nothing_of_what_is_owed() {
        let (mut queue, mut entities) = queue_of(&[1, 2, 1]);
        run(&mut queue, &mut entities, 7);
        let owed = |queue: &FairQueue, entity: &FairEntity| {
            (queue.average_ns() - entity.vruntime_ns) * (entity.weight / NICE_0_LOAD) as i64
        };
        let before: Vec<i64> = entities.iter().map(|entity| owed(&queue, entity)).collect();
        let average_ns = queue.average_ns();
        queue.reweight(1, &mut entities[1], 8 * NICE_0_LOAD);
        assert!(queue.average_ns().abs_diff(average_ns) <= 2);
        for (entity, before) in entities.iter().zip(before) {
            assert!(owed(&queue, entity).abs_diff(before) <= 20, "{entity:?}, owed before: {before}");
        }
    }
}
