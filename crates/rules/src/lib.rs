//! Rules for applications: the mode that each one requests while it runs, and whether it is in front then.
//!
//! The user's file takes precedence over the administrator's. Each line is `"desktop id or executable" = "mode"`, or
//! `"desktop id or executable" = { mode = "mode", foreground = true }`; the mode `auto` disables a rule of the administrator's.

mod file;
mod rule;

use std::path::{Path, PathBuf};

use scherzo_api::durable;
use scherzo_api::types::RequestedMode;
use scherzo_i18n::{fill, gettext};
use toml_edit::{DocumentMut, InlineTable, Item};

use crate::file::{FOREGROUND, MODE};
use crate::rule::key_of;
pub use crate::rule::{ApplicationRule, ApplicationRules, Problem};

const FILE: &str = "applications.toml";
const ADMINISTRATORS: &str = "/etc/scherzo";

/// Where rules are kept.
#[derive(Clone, Debug)]
pub struct Places {
    administrators: PathBuf,
    own: PathBuf,
}

impl Places {
    /// The directories of this person, after the XDG Base Directory Specification.
    pub fn of_this_person() -> Result<Self, Problem> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
        let config =
            config.ok_or_else(|| Problem::Failed(gettext("HOME is not set, so there is no place for rules.")))?;
        Ok(Self { administrators: ADMINISTRATORS.into(), own: config.join("scherzo") })
    }

    /// Directories whose files are read.
    #[must_use]
    pub fn directories(&self) -> [&Path; 2] {
        [&self.administrators, &self.own]
    }

    /// Makes the person's own directory, so that it can be watched before there are rules.
    pub fn prepare(&self) {
        // If the directory cannot be made, there are no rules to read.
        let _ = std::fs::create_dir_all(&self.own);
    }

    /// All rules, and a sentence for each mistake.
    #[must_use]
    pub fn read(&self) -> (ApplicationRules, Vec<String>) {
        self.read_above(ApplicationRules::new())
    }

    /// The same, above rules that count where no file says otherwise.
    #[must_use]
    pub fn read_above(&self, defaults: ApplicationRules) -> (ApplicationRules, Vec<String>) {
        let (mut rules, mut problems) = (defaults, Vec::new());
        for directory in self.directories() {
            let file = directory.join(FILE);
            match file::parse(&file) {
                Ok((found, mistakes)) => {
                    rules.extend(found);
                    problems.extend(mistakes);
                }
                Err(problem) => problems.push(problem),
            }
        }
        rules.retain(|_, rule| rule.mode != RequestedMode::Auto);
        (rules, problems)
    }

    /// Changes one of the person's own rules, or with `None` removes it; comments, order, and keys of a rule that this
    /// version does not know stay.
    pub fn change(&self, application: &str, rule: Option<ApplicationRule>) -> Result<(), Problem> {
        let key = key_of(application)?;
        let file = self.own.join(FILE);
        let mut document = file::document(&file).map_err(Problem::Failed)?.into_mut();
        match rule {
            Some(rule) if !rule.is_consistent() => {
                return Err(Problem::Usage(gettext(
                    "The mode auto is for no rule, so it puts no application in front.",
                )));
            }
            Some(rule) => write(&mut document, &key, rule),
            None => drop(document.remove(&key)),
        }
        durable::replace(&file, &document.to_string()).map_err(|error| {
            Problem::Failed(fill(
                &gettext("Cannot write {file}: {error}."),
                &[("file", &file.display()), ("error", &error)],
            ))
        })
    }

    /// Ensures that no rule applies: removes the user's own rule, and disables one of the administrator's.
    pub fn remove(&self, application: &str) -> Result<(), Problem> {
        self.change(application, None)?;
        let is_administrators = self.read().0.contains_key(&key_of(application)?);
        if is_administrators { self.change(application, Some(RequestedMode::Auto.into())) } else { Ok(()) }
    }
}

