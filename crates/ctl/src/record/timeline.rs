//! From events to what each task did: how long it ran, what it slept, whom it woke.

use std::collections::HashMap;

use super::pages::{Happening, LeaveReason, SwitchedTask, TaskName, TraceEvent};

/// How much is recorded at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLimits {
    /// Further tasks are left out.
    pub(crate) nr_tasks: usize,
    /// After these the recording ends.
    pub(crate) nr_steps: usize,
}

/// What a task did, as the simulator's scenarios have it. Others are named by their place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStep {
    RunUs(u64),
    SleepUs(u64),
    Wait,
    Wake(usize),
    Fork(usize),
    Compute,
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Running {
        since_ns: u64,
    },
    /// Wants a CPU.
    Queued,
    Asleep {
        since_ns: u64,
    },
    Dead,
}

/// What one task did.
#[derive(Clone, Debug)]
pub(crate) struct TaskHistory {
    pub(crate) pid: i32,
    pub(crate) name: TaskName,
    /// As the kernel counts: 120 for nice 0, below 100 for real-time.
    pub(crate) prio: i32,
    /// The one that forked it.
    pub(crate) parent: Option<usize>,
    pub(crate) steps: Vec<TaskStep>,
    /// CPU time by CPU.
    pub(crate) ran_ns: HashMap<usize, u64>,
    doing: Doing,
    /// It was woken while it ran, which means something if it then falls asleep.
    woken_early: bool,
    /// CPU time that is no step yet, and what rounding has left over of earlier ones.
    pending_ns: u64,
    /// CPU time since it last woke up, and the longest of these that came to an end.
    burst_ns: u64,
    longest_burst_ns: u64,
}

impl TaskHistory {
    fn new(pid: i32, parent: Option<usize>, doing: Doing) -> Self {
        Self {
            pid,
            name: TaskName::default(),
            prio: 120,
            parent,
            steps: Vec::new(),
            ran_ns: HashMap::new(),
            doing,
            woken_early: false,
            pending_ns: 0,
            burst_ns: 0,
            longest_burst_ns: 0,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.doing != Doing::Dead
    }

    /// The CPU on which it ran most of its time.
    pub(crate) fn usual_cpu(&self) -> Option<usize> {
        self.ran_ns.iter().max_by_key(|(cpu, ran_ns)| (**ran_ns, std::cmp::Reverse(**cpu))).map(|(cpu, _)| *cpu)
    }

    /// Accounts for CPU time up to now, if it runs.
    fn charge(&mut self, cpu: usize, now_ns: u64) {
        if let Doing::Running { since_ns } = &mut self.doing {
            let ran_ns = now_ns.saturating_sub(std::mem::replace(since_ns, now_ns));
            self.pending_ns += ran_ns;
            self.burst_ns += ran_ns;
            *self.ran_ns.entry(cpu).or_default() += ran_ns;
        }
    }

    /// Makes a step of the CPU time so far, in whole microseconds, and appends another.
    fn push(&mut self, step: TaskStep) {
        self.push_run();
        self.steps.push(step);
    }

    fn push_run(&mut self) {
        let us = self.pending_ns / 1_000;
        self.pending_ns %= 1_000;
        if us > 0 {
            self.steps.push(TaskStep::RunUs(us));
        }
    }
}

/// What all tasks did.
#[derive(Debug)]
pub(crate) struct TaskTimeline {
    limits: RecordLimits,
    start_ns: u64,
    /// Places in the list of those that are alive; `None` for those that are left out.
    places: HashMap<i32, Option<usize>>,
    pub(crate) tasks: Vec<TaskHistory>,
    pub(crate) nr_left_out: u64,
    pub(crate) nr_switches: u64,
    nr_steps: usize,
}

impl TaskTimeline {
    /// Begins now. Tasks with these ids are not looked at.
    pub(crate) fn begin(start_ns: u64, limits: RecordLimits, ignored: impl IntoIterator<Item = i32>) -> Self {
        // The idle tasks have no number of their own.
        let places = ignored.into_iter().chain([0]).map(|pid| (pid, None)).collect();
        Self { limits, start_ns, places, tasks: Vec::new(), nr_left_out: 0, nr_switches: 0, nr_steps: 0 }
    }

    /// No more can be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.nr_steps >= self.limits.nr_steps
    }

    /// The next event; they come in the order of time.
    pub(crate) fn add(&mut self, event: &TraceEvent) {
        let TraceEvent { at_ns, cpu, what } = *event;
        match what {
            Happening::Switch { from, leaves, to } => {
                self.nr_switches += 1;
                self.leave(at_ns, cpu, from, leaves);
                self.take(at_ns, to);
            }
            Happening::Waking { pid, waker } => self.wake(at_ns, cpu, pid, waker),
            Happening::Fork { parent, child } => self.fork(at_ns, cpu, parent, child),
        }
    }

