//! CPUs that run at the same time: what one does may be interrupted by another between any two accesses to shared memory.
//!
//! Events of different CPUs that are due within a few microseconds overlap. Each runs as a coroutine; it stops where the scheduler
//! accesses memory, where a callback begins, where it calls the kernel, and where it needs a lock that another one holds. Who goes on there
//! is decided by a [`SwitchPlan`]: by chance, or by a list, so that a run can be repeated.

#![allow(unsafe_code)]

mod coroutine;
mod drive;
mod hooks;
mod locks;
mod search;
mod stores;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::RangeInclusive;

use self::coroutine::Coroutine;
use self::stores::StoreBuffer;
use crate::machine::{LaneContext, Machine, MachineEvent};
use crate::task::{OpsState, State, TaskId};

pub(crate) use self::hooks::{barrier, is_locked, look, point, store, touch};
pub(crate) use self::hooks::{wait_until_dispatched, wait_until_enqueued, wait_until_migrated, wait_until_off_cpu};
pub(crate) use self::locks::{LockWalk, QueueLock, RunQueueLock, SharedObject, TaskLock};
pub use self::search::{Exploration, FailedRun, explore_all, explore_randomly};

/// Events of different CPUs within this time may overlap: about what a callback takes.
const OVERLAP_NS: u64 = 3_000;

/// The site of points that are no instruction of the scheduler: the beginning of a callback, a call of the kernel's, what the engine does.
const CALL: usize = 1;

/// No episode at all.
#[expect(clippy::reversed_empty_ranges, reason = "it is meant to be empty")]
pub(crate) const NO_EPISODES: RangeInclusive<u64> = 1..=0;

/// At a point another CPU goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuSwitch {
    /// The number of the point, counted from the beginning of the run.
    pub point: u64,
    /// The CPU that goes on.
    pub to: usize,
    /// The CPU that stops keeps what it has written in its store buffer.
    pub holds_back: bool,
}

impl fmt::Display for CpuSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.point, self.to, if self.holds_back { "~" } else { "" })
    }
}

impl CpuSwitch {
    /// Reads what [`fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (text, holds_back) = text.strip_suffix('~').map_or((text, false), |text| (text, true));
        let (point, to) = text.split_once(':')?;
        Some(Self { point: point.parse().ok()?, to: to.parse().ok()?, holds_back })
    }
}

/// Who goes on at which point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchPlan {
    /// As listed; else the one that runs, or the one that was interrupted last.
    Listed(Vec<CpuSwitch>),
    /// By priorities that chance gives to CPUs in each episode, and takes away at so many points of it (PCT: S. Burckhardt and others,
    /// ASPLOS 2010).
    Random {
        /// Decides.
        seed: u64,
        /// Points at which the CPU that runs becomes the least important.
        nr_changes: usize,
    },
}

/// A point where more than one CPU could have gone on.
#[derive(Clone, Debug)]
pub(crate) struct SwitchChoice {
    pub(crate) point: u64,
    /// Which episode it belongs to.
    pub(crate) episode: u64,
    /// The instruction; 0 where the one that ran could not go on.
    pub(crate) site: usize,
    /// CPUs that could have gone on instead.
    pub(crate) others: Vec<usize>,
    /// The CPU that ran has written what others do not see.
    pub(crate) has_stores: bool,
}

/// What a run has shown of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunLog {
    pub(crate) choices: Vec<SwitchChoice>,
    /// Switches that were not what happens by default.
    pub(crate) switches: Vec<CpuSwitch>,
    /// Instructions that access memory which another CPU writes, or write what another one accesses.
    pub(crate) shared_sites: BTreeSet<usize>,
    pub(crate) nr_points: u64,
}

/// What a CPU waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneWait {
    RunQueue(usize),
    Queue(u64),
    Task(TaskId),
    /// The task, which is about to sleep, has left its CPU (`p->on_cpu`).
    OffCpu(TaskId),
    /// `ops.enqueue` is over for the task (`SCX_OPSS_QUEUEING`).
    Enqueued(TaskId),
    /// The task is in the queue that it was dispatched to (`SCX_OPSS_DISPATCHING`).
    Dispatched(TaskId),
    /// The task has arrived on its new run queue.
    Migrated(TaskId),
}

