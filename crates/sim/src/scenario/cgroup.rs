//! Control groups, and what makes no sense in them.

use serde::Deserialize;
use toml::Spanned;

use super::place::{ScenarioError, assumed, in_range, is_named};
use super::{Scenario, check_names, zero};

/// A control group, with what its files say.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cgroup {
    /// Its name.
    pub name: String,
    /// The group around it, which stands before it; the root if none is named.
    pub parent: Option<Spanned<String>>,
    /// `cpu.weight`.
    #[serde(default = "normal_weight")]
    pub weight: Spanned<u64>,
    /// It has the cpu controller.
    #[serde(default = "yes")]
    pub controller: Spanned<bool>,
    /// It is that of the application in front.
    #[serde(default = "no")]
    pub in_front: Spanned<bool>,
    /// `cpu.max`: CPU time in each period; no limit if it is not there.
    pub quota_us: Option<Spanned<u64>>,
    /// `cpu.max`: length of a period.
    #[serde(default = "normal_period")]
    pub period_us: Spanned<u64>,
    /// `cpu.max.burst`.
    #[serde(default = "zero")]
    pub burst_us: Spanned<u64>,
}

fn normal_weight() -> Spanned<u64> {
    assumed(100)
}

fn yes() -> Spanned<bool> {
    assumed(true)
}

fn no() -> Spanned<bool> {
    assumed(false)
}

fn normal_period() -> Spanned<u64> {
    assumed(100_000)
}

/// Longest CPU time that a group may have in a period or save up.
const LONGEST_QUOTA_US: u64 = 1_000_000_000;

impl Scenario {
    pub(super) fn check_cgroups(&self) -> Result<(), ScenarioError> {
        check_names("cgroup", self.cgroup.iter().map(|cgroup| (cgroup.span(), &*cgroup.get_ref().name)))?;
        let mut in_front = None;
        for (index, cgroup) in self.cgroup.iter().enumerate() {
            let cgroup = cgroup.get_ref();
            in_range("weight", &cgroup.weight, 1, 10_000)?;
            in_range("period_us", &cgroup.period_us, 1_000, 1_000_000)?;
            in_range("burst_us", &cgroup.burst_us, 0, LONGEST_QUOTA_US)?;
            if let Some(quota_us) = &cgroup.quota_us {
                in_range("quota_us", quota_us, 1_000, LONGEST_QUOTA_US)?;
            }
            self.check_cgroup("parent", cgroup.parent.as_ref(), index)?;
            self.check_controller(cgroup)?;
            cgroup.check_ignored()?;
            if *cgroup.in_front.get_ref()
                && let Some(other) = in_front.replace(&cgroup.name)
            {
                let reason = format!("cgroup {}: in_front is said of {other} already", cgroup.name);
                return Err(ScenarioError(cgroup.in_front.span(), reason));
            }
        }
        Ok(())
    }

    /// A control group that is named is one of the first so many.
    pub(super) fn check_cgroup(
        &self,
        key: &str,
        name: Option<&Spanned<String>>,
        nr: usize,
    ) -> Result<(), ScenarioError> {
        match name {
            Some(name) if self.cgroup_index(name.get_ref()).is_none_or(|index| index >= nr) => {
                Err(ScenarioError(name.span(), format!("{key}: there is no cgroup {} before this", name.get_ref())))
            }
            _ => Ok(()),
        }
    }

    /// A controller is passed on from above.
    fn check_controller(&self, cgroup: &Cgroup) -> Result<(), ScenarioError> {
        let parent = cgroup.parent.as_ref().and_then(|name| self.cgroup_index(name.get_ref()));
        let has_none_above = parent.is_some_and(|index| !*self.cgroup[index].get_ref().controller.get_ref());
        if has_none_above && *cgroup.controller.get_ref() {
            let reason = format!("cgroup {}: controller: the group around it has none", cgroup.name);
            return Err(ScenarioError(cgroup.controller.span(), reason));
        }
        Ok(())
    }

    /// The control group of that name and those around it, from the inside.
    pub(crate) fn around<'a>(&'a self, name: Option<&'a Spanned<String>>) -> impl Iterator<Item = &'a Cgroup> {
        let named =
            |name: Option<&'a Spanned<String>>| Some(self.cgroup[self.cgroup_index(name?.get_ref())?].get_ref());
        std::iter::successors(named(name), move |cgroup| named(cgroup.parent.as_ref()))
    }

    /// Where the control group stands.
    pub(crate) fn cgroup_index(&self, name: &str) -> Option<usize> {
        self.cgroup.iter().position(|cgroup| cgroup.get_ref().name == name)
    }
}

impl Cgroup {
    /// What is said of a controller that is not there, or of a limit that is not.
    fn check_ignored(&self) -> Result<(), ScenarioError> {
        let quota = self.quota_us.as_ref();
        let limits = [("period_us", Some(&self.period_us)), ("burst_us", Some(&self.burst_us))];
        let (keys, lacks) = if !*self.controller.get_ref() {
            (vec![("weight", Some(&self.weight)), ("quota_us", quota)], "without a controller")
        } else if quota.is_none() {
            (Vec::new(), "without a quota_us")
        } else {
            return Ok(());
        };
        let mut named = keys.into_iter().chain(limits).filter_map(|(key, value)| Some((key, value?)));
        match named.find(|(_, value)| is_named(value)) {
            Some((key, value)) => {
                Err(ScenarioError(value.span(), format!("cgroup {}: {key} means nothing {lacks}", self.name)))
            }
            None => Ok(()),
        }
    }
}