    /// Where a task is in the list. One that is new has done this since the recording began.
    fn place(&mut self, pid: i32, doing: Doing) -> Option<usize> {
        if let Some(place) = self.places.get(&pid) {
            return *place;
        }
        self.insert(pid, None, doing)
    }

    fn insert(&mut self, pid: i32, parent: Option<usize>, doing: Doing) -> Option<usize> {
        let place = (self.tasks.len() < self.limits.nr_tasks).then_some(self.tasks.len());
        self.places.insert(pid, place);
        if place.is_none() {
            self.nr_left_out += 1;
        } else {
            self.tasks.push(TaskHistory::new(pid, parent, doing));
        }
        place
    }

    fn step(&mut self, place: usize, step: TaskStep) {
        self.nr_steps += 1;
        self.tasks[place].push(step);
    }

    fn leave(&mut self, at_ns: u64, cpu: usize, from: SwitchedTask, leaves: LeaveReason) {
        let Some(place) = self.place(from.pid, Doing::Running { since_ns: self.start_ns }) else {
            self.forget(from.pid, leaves);
            return;
        };
        let task = &mut self.tasks[place];
        (task.name, task.prio) = (from.name, from.prio);
        task.charge(cpu, at_ns);
        match leaves {
            LeaveReason::Runnable => task.doing = Doing::Queued,
            LeaveReason::Asleep => {
                task.longest_burst_ns = task.longest_burst_ns.max(std::mem::take(&mut task.burst_ns));
                task.doing = Doing::Asleep { since_ns: at_ns };
            }
            LeaveReason::Dead => {
                task.doing = Doing::Dead;
                self.places.remove(&from.pid);
                self.step(place, TaskStep::Exit);
            }
        }
    }

    /// The id of a task that was left out may be that of another one later.
    fn forget(&mut self, pid: i32, leaves: LeaveReason) {
        if leaves == LeaveReason::Dead && pid != 0 {
            self.places.remove(&pid);
        }
    }

    fn take(&mut self, at_ns: u64, to: SwitchedTask) {
        let Some(place) = self.place(to.pid, Doing::Queued) else { return };
        // A wake-up that came before the task had left its CPU means that it did not sleep.
        if let Doing::Asleep { since_ns } = self.tasks[place].doing
            && !self.tasks[place].woken_early
        {
            self.sleep(place, since_ns, at_ns);
        }
        let task = &mut self.tasks[place];
        (task.name, task.prio) = (to.name, to.prio);
        task.woken_early = false;
        task.doing = Doing::Running { since_ns: at_ns };
    }

    /// Nobody that is recorded has woken it.
    fn sleep(&mut self, place: usize, since_ns: u64, at_ns: u64) {
        let us = (at_ns.saturating_sub(since_ns) / 1_000).max(1);
        self.step(place, TaskStep::SleepUs(us));
    }

    fn wake(&mut self, at_ns: u64, cpu: usize, pid: i32, waker: Option<i32>) {
        let Some(place) = self.place(pid, Doing::Asleep { since_ns: self.start_ns }) else { return };
        let Doing::Asleep { since_ns } = self.tasks[place].doing else {
            self.tasks[place].woken_early = true;
            return;
        };
        let waker = waker.and_then(|pid| self.place(pid, Doing::Running { since_ns: self.start_ns }));
        match waker.filter(|waker| matches!(self.tasks[*waker].doing, Doing::Running { .. })) {
            Some(waker) => {
                self.tasks[waker].charge(cpu, at_ns);
                self.step(waker, TaskStep::Wake(place));
                self.step(place, TaskStep::Wait);
            }
            None => self.sleep(place, since_ns, at_ns),
        }
        self.tasks[place].doing = Doing::Queued;
    }

    fn fork(&mut self, at_ns: u64, cpu: usize, parent: i32, child: i32) {
        let parent = self.place(parent, Doing::Running { since_ns: self.start_ns });
        let Some(child) = self.insert(child, parent, Doing::Queued) else { return };
        match parent {
            Some(parent) => {
                (self.tasks[child].name, self.tasks[child].prio) = (self.tasks[parent].name, self.tasks[parent].prio);
                self.tasks[parent].charge(cpu, at_ns);
                self.step(parent, TaskStep::Fork(child));
            }
            None => self.sleep(child, self.start_ns, at_ns),
        }
    }

    /// The recording ends. Who computed then, and for longer than ever before, is taken to go on for ever; what is left of other work is
    /// not known, and left out.
    pub(crate) fn finish(&mut self, end_ns: u64) {
        const LEAST_ENDLESS_NS: u64 = 10_000_000;
        for task in &mut self.tasks {
            if let Doing::Running { .. } = task.doing {
                let cpu = task.usual_cpu().unwrap_or(0);
                task.charge(cpu, end_ns);
            }
            task.push_run();
            let wants_cpu = matches!(task.doing, Doing::Running { .. } | Doing::Queued);
            if wants_cpu && task.burst_ns > task.longest_burst_ns.max(LEAST_ENDLESS_NS) {
                task.steps.push(TaskStep::Compute);
            }
        }
    }
}
