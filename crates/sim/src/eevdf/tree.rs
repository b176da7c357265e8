//! Tasks and control groups, level by level, on all CPUs.

use std::collections::BTreeMap;

use super::queue::{EntityId, FairEntity, FairOwner, FairQueue, QueueId};
use crate::abi::TaskGroup;
use crate::task::TaskId;

/// The least weight of a group on a CPU: `MIN_SHARES`.
const LEAST_WEIGHT: u64 = 2;
/// The base slice of one CPU: `normalized_sysctl_sched_base_slice`.
const BASE_SLICE_NS: u64 = 700_000;

/// A task as this class sees it.
#[derive(Clone, Copy, Debug)]
pub struct FairTask {
    /// What stands for it.
    pub entity: EntityId,
    /// The CPU that it is on, or was on last.
    pub cpu: usize,
    /// It is of `SCHED_IDLE`.
    pub is_idle_policy: bool,
    /// It has a CPU that it is about to leave for the one above.
    pub is_pushed: bool,
}

/// A CPU.
#[derive(Clone, Debug, Default)]
pub struct FairCpu {
    /// Time is accounted up to here.
    charged_until_ns: u64,
    /// Runnable tasks, with the one that runs: `h_nr_runnable`.
    pub nr_runnable: usize,
    /// Those of `SCHED_IDLE` among them.
    pub nr_idle_policy: usize,
    /// At the next tick another task is to be looked for.
    pub needs_resched: bool,
    /// When it balances next, on each level.
    pub balances_at_ns: [u64; 3],
    /// How often that came to nothing.
    pub nr_balance_failed: [u32; 3],
    /// Its current task is to go to this CPU.
    pub pushes_to: Option<usize>,
}

/// A control group.
#[derive(Clone, Debug, Default)]
struct FairGroup {
    shares: u64,
    /// By CPU.
    queues: BTreeMap<usize, QueueId>,
}

/// All of them. The topmost queue of a CPU has the CPU's number.
#[derive(Debug, Default)]
pub struct FairTree {
    /// The time.
    pub now_ns: u64,
    slice_ns: u64,
    tick_ns: u64,
    entities: Vec<FairEntity>,
    queues: Vec<FairQueue>,
    /// By queue: the group that it is of.
    group_of_queue: BTreeMap<QueueId, i32>,
    groups: BTreeMap<i32, FairGroup>,
    /// By number of the task.
    pub tasks: BTreeMap<TaskId, FairTask>,
    /// CPUs.
    pub cpus: Vec<FairCpu>,
}

impl FairTree {
    /// For a machine with so many CPUs; `update_sysctl()` has slices grow with the logarithm of their number.
    pub fn new(nr_cpus: usize, tick_ns: u64) -> Self {
        Self {
            slice_ns: BASE_SLICE_NS * u64::from(1 + nr_cpus.min(8).ilog2()),
            tick_ns,
            queues: vec![FairQueue::default(); nr_cpus],
            cpus: vec![FairCpu::default(); nr_cpus],
            ..Self::default()
        }
    }

    /// A new task.
    pub fn add_task(&mut self, id: TaskId, cpu: usize) {
        let entity = self.entities.len();
        self.entities.push(FairEntity::new(FairOwner::Task(id), cpu, super::queue::NICE_0_LOAD));
        self.tasks.insert(id, FairTask { entity, cpu, is_idle_policy: false, is_pushed: false });
    }

    /// Where the task's entity stands.
    pub fn entity(&self, id: TaskId) -> &FairEntity {
        &self.entities[self.tasks[&id].entity]
    }

    /// The task that has the CPU, as far as this class is concerned.
    pub fn current(&self, cpu: usize) -> Option<TaskId> {
        let mut queue = cpu;
        loop {
            match self.entities[self.queues[queue].curr?].owner {
                FairOwner::Task(id) => return Some(id),
                FairOwner::Group(below) => queue = below,
            }
        }
    }

    /// What the runnable tasks of the CPU weigh, as `cpu_load()` says on the average.
    pub fn load(&self, cpu: usize) -> u64 {
        self.queues[cpu].weight
    }

    /// What a task weighs among all of its CPU: `task_h_load()`.
    pub fn load_of_task(&self, id: TaskId) -> u64 {
        let mut entity = &self.entities[self.tasks[&id].entity];
        let mut load = u128::from(entity.weight);
        while let Some(above) = self.queues[entity.queue].entity {
            let level = u128::from(self.queues[entity.queue].weight.max(1));
            entity = &self.entities[above];
            load = load * u128::from(entity.weight) / level;
        }
        load as u64
    }

