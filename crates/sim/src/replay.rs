//! Recorded tasks: how they begin, wake and fork each other while a scenario runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::CpuMask;
use crate::machine::MachineEvent;
use crate::run::Simulation;
use crate::scenario::{RecordedStep, RecordedTask, Scenario};
use crate::task::{State, TaskId};
use crate::work::{ENDLESS, Next, Work};

/// What a recorded task has still to do.
#[derive(Clone, Debug)]
pub struct Script {
    steps: Vec<RecordedStep>,
    next: usize,
    /// It sleeps until another task wakes it.
    pub waits: bool,
    /// Where it may run, if that is not where its group may.
    pub mask: Option<CpuMask>,
    /// Of its CPU time, in parts of what it would get in the whole scenario on a CPU of its own.
    total_ns: u64,
    duration_ns: u64,
}

impl Script {
    /// Of a task in a scenario.
    pub fn of(scenario: &Scenario, task: &RecordedTask) -> Self {
        let steps: Vec<RecordedStep> = task.steps.iter().map(|step| *step.get_ref()).collect();
        let runs = steps.iter().map(|step| match step {
            RecordedStep::RunUs(us) => us * 1_000,
            RecordedStep::Compute => ENDLESS / 2,
            _ => 0,
        });
        let total_ns = runs.fold(0, u64::saturating_add);
        let duration_ns = scenario.end_ms() * 1_000_000;
        Self { steps, next: 0, waits: false, mask: task.mask(), total_ns, duration_ns }
    }

    /// What it asks of one CPU over the whole scenario, in parts of `whole`.
    pub fn demand(&self, whole: u64) -> u64 {
        let part = u128::from(whole) * u128::from(self.total_ns.min(self.duration_ns)) / u128::from(self.duration_ns);
        part as u64
    }

    /// The next step.
    pub fn step(&mut self) -> Option<RecordedStep> {
        let step = self.steps.get(self.next).copied();
        self.next += 1;
        step
    }

    /// Takes the work that comes next; the least that there is if none does.
    pub fn take_run(&mut self) -> u64 {
        match self.steps.get(self.next) {
            Some(RecordedStep::RunUs(us)) => {
                self.next += 1;
                us * 1_000
            }
            _ => 1,
        }
    }
}

impl Work {
    /// The next step of a recorded task, and how long the work took that it goes to sleep after.
    pub(crate) fn next_recorded(&mut self, now: u64) -> (Next, Option<u64>) {
        let response = now.saturating_sub(self.due_ns());
        let Some(script) = &mut self.script else { return (Next::Exit, None) };
        match script.step() {
            Some(RecordedStep::RunUs(us)) => (Next::Compute(us * 1_000), None),
            Some(RecordedStep::Compute) => (Next::Compute(ENDLESS), None),
            Some(RecordedStep::Wake(id)) => (Next::WakeRecorded(id), None),
            Some(RecordedStep::Fork(id)) => (Next::ForkRecorded(id), None),
            Some(RecordedStep::SleepUs(us)) => {
                let (until, then_ns) = (now + us * 1_000, script.take_run());
                self.take_over(until);
                (Next::Sleep { until: Some(until), then_ns }, Some(response))
            }
            Some(RecordedStep::Wait) if self.nr_pending > 0 => {
                self.nr_pending -= 1;
                (Next::Compute(script.take_run()), None)
            }
            Some(RecordedStep::Wait) => {
                script.waits = true;
                (Next::Sleep { until: None, then_ns: script.take_run() }, Some(response))
            }
            Some(RecordedStep::Exit) => (Next::Exit, Some(response)),
            None => (Next::Sleep { until: None, then_ns: ENDLESS }, Some(response)),
        }
    }

    /// When a recorded task that nobody forks first wants a CPU, and its work then; nothing if it waits to be woken.
    pub(crate) fn begin_recorded(&mut self, now: u64) -> Option<(u64, u64)> {
        let script = self.script.as_mut()?;
        let at = match script.steps.first()? {
            RecordedStep::SleepUs(us) => now + us * 1_000,
            RecordedStep::Wait => {
                script.waits = true;
                script.next = 1;
                return None;
            }
            _ => now,
        };
        script.next = usize::from(at > now);
        let work_ns = script.take_run();
        self.take_over(at);
        Some((at, work_ns))
    }
}

