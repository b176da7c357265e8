//! Rules for applications: the mode that each one requests while it runs.
//!
//! The user's file takes precedence over the administrator's. Each line is `"desktop id or executable" = "mode"`; the
//! mode `auto` disables a rule of the administrator's.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use scherzo_api::durable;
use scherzo_api::types::RequestedMode;
use scherzo_i18n::{fill, gettext};
use toml_edit::DocumentMut;

const FILE: &str = "applications.toml";
const ADMINISTRATORS: &str = "/etc/scherzo";
/// Longer files are not read: a file written by hand is shorter.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What is asked for, by desktop id (without `.desktop`) or path of the executable.
pub type ApplicationRules = BTreeMap<String, RequestedMode>;

/// Why a rule could not be changed: a sentence for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// What was asked for makes no sense.
    Usage(String),
    /// It could not be done.
    Failed(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(sentence) | Self::Failed(sentence)) = self;
        f.write_str(sentence)
    }
}

impl std::error::Error for Problem {}

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
            match parse(&file) {
                Ok((found, mistakes)) => {
                    rules.extend(found);
                    problems.extend(mistakes);
                }
                Err(problem) => problems.push(problem),
            }
        }
        rules.retain(|_, mode| *mode != RequestedMode::Auto);
        (rules, problems)
    }

    /// Changes one of the person's own rules, or with `None` removes it; comments and order stay.
    pub fn change(&self, application: &str, mode: Option<RequestedMode>) -> Result<(), Problem> {
        let key = key_of(application)?;
        let file = self.own.join(FILE);
        let mut document = read(&file).and_then(|text| edit(&file, &text)).map_err(Problem::Failed)?;
        match mode {
            Some(mode) => document[&key] = toml_edit::value(mode.name()),
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
        if is_administrators { self.change(application, Some(RequestedMode::Auto)) } else { Ok(()) }
    }
}

/// A desktop id without its ending, or an absolute path.
fn key_of(application: &str) -> Result<String, Problem> {
    let key = application.strip_suffix(".desktop").unwrap_or(application);
    let is_path = key.starts_with('/');
    if key.is_empty() || key.contains(char::is_control) || key.contains('/') && !is_path {
        let sentence = gettext("\"{application}\" is neither a desktop id nor the absolute path of an executable.");
        return Err(Problem::Usage(fill(&sentence, &[("application", &application)])));
    }
    Ok(key.to_owned())
}

fn read(file: &Path) -> Result<String, String> {
    let text = match std::fs::metadata(file) {
        Ok(about) if about.len() > MAX_FILE_BYTES => Err(io::Error::other("it is too large")),
        Ok(_) => std::fs::read_to_string(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    };
    text.map_err(|error| {
        fill(&gettext("Cannot read {file}: {error}."), &[("file", &file.display()), ("error", &error)])
    })
}

fn edit(file: &Path, text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let line = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default().matches('\n').count() + 1;
        format!("{}:{line}: {}", file.display(), error.message())
    })
}

/// The rules of one file. An invalid rule is skipped and reported in one sentence.
fn parse(file: &Path) -> Result<(ApplicationRules, Vec<String>), String> {
    let document = edit(file, &read(file)?)?;
    let (mut rules, mut problems) = (ApplicationRules::new(), Vec::new());
    for (application, value) in document.iter() {
        let mode = value.as_str().and_then(|name| name.parse().ok());
        match (key_of(application), mode) {
            (Ok(key), Some(mode)) => drop(rules.insert(key, mode)),
            (Err(problem), _) => problems.push(format!("{}: {problem}", file.display())),
            (_, None) => {
                let known = RequestedMode::ALL.map(RequestedMode::name).join(", ");
                let sentence = gettext("{file}: \"{application}\" takes one of {known}.");
                let file = file.display();
                problems.push(fill(&sentence, &[("file", &file), ("application", &application), ("known", &known)]));
            }
        }
    }
    Ok((rules, problems))
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
        let mode = |mode| RequestedMode::Mode(mode);
        let expected =
            [("/usr/bin/make", mode(Mode::Fifo)), ("a", mode(Mode::Interactive)), ("org.x.C", mode(Mode::LowPower))];
        assert_eq!(rules, expected.map(|(key, mode)| (key.to_owned(), mode)).into());
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn files_count_more_than_defaults_and_can_set_them_aside() {
        let (_directory, places) = places();
        let defaults = || ["a", "b", "c"].map(|name| (name.to_owned(), RequestedMode::Mode(Mode::Fifo))).into();
        write(&places.own, "b = \"interactive\"\nc = \"auto\"\n");
        let expected = [("a", Mode::Fifo), ("b", Mode::Interactive)];
        let expected = expected.map(|(name, mode)| (name.to_owned(), RequestedMode::Mode(mode))).into();
        assert_eq!(places.read_above(defaults()), (expected, Vec::new()));
    }

    #[test]
    fn changes_keep_what_else_is_in_the_file() {
        let (_directory, places) = places();
        write(&places.own, "# mine\na = \"fifo\" # because\n");
        places.change("org.x.B.desktop", Some(RequestedMode::Mode(Mode::LowPower))).unwrap();
        places.change("gone", None).unwrap();
        let text = std::fs::read_to_string(places.own.join(FILE)).unwrap();
        assert_eq!(text, "# mine\na = \"fifo\" # because\n\"org.x.B\" = \"low-power\"\n");
        places.change("a", None).unwrap();
        assert_eq!(places.read().0.len(), 1);
        assert!(places.change("bin/make", None).is_err() && places.change("", None).is_err());
    }

    #[test]
    fn a_file_that_is_kept_elsewhere_is_changed_there() {
        let (directory, places) = places();
        let elsewhere = directory.path().join("rules-in-a-checkout.toml");
        std::fs::write(&elsewhere, "a = \"fifo\"\n").unwrap();
        std::os::unix::fs::symlink(&elsewhere, places.own.join(FILE)).unwrap();
        places.change("b", Some(RequestedMode::Mode(Mode::Fifo))).unwrap();
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
        assert_eq!((rules.len(), problems), (2, Vec::new()));
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
