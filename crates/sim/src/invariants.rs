//! What must hold after every event.
//!
//! After each event those CPUs and tasks are looked at that it changed. What is wrong only once it has lasted is noted when it
//! begins, and looked at again when its time is over. A few other tasks are looked at after each event, in turns: what the
//! scheduler knows of a task may change without the kernel being told.

use std::collections::VecDeque;

use crate::accounting::InFlightTally;
use crate::machine::{Machine, is_park};
use crate::task::{OpsState, State, TaskClass, TaskId, TaskPlace};
use crate::user::ENGINE;

/// User space has so long to answer before the scheduler goes on without it; with the time to notice.
const IN_FLIGHT_BOUND_NS: u64 = 200_000_000;
/// Nobody is held up by a limit for longer; with the time until that is noticed.
const PARKED_BOUND_NS: u64 = 10_005_000_000;
/// So many tasks are looked at after each event, in turns.
const TASKS_PER_EVENT: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// When.
    pub at_ns: u64,
    /// What happened.
    pub what: String,
    /// The fault that is known to lead to this.
    pub known: Option<KnownFault>,
}

/// Faults of the scheduler that are known to let a task wait beside an idle CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownFault {
    /// A limit has held the task up since it ran last.
    LetGo,
    /// A CPU does not look again after a suspension.
    AfterSuspension,
    /// Low-power has the engine take a CPU from others, and does not look for an idle one, even among those that stay awake.
    EngineInLowPower,
    /// In low-power, the task was queued where a CPU stayed awake before one came or went.
    QueuedBeforeHotplug,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A task that wants a CPU is in no queue, on no CPU, and not with user space.
    LostTask,
    /// A task is on two CPUs, or in two states at once.
    RunsTwice,
    /// A task is on a CPU that it may not use.
    ForbiddenCpu,
    /// A CPU idles although a task waits that it may run.
    IdleBesideWaiting,
    /// The engine sleeps beside the record of a task, and nobody knows that it is to be woken.
    OverlookedRecord,
    /// User space has a task for longer than the scheduler should allow.
    OverdueInFlight,
    /// A task is held up by a limit for longer than any may be.
    OverdueParked,
    /// A task waits for longer than the policy promises.
    OverdueWait,
    /// A CPU that goes offline keeps a task.
    StuckOffline,
    /// BPF does not know how many tasks are in flight, or which.
    InFlightCount,
    /// What has become of the tasks that were handed to user space does not add up.
    Counters,
    /// The kernel has ended the scheduler.
    Ended,
}

/// A CPU that idles since then, a task that waits in a queue since then, or an engine that sleeps since then; whether it seems to sleep for
/// ever.
#[derive(Clone, Copy, Debug)]
enum WatchedWait {
    Cpu(usize, u64),
    Task(TaskId, u64),
    Engine(u64, bool),
}

/// Looks after the rules.
#[derive(Debug, Default)]
pub struct Invariants {
    /// The scheduler leaves CPUs idle on purpose.
    pub may_idle_beside_work: bool,
    /// Low-power: work that is not prompt is packed on the CPUs that stay awake.
    pub packs_work: bool,
    /// The first time that each rule was broken, by each known fault and otherwise.
    pub violations: Vec<Violation>,
    /// CPUs that got another task since the last look.
    changed_cpus: Vec<usize>,
    /// Tasks that were queued, picked or woken since then.
    changed_tasks: Vec<TaskId>,
    /// Tasks that wait in queues other than those of CPUs and limits, in no order.
    waiting: Vec<TaskId>,
    /// Tasks in flight.
    pub(crate) in_flight: InFlightTally,
    /// The engine sleeps since then, until somebody wakes it.
    engine_sleeps_since: Option<u64>,
    /// To be looked at, and when, earliest first.
    watched: VecDeque<(u64, WatchedWait)>,
    /// The task that is looked at next in turns.
    next_task: TaskId,
}

impl Invariants {
    /// Tasks that wait in queues other than those of CPUs and limits, in no order.
    pub(crate) fn waiting(&self) -> &[TaskId] {
        &self.waiting
    }
}

impl Machine {
    /// The CPU has got another task, or none.
    pub(crate) fn note_cpu(&mut self, cpu: usize) {
        self.invariants.changed_cpus.push(cpu);
        if self.cpus[cpu].curr.is_none() {
            self.watch(WatchedWait::Cpu(cpu, self.cpus[cpu].idle_since));
        }
    }

    /// The task is somewhere else, or in another state.
    pub(crate) fn note_task(&mut self, id: TaskId) {
        self.invariants.changed_tasks.push(id);
    }

