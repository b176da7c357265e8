//! What happens in a scenario beside the tasks' own work: CPUs go and come, and tasks are changed from outside.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::place::{ScenarioError, in_range};
use super::{Scenario, SchedPolicySpec};

/// Something that happens once, or again and again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioEvent {
    /// When, from the beginning.
    pub at_us: Spanned<u64>,
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
    /// The new policy; none in particular if it is not named.
    pub policy: Option<Spanned<SchedPolicySpec>>,
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
        for (key, cpu) in event.cpu.iter().map(|cpu| ("cpu", cpu)).chain(event.cpus.iter().map(|cpu| ("cpus", cpu))) {
            in_range(key, cpu, 0, nr_cpus - 1)?;
        }
        in_range("at_us", &event.at_us, 0, self.end_ms() * 1_000)?;
        for (key, time) in [("every_us", &event.every_us), ("for_us", &event.for_us)] {
            time.as_ref().map_or(Ok(()), |time| in_range(key, time, 10, 60_000_000))?;
        }
        event.nice.as_ref().map_or(Ok(()), |nice| in_range("nice", nice, -20, 19))?;
        event.weight.as_ref().map_or(Ok(()), |weight| in_range("weight", weight, 1, 10_000))?;
        self.check_cgroup("cgroup", event.cgroup.as_ref(), self.cgroup.len())?;
        event.check_keys(&span)?;
        match &event.group {
            Some(name) if self.group_index(name.get_ref()).is_none() => {
                Err(ScenarioError(name.span(), format!("group: there is no group {}", name.get_ref())))
            }
            _ => self.check_new_weight(event),
        }
    }

    /// A weight is for groups that have a controller.
    fn check_new_weight(&self, event: &ScenarioEvent) -> Result<(), ScenarioError> {
        let index = event.cgroup.as_ref().and_then(|name| self.cgroup_index(name.get_ref()));
        match (&event.weight, index.map(|index| self.cgroup[index].get_ref())) {
            (Some(weight), Some(cgroup)) if !*cgroup.controller.get_ref() => {
                let reason = format!("weight means nothing, as cgroup {} has no controller", cgroup.name);
                Err(ScenarioError(weight.span(), reason))
            }
            _ => Ok(()),
        }
    }

    /// Where the group stands.
    pub(crate) fn group_index(&self, name: &str) -> Option<usize> {
        self.group.iter().position(|group| group.get_ref().name == name)
    }
}

impl EventKind {
    /// What it must say and what it may say, besides its time.
    const fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Affinity => (&["group"], &["cpus"]),
            Self::Nice => (&["group"], &["nice"]),
            Self::Policy => (&["group"], &["policy"]),
            Self::Move => (&["group"], &["cgroup"]),
            Self::Weight => (&["cgroup", "weight"], &[]),
            Self::Offline | Self::Online => (&[], &["cpu"]),
            Self::Steal => (&["for_us"], &["cpu"]),
            Self::Bypass | Self::Suspend => (&["for_us"], &[]),
        }
    }
}

impl ScenarioEvent {
    /// It says what its kind needs, and nothing that its kind ignores.
    fn check_keys(&self, span: &Range<usize>) -> Result<(), ScenarioError> {
        let (needed, also) = self.kind.keys();
        let said = [
            ("group", self.group.as_ref().map(Spanned::span)),
            ("cpu", self.cpu.as_ref().map(Spanned::span)),
            ("cpus", self.cpus.first().map(Spanned::span)),
            ("nice", self.nice.as_ref().map(Spanned::span)),
            ("policy", self.policy.as_ref().map(Spanned::span)),
            ("cgroup", self.cgroup.as_ref().map(Spanned::span)),
            ("weight", self.weight.as_ref().map(Spanned::span)),
            ("for_us", self.for_us.as_ref().map(Spanned::span)),
        ];
        for (key, place) in said {
            let reason = match &place {
                None if needed.contains(&key) => "is missing",
                Some(_) if !needed.contains(&key) && !also.contains(&key) => "means nothing for this kind",
                _ => continue,
            };
            let place = place.unwrap_or_else(|| span.clone());
            return Err(ScenarioError(place, format!("event {:?}: {key} {reason}", self.kind)));
        }
        Ok(())
    }
}
