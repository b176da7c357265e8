//! Which applications run, and which modes are held for them: a pure state machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use scherzo_api::types::{Mode, RequestedMode};

use scherzo_rules::{ApplicationRule, ApplicationRules};

/// What runs in one unit: its application's desktop id, and the executables seen in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Unit {
    names: BTreeSet<String>,
    /// Its place among all that have started.
    nth: u64,
}

/// What a hold is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HoldTerms {
    pub(crate) mode: Mode,
    /// The unit that is in front meanwhile.
    pub(crate) front: Option<PathBuf>,
}

/// Something to ask the service for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Hold a mode for this application.
    Hold(String, HoldTerms),
    /// Have another unit, or none, in front while this application's hold with this cookie lasts.
    Front(String, u32, Option<PathBuf>),
    /// Release the hold with this cookie.
    Release(u32),
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(crate) struct Running {
    rules: ApplicationRules,
    units: BTreeMap<PathBuf, Unit>,
    nr_started: u64,
    held: BTreeMap<String, (u32, HoldTerms)>,
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
        let unit = self.units.entry(unit).or_insert_with(|| {
            self.nr_started += 1;
            Unit { names: BTreeSet::new(), nth: self.nr_started }
        });
        if !unit.names.contains(&name) {
            self.released.remove(&name);
            self.refused.remove(&name);
            unit.names.insert(name);
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
    pub(crate) fn granted(&mut self, name: String, cookie: u32, terms: HoldTerms) {
        self.held.insert(name, (cookie, terms));
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

    /// The calls that are due. Releases, and what is to be in front, are recorded as done here, a hold when it is granted.
    pub(crate) fn steps(&mut self) -> Vec<Step> {
        let wanted = self.wanted();
        let is_stale = |name: &String, mode: Mode| wanted.get(name).is_none_or(|terms| terms.mode != mode);
        let stale = self.held.extract_if(.., |name, (_, terms)| is_stale(name, terms.mode));
        let mut steps: Vec<_> = stale.map(|(_, (cookie, _))| Step::Release(cookie)).collect();
        for (name, terms) in wanted {
            match self.held.get_mut(&name) {
                None => steps.push(Step::Hold(name, terms)),
                Some((cookie, held)) if held.front != terms.front => {
                    held.front.clone_from(&terms.front);
                    steps.push(Step::Front(name, *cookie, terms.front));
                }
                Some(_) => {}
            }
        }
        steps
    }

    fn wanted(&self) -> BTreeMap<String, HoldTerms> {
        let names: BTreeSet<_> = self.units.values().flat_map(|unit| &unit.names).collect();
        let active = names.into_iter().filter(|name| !self.released.contains(*name) && !self.refused.contains(*name));
        let terms = |name: &String| match self.rules.get(name)? {
            ApplicationRule { mode: RequestedMode::Mode(mode), foreground } => {
                let front = if *foreground { self.newest(name) } else { None };
                Some((name.clone(), HoldTerms { mode: *mode, front }))
            }
            ApplicationRule { mode: RequestedMode::Auto, .. } => None,
        };
        active.filter_map(terms).collect()
    }

    /// The unit of this application that has started last.
    fn newest(&self, name: &str) -> Option<PathBuf> {
        let of_name = self.units.iter().filter(|(_, unit)| unit.names.contains(name));
        of_name.max_by_key(|(_, unit)| unit.nth).map(|(path, _)| path.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(rules: &[(&str, Mode)]) -> Running {
        let mut running = Running::default();
        running.rule(rules.iter().map(|(key, mode)| ((*key).to_owned(), RequestedMode::Mode(*mode).into())).collect());
        running
    }

    fn unit(name: &str) -> PathBuf {
        PathBuf::from(name)
    }

    fn units(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn terms(mode: Mode) -> HoldTerms {
        HoldTerms { mode, front: None }
    }

    fn hold(name: &str, mode: Mode) -> Vec<Step> {
        vec![Step::Hold(name.into(), terms(mode))]
    }

    #[test]
    fn one_hold_lasts_from_the_first_unit_to_the_last() {
        let mut running = running(&[("game", Mode::Interactive)]);
        running.started(unit("a"), "game".into());
        assert_eq!(running.steps(), hold("game", Mode::Interactive));
        running.granted("game".into(), 7, terms(Mode::Interactive));
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
        running.granted("game".into(), 7, terms(Mode::Fifo));
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
        running.granted("game".into(), 7, terms(Mode::Fifo));
        assert!(!running.needs_executables());
        let rules = [("game", Mode::LowPower), ("/usr/bin/game", Mode::Fifo)];
        let rules: ApplicationRules =
            rules.map(|(key, mode)| (key.to_owned(), RequestedMode::Mode(mode).into())).into();
        assert!(running.rule(rules.clone()) && !running.rule(rules));
        assert!(running.needs_executables());
        let expected = [
            Step::Release(7),
            Step::Hold("/usr/bin/game".into(), terms(Mode::Fifo)),
            Step::Hold("game".into(), terms(Mode::LowPower)),
        ];
        assert_eq!(running.steps(), expected);
        running.granted("game".into(), 8, terms(Mode::LowPower));
        running.granted("/usr/bin/game".into(), 9, terms(Mode::Fifo));
        running.service_gone();
        assert_eq!(running.steps(), expected[1..]);
    }

    #[test]
    fn the_newest_unit_of_an_application_is_in_front() {
        let in_front = |foreground| -> ApplicationRules {
            [("game".to_owned(), ApplicationRule { mode: RequestedMode::Mode(Mode::Fifo), foreground })].into()
        };
        let terms = |name| HoldTerms { mode: Mode::Fifo, front: Some(unit(name)) };
        let front = |name: Option<&str>| vec![Step::Front("game".into(), 7, name.map(unit))];
        let mut running = Running::default();
        running.rule(in_front(true));
        running.started(unit("z"), "game".into());
        assert_eq!(running.steps(), [Step::Hold("game".into(), terms("z"))]);
        running.granted("game".into(), 7, terms("z"));
        assert_eq!(running.steps(), []);
        running.started(unit("a"), "game".into());
        running.started(unit("z"), "/usr/bin/game".into());
        assert_eq!(running.steps(), front(Some("a")));
        assert_eq!(running.steps(), []);
        running.only(&units(&["z"]));
        assert_eq!(running.steps(), front(Some("z")));
        running.rule(in_front(false));
        assert_eq!(running.steps(), front(None));
        running.rule(in_front(true));
        assert_eq!(running.steps(), front(Some("z")));
        running.service_gone();
        assert_eq!(running.steps(), [Step::Hold("game".into(), terms("z"))]);
    }
}