/// The recorded tasks that there are, by the ids that they have in the scenario.
#[derive(Default)]
pub(crate) struct Recorded<'a> {
    by_id: BTreeMap<u32, (usize, &'a RecordedTask)>,
    forked: BTreeSet<u32>,
    ids: BTreeMap<u32, TaskId>,
    /// Wake-ups of tasks that are yet to begin.
    early: BTreeMap<u32, u32>,
}

impl<'a> Recorded<'a> {
    /// Of a scenario.
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        let by_id = scenario.recorded().map(|(group, task)| (*task.id.get_ref(), (group, task)));
        Self { by_id: by_id.collect(), forked: scenario.forked(), ..Self::default() }
    }
}

impl Simulation<'_> {
    /// Creates the recorded tasks of a group, those aside that others fork.
    pub(crate) fn create_recorded(&mut self, group: usize) {
        let listed =
            self.recorded.by_id.iter().filter(|(id, (of, _))| *of == group && !self.recorded.forked.contains(id));
        for id in listed.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(task) = self.add_recorded(0, id) else { continue };
            self.machine.tasks[task].remaining_ns = 0;
            let Some(work) = &mut self.works[task] else { continue };
            if let Some((at, work_ns)) = work.begin_recorded(self.machine.now) {
                self.machine.tasks[task].remaining_ns = work_ns;
                self.machine.at(at, MachineEvent::Start(task));
            }
        }
    }

    fn add_recorded(&mut self, cpu: usize, id: u32) -> Option<TaskId> {
        let (group, recorded) = *self.recorded.by_id.get(&id)?;
        let mut work = Work::of(self.scenario.group[group].get_ref(), 0);
        work.script = Some(Box::new(Script::of(self.scenario, recorded)));
        work.nr_pending = self.recorded.early.remove(&id).unwrap_or(0);
        let name = self.scenario.group[group].get_ref().name.clone();
        let task = self.create(cpu, group, &name, work);
        self.recorded.ids.insert(id, task);
        Some(task)
    }

    /// Begins a task that was recorded as it was forked.
    pub(crate) fn fork_recorded(&mut self, cpu: usize, parent: TaskId, id: u32) {
        let Some(child) = self.add_recorded(cpu, id) else { return };
        let now = self.machine.now;
        let Some(work) = &mut self.works[child] else { return };
        work.take_over(now);
        let work_ns = work.script.as_mut().map_or(1, |script| script.take_run());
        let parent = self.machine.tasks[parent].raw();
        let task = &mut self.machine.tasks[child];
        task.kernel_mut().real_parent = parent;
        task.remaining_ns = work_ns;
        self.machine.start(cpu, child);
    }

    /// Wakes a task from its wait, or spares it the next one.
    pub(crate) fn wake_recorded(&mut self, cpu: usize, id: u32) {
        let Some(&task) = self.recorded.ids.get(&id) else {
            *self.recorded.early.entry(id).or_default() += 1;
            return;
        };
        let now = self.machine.now;
        let Some(work) = &mut self.works[task] else { return };
        let waits = work.script.as_mut().is_some_and(|script| std::mem::take(&mut script.waits));
        if !waits {
            work.nr_pending += 1;
            return;
        }
        work.take_over(now);
        if self.machine.tasks[task].state != State::Sleeping {
            return;
        }
        if self.machine.tasks[task].last_cpu.is_some() {
            self.machine.wake(cpu, task, false);
            return;
        }
        // It slept when the recording began: the scheduler has not seen it run, and takes it as forked.
        self.machine.tasks[task].remaining_ns =
            self.works[task].as_mut().and_then(|work| work.script.as_mut()).map_or(1, |script| script.take_run());
        self.machine.start(cpu, task);
    }
}
