//! Tasks of a recording: what each did on a real kernel, one step after the other.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;

use super::group::LONGEST_US;
use super::place::{ScenarioError, in_range};
use super::{Scenario, ScenarioGroup, WorkKind};
use crate::abi::CpuMask;

/// A task that was recorded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTask {
    /// What others name it by.
    pub id: Spanned<u32>,
    /// Where it may run; where its group may if it is empty.
    #[serde(default)]
    pub cpus: Vec<Spanned<usize>>,
    /// What it does. After the last step it sleeps.
    pub steps: Vec<Spanned<RecordedStep>>,
}

/// What a recorded task does next.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RecordedStep {
    /// Computes for so long, in CPU time.
    RunUs(u64),
    /// Sleeps for so long.
    SleepUs(u64),
    /// Sleeps until another task wakes it, or not at all if that has happened.
    Wait,
    /// Wakes the task of this id from its wait, or else spares it the next one.
    Wake(u32),
    /// Begins the task of this id.
    Fork(u32),
    /// Computes without end. The last step.
    Compute,
    /// Is done for ever. The last step.
    Exit,
}

impl RecordedTask {
    /// Where it may run, if that is said.
    pub fn mask(&self) -> Option<CpuMask> {
        (!self.cpus.is_empty()).then(|| CpuMask::of(self.cpus.iter().map(|cpu| *cpu.get_ref())))
    }
}

impl Scenario {
    /// All recorded tasks, with the index of their group.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (usize, &RecordedTask)> {
        let groups = self.group.iter().map(Spanned::get_ref).enumerate();
        groups.flat_map(|(index, group)| group.task.iter().map(move |task| (index, task.get_ref())))
    }

    /// Ids of the recorded tasks that another one begins.
    pub(crate) fn forked(&self) -> BTreeSet<u32> {
        let steps = self.recorded().flat_map(|(_, task)| &task.steps);
        steps.filter_map(|step| if let RecordedStep::Fork(id) = step.get_ref() { Some(*id) } else { None }).collect()
    }

    /// What makes no sense in recorded tasks.
    pub(super) fn check_recorded(&self) -> Result<(), ScenarioError> {
        let mut forkers = BTreeMap::new();
        for (_, task) in self.recorded() {
            if forkers.insert(*task.id.get_ref(), None).is_some() {
                return Err(ScenarioError(task.id.span(), format!("id {} is that of two tasks", task.id.get_ref())));
            }
        }
        for (_, task) in self.recorded() {
            let last = task.steps.len().saturating_sub(1);
            for (place, step) in task.steps.iter().enumerate() {
                check_step(step, place == last)?;
                check_other(step, *task.id.get_ref(), &mut forkers)?;
            }
        }
        Ok(())
    }
}

/// Times are not too long, and nothing follows an end.
fn check_step(step: &Spanned<RecordedStep>, is_last: bool) -> Result<(), ScenarioError> {
    match *step.get_ref() {
        RecordedStep::RunUs(us) => in_range("run_us", &Spanned::new(step.span(), us), 1, LONGEST_US),
        RecordedStep::SleepUs(us) => in_range("sleep_us", &Spanned::new(step.span(), us), 1, LONGEST_US),
        RecordedStep::Compute if !is_last => {
            Err(ScenarioError(step.span(), "compute must be the last step".to_owned()))
        }
        RecordedStep::Exit if !is_last => Err(ScenarioError(step.span(), "exit must be the last step".to_owned())),
        _ => Ok(()),
    }
}

/// The task that a step is about is there, and is begun once. `forkers` has who begins each task.
fn check_other(
    step: &Spanned<RecordedStep>,
    own_id: u32,
    forkers: &mut BTreeMap<u32, Option<u32>>,
) -> Result<(), ScenarioError> {
    let fault = |reason: String| Err(ScenarioError(step.span(), reason));
    match *step.get_ref() {
        RecordedStep::Wake(id) if !forkers.contains_key(&id) => fault(format!("wake: there is no task {id}")),
        RecordedStep::Fork(id) => match forkers.get_mut(&id) {
            None => fault(format!("fork: there is no task {id}")),
            Some(Some(_)) => fault(format!("fork: task {id} is begun twice")),
            Some(_) if id == own_id => fault(format!("fork: task {id} cannot begin itself")),
            Some(forker) => {
                *forker = Some(own_id);
                Ok(())
            }
        },
        _ => Ok(()),
    }
}

impl ScenarioGroup {
    /// Recorded groups, and no others, list their tasks.
    pub(super) fn check_tasks(&self, nr_cpus: usize) -> Result<(), ScenarioError> {
        if self.kind != WorkKind::Recorded {
            return match self.task.first() {
                Some(task) => {
                    Err(ScenarioError(task.span(), format!("group {}: task is for recorded only", self.name)))
                }
                None => Ok(()),
            };
        }
        if *self.count.get_ref() != 1 {
            let reason = format!("count is {}, recorded tasks are listed one by one", self.count.get_ref());
            return Err(ScenarioError(self.count.span(), reason));
        }
        for task in &self.task {
            for cpu in &task.get_ref().cpus {
                in_range("cpus", cpu, 0, nr_cpus - 1)?;
            }
        }
        Ok(())
    }

    /// Whether each of its tasks has one CPU only.
    pub(super) fn has_one_cpu(&self) -> bool {
        let is_one = |task: &Spanned<RecordedTask>| task.get_ref().cpus.len() == 1;
        self.cpus.len() == 1 || self.kind == WorkKind::Recorded && self.task.iter().all(is_one)
    }
}
