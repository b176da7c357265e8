//! Which applications run, and which modes are held for them: a pure state machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use scherzo_api::types::{Mode, RequestedMode};

use scherzo_rules::ApplicationRules;

/// What runs in one unit: its application's desktop id, and the executables seen in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Unit {
    names: BTreeSet<String>,
}

/// Something to ask the service for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Hold this mode for this application.
    Hold(String, Mode),
    /// Release the hold with this cookie.
    Release(u32),
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(crate) struct Running {
    rules: ApplicationRules,
    units: BTreeMap<PathBuf, Unit>,
    held: BTreeMap<String, (u32, Mode)>,
    /// Applications whose hold someone else released. It stays so until they start again.
    released: BTreeSet<String>,
    /// Those whose hold was refused. It stays so until they start again, or there is another service to ask.
    refused: BTreeSet<String>,
}

impl Running {
    /// Replaces the rules; returns whether they differ from those before.
    pub(crate) fn rule(&mut self, rules: ApplicationRules) -> bool {
        let changed = rules != self.rules;
        self.rules = rules;
        changed
    }

    /// Whether any rule names an executable, so that the processes of units have to be read.
    pub(crate) fn needs_executables(&self) -> bool {
        self.rules.keys().any(|key| key.starts_with('/'))
    }

    /// A unit has started; `name` is its desktop id, or an executable that was seen in it.
    pub(crate) fn started(&mut self, unit: PathBuf, name: String) {
        let names = &mut self.units.entry(unit).or_default().names;
        if !names.contains(&name) {
            self.released.remove(&name);
            self.refused.remove(&name);
            names.insert(name);
        }
    }

    /// These units are all that is left.
    pub(crate) fn only(&mut self, units: &BTreeSet<PathBuf>) {
        self.units.retain(|unit, _| units.contains(unit));
        let running: BTreeSet<_> = self.units.values().flat_map(|unit| &unit.names).collect();
        self.released.retain(|name| running.contains(name));
        self.refused.retain(|name| running.contains(name));
    }

    /// The service granted a hold.
    pub(crate) fn granted(&mut self, name: String, cookie: u32, mode: Mode) {
        self.held.insert(name, (cookie, mode));
    }

    /// The service did not grant it; asking again at once would not help.
    pub(crate) fn refused(&mut self, name: String) {
        self.refused.insert(name);
    }

    /// Someone else released a hold. The name of its application, if it was one of ours.
    pub(crate) fn taken(&mut self, cookie: u32) -> Option<String> {
        let name = self.held.iter().find(|(_, (held, _))| *held == cookie)?.0.clone();
        self.held.remove(&name);
        self.released.insert(name.clone());
        Some(name)
    }

    /// The service has ended, and all holds with it.
    pub(crate) fn service_gone(&mut self) {
        self.held.clear();
        self.refused.clear();
    }

    /// The calls that are due. A release is recorded as done here, a hold when it is granted.
    pub(crate) fn steps(&mut self) -> Vec<Step> {
        let wanted = self.wanted();
        let stale = self.held.extract_if(.., |name, (_, mode)| wanted.get(name) != Some(mode));
        let mut steps: Vec<_> = stale.map(|(_, (cookie, _))| Step::Release(cookie)).collect();
        let missing = wanted.into_iter().filter(|(name, _)| !self.held.contains_key(name));
        steps.extend(missing.map(|(name, mode)| Step::Hold(name, mode)));
        steps
    }

    fn wanted(&self) -> BTreeMap<String, Mode> {
        let names: BTreeSet<_> = self.units.values().flat_map(|unit| &unit.names).collect();
        let active = names.into_iter().filter(|name| !self.released.contains(*name) && !self.refused.contains(*name));
        let mode = |name: &String| match self.rules.get(name) {
            Some(RequestedMode::Mode(mode)) => Some((name.clone(), *mode)),
            _ => None,
        };
        active.filter_map(mode).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(rules: &[(&str, Mode)]) -> Running {
        let mut running = Running::default();
        running.rule(rules.iter().map(|(key, mode)| ((*key).to_owned(), RequestedMode::Mode(*mode))).collect());
        running
    }

    fn unit(name: &str) -> PathBuf {
        PathBuf::from(name)
    }

    fn units(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn hold(name: &str, mode: Mode) -> Vec<Step> {
        vec![Step::Hold(name.into(), mode)]
    }

    #[test]
    fn one_hold_lasts_from_the_first_unit_to_the_last() {
        let mut running = running(&[("game", Mode::Interactive)]);
        running.started(unit("a"), "game".into());
        assert_eq!(running.steps(), hold("game", Mode::Interactive));
        running.granted("game".into(), 7, Mode::Interactive);
        running.started(unit("b"), "game".into());
        running.started(unit("c"), "editor".into());
        assert_eq!(running.steps(), []);
        running.only(&units(&["b"]));
        assert_eq!(running.steps(), []);
        running.only(&units(&[]));
        assert_eq!(running.steps(), [Step::Release(7)]);
        assert_eq!(running.steps(), []);
    }

    #[test]
    fn what_a_person_released_stays_so_until_the_application_starts_again() {
        let mut running = running(&[("game", Mode::Fifo)]);
        running.started(unit("a"), "game".into());
        running.granted("game".into(), 7, Mode::Fifo);
        assert_eq!(running.taken(7).as_deref(), Some("game"));
        assert_eq!(running.taken(7), None);
        running.started(unit("a"), "game".into());
        assert_eq!(running.steps(), [], "that is the same one");
        running.service_gone();
        assert_eq!(running.steps(), []);
        running.started(unit("b"), "game".into());
        assert_eq!(running.steps(), hold("game", Mode::Fifo));
        running.refused("game".into());
        assert_eq!(running.steps(), []);
        running.only(&units(&[]));
        running.started(unit("c"), "game".into());
        assert_eq!(running.steps(), hold("game", Mode::Fifo));
    }

    #[test]
    fn new_rules_and_a_new_service_are_followed() {
        let mut running = running(&[("game", Mode::Fifo)]);
        running.started(unit("a"), "game".into());
        running.started(unit("a"), "/usr/bin/game".into());
        running.granted("game".into(), 7, Mode::Fifo);
        assert!(!running.needs_executables());
        let rules = [("game", Mode::LowPower), ("/usr/bin/game", Mode::Fifo)];
        let rules: ApplicationRules = rules.map(|(key, mode)| (key.to_owned(), RequestedMode::Mode(mode))).into();
        assert!(running.rule(rules.clone()) && !running.rule(rules));
        assert!(running.needs_executables());
        let expected = [
            Step::Release(7),
            Step::Hold("/usr/bin/game".into(), Mode::Fifo),
            Step::Hold("game".into(), Mode::LowPower),
        ];
        assert_eq!(running.steps(), expected);
        running.granted("game".into(), 8, Mode::LowPower);
        running.granted("/usr/bin/game".into(), 9, Mode::Fifo);
        running.service_gone();
        assert_eq!(running.steps(), expected[1..]);
    }
}
