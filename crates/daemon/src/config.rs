//! Where settings come from: built-in defaults, then what was set over D-Bus, then the administrator's files.
//!
//! A file or a value that makes no sense is reported with file, line and key, and what is below it counts instead.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use scherzo_api::{Error, durable};
use scherzo_host::Root;
use toml::de::{DeTable, DeValue};

use crate::settings::{self, Raw, SettingEntry, Settings, Value};
use crate::store;

const ADMINISTRATORS: &str = "etc/scherzo/scherzo.toml";
const DROP_INS: &str = "etc/scherzo/scherzo.toml.d";
const OWN: &str = "var/lib/scherzo/settings.toml";
/// Longer files are not read: every setting together takes a kilobyte.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A change over D-Bus: the setting's new value, or none for its default.
pub type Change = (&'static SettingEntry, Option<Value>);

type Values = BTreeMap<&'static str, Value>;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource<'a> {
    /// It is built in.
    Default,
    /// It was set over D-Bus.
    Settings,
    /// This file of the administrator's sets it.
    File(&'a Path),
}

/// The settings and where they come from.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What counts.
    pub settings: Settings,
    /// What is wrong with the files, one sentence each.
    pub problems: Vec<String>,
    own: Values,
    /// Keys that the administrator has set, and in which file.
    fixed: BTreeMap<&'static str, PathBuf>,
}

impl Config {
    /// Reads all files. Whatever is wrong with them, there are settings.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let mut config = Self::default();
        let own = root.path(OWN);
        config.own = config.read_file(&own);
        config.settings = config.merge(Settings::default(), &config.own.clone(), &own);
        for file in administrators_files(root, &mut config.problems) {
            let values = config.read_file(&file);
            config.fixed.extend(values.keys().map(|key| (*key, file.clone())));
            config.settings = config.merge(config.settings, &values, &file);
        }
        config
    }

    /// Where the value of a setting comes from.
    #[must_use]
    pub fn source(&self, setting: &SettingEntry) -> SettingSource<'_> {
        match self.fixed.get(setting.key) {
            Some(file) => SettingSource::File(file),
            None if self.own.contains_key(setting.key) => SettingSource::Settings,
            None => SettingSource::Default,
        }
    }

    /// With settings changed over D-Bus: all of them or, with an error, none.
    pub fn changed(&self, changes: &[Change]) -> Result<Self, Error> {
        let mut new = self.clone();
        for (setting, value) in changes {
            if let Some(file) = self.fixed.get(setting.key) {
                let file = file.display();
                return Err(Error::InvalidSetting(format!("{} is set in {file}. Change it there.", setting.key)));
            }
            setting.set(&mut new.settings, value.unwrap_or_else(|| setting.get(Settings::default())));
            match value {
                Some(value) => drop(new.own.insert(setting.key, *value)),
                None => drop(new.own.remove(setting.key)),
            }
        }
        new.settings.tunables.validate().map_err(|problem| Error::InvalidSetting(format!("{problem}.")))?;
        Ok(new)
    }

    /// Puts settings back that were in effect before. What a file of the administrator's says otherwise counts again
    /// once the files are read again.
    pub fn revert(&mut self, settings: Settings) {
        for key in settings::differing(self.settings, settings) {
            let Ok(setting) = settings::find(key) else { continue };
            if !self.fixed.contains_key(key) {
                self.own.insert(setting.key, setting.get(settings));
            }
        }
        self.settings = settings;
    }

    /// Writes what was set over D-Bus, as it is now.
    pub fn write_own(&self, root: &Root) -> impl FnOnce() -> io::Result<()> + Send + 'static {
        let mut text = String::from("# Written by scherzod. Your own settings belong in /etc/scherzo/scherzo.toml.\n");
        for (key, value) in &self.own {
            let _ = writeln!(text, "{key} = {value}");
        }
        let file = root.path(OWN);
        move || durable::replace(&file, &text)
    }

    fn merge(&mut self, mut settings: Settings, values: &Values, file: &Path) -> Settings {
        let below = settings;
        for setting in settings::ALL {
            if let Some(value) = values.get(setting.key) {
                setting.set(&mut settings, *value);
            }
        }
        // Each is in its range; together they may still make no sense.
        if let Err(problem) = settings.tunables.validate() {
            self.problems.push(format!("{}: {problem}", file.display()));
            settings.tunables = below.tunables;
        }
        settings
    }

    fn read_file(&mut self, file: &Path) -> Values {
        match read_text(file) {
            Ok(Some(text)) => self.parse(file, &text),
            Ok(None) => Values::new(),
            Err(error) => {
                self.problems.push(format!("cannot read {}: {error}", file.display()));
                Values::new()
            }
        }
    }

    fn parse(&mut self, file: &Path, text: &str) -> Values {
        let (mut values, mut minimal_policy) = (Values::new(), None);
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            self.problems.push(store::describe(file, text, error));
        }
        // What the parser makes of a broken value is not what was meant.
        let broken: Vec<_> = errors.iter().filter_map(|error| Some(line_of(text, error.span()?.start))).collect();
        for (key, value) in table.get_ref() {
            if broken.contains(&line_of(text, value.span().start)) {
                continue;
            }
            match settings::checked(key.get_ref(), &raw(value.get_ref())) {
                Ok((_, value)) if key.get_ref() == settings::MINIMAL_POLICY => minimal_policy = Some(value),
                Ok((setting, value)) => drop(values.insert(setting.key, value)),
                Err(problem) => self.problems.push(store::at(file, text, key.span().start, &problem)),
            }
        }
        self.read_minimal_policy(file, minimal_policy, &mut values);
        values
    }

    /// Until 0.1.0 the policy was chosen by a flag.
    fn read_minimal_policy(&mut self, file: &Path, minimal_policy: Option<Value>, values: &mut Values) {
        let Some(policy) = minimal_policy else { return };
        let file = file.display();
        match settings::agree(minimal_policy, values.get(settings::POLICY).copied()) {
            Ok(()) => {
                self.problems
                    .push(format!("{file}: minimal_policy is now called policy; it is read as policy = {policy}"));
                values.insert(settings::POLICY, policy);
            }
            Err(problem) => {
                self.problems.push(format!("{file}: {problem}"));
                values.remove(settings::POLICY);
            }
        }
    }
}