    /// The queue of a group on a CPU, and those around it: `alloc_fair_sched_group()`. What the group weighs is read anew.
    pub fn queue_of(&mut self, group: *const TaskGroup, cpu: usize) -> QueueId {
        #[allow(unsafe_code)]
        // SAFETY: groups live as long as the run, and nobody writes to them during a callback.
        let Some(group) = (unsafe { group.as_ref() }).filter(|group| !group.parent.is_null()) else { return cpu };
        let above = self.queue_of(group.parent, cpu);
        let known = self.groups.entry(group.css.id).or_default();
        known.shares = group.shares;
        if let Some(queue) = known.queues.get(&cpu) {
            return *queue;
        }
        let (queue, entity) = (self.queues.len(), self.entities.len());
        known.queues.insert(cpu, queue);
        self.queues.push(FairQueue::below(entity));
        self.entities.push(FairEntity::new(FairOwner::Group(queue), above, LEAST_WEIGHT));
        self.group_of_queue.insert(queue, group.css.id);
        queue
    }

    /// `calc_group_shares()`: of the group's shares what the CPU has of the group's load.
    fn weight_of_group(&self, queue: QueueId) -> u64 {
        let Some(group) = self.group_of_queue.get(&queue).and_then(|id| self.groups.get(id)) else {
            return LEAST_WEIGHT;
        };
        let all: u128 = group.queues.values().map(|queue| u128::from(self.queues[*queue].weight)).sum();
        let part = u128::from(group.shares) * u128::from(self.queues[queue].weight) / all.max(1);
        (part as u64).clamp(LEAST_WEIGHT, group.shares.max(LEAST_WEIGHT))
    }

    /// `update_cfs_group()`, from a queue upwards.
    fn update_weights(&mut self, mut queue: QueueId) {
        while let Some(entity) = self.queues[queue].entity {
            let weight = self.weight_of_group(queue);
            queue = self.entities[entity].queue;
            if self.entities[entity].is_queued {
                self.queues[queue].reweight(entity, &mut self.entities[entity], weight);
            }
        }
    }

    /// `update_curr()` and the part of `task_tick_fair()` that follows loads, for all levels of a CPU.
    pub fn charge(&mut self, cpu: usize) {
        let ran_ns = self.now_ns.saturating_sub(self.cpus[cpu].charged_until_ns);
        self.cpus[cpu].charged_until_ns = self.now_ns;
        let mut queue = cpu;
        while let Some(entity) = self.queues[queue].curr {
            self.cpus[cpu].needs_resched |=
                self.queues[queue].charge(&mut self.entities[entity], ran_ns, self.slice_ns);
            match self.entities[entity].owner {
                FairOwner::Task(_) => break,
                FairOwner::Group(below) => queue = below,
            }
        }
        self.update_weights(queue);
    }