    /// The task waits in a queue from now on.
    pub(crate) fn note_waiting(&mut self, id: TaskId, dsq_id: u64) {
        if !is_park(dsq_id) {
            self.tasks[id].waiting_index = Some(self.invariants.waiting.len());
            self.invariants.waiting.push(id);
            self.watch(WatchedWait::Task(id, self.now));
        }
    }

    /// It does no longer.
    pub(crate) fn note_not_waiting(&mut self, id: TaskId) {
        if let Some(index) = self.tasks[id].waiting_index.take() {
            let waiting = &mut self.invariants.waiting;
            waiting.swap_remove(index);
            if let Some(&moved) = waiting.get(index) {
                self.tasks[moved].waiting_index = Some(index);
            }
        }
    }

    /// A rule that somebody else has looked after is broken.
    pub(crate) fn report_violation(&mut self, rule: Rule, what: String) {
        report(self, rule, what);
    }

    /// The engine has gone to sleep until it is woken.
    pub(crate) fn note_engine_asleep(&mut self) {
        self.invariants.engine_sleeps_since = Some(self.now);
        self.watch(WatchedWait::Engine(self.now, false));
    }

    /// It has not, or no longer sleeps.
    pub(crate) fn note_engine_awake(&mut self) {
        self.invariants.engine_sleeps_since = None;
    }

    fn watch(&mut self, watched: WatchedWait) {
        if !self.invariants.may_idle_beside_work || matches!(watched, WatchedWait::Engine(..)) {
            let due = self.now + self.kick_bound_ns();
            self.invariants.watched.push_back((due, watched));
        }
    }
}

/// Looks at everything that the last event may have changed.
pub fn check(machine: &mut Machine) {
    for cpu in std::mem::take(&mut machine.invariants.changed_cpus) {
        check_cpu(machine, cpu);
    }
    for id in std::mem::take(&mut machine.invariants.changed_tasks) {
        machine.tally_in_flight(id);
        check_task(machine, id);
    }
    machine.check_in_flight();
    for _ in 0..TASKS_PER_EVENT.min(machine.tasks.len()) {
        let id = machine.invariants.next_task;
        machine.invariants.next_task = (id + 1) % machine.tasks.len();
        check_task(machine, id);
    }
    if let Some(text) = machine.error().map(str::to_owned) {
        report(machine, Rule::Ended, text);
    }
}

/// Looks at what has lasted for too long by then, each at its time; before anything else happens.
pub fn check_until(machine: &mut Machine, at: u64) {
    while let Some((due, watched)) = machine.invariants.watched.front().copied()
        && due <= at
    {
        machine.now = machine.now.max(due);
        machine.invariants.watched.pop_front();
        check_watched(machine, watched);
    }
}

fn report(machine: &mut Machine, rule: Rule, what: String) {
    report_with(machine, rule, what, None);
}

fn report_with(machine: &mut Machine, rule: Rule, what: String, known: Option<KnownFault>) {
    let at_ns = machine.now;
    let violations = &mut machine.invariants.violations;
    if violations.iter().all(|violation| violation.rule != rule || violation.known != known) {
        violations.push(Violation { rule, at_ns, what, known });
    }
}

fn check_cpu(machine: &mut Machine, cpu: usize) {
    let Some(id) = machine.cpus[cpu].curr else { return };
    let task = &machine.tasks[id];
    if task.cpu != cpu || !task.on_cpu || task.place != TaskPlace::None {
        let what = format!("{} on CPU {cpu} is on CPU {} and in {:?} too", machine.name(id), task.cpu, task.place);
        report(machine, Rule::RunsTwice, what);
    } else if !task.may_run_on(cpu) && task.kernel().migration_disabled == 0 && !machine.cpus[cpu].pushed.contains(&id)
    {
        let what = format!("{} runs on CPU {cpu}", machine.name(id));
        report(machine, Rule::ForbiddenCpu, what);
    }
}

