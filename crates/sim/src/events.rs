//! What a scenario has happen beside the tasks' own work.

use fastrand::Rng;

use crate::abi::CpuMask;
use crate::machine::{Machine, MachineEvent};
use crate::run::Simulation;
use crate::scenario::{EventKind, ScenarioEvent};
use crate::task::{State, TaskClass, TaskId};

const US: u64 = 1_000;

/// Those that are still to happen, and chance.
pub struct Happenings<'a> {
    events: Vec<&'a ScenarioEvent>,
    rng: Rng,
    /// Suspended and stolen times that end: what to do then.
    ends: Vec<HappeningEnd>,
}

/// The end of something that lasts.
#[derive(Clone, Copy)]
enum HappeningEnd {
    Bypass,
    Suspend,
}

impl<'a> Happenings<'a> {
    /// Those of a scenario.
    pub fn of(events: Vec<&'a ScenarioEvent>, seed: u64) -> Self {
        Self { events, rng: Rng::with_seed(seed ^ 0x5eed), ends: Vec::new() }
    }

    /// Asks the machine for each of them.
    pub fn begin(&self, machine: &mut Machine) {
        for (index, event) in self.events.iter().enumerate() {
            machine.at(machine.now + event.at_us.get_ref() * US, MachineEvent::Scenario(index));
        }
    }
}

impl Simulation<'_> {
    /// One of them is due; those that are not of the scenario itself are ends.
    pub(crate) fn happen(&mut self, index: usize) {
        let Some(event) = self.happenings.events.get(index).copied() else {
            let end = self.happenings.ends[index - self.happenings.events.len()];
            self.end(end);
            return;
        };
        if let Some(every) = &event.every_us {
            let every_ns = every.get_ref() * US;
            let next = self.machine.now + self.happenings.rng.u64(every_ns / 2..every_ns * 3 / 2);
            self.machine.at(next, MachineEvent::Scenario(index));
        }
        match event.kind {
            EventKind::Affinity | EventKind::Nice | EventKind::Policy | EventKind::Move => self.change_task(event),
            EventKind::Weight => self.change_weight(event),
            EventKind::Offline => {
                let cpu = self.cpu_of(event);
                self.machine.take_offline(cpu);
            }
            EventKind::Online => {
                let cpu = self.cpu_of(event);
                self.machine.bring_online(cpu);
            }
            EventKind::Steal => {
                let (cpu, ns) = (self.cpu_of(event), lasts_ns(event));
                self.machine.steal(cpu, ns);
            }
            EventKind::Bypass => {
                self.machine.bypass(true);
                self.end_after(lasts_ns(event), HappeningEnd::Bypass);
            }
            EventKind::Suspend => {
                self.machine.bypass(true);
                (1..self.machine.cpus.len()).for_each(|cpu| self.machine.take_offline(cpu));
                self.end_after(lasts_ns(event), HappeningEnd::Suspend);
            }
        }
    }

    fn end_after(&mut self, ns: u64, end: HappeningEnd) {
        let index = self.happenings.events.len() + self.happenings.ends.len();
        self.happenings.ends.push(end);
        self.machine.at(self.machine.now + ns, MachineEvent::Scenario(index));
    }

    fn end(&mut self, end: HappeningEnd) {
        if let HappeningEnd::Suspend = end {
            (1..self.machine.cpus.len()).for_each(|cpu| self.machine.bring_online(cpu));
        }
        self.machine.bypass(false);
    }

    fn cpu_of(&mut self, event: &ScenarioEvent) -> usize {
        event.cpu.as_ref().map_or_else(|| self.happenings.rng.usize(0..self.machine.cpus.len()), |cpu| *cpu.get_ref())
    }

    fn change_task(&mut self, event: &ScenarioEvent) {
        let Some(id) = self.task_of(event) else { return };
        match event.kind {
            EventKind::Affinity => {
                let mask = self.mask_of(event);
                self.machine.set_affinity(id, &mask);
            }
            EventKind::Nice => {
                let nice = event.nice.as_ref().map(|nice| *nice.get_ref());
                let nice = nice.unwrap_or_else(|| self.happenings.rng.i32(-20..20));
                self.machine.set_nice(id, nice);
            }
            EventKind::Policy => {
                let policy = event.policy.as_ref().map(|policy| *policy.get_ref());
                self.machine.set_policy(id, policy.unwrap_or_default());
            }
            _ => {
                let group = event.cgroup.as_ref().and_then(|name| self.scenario.cgroup_index(name.get_ref()));
                self.machine.set_cgroup(id, self.cgroups.task_group(group), self.cgroups.css_set(group));
            }
        }
    }

    /// One of the group by chance.
    fn task_of(&mut self, event: &ScenarioEvent) -> Option<TaskId> {
        let group = self.scenario.group_index(event.group.as_ref()?.get_ref())?;
        let tasks = self.machine.tasks.iter().enumerate();
        let alive =
            |task: &crate::task::Task| task.group == group && task.state != State::Dead && task.class == TaskClass::Ext;
        let ids: Vec<TaskId> = tasks.filter(|(_, task)| alive(task)).map(|(id, _)| id).collect();
        self.happenings.rng.choice(ids)
    }

    fn mask_of(&mut self, event: &ScenarioEvent) -> CpuMask {
        let nr_cpus = self.machine.cpus.len();
        if !event.cpus.is_empty() {
            return CpuMask::of(event.cpus.iter().map(|cpu| *cpu.get_ref()));
        }
        let rng = &mut self.happenings.rng;
        let mut mask = CpuMask::of((0..nr_cpus).filter(|_| rng.bool()));
        mask.set(rng.usize(0..nr_cpus), true);
        mask
    }

    fn change_weight(&mut self, event: &ScenarioEvent) {
        let index = event.cgroup.as_ref().and_then(|name| self.scenario.cgroup_index(name.get_ref()));
        if let (Some(index), Some(weight)) = (index, &event.weight) {
            self.cgroups.set_weight(index, *weight.get_ref());
        }
    }
}

fn lasts_ns(event: &ScenarioEvent) -> u64 {
    event.for_us.as_ref().map_or(0, |time| time.get_ref() * US)
}