    /// `enqueue_task_fair()`: the task is runnable on a CPU from now on.
    pub fn enqueue(&mut self, id: TaskId, cpu: usize, queue: QueueId, weight: u64, is_new: bool) {
        self.charge(cpu);
        let FairTask { entity, cpu: before, is_idle_policy, .. } = self.tasks[&id];
        if self.entities[entity].is_delayed {
            if before == cpu && self.entities[entity].queue == queue && self.entities[entity].weight == weight {
                self.requeue_delayed(entity);
                self.count(cpu, is_idle_policy, true);
                return;
            }
            self.finish_delayed(entity);
        }
        self.entities[entity].set_weight(weight);
        self.entities[entity].queue = queue;
        self.put_on_queue(entity, is_new);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.cpu = cpu;
        }
        self.count(cpu, is_idle_policy, true);
    }

    /// `enqueue_entity()` for the entity, and for each group that was empty.
    fn put_on_queue(&mut self, mut entity: EntityId, is_new: bool) {
        loop {
            let queue = self.entities[entity].queue;
            let level = &mut self.queues[queue];
            level.place(&mut self.entities[entity], self.slice_ns, is_new);
            level.insert(entity, &mut self.entities[entity]);
            let Some(above) = level.entity.filter(|above| !self.entities[*above].is_queued) else {
                self.update_weights(queue);
                return;
            };
            let weight = self.weight_of_group(queue);
            self.entities[above].set_weight(weight);
            entity = above;
        }
    }

    /// `dequeue_entity()` for the entity, and for each group that it leaves empty.
    fn take_off_queue(&mut self, mut entity: EntityId, sleeps: bool) {
        loop {
            let queue = self.entities[entity].queue;
            let level = &mut self.queues[queue];
            let state = &mut self.entities[entity];
            state.lag_ns = level.lag_ns(state, self.slice_ns, self.tick_ns);
            level.remove(entity, state);
            if !sleeps {
                state.deadline_ns -= state.vruntime_ns;
                state.deadline_is_relative = true;
            }
            let Some(above) = level.entity.filter(|_| level.nr_queued == 0) else {
                self.update_weights(queue);
                return;
            };
            entity = above;
        }
    }

    /// `dequeue_task_fair()`. Who sleeps and has had too much stays until that is paid back (`DELAY_DEQUEUE`).
    pub fn dequeue(&mut self, id: TaskId, sleeps: bool) {
        let FairTask { entity, cpu, is_idle_policy, .. } = self.tasks[&id];
        if !self.entities[entity].is_queued {
            return;
        }
        self.charge(cpu);
        if self.entities[entity].is_delayed {
            self.finish_delayed(entity);
            return;
        }
        self.count(cpu, is_idle_policy, false);
        let state = &mut self.entities[entity];
        if sleeps && !self.queues[state.queue].is_eligible(state) {
            state.is_delayed = true;
        } else {
            self.take_off_queue(entity, sleeps);
        }
    }

    /// The task changes its policy, while it is on no queue.
    pub fn set_idle_policy(&mut self, id: TaskId, is_idle_policy: bool) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.is_idle_policy = is_idle_policy;
        }
    }

    fn count(&mut self, cpu: usize, is_idle_policy: bool, is_more: bool) {
        let cpu = &mut self.cpus[cpu];
        if is_more {
            cpu.nr_runnable += 1;
            cpu.nr_idle_policy += usize::from(is_idle_policy);
        } else {
            cpu.nr_runnable -= 1;
            cpu.nr_idle_policy -= usize::from(is_idle_policy);
        }
    }

    /// `finish_delayed_dequeue_entity()`: nobody is owed anything for having slept (`DELAY_ZERO`).
    fn finish_delayed(&mut self, entity: EntityId) {
        self.take_off_queue(entity, true);
        let state = &mut self.entities[entity];
        state.is_delayed = false;
        state.lag_ns = state.lag_ns.min(0);
    }

    /// `requeue_delayed_entity()`: it wakes before it has left.
    fn requeue_delayed(&mut self, entity: EntityId) {
        let state = &mut self.entities[entity];
        state.is_delayed = false;
        let queue = &mut self.queues[state.queue];
        if queue.lag_ns(state, self.slice_ns, self.tick_ns) > 0 {
            queue.remove(entity, state);
            state.lag_ns = 0;
            queue.place(state, self.slice_ns, false);
            queue.insert(entity, state);
        }
    }

    /// `set_next_task_fair()`: the task gets the CPU.
    pub fn give_cpu(&mut self, id: TaskId) {
        let FairTask { mut entity, cpu, .. } = self.tasks[&id];
        self.cpus[cpu].charged_until_ns = self.now_ns;
        self.cpus[cpu].needs_resched = false;
        loop {
            let queue = &mut self.queues[self.entities[entity].queue];
            queue.give_cpu(entity, &mut self.entities[entity]);
            let Some(above) = queue.entity else { return };
            entity = above;
        }
    }

    /// `put_prev_task_fair()`: the task loses the CPU.
    pub fn take_cpu(&mut self, id: TaskId) {
        let FairTask { mut entity, cpu, .. } = self.tasks[&id];
        if self.current(cpu) != Some(id) {
            return;
        }
        self.charge(cpu);
        loop {
            let queue = &mut self.queues[self.entities[entity].queue];
            queue.take_cpu(entity, &self.entities[entity]);
            let Some(above) = queue.entity else { return };
            entity = above;
        }
    }

    /// `pick_task_fair()`. What sleeps and has paid back leaves instead.
    pub fn pick(&mut self, cpu: usize) -> Option<TaskId> {
        self.charge(cpu);
        let mut queue = cpu;
        loop {
            let entity = self.queues[queue].pick(&self.entities)?;
            match self.entities[entity].owner {
                FairOwner::Group(below) => queue = below,
                FairOwner::Task(_) if self.entities[entity].is_delayed => {
                    self.finish_delayed(entity);
                    queue = cpu;
                }
                FairOwner::Task(id) => return Some(id),
            }
        }
    }

    /// `check_preempt_wakeup_fair()`: whether the current task has to give way to one that has come; where both are in different
    /// groups, those groups compete.
    pub fn gives_way(&mut self, cpu: usize, to: TaskId, to_is_normal: bool) -> bool {
        self.charge(cpu);
        let Some(curr) = self.current(cpu) else { return false };
        let (curr, to) = (self.tasks[&curr], self.tasks[&to]);
        if curr.is_idle_policy != to.is_idle_policy {
            return curr.is_idle_policy;
        }
        if !to_is_normal {
            return false;
        }
        let mut entity = to.entity;
        loop {
            let queue = &self.queues[self.entities[entity].queue];
            match queue.entity {
                // The current task is of another group.
                Some(above) if queue.curr.is_none() => entity = above,
                _ => return queue.pick(&self.entities) == Some(entity),
            }
        }
    }
}