/// What a CPU is doing.
#[derive(Default)]
struct Lane {
    coroutine: Option<Coroutine>,
    /// It is in the middle of something.
    is_active: bool,
    waits_for: Option<LaneWait>,
    context: Option<LaneContext>,
    stores: StoreBuffer,
    /// Due, and not begun.
    due: VecDeque<(u64, MachineEvent)>,
    priority: u64,
}

/// Who has accessed a piece of memory in this episode.
#[derive(Default)]
struct Accesses {
    cpus: u64,
    written: bool,
    sites: BTreeSet<usize>,
}

/// Has the CPUs of a run take turns.
pub(crate) struct Explorer {
    plan: SwitchPlan,
    listed: BTreeMap<u64, CpuSwitch>,
    rng: fastrand::Rng,
    /// Points of the episode where priorities change.
    changes: Vec<u64>,
    lanes: Vec<Lane>,
    running: Option<usize>,
    /// CPUs that were interrupted, the last one last.
    interrupted: Vec<usize>,
    /// By CPU: which lane has locked its run queue, and how often.
    locks: Vec<Option<(usize, u32)>>,
    /// Queues that are locked.
    queue_locks: BTreeSet<u64>,
    /// Tasks that are locked: by which lane, and how often.
    task_locks: BTreeMap<TaskId, (usize, u32)>,
    next: Option<CpuSwitch>,
    episode_ends: u64,
    episode: u64,
    point_of_episode: u64,
    accesses: BTreeMap<usize, Accesses>,
    /// Choices are noted of these episodes only.
    pub(crate) notes_episodes: RangeInclusive<u64>,
    log: RunLog,
}

thread_local! {
    static EXPLORER: Cell<*mut Explorer> = const { Cell::new(std::ptr::null_mut()) };
}

unsafe extern "C" {
    static mut sim_exploring: bool;
}

impl Explorer {
    pub(crate) fn new(plan: SwitchPlan, nr_cpus: usize) -> Box<Self> {
        let seed = if let SwitchPlan::Random { seed, .. } = plan { seed } else { 0 };
        let listed = match &plan {
            SwitchPlan::Listed(switches) => switches.iter().map(|switch| (switch.point, *switch)).collect(),
            SwitchPlan::Random { .. } => BTreeMap::new(),
        };
        Box::new(Self {
            plan,
            listed,
            rng: fastrand::Rng::with_seed(seed),
            changes: Vec::new(),
            lanes: (0..nr_cpus).map(|_| Lane::default()).collect(),
            running: None,
            interrupted: Vec::new(),
            locks: vec![None; nr_cpus],
            queue_locks: BTreeSet::new(),
            task_locks: BTreeMap::new(),
            next: None,
            episode_ends: 0,
            episode: 0,
            point_of_episode: 0,
            accesses: BTreeMap::new(),
            notes_episodes: NO_EPISODES,
            log: RunLog::default(),
        })
    }

    /// From here on points are points; until it is dropped.
    pub(crate) fn install(&mut self) {
        EXPLORER.set(&raw mut *self);
        // SAFETY: one run at a time, see `crate::run`.
        unsafe { sim_exploring = true };
    }

    pub(crate) fn take_log(&mut self) -> RunLog {
        std::mem::take(&mut self.log)
    }

    fn is_private(&self, address: usize) -> bool {
        let lane = self.running.map(|cpu| &self.lanes[cpu]);
        lane.and_then(|lane| lane.coroutine.as_ref()).is_none_or(|coroutine| coroutine.has(address))
    }

    fn note_access(&mut self, address: usize, writes: bool, site: usize) {
        let Some(cpu) = self.running else { return };
        self.lanes[cpu].stores.close();
        if self.notes_episodes.contains(&self.episode) {
            let accesses = self.accesses.entry(address & !7).or_default();
            accesses.cpus |= 1 << cpu.min(63);
            accesses.written |= writes;
            accesses.sites.insert(site);
        }
    }

    fn buffer(&mut self, address: usize, size: usize) {
        if let Some(cpu) = self.running {
            self.lanes[cpu].stores.add(address, size);
        }
    }

    fn drain_running(&mut self) {
        if let Some(cpu) = self.running {
            self.lanes[cpu].stores.drain();
        }
    }

    fn lock(&mut self, cpu: usize) {
        let Some(lane) = self.running else { return };
        let nr = self.locks[cpu].map_or(0, |(_, nr)| nr);
        self.locks[cpu] = Some((lane, nr + 1));
    }

