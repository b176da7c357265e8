//! What happens in a scenario beside the tasks' own work: CPUs go and come, and tasks are changed from outside.

use serde::Deserialize;
use toml::Spanned;

use super::{Scenario, ScenarioError, SchedPolicySpec, in_range};

/// Something that happens once, or again and again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioEvent {
    /// When, from the beginning.
    pub at_us: u64,
    /// And then again after so long on average, each time by chance.
    pub every_us: Option<Spanned<u64>>,
    /// What.
    pub kind: EventKind,
    /// The group of which one task by chance is changed.
    pub group: Option<Spanned<String>>,
    /// The CPU; one by chance if none is named.
    pub cpu: Option<Spanned<usize>>,
    /// Where the task may run; some CPUs by chance if none is named.
    #[serde(default)]
    pub cpus: Vec<Spanned<usize>>,
    /// The new nice level; one by chance if none is named.
    pub nice: Option<Spanned<i32>>,
    /// The new policy.
    #[serde(default)]
    pub policy: SchedPolicySpec,
    /// The control group that changes, or that the task goes to.
    pub cgroup: Option<Spanned<String>>,
    /// Its new weight.
    pub weight: Option<Spanned<u64>>,
    /// How long it lasts.
    pub for_us: Option<Spanned<u64>>,
}

/// What happens.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A task may run elsewhere.
    Affinity,
    /// A task has another nice level.
    Nice,
    /// A task has another policy.
    Policy,
    /// A task goes to another control group.
    Move,
    /// A control group has another weight.
    Weight,
    /// A CPU goes offline.
    Offline,
    /// A CPU comes online.
    Online,
    /// The host of a virtual machine has the CPU for a while.
    Steal,
    /// The scheduler is passed by for a while.
    Bypass,
    /// The same, and all CPUs but the first go offline and come back.
    Suspend,
}

impl Scenario {
    /// What makes no sense in an event.
    pub(super) fn check_event(&self, event: &Spanned<ScenarioEvent>) -> Result<(), ScenarioError> {
        let (span, event) = (event.span(), event.get_ref());
        let nr_cpus = *self.machine.cpus.get_ref();
        let missing = |key: &str| Err(ScenarioError(span.clone(), format!("event {:?}: {key} is missing", event.kind)));
        for cpu in event.cpu.iter().chain(&event.cpus) {
            in_range("cpu", cpu, 0, nr_cpus - 1)?;
        }
        for (key, time) in [("every_us", &event.every_us), ("for_us", &event.for_us)] {
            time.as_ref().map_or(Ok(()), |time| in_range(key, time, 10, 60_000_000))?;
        }
        event.nice.as_ref().map_or(Ok(()), |nice| in_range("nice", nice, -20, 19))?;
        event.weight.as_ref().map_or(Ok(()), |weight| in_range("weight", weight, 1, 10_000))?;
        self.check_cgroup(event.cgroup.as_ref(), self.cgroup.len())?;
        match event.kind {
            EventKind::Affinity | EventKind::Nice | EventKind::Policy | EventKind::Move => match &event.group {
                None => missing("group"),
                Some(name) if self.group_index(name.get_ref()).is_none() => {
                    Err(ScenarioError(name.span(), format!("there is no group {}", name.get_ref())))
                }
                Some(_) => Ok(()),
            },
            EventKind::Weight if event.cgroup.is_none() => missing("cgroup"),
            EventKind::Weight if event.weight.is_none() => missing("weight"),
            EventKind::Steal | EventKind::Bypass | EventKind::Suspend if event.for_us.is_none() => missing("for_us"),
            _ => Ok(()),
        }
    }

    /// Where the group stands.
    pub(crate) fn group_index(&self, name: &str) -> Option<usize> {
        self.group.iter().position(|group| group.get_ref().name == name)
    }
}