fn check_task(machine: &mut Machine, id: TaskId) {
    let task = &machine.tasks[id];
    if task.on_cpu {
        check_cpu(machine, task.cpu);
        return;
    }
    if let Some(watchdog_ns) = machine.watchdog_ns {
        check_task_of_loaded(machine, id, watchdog_ns);
        return;
    }
    if let TaskPlace::Queue(dsq_id, _) = task.place
        && task.queued_at + PARKED_BOUND_NS < machine.now
        && is_park(dsq_id)
    {
        let what = format!("{} has been held up since {} ns", machine.name(id), task.queued_at);
        report(machine, Rule::OverdueParked, what);
        return;
    }
    if let Some(what) = machine.overdue_wait(id) {
        report(machine, Rule::OverdueWait, what);
        return;
    }
    if task.state != State::Runnable || task.class != TaskClass::Ext || task.place != TaskPlace::None {
        return;
    }
    let waited_ns = task.waits_since.map_or(0, |since| machine.now - since);
    let in_flight_since = if task.ops_state == OpsState::None { None } else { machine.in_flight_since(id) };
    let Some(since) = in_flight_since else {
        let what = format!("{} has waited for {waited_ns} ns where nobody looks", machine.name(id));
        report(machine, Rule::LostTask, what);
        return;
    };
    // A CPU that the host has, or on its way back, takes nothing back from user space.
    if machine.now > since + IN_FLIGHT_BOUND_NS && !machine.is_disturbed() {
        let what = format!("{} has been in flight for {} ns", machine.name(id), machine.now - since);
        report(machine, Rule::OverdueInFlight, what);
    }
}

/// A loaded scheduler may keep tasks in hand, for as long as the kernel's watchdog allows: `check_rq_for_timeouts()`.
fn check_task_of_loaded(machine: &mut Machine, id: TaskId, watchdog_ns: u64) {
    let task = &machine.tasks[id];
    if task.state != State::Runnable || task.class != TaskClass::Ext {
        return;
    }
    let waited_ns = task.waits_since.map_or(0, |since| machine.now - since);
    if waited_ns > watchdog_ns {
        let what = format!(
            "{} failed to run for {}.{:03} s",
            machine.name(id),
            waited_ns / SECOND_NS,
            waited_ns % SECOND_NS / 1_000_000
        );
        machine.fail(what);
    } else if task.place == TaskPlace::None && task.ops_state == OpsState::None {
        let what = format!("{} has waited for {waited_ns} ns where nobody looks", machine.name(id));
        report(machine, Rule::LostTask, what);
    }
}

/// A wake-up that was asked for may be on its way: so it is looked at twice.
fn check_engine(machine: &mut Machine, since: u64, is_suspect: bool) {
    // One that has been woken, and waits for a CPU, will look by itself.
    let sleeps_on =
        machine.invariants.engine_sleeps_since == Some(since) && machine.tasks[ENGINE].state == State::Sleeping;
    if !sleeps_on || !machine.rings.borrow().has_task() || machine.is_engine_due() {
        return;
    }
    if machine.is_disturbed() {
        machine.watch(WatchedWait::Engine(since, false));
    } else if is_suspect {
        let what = format!("the engine has slept since {since} ns beside the record of a task");
        report(machine, Rule::OverlookedRecord, what);
    } else {
        machine.watch(WatchedWait::Engine(since, true));
    }
}

/// A CPU that idles, or a task that waits, for as long as a kick may take.
fn check_watched(machine: &mut Machine, watched: WatchedWait) {
    let found = match watched {
        WatchedWait::Engine(since, is_suspect) => {
            check_engine(machine, since, is_suspect);
            None
        }
        WatchedWait::Cpu(cpu, since)
            if machine.topology.active.has(cpu)
                && machine.without_task.has(cpu)
                && machine.cpus[cpu].idle_since == since =>
        {
            let may_run = |id: &&TaskId| {
                let task = &machine.tasks[**id];
                task.queued_at <= since && task.may_run_on(cpu) && !machine.is_left_asleep(cpu, **id)
            };
            machine.invariants.waiting.iter().find(may_run).map(|id| (*id, cpu))
        }
        WatchedWait::Task(id, since)
            if machine.tasks[id].waiting_index.is_some() && machine.tasks[id].queued_at == since =>
        {
            let usable = machine.usable(id).and(&machine.without_task);
            let idle =
                usable.iter().filter(|cpu| machine.cpus[*cpu].idle_since <= since && !machine.is_left_asleep(*cpu, id));
            idle.min_by_key(|cpu| machine.cpus[*cpu].resched_at.is_some()).map(|cpu| (id, cpu))
        }
        _ => None,
    };
    match found {
        Some(_) if machine.is_disturbed() => machine.watch(watched),
        // It is about to look.
        Some((_, cpu)) if machine.cpus[cpu].resched_at.is_some() => machine.watch(watched),
        Some((id, cpu)) => {
            let what = format!("CPU {cpu} idles while {} waits in {:x?}", machine.name(id), machine.tasks[id].place);
            let known = machine.known_wait_beside_idle(id);
            report_with(machine, Rule::IdleBesideWaiting, what, known);
        }
        None => {}
    }
}