    fn unlock(&mut self, cpu: usize) {
        self.locks[cpu] = self.locks[cpu].and_then(|(lane, nr)| (nr > 1).then_some((lane, nr - 1)));
    }

    fn lock_queue(&mut self, dsq_id: u64) {
        if self.running.is_some() {
            self.queue_locks.insert(dsq_id);
        }
    }

    fn unlock_queue(&mut self, dsq_id: u64) {
        self.queue_locks.remove(&dsq_id);
    }

    fn lock_task(&mut self, id: TaskId) {
        if let Some(lane) = self.running {
            self.task_locks.entry(id).or_insert((lane, 0)).1 += 1;
        }
    }

    fn unlock_task(&mut self, id: TaskId) {
        if let Some((lane, nr)) = self.task_locks.remove(&id)
            && nr > 1
        {
            self.task_locks.insert(id, (lane, nr - 1));
        }
    }

    fn must_wait(&self, what: LaneWait) -> bool {
        let Some(running) = self.running else { return false };
        self.is_blocked(running, what)
    }

    fn is_blocked(&self, lane: usize, what: LaneWait) -> bool {
        match what {
            LaneWait::RunQueue(cpu) => self.locks[cpu].is_some_and(|(holder, _)| holder != lane),
            // Another waker may have been faster, and the task on a CPU again.
            LaneWait::OffCpu(id) => {
                with_machine_of_run(|machine| machine.tasks[id].on_cpu && machine.tasks[id].state == State::Sleeping)
            }
            LaneWait::Migrated(id) => with_machine_of_run(|machine| machine.tasks[id].is_migrating),
            LaneWait::Task(id) => self.task_locks.get(&id).is_some_and(|(holder, _)| *holder != lane),
            // Also for a CPU that holds it itself: in the kernel that would be for ever.
            LaneWait::Queue(dsq_id) => self.queue_locks.contains(&dsq_id),
            LaneWait::Enqueued(id) => is_in_ops_state(id, OpsState::Queueing),
            LaneWait::Dispatched(id) => is_in_ops_state(id, OpsState::Dispatching),
        }
    }

    fn block(&mut self, what: LaneWait) {
        if let Some(cpu) = self.running {
            self.lanes[cpu].stores.close();
            self.lanes[cpu].stores.drain();
            self.lanes[cpu].waits_for = Some(what);
        }
    }

    /// CPUs other than the one that runs that could go on, or begin what is due.
    fn others(&self) -> Vec<usize> {
        let could = |cpu: &usize| {
            let lane = &self.lanes[*cpu];
            let ready = if lane.is_active {
                lane.waits_for.is_none_or(|what| !self.is_blocked(*cpu, what))
            } else {
                !lane.due.is_empty()
            };
            ready && Some(*cpu) != self.running
        };
        (0..self.lanes.len()).filter(could).collect()
    }

    /// Whether another CPU goes on here.
    fn is_interrupted(&mut self, site: usize) -> bool {
        let Some(running) = self.running else { return false };
        self.lanes[running].stores.close();
        let others = self.others();
        if others.is_empty() {
            return false;
        }
        let has_stores = !self.lanes[running].stores.is_empty();
        let switch = self.decide(running, &others, site, has_stores);
        let Some(switch) = switch else { return false };
        if !switch.holds_back {
            self.lanes[running].stores.drain();
        }
        self.next = Some(switch);
        self.interrupted.push(running);
        true
    }

    fn decide(&mut self, running: usize, others: &[usize], site: usize, has_stores: bool) -> Option<CpuSwitch> {
        self.log.nr_points += 1;
        self.point_of_episode += 1;
        let point = self.log.nr_points;
        self.note_choice(point, site, others, has_stores);
        if let SwitchPlan::Listed(_) = self.plan {
            return self.listed.get(&point).copied().filter(|switch| others.contains(&switch.to));
        }
        if self.changes.contains(&self.point_of_episode) {
            self.lanes[running].priority = 0;
        }
        let to = *others.iter().max_by_key(|cpu| self.lanes[**cpu].priority)?;
        if self.lanes[to].priority <= self.lanes[running].priority {
            return None;
        }
        let switch = CpuSwitch { point, to, holds_back: has_stores && self.rng.bool() };
        self.log.switches.push(switch);
        Some(switch)
    }

