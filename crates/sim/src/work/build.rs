//! A build: what `make -j` does with compilers that are started by drivers.
//!
//! The maker keeps so many drivers going; each, like gcc, starts a compiler and waits for its end. Both start others with
//! `posix_spawn()`: they sleep uninterruptibly until the child, which has their memory until then, executes its program.

use super::{Next, Work};
use crate::run::Simulation;
use crate::scenario::{ScenarioGroup, SleepState, WorkKind};
use crate::task::TaskId;

/// What makers and drivers compute between two waits, and each child before it executes its program: this part of a compiler's work.
const PART_OF_COMPILER: u64 = 50;
/// It is so much at least, and at most.
const OWN_WORK_NS: [u64; 2] = [20_000, 1_000_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BuildRole {
    Maker,
    Driver,
    Compiler,
}

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BuildPhase {
    /// It uses the memory of its parent, as `vfork()` leaves it.
    Forked,
    Begins,
    Works,
}

/// A process of a build.
#[derive(Clone, Debug)]
pub(super) struct BuildProcess {
    role: BuildRole,
    phase: BuildPhase,
    /// Children that have not ended.
    nr_children: u64,
    /// As many as there may be at a time.
    nr_jobs: u64,
    /// In how many parts a compiler does its work: it waits for a server, a file or another program between them.
    nr_parts: u64,
    /// Those that are left.
    nr_parts_left: u64,
    /// It sleeps until one of them ends.
    waits_for_end: bool,
}

impl BuildProcess {
    /// The first process of a build.
    pub(super) fn maker(group: &ScenarioGroup) -> Option<Self> {
        let nr_jobs = group.jobs.as_ref().map(|jobs| *jobs.get_ref()).filter(|_| group.kind == WorkKind::BuildTree)?;
        let (role, phase) = (BuildRole::Maker, BuildPhase::Works);
        let nr_parts = group.parts.as_ref().map_or(1, |parts| *parts.get_ref());
        Some(Self { role, phase, nr_children: 0, nr_jobs, nr_parts, nr_parts_left: 0, waits_for_end: false })
    }

    fn child(&self) -> Self {
        let role = if self.role == BuildRole::Maker { BuildRole::Driver } else { BuildRole::Compiler };
        Self { role, phase: BuildPhase::Forked, nr_children: 0, nr_jobs: 1, waits_for_end: false, ..*self }
    }

    fn name(&self) -> &'static str {
        match self.role {
            BuildRole::Maker => "maker",
            BuildRole::Driver => "driver",
            BuildRole::Compiler => "compiler",
        }
    }

    pub(super) fn nr_jobs(&self) -> u64 {
        self.nr_jobs
    }

    /// See [`Work::child_ends`].
    pub(super) fn child_ends(&mut self) -> bool {
        self.nr_children -= 1;
        std::mem::take(&mut self.waits_for_end)
    }
}

impl Work {
    /// What processes of a build compute that is no compiler's work.
    pub(super) fn own_work_ns(&self) -> u64 {
        (self.compute_ns / PART_OF_COMPILER).clamp(OWN_WORK_NS[0], OWN_WORK_NS[1])
    }

    /// What a compiler computes without a break.
    fn part_of_work(&mut self, nr_parts: u64) -> u64 {
        self.vary((self.compute_ns / nr_parts).max(1_000))
    }

    /// What a process of a build does next, and how long a job took if it is done.
    pub(super) fn next_of_build(&mut self, now: u64) -> (Next, Option<u64>) {
        let own_work_ns = self.own_work_ns();
        let Some(build) = &mut self.build else { return (Next::Exit, None) };
        match (build.phase, build.role) {
            (BuildPhase::Forked, _) => {
                build.phase = BuildPhase::Begins;
                (Next::Execute, None)
            }
            (BuildPhase::Begins, BuildRole::Compiler) => {
                build.phase = BuildPhase::Works;
                build.nr_parts_left = build.nr_parts - 1;
                let nr_parts = build.nr_parts;
                (Next::Compute(self.part_of_work(nr_parts)), None)
            }
            (BuildPhase::Begins, _) => {
                build.phase = BuildPhase::Works;
                (Next::Compute(own_work_ns), None)
            }
            (BuildPhase::Works, BuildRole::Compiler) if build.nr_parts_left > 0 => {
                build.nr_parts_left -= 1;
                let nr_parts = build.nr_parts;
                let until = Some(now + self.vary(self.sleep_ns));
                (Next::Sleep { until, then_ns: self.part_of_work(nr_parts) }, None)
            }
            (BuildPhase::Works, BuildRole::Compiler) => (Next::Exit, None),
            // Its only job is done.
            (BuildPhase::Works, BuildRole::Driver) if build.nr_jobs == 0 && build.nr_children == 0 => {
                (Next::Exit, Some(now - self.due_ns))
            }
            (BuildPhase::Works, _) if build.nr_children < build.nr_jobs => (Next::Spawn(own_work_ns), None),
            (BuildPhase::Works, _) => {
                build.waits_for_end = true;
                (Next::Sleep { until: None, then_ns: own_work_ns }, None)
            }
        }
    }

    /// Of a process that this one starts.
    fn of_spawned(&mut self, id: TaskId, now: u64) -> Option<Self> {
        let build = self.build.as_mut()?;
        let child = Box::new(build.child());
        build.nr_children += 1;
        if build.role == BuildRole::Driver {
            build.nr_jobs = 0;
        }
        let rng = self.rng.fork();
        Some(Self { parent: Some(id), build: Some(child), rng, due_ns: now, ..self.clone() })
    }
}

impl Simulation<'_> {
    /// `posix_spawn()`, up to where the parent is woken by its child.
    pub(crate) fn spawn(&mut self, cpu: usize, id: TaskId, then_ns: u64) {
        let now = self.machine.now;
        let Some(child) = self.works[id].as_mut().and_then(|work| work.of_spawned(id, now)) else { return };
        let name = child.build.as_ref().map_or("child", |build| build.name());
        let own_work_ns = child.own_work_ns();
        self.start_child(cpu, id, name, child, own_work_ns);
        self.sleep(id, None, then_ns);
        self.machine.tasks[id].go_to_sleep(SleepState::Uninterruptible);
        self.machine.schedule(cpu);
    }

    /// `complete_vfork_done()`.
    pub(crate) fn execute(&mut self, cpu: usize, id: TaskId) {
        if let Some(parent) = self.works[id].as_ref().and_then(Work::parent) {
            self.machine.wake(cpu, parent, false);
        }
    }
}
