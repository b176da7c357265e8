//! What must hold after every event.

use crate::machine::{Machine, is_park};
use crate::task::{State, TaskClass, TaskId, TaskPlace};

/// User space has so long to answer before the scheduler goes on without it; with the time to notice.
const IN_FLIGHT_BOUND_NS: u64 = 200_000_000;
/// Nobody is held up by a limit for longer; with the time until that is noticed.
const PARKED_BOUND_NS: u64 = 10_005_000_000;
/// All tasks are looked at this many events apart for each task that there is.
const TASKS_PER_EVENT: usize = 16;

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// When.
    pub at_ns: u64,
    /// What happened.
    pub what: String,
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
    /// User space has a task for longer than the scheduler should allow.
    OverdueInFlight,
    /// A task is held up by a limit for longer than any may be.
    OverdueParked,
    /// The kernel has ended the scheduler.
    Ended,
}

/// Looks after the rules.
#[derive(Debug, Default)]
pub struct Invariants {
    /// Low-power leaves CPUs asleep on purpose.
    pub may_idle_beside_work: bool,
    /// The first time that each rule was broken.
    pub violations: Vec<Violation>,
    nr_events: usize,
}

/// Looks at everything that the last event may have changed.
pub fn check(machine: &mut Machine) {
    check_cpus(machine);
    if !machine.invariants.may_idle_beside_work {
        check_idle(machine);
    }
    machine.invariants.nr_events += 1;
    let nr_tasks = machine.tasks.len();
    if machine.invariants.nr_events.is_multiple_of(1 + nr_tasks / TASKS_PER_EVENT) {
        for id in 0..nr_tasks {
            check_task(machine, id);
        }
    }
    if let Some(text) = machine.error().map(str::to_owned) {
        report(machine, Rule::Ended, text);
    }
}

fn report(machine: &mut Machine, rule: Rule, what: String) {
    let at_ns = machine.now;
    let violations = &mut machine.invariants.violations;
    if violations.iter().all(|violation| violation.rule != rule) {
        violations.push(Violation { rule, at_ns, what });
    }
}

fn check_cpus(machine: &mut Machine) {
    for cpu in 0..machine.cpus.len() {
        let Some(id) = machine.cpus[cpu].curr else { continue };
        let task = &machine.tasks[id];
        if task.cpu != cpu || !task.on_cpu || task.place != TaskPlace::None {
            let what = format!("{} on CPU {cpu} is on CPU {} and in {:?} too", machine.name(id), task.cpu, task.place);
            report(machine, Rule::RunsTwice, what);
        } else if !task.may_run_on(cpu) {
            let what = format!("{} runs on CPU {cpu}", machine.name(id));
            report(machine, Rule::ForbiddenCpu, what);
        }
    }
}

fn check_task(machine: &mut Machine, id: TaskId) {
    let task = &machine.tasks[id];
    if let TaskPlace::Queue(dsq_id, _) = task.place
        && task.queued_at + PARKED_BOUND_NS < machine.now
        && is_park(dsq_id)
    {
        let what = format!("{} has been held up since {} ns", machine.name(id), task.queued_at);
        report(machine, Rule::OverdueParked, what);
        return;
    }
    if task.state != State::Runnable
        || task.class == TaskClass::RealTime
        || task.on_cpu
        || task.place != TaskPlace::None
    {
        return;
    }
    let waited_ns = task.waits_since.map_or(0, |since| machine.now - since);
    if !task.in_bpf || !machine.is_user_owned(id) {
        let what = format!("{} has waited for {waited_ns} ns where nobody looks", machine.name(id));
        report(machine, Rule::LostTask, what);
    } else if waited_ns > IN_FLIGHT_BOUND_NS {
        let what = format!("{} has waited for {waited_ns} ns, at last for user space", machine.name(id));
        report(machine, Rule::OverdueInFlight, what);
    }
}

fn check_idle(machine: &mut Machine) {
    let bound = machine.costs.kick_bound_ns();
    let Some(since) = machine.now.checked_sub(bound) else { return };
    let idle: Vec<usize> = (0..machine.cpus.len())
        .filter(|cpu| {
            let state = &machine.cpus[*cpu];
            state.curr.is_none() && state.idle_since <= since && state.resched_at.is_none()
        })
        .collect();
    if idle.is_empty() {
        return;
    }
    // A task that is parked because of a limit does not wait for a CPU.
    let queues = machine.queues.iter().filter(|(dsq_id, _)| !is_park(**dsq_id)).map(|(_, queue)| queue);
    let waiting = queues.flat_map(|queue| queue.tasks.values().copied());
    let found = waiting.filter(|id| machine.tasks[*id].queued_at <= since).find_map(|id| {
        let cpu = idle.iter().find(|cpu| machine.tasks[id].may_run_on(**cpu))?;
        Some((id, *cpu))
    });
    if let Some((id, cpu)) = found {
        let what = format!("CPU {cpu} idles while {} waits in {:x?}", machine.name(id), machine.tasks[id].place);
        report(machine, Rule::IdleBesideWaiting, what);
    }
}