    fn note_choice(&mut self, point: u64, site: usize, others: &[usize], has_stores: bool) {
        if self.notes_episodes.contains(&self.episode) {
            let others = others.to_vec();
            self.log.choices.push(SwitchChoice { point, episode: self.episode, site, others, has_stores });
        }
    }

    /// Who goes on where the one that ran cannot: the one that was interrupted last, else what is due first.
    fn choose(&mut self) -> Option<usize> {
        if let Some(switch) = self.next.take() {
            return Some(switch.to);
        }
        let others = self.others();
        let last = self.interrupted.iter().rev().find(|cpu| others.contains(cpu)).copied();
        let by_time = |cpu: &&usize| (!self.lanes[**cpu].is_active, self.lanes[**cpu].due.front().copied(), **cpu);
        let usual = last.or_else(|| others.iter().min_by_key(by_time).copied())?;
        if others.len() == 1 {
            return Some(usual);
        }
        self.log.nr_points += 1;
        let point = self.log.nr_points;
        let usual_first: Vec<usize> =
            std::iter::once(usual).chain(others.iter().copied().filter(|cpu| *cpu != usual)).collect();
        self.note_choice(point, 0, &usual_first, false);
        let to = match self.plan {
            SwitchPlan::Listed(_) => self.listed.get(&point).map(|switch| switch.to).filter(|to| others.contains(to)),
            SwitchPlan::Random { .. } => others.iter().max_by_key(|cpu| self.lanes[**cpu].priority).copied(),
        };
        if let Some(to) = to.filter(|to| *to != usual) {
            self.log.switches.push(CpuSwitch { point, to, holds_back: false });
        }
        to.or(Some(usual))
    }

    fn leave(&mut self) -> Option<*mut coroutine::RawCoroutine> {
        let cpu = self.running?;
        let lane = &mut self.lanes[cpu];
        lane.stores.hide();
        lane.context = Some(with_machine_of_run(Machine::save_lane));
        lane.coroutine.as_ref().map(Coroutine::raw)
    }

    fn come_back(&mut self) {
        let Some(cpu) = self.running else { return };
        let lane = &mut self.lanes[cpu];
        lane.waits_for = None;
        if let Some(context) = lane.context.take() {
            with_machine_of_run(|machine| machine.restore_lane(context));
        }
        lane.stores.show();
        self.interrupted.retain(|other| *other != cpu);
    }

    /// The CPU has stopped, or is done with what it was doing.
    fn note_stop(&mut self, cpu: usize, goes_on: bool) {
        self.running = None;
        if goes_on {
            return;
        }
        let lane = &mut self.lanes[cpu];
        lane.is_active = false;
        lane.stores.close();
        lane.stores.drain();
        self.interrupted.retain(|other| *other != cpu);
    }

    fn begin_episode(&mut self, at: u64) {
        self.episode += 1;
        self.episode_ends = at + OVERLAP_NS;
        self.point_of_episode = 0;
        if let SwitchPlan::Random { nr_changes, .. } = self.plan {
            self.changes = (0..nr_changes).map(|_| self.rng.u64(1..200)).collect();
            for lane in &mut self.lanes {
                lane.priority = self.rng.u64(1..u64::MAX);
            }
        }
    }

    fn end_episode(&mut self) {
        for accesses in std::mem::take(&mut self.accesses).into_values() {
            if accesses.written && accesses.cpus.count_ones() > 1 {
                self.log.shared_sites.extend(accesses.sites);
            }
        }
    }

    fn is_quiet(&self) -> bool {
        self.lanes.iter().all(|lane| !lane.is_active && lane.due.is_empty())
    }
}

impl Drop for Explorer {
    fn drop(&mut self) {
        EXPLORER.set(std::ptr::null_mut());
        // SAFETY: as in `install()`.
        unsafe { sim_exploring = false };
    }
}

thread_local! {
    static MACHINE: Cell<*mut Machine> = const { Cell::new(std::ptr::null_mut()) };
}

fn is_in_ops_state(id: TaskId, state: OpsState) -> bool {
    with_machine_of_run(|machine| machine.tasks[id].ops_state == state)
}

fn with_machine_of_run<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    let machine = MACHINE.get();
    assert!(!machine.is_null(), "an explorer without a machine");
    // SAFETY: the machine outlives the run; whoever else refers to it has stopped, or has lent it out.
    f(unsafe { &mut *machine })
}
