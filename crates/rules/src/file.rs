//! What is written in a file of rules, and what is wrong with it.

use std::io;
use std::ops::Range;
use std::path::Path;

use scherzo_api::types::RequestedMode;
use scherzo_i18n::{fill, gettext};
use toml_edit::{Document, Item, Key, TableLike};

use crate::rule::{ApplicationRule, ApplicationRules, key_of};

/// The keys of a rule that is a table.
pub(crate) const MODE: &str = "mode";
pub(crate) const FOREGROUND: &str = "foreground";
/// Longer files are not read: a file written by hand is shorter.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The file as it is, for reading or changing it.
pub(crate) fn document(file: &Path) -> Result<Document<String>, String> {
    let text = read(file)?;
    Document::parse(text.clone())
        .map_err(|error| format!("{}: {}", place(file, &text, error.span().map(start_of)), error.message()))
}

/// The rules of one file. An invalid rule is skipped and reported in one sentence.
pub(crate) fn parse(file: &Path) -> Result<(ApplicationRules, Vec<String>), String> {
    let document = document(file)?;
    let mut rules = ApplicationRules::new();
    let mut reader = RuleReader { file, text: document.raw(), problems: Vec::new() };
    for (application, item) in document.iter() {
        match key_of(application) {
            Ok(key) => rules.extend(reader.rule(application, item).map(|rule| (key, rule))),
            Err(problem) => {
                let start = document.key(application).and_then(Key::span).map(start_of);
                reader.problems.push(format!("{}: {problem}", place(file, reader.text, start)));
            }
        }
    }
    Ok((rules, reader.problems))
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

fn start_of(span: Range<usize>) -> usize {
    span.start
}

/// The file, and the line of something in it.
fn place(file: &Path, text: &str, start: Option<usize>) -> String {
    let line = text.get(..start.unwrap_or(0)).unwrap_or_default().matches('\n').count() + 1;
    format!("{}:{line}", file.display())
}

/// Reads one rule after the other, and gathers what is wrong with them.
struct RuleReader<'a> {
    file: &'a Path,
    text: &'a str,
    problems: Vec<String>,
}

impl RuleReader<'_> {
    /// A mode, or a table that has one.
    fn rule(&mut self, application: &str, item: &Item) -> Option<ApplicationRule> {
        let Some(table) = item.as_table_like() else {
            return self.mode(application, Some(item), item.span().map(start_of)).map(ApplicationRule::from);
        };
        let named = |key: &str| format!("{application}.{key}");
        let start = |key: &str| table.key(key).and_then(Key::span).or_else(|| item.span()).map(start_of);
        for (key, _) in table.iter().filter(|(key, _)| ![MODE, FOREGROUND].contains(key)) {
            // A newer version may know it.
            self.tell(&gettext("{file}: \"{application}\" means nothing here."), &named(key), start(key));
        }
        let mode = self.mode(&named(MODE), table.get(MODE), start(MODE));
        let foreground = self.foreground(&named(FOREGROUND), table, start(FOREGROUND));
        let rule = ApplicationRule { mode: mode?, foreground: foreground? };
        if rule.is_consistent() {
            return Some(rule);
        }
        let sentence = gettext("{file}: \"{application}\" cannot be true where the mode is auto.");
        self.tell(&sentence, &named(FOREGROUND), start(FOREGROUND));
        None
    }

    fn mode(&mut self, key: &str, item: Option<&Item>, start: Option<usize>) -> Option<RequestedMode> {
        let mode = item.and_then(Item::as_str).and_then(|name| name.parse().ok());
        if mode.is_none() {
            self.tell(&gettext("{file}: \"{application}\" takes one of {known}."), key, start);
        }
        mode
    }

    fn foreground(&mut self, key: &str, table: &dyn TableLike, start: Option<usize>) -> Option<bool> {
        let Some(item) = table.get(FOREGROUND) else { return Some(false) };
        if item.as_bool().is_none() {
            self.tell(&gettext("{file}: \"{application}\" is either true or false."), key, start);
        }
        item.as_bool()
    }

    fn tell(&mut self, sentence: &str, key: &str, start: Option<usize>) {
        let place = place(self.file, self.text, start);
        let known = RequestedMode::ALL.map(RequestedMode::name).join(", ");
        self.problems.push(fill(sentence, &[("file", &place), ("application", &key), ("known", &known)]));
    }
}