/// Changes a rule. One that is a table stays one, with what else it has.
fn write(document: &mut DocumentMut, key: &str, rule: ApplicationRule) {
    let foreground = toml_edit::value(rule.foreground);
    match document.get_mut(key).and_then(Item::as_table_like_mut) {
        Some(table) => {
            table.insert(MODE, toml_edit::value(rule.mode.name()));
            if rule.foreground {
                table.insert(FOREGROUND, foreground);
            } else {
                table.remove(FOREGROUND);
            }
        }
        None if rule.foreground => {
            let mut table = InlineTable::new();
            table.insert(MODE, rule.mode.name().into());
            table.insert(FOREGROUND, true.into());
            document[key] = toml_edit::value(table);
        }
        None => document[key] = toml_edit::value(rule.mode.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scherzo_api::types::Mode;

    fn places() -> (tempfile::TempDir, Places) {
        let directory = tempfile::tempdir().unwrap();
        let places = Places { administrators: directory.path().join("etc"), own: directory.path().join("own") };
        for place in places.directories() {
            std::fs::create_dir(place).unwrap();
        }
        (directory, places)
    }

    fn rule(mode: Mode, foreground: bool) -> ApplicationRule {
        ApplicationRule { mode: RequestedMode::Mode(mode), foreground }
    }

    fn write(directory: &Path, text: &str) {
        std::fs::write(directory.join(FILE), text).unwrap();
    }

    #[test]
    fn ones_own_rules_count_more_and_can_take_rules_back() {
        let (_directory, places) = places();
        assert_eq!(places.read(), (ApplicationRules::new(), Vec::new()));
        write(&places.administrators, "a = \"fifo\"\nb = \"fifo\"\n\"org.x.C.desktop\" = \"low-power\"\n");
        write(&places.own, "a = \"interactive\"\nb = \"auto\"\n\"/usr/bin/make\" = \"fifo\"\n");
        let (rules, problems) = places.read();
        let mode = |mode| rule(mode, false);
        let expected =
            [("/usr/bin/make", mode(Mode::Fifo)), ("a", mode(Mode::Interactive)), ("org.x.C", mode(Mode::LowPower))];
        assert_eq!(rules, expected.map(|(key, mode)| (key.to_owned(), mode)).into());
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn files_count_more_than_defaults_and_can_set_them_aside() {
        let (_directory, places) = places();
        let defaults = || ["a", "b", "c"].map(|name| (name.to_owned(), rule(Mode::Fifo, false))).into();
        write(&places.own, "b = \"interactive\"\nc = \"auto\"\n");
        let expected = [("a", Mode::Fifo), ("b", Mode::Interactive)];
        let expected = expected.map(|(name, mode)| (name.to_owned(), rule(mode, false))).into();
        assert_eq!(places.read_above(defaults()), (expected, Vec::new()));
    }

    #[test]
    fn changes_keep_what_else_is_in_the_file() {
        let (_directory, places) = places();
        write(&places.own, "# mine\na = \"fifo\" # because\n");
        places.change("org.x.B.desktop", Some(rule(Mode::LowPower, false))).unwrap();
        places.change("gone", None).unwrap();
        let text = std::fs::read_to_string(places.own.join(FILE)).unwrap();
        assert_eq!(text, "# mine\na = \"fifo\" # because\n\"org.x.B\" = \"low-power\"\n");
        places.change("a", None).unwrap();
        assert_eq!(places.read().0.len(), 1);
        assert!(places.change("bin/make", None).is_err() && places.change("", None).is_err());
    }

    #[test]
    fn a_rule_may_put_its_application_in_front() {
        let (_directory, places) = places();
        let text = "a = { mode = \"fifo\", foreground = true } # fast\n\n[b]\nmode = \"interactive\"\nnewer = 1\n";
        write(&places.own, text);
        let (rules, problems) = places.read();
        assert_eq!(
            rules,
            [("a", rule(Mode::Fifo, true)), ("b", rule(Mode::Interactive, false))]
                .map(|(key, rule)| (key.to_owned(), rule))
                .into()
        );
        assert!(problems.len() == 1 && problems[0].contains("toml:5: \"b.newer\""), "{problems:?}");

        places.change("b", Some(rule(Mode::Interactive, true))).unwrap();
        places.change("c", Some(rule(Mode::LowPower, true))).unwrap();
        places.change("a", Some(rule(Mode::LowPower, false))).unwrap();
        let kept = std::fs::read_to_string(places.own.join(FILE)).unwrap();
        assert!(kept.contains("\nnewer = 1\nforeground = true\n"), "{kept}");
        let expected = [
            ("a", rule(Mode::LowPower, false)),
            ("b", rule(Mode::Interactive, true)),
            ("c", rule(Mode::LowPower, true)),
        ];
        assert_eq!(places.read().0, expected.map(|(key, rule)| (key.to_owned(), rule)).into(), "{kept}");
        places.change("b", Some(rule(Mode::Fifo, false))).unwrap();
        assert_eq!(places.read().0["b"], rule(Mode::Fifo, false));
        let senseless = ApplicationRule { mode: RequestedMode::Auto, foreground: true };
        assert!(matches!(places.change("b", Some(senseless)), Err(Problem::Usage(_))));
    }

    #[test]
    fn what_is_wrong_in_a_rule_is_told_with_its_line_and_key() {
        let (_directory, places) = places();
        let text = "good = \"fifo\"\na = { mode = \"turbo\" }\nb = { foreground = true }\n\
                    c = { mode = \"fifo\", foreground = \"yes\" }\nd = { mode = \"auto\", foreground = true }\n\
                    \"x/y\" = \"fifo\"\n[e]\nmode = 7\n";
        write(&places.own, text);
        let (rules, problems) = places.read();
        assert_eq!(rules.keys().collect::<Vec<_>>(), ["good"]);
        let expected = [
            "toml:2: \"a.mode\" takes one of auto, ",
            "toml:3: \"b.mode\" takes one of auto, ",
            "toml:4: \"c.foreground\" is either true or false.",
            "toml:5: \"d.foreground\" cannot be true",
            "toml:6: \"x/y\" is neither",
            "toml:8: \"e.mode\" takes one of auto, ",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}, not {expected}");
        }
    }

    #[test]
    fn a_file_that_is_kept_elsewhere_is_changed_there() {
        let (directory, places) = places();
        let elsewhere = directory.path().join("rules-in-a-checkout.toml");
        std::fs::write(&elsewhere, "a = \"fifo\"\n").unwrap();
        std::os::unix::fs::symlink(&elsewhere, places.own.join(FILE)).unwrap();
        places.change("b", Some(rule(Mode::Fifo, false))).unwrap();
        assert!(places.own.join(FILE).is_symlink());
        assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "a = \"fifo\"\nb = \"fifo\"\n");
    }

    #[test]
    fn removing_also_takes_back_what_the_administrator_wants() {
        let (_directory, places) = places();
        write(&places.administrators, "a = \"fifo\"\n");
        write(&places.own, "a = \"interactive\"\nb = \"fifo\"\n");
        places.remove("a").unwrap();
        places.remove("b").unwrap();
        assert_eq!(places.read(), (ApplicationRules::new(), Vec::new()));
        assert_eq!(std::fs::read_to_string(places.own.join(FILE)).unwrap(), "a = \"auto\"\n");
    }

    #[test]
    fn the_documented_example_is_one() {
        let page = include_str!("../../../docs/service.md");
        let (_, example) = page.split_once("```toml\n").unwrap();
        let (_directory, places) = places();
        write(&places.own, example.split_once("```").unwrap().0);
        let (rules, problems) = places.read();
        assert_eq!((rules.len(), problems), (3, Vec::new()));
        assert_eq!(rules["org.supertuxproject.SuperTux"], rule(Mode::Interactive, true));
    }

    #[test]
    fn mistakes_are_named_and_cost_nothing_else() {
        let (_directory, places) = places();
        write(&places.administrators, "a = \"fifo\"\nb = = 3\n");
        write(&places.own, "c = \"turbo\"\nd = 3\n\"x/y\" = \"fifo\"\ne = \"fifo\"\n");
        let (rules, problems) = places.read();
        assert_eq!(rules.keys().collect::<Vec<_>>(), ["e"]);
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems[0].contains("applications.toml:2: "), "{problems:?}");
        assert!(places.change("f", None).is_ok());
        write(&places.own, "= =\n");
        assert!(places.change("f", None).is_err(), "a file that makes no sense is left alone");
    }
}