/// Where the line begins that holds this byte.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Raw::Other, Raw::Number)
        }
        DeValue::String(text) => Raw::Text(text.clone().into_owned()),
        _ => Raw::Other,
    }
}

/// In the order in which they count, the last most.
fn administrators_files(root: &Root, problems: &mut Vec<String>) -> Vec<PathBuf> {
    let directory = root.path(DROP_INS);
    let mut drop_ins: Vec<_> = match fs::read_dir(&directory) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            problems.push(format!("cannot read {}: {error}", directory.display()));
            Vec::new()
        }
    };
    drop_ins.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    drop_ins.sort();
    drop_ins.insert(0, root.path(ADMINISTRATORS));
    drop_ins
}

fn read_text(file: &Path) -> io::Result<Option<String>> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(about) if about.len() > MAX_FILE_BYTES => return Err(io::Error::other("it is too large")),
        Ok(_) => {}
    }
    fs::read_to_string(file).map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scherzo_api::types::Mode;

    use super::*;

    const SHIPPED: &str = include_str!("../../../data/scherzo.toml");

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(directory.path());
        (directory, root)
    }

    /// Changes settings and stores them.
    fn change(config: &mut Config, root: &Root, changes: &[Change]) -> Result<(), Error> {
        let new = config.changed(changes)?;
        new.write_own(root)().unwrap();
        *config = new;
        Ok(())
    }

    #[test]
    fn the_shipped_file_says_what_the_defaults_are() {
        let said = SHIPPED.lines().filter_map(|line| line.strip_prefix('#').filter(|line| line.contains(" = ")));
        let said: Vec<_> = said.collect();
        let built_in =
            settings::ALL.iter().map(|setting| format!("{} = {}", setting.key, setting.get(Settings::default())));
        assert_eq!(said, built_in.collect::<Vec<_>>());
        let mut config = Config::default();
        assert!(config.parse(Path::new("shipped"), SHIPPED).is_empty() && config.problems.is_empty());
        let values = config.parse(Path::new("shipped"), &said.join("\n"));
        assert_eq!((values.len(), config.problems.len()), (settings::ALL.len(), 0));
    }

    #[test]
    fn the_administrator_counts_most() {
        let (_directory, root) = tree(&[
            (OWN, "base_slice_us = 3000\nstarvation_ms = 50\nfollow_holds = false\n"),
            (ADMINISTRATORS, "base_slice_us = 4000\nbattery_mode = \"fifo\"\n"),
            ("etc/scherzo/scherzo.toml.d/20.toml", "battery_mode = \"interactive\"\n"),
            ("etc/scherzo/scherzo.toml.d/10.toml", "battery_mode = \"low-power\"\n"),
            ("etc/scherzo/scherzo.toml.d/30.toml.bak", "battery_mode = \"fifo\"\n"),
        ]);
        let mut config = Config::read(&root);
        assert!(config.problems.is_empty(), "{:?}", config.problems);
        let Settings { tunables, rules, .. } = config.settings;
        assert_eq!((tunables.base_slice_us, tunables.starvation_ms), (4000, 50));
        assert_eq!((rules.battery_mode, rules.holds), (Mode::Interactive, false));

        let base = settings::find("base_slice_us").unwrap();
        let refused = change(&mut config, &root, &[(base, Some(Value::Number(5000)))]).unwrap_err();
        assert!(refused.to_string().contains("scherzo.toml. Change it there."), "{refused}");
        let starvation = settings::find("starvation_ms").unwrap();
        change(&mut config, &root, &[(starvation, Some(Value::Number(70)))]).unwrap();
        assert_eq!(Config::read(&root).settings, config.settings);
        assert_eq!(config.settings.tunables.starvation_ms, 70);
    }

    #[test]
    fn what_returns_is_stored_except_where_the_administrator_decides() {
        let (_directory, root) = tree(&[(ADMINISTRATORS, "min_slice_us = 300\n")]);
        let mut config = Config::read(&root);
        let good = Settings::default();
        change(&mut config, &root, &[(settings::find("starvation_ms").unwrap(), Some(Value::Number(70)))]).unwrap();
        config.revert(good);
        config.write_own(&root)().unwrap();
        assert_eq!(config.settings, good);
        let Settings { tunables, .. } = Config::read(&root).settings;
        assert_eq!((tunables.starvation_ms, tunables.min_slice_us), (good.tunables.starvation_ms, 300));
    }

    /// As version 0.1.0 wrote it.
    const OWN_OF_0_1_0: &str = "# Written by scherzod. Your own settings belong in /etc/scherzo/scherzo.toml.\n\
                                battery_mode = \"fifo\"\nminimal_policy = true\nstarvation_ms = 50\nwatchdog_s = 20\n";

    #[test]
    fn settings_of_0_1_0_are_read_with_a_notice_and_rewritten_when_saved() {
        let (_directory, root) = tree(&[(OWN, OWN_OF_0_1_0)]);
        let mut config = Config::read(&root);
        let policy = settings::find("policy").unwrap();
        assert_eq!(policy.get(config.settings).to_string(), "\"fifo\"");
        assert_eq!((config.settings.tunables.watchdog_s, config.settings.rules.battery_mode), (20, Mode::Fifo));
        assert!(
            matches!(&config.problems[..], [notice] if notice.contains("policy = \"fifo\"")),
            "{:?}",
            config.problems
        );
        change(&mut config, &root, &[(settings::find("starvation_ms").unwrap(), Some(Value::Number(70)))]).unwrap();
        let written = fs::read_to_string(root.path(OWN)).unwrap();
        assert!(written.contains("policy = \"fifo\"\n") && !written.contains("minimal_policy"), "{written}");
        let again = Config::read(&root);
        assert_eq!((again.settings, again.problems.len()), (config.settings, 0));
    }

    #[test]
    fn old_and_new_names_that_contradict_each_other_do_not_count() {
        let (_directory, root) = tree(&[(ADMINISTRATORS, "minimal_policy = false\npolicy = \"fifo\"\n")]);
        let config = Config::read(&root);
        assert_eq!(config.settings, Settings::default());
        assert!(config.problems[0].contains("minimal_policy") && config.problems[0].contains("policy = \"fifo\""));
    }

    #[test]
    fn mistakes_are_named_with_file_line_and_key() {
        let (_directory, root) = tree(&[(
            ADMINISTRATORS,
            "# mine\nbase_slice_us = 9\nspeed = 3\nstarvation_ms = 40\nfollow_holds = \"yes\"\n",
        )]);
        let config = Config::read(&root);
        assert_eq!(config.settings.tunables.starvation_ms, 40, "what makes sense counts");
        let lines: Vec<_> =
            config.problems.iter().map(|problem| problem.split("scherzo.toml:").nth(1).unwrap()).collect();
        assert!(lines[0].starts_with("2: base_slice_us is 9"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("3: there is no setting \"speed\"")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("5: follow_holds takes")), "{lines:?}");
    }

    #[test]
    fn a_broken_value_is_not_guessed() {
        let (_directory, root) = tree(&[(ADMINISTRATORS, "follow_holds = follow\nstarvation_ms = 40\n")]);
        let config = Config::read(&root);
        assert_eq!((config.settings.rules.holds, config.settings.tunables.starvation_ms), (true, 40));
        assert!(config.problems[0].contains("scherzo.toml:1:"), "{:?}", config.problems);
    }

    #[test]
    fn settings_that_contradict_each_other_do_not_count() {
        let (_directory, root) = tree(&[(ADMINISTRATORS, "base_slice_us = 300\nmin_slice_us = 400\n")]);
        let mut config = Config::read(&root);
        assert_eq!((config.settings, config.problems.len()), (Settings::default(), 1));
        let (_directory, root) = tree(&[]);
        let minimum = settings::find("min_slice_us").unwrap();
        let refused = change(&mut config, &root, &[(minimum, Some(Value::Number(19_000)))]).unwrap_err();
        assert!(refused.to_string().contains("min_slice_us"), "{refused}");
    }

    proptest! {
        #[test]
        fn no_file_is_too_bad(text in "(?s).{0,200}", key in 0..settings::ALL.len(), value in "\\PC{0,20}") {
            let mut config = Config::default();
            config.parse(Path::new("f"), &text);
            config.parse(Path::new("f"), &format!("{} = {value}", settings::ALL[key].key));
        }
    }

    #[test]
    fn what_is_refused_changes_nothing_and_engines_take_the_rest() {
        crate::fuzz::cases(
            || (),
            |(), random| {
                let mut lines: Vec<_> = (0..random.u8(1..6)).map(|_| crate::fuzz::line(random)).collect();
                if random.u8(..4) == 0 {
                    lines.push((0..random.usize(..60)).map(|_| random.char(..)).collect());
                }
                let (config, settings) = merged(&lines.join("\n"));
                let is_refused = lines.len() == 1 && !config.problems.is_empty();
                assert!(!is_refused || settings == Settings::default(), "{lines:?}");
            },
        );
    }

    /// What comes of a file with this text: settings that every engine takes.
    fn merged(text: &str) -> (Config, Settings) {
        let (mut config, file) = (Config::default(), Path::new("fuzz.toml"));
        let values = config.parse(file, text);
        let settings = config.merge(Settings::default(), &values, file);
        assert_eq!(settings.tunables.validate(), Ok(()), "{text:?}");
        (config, settings)
    }

    #[test]
    fn kept_files() {
        let corpus = crate::fuzz::corpus("configuration");
        let problems = corpus.iter().filter(|text| !merged(&String::from_utf8_lossy(text)).0.problems.is_empty());
        assert!(problems.count() > 5, "they do not reach enough");
        crate::fuzz::cases(
            || (),
            |(), random| {
                let text = crate::fuzz::changed(&corpus, random);
                merged(&String::from_utf8_lossy(&text));
            },
        );
    }
}
