//! What has happened, kept across restarts: one JSON object per line, the oldest first.
//!
//! When there is no room, the kind of event that has the most entries loses its oldest one: many mode changes leave an
//! ejection where it is. A line is appended in one write. When the file has twice as many lines as are kept, it is replaced.
//! A line that makes no sense, such as one that a power cut tore, is left out.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use scherzo_api::details::{self, Detail, Details};
use scherzo_api::durable;
use scherzo_api::types::HistoryEvent;
use scherzo_host::Root;
use serde_json::{Map, Value, json};
use tracing::warn;

use crate::input::HistoryEntry;
use scherzo_supervisor::Record;

/// How many entries are kept.
const MAX_ENTRIES: usize = 1000;
/// A higher number is not ours: it would take more entries than there is time for.
const MAX_NUMBER: u64 = 1 << 53;
/// A file larger than this is not ours: entries are at most a kilobyte.
const MAX_FILE_BYTES: u64 = 4 << 20;

#[derive(Clone, Debug, PartialEq)]
struct StoredEntry {
    /// Numbers go on across restarts, and none is used twice while the file is there.
    number: u64,
    /// Seconds since 1970.
    time_s: u64,
    event: String,
    details: Details,
}

impl StoredEntry {
    /// All kinds that this version does not know are one.
    fn kind(&self) -> Option<HistoryEvent> {
        self.event.parse().ok()
    }
}

/// The file and what it holds.
#[derive(Debug)]
pub struct History {
    file: PathBuf,
    entries: VecDeque<StoredEntry>,
    nr_of_kind: BTreeMap<Option<HistoryEvent>, usize>,
    nr_lines: usize,
    /// The last line has no end: what comes next begins a new one.
    torn: bool,
    /// Of the newest entry; 0 before there is one.
    last_number: u64,
    /// Lines that no write has taken yet.
    unwritten: String,
    /// The file is to be replaced: it lacks entries that could not be written, or is too long.
    stale: bool,
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl History {
    /// Reads the file in the unit's `StateDirectory=`. Whatever is wrong with it, the service goes on.
    #[must_use]
    pub fn open(root: &Root) -> Self {
        let file = root.path("var/lib/scherzo/history.jsonl");
        let text = read(&file).unwrap_or_else(|error| {
            warn!("cannot read the history in {}: {error}", file.display());
            String::new()
        });
        let (entries, nr_lines) = (VecDeque::new(), text.lines().count());
        let unwritten = String::new();
        let nr_of_kind = BTreeMap::new();
        let mut history =
            Self { entries, nr_of_kind, nr_lines, torn: false, last_number: 0, unwritten, stale: false, file };
        history.torn = !text.is_empty() && !text.ends_with('\n');
        for mut entry in text.lines().filter_map(parse) {
            // Lines of earlier versions have no number.
            entry.number = entry.number.max(history.last_number + 1);
            history.keep(entry);
        }
        history
    }

    /// Adds what has just happened, which [`Self::write`] writes.
    pub fn add(&mut self, record: &Record) {
        let (time_s, event, details) = (now_s(), record.event.name().into(), record.details.clone());
        let entry = StoredEntry { number: self.last_number + 1, time_s, event, details };
        self.unwritten.push_str(&print(&entry));
        self.keep(entry);
        self.nr_lines += 1;
        if self.nr_lines > 2 * MAX_ENTRIES {
            self.stale = true;
        }
        if self.stale {
            // The file is replaced as a whole.
            self.unwritten.clear();
        }
    }

    /// Writes what the file lacks, one write at a time: [`Self::written`] says how it went.
    pub fn write(&mut self) -> impl FnOnce() -> io::Result<()> + Send + 'static {
        let (file, added, replaces) = (self.file.clone(), std::mem::take(&mut self.unwritten), self.stale);
        let all: Option<String> = replaces.then(|| self.entries.iter().map(print).collect());
        let start = if std::mem::take(&mut self.torn) { "\n" } else { "" };
        if replaces {
            (self.stale, self.nr_lines) = (false, self.entries.len());
        }
        move || match all {
            Some(all) => durable::replace(&file, &all),
            None => append(&file, &format!("{start}{added}")),
        }
    }

    /// The last write has succeeded, or has not: then the file may lack anything, and is replaced next.
    pub fn written(&mut self, succeeded: bool) {
        if !succeeded {
            self.stale = true;
            self.unwritten.clear();
        }
    }

    /// The newest entries as they cross the bus, the oldest of them first; 0 stands for all.
    #[must_use]
    pub fn newest(&self, nr_wanted: u32) -> Vec<HistoryEntry> {
        let wanted = if nr_wanted == 0 { MAX_ENTRIES } else { nr_wanted as usize };
        let first = self.entries.len().saturating_sub(wanted);
        self.entries.range(first..).map(pack).collect()
    }

    /// The number of the newest entry.
    #[must_use]
    pub const fn last_number(&self) -> u64 {
        self.last_number
    }

    /// The number of the newest entry, and what comes after the entry with this number, the oldest first. A number that
    /// is not given yet is of a history that was lost: all comes after it.
    #[must_use]
    pub fn since(&self, number: u64) -> (u64, Vec<HistoryEntry>) {
        let known = if number > self.last_number { 0 } else { number };
        let after = self.entries.iter().filter(|entry| entry.number > known);
        (self.last_number, after.map(pack).collect())
    }

    fn keep(&mut self, entry: StoredEntry) {
        self.last_number = entry.number;
        *self.nr_of_kind.entry(entry.kind()).or_default() += 1;
        self.entries.push_back(entry);
        if self.entries.len() > MAX_ENTRIES {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let Some((kind, nr_entries)) = self.nr_of_kind.iter_mut().max_by_key(|(_, nr_entries)| **nr_entries) else {
            return;
        };
        if let Some(oldest) = self.entries.iter().position(|entry| entry.kind() == *kind) {
            self.entries.remove(oldest);
            *nr_entries -= 1;
        }
    }
}

/// In one write.
fn append(file: &Path, lines: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(lines.as_bytes())
}

fn read(file: &PathBuf) -> io::Result<String> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
        Ok(about) if about.len() > MAX_FILE_BYTES => Err(io::Error::other("it is too large")),
        // Not all of it may be text.
        Ok(_) => Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned()),
    }
}

fn pack(entry: &StoredEntry) -> HistoryEntry {
    (entry.time_s, entry.event.clone(), details::to_wire(&entry.details))
}

fn print(entry: &StoredEntry) -> String {
    let value = |detail: &Detail| match detail {
        Detail::Number(number) => json!(number),
        Detail::Text(text) => json!(text),
    };
    let details: Map<_, _> = entry.details.iter().map(|(name, detail)| (name.clone(), value(detail))).collect();
    format!("{}\n", json!({"number": entry.number, "time": entry.time_s, "event": entry.event, "details": details}))
}

fn parse(line: &str) -> Option<StoredEntry> {
    let value: Value = serde_json::from_str(line).ok()?;
    let detail = |value: &Value| match value {
        Value::Number(number) => number.as_i64().map(Detail::Number),
        Value::String(text) => Some(Detail::Text(text.clone())),
        _ => None,
    };
    let details = value["details"].as_object()?.iter();
    Some(StoredEntry {
        number: value["number"].as_u64().filter(|number| *number <= MAX_NUMBER).unwrap_or_default(),
        time_s: value["time"].as_u64()?,
        event: value["event"].as_str()?.to_owned(),
        details: details.filter_map(|(name, value)| Some((name.clone(), detail(value)?))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: i64) -> Record {
        let details = Details::from([("uid".to_owned(), number.into()), ("text".to_owned(), "so \"it\" is\n".into())]);
        Record { event: HistoryEvent::Mode, details }
    }

    /// Adds and writes.
    fn add(history: &mut History, record: &Record) -> io::Result<()> {
        history.add(record);
        write(history)
    }

    fn write(history: &mut History) -> io::Result<()> {
        let written = history.write()();
        history.written(written.is_ok());
        written
    }

    #[test]
    fn entries_survive_and_torn_lines_do_not_matter() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let mut history = History::open(&root);
        add(&mut history, &record(1)).unwrap();
        fs::OpenOptions::new().append(true).open(&history.file).unwrap().write_all(b"{\"time\": 1\xff\n[]\n").unwrap();
        add(&mut history, &record(2)).unwrap();
        let again = History::open(&root);
        assert_eq!(again.entries, history.entries);
        let newest = again.newest(1);
        assert_eq!((newest.len(), newest[0].1.as_str()), (1, "mode"));
        assert_eq!(details::from_wire(&newest[0].2), record(2).details);
        assert_eq!(again.newest(0).len(), 2);
    }

    #[test]
    fn what_follows_a_torn_line_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        add(&mut History::open(&root), &record(1)).unwrap();
        let mut history = History::open(&root);
        fs::OpenOptions::new().append(true).open(&history.file).unwrap().write_all(b"{\"time\": 1").unwrap();
        history = History::open(&root);
        add(&mut history, &record(2)).unwrap();
        add(&mut history, &record(3)).unwrap();
        assert_eq!(History::open(&root).newest(0).len(), 3);
    }

    #[test]
    fn the_file_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let mut history = History::open(&root);
        for number in 0..=2 * MAX_ENTRIES as i64 {
            add(&mut history, &record(number)).unwrap();
        }
        assert_eq!(fs::read_to_string(&history.file).unwrap().lines().count(), MAX_ENTRIES);
        assert_eq!(History::open(&root).entries, history.entries);
    }

    #[test]
    fn mode_changes_do_not_push_an_ejection_out() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let mut history = History::open(&root);
        add(&mut history, &Record { event: HistoryEvent::Ejected, ..record(0) }).unwrap();
        for number in 1..=3000 {
            add(&mut history, &record(number)).unwrap();
        }
        let (kept, again) = (history.newest(0), History::open(&root).newest(0));
        assert_eq!(kept.len(), MAX_ENTRIES);
        for entries in [kept, again] {
            assert_eq!((entries[0].1.as_str(), entries[1].1.as_str()), ("ejected", "mode"), "in the order of time");
        }
    }

    #[test]
    fn what_is_counted_of_each_kind_is_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let mut history = History::open(&Root::new(directory.path()));
        for number in 0..2500 {
            let event = if number % 3 == 0 { "engine" } else { "mode" }.to_owned();
            history.keep(StoredEntry { number, time_s: 1, event, details: Details::new() });
        }
        for (kind, nr_entries) in &history.nr_of_kind {
            assert_eq!(history.entries.iter().filter(|entry| entry.kind() == *kind).count(), *nr_entries, "{kind:?}");
        }
        assert_eq!(history.nr_of_kind.values().sum::<usize>(), MAX_ENTRIES);
    }

    #[test]
    fn kinds_of_a_later_version_count_as_one() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let mut history = History::open(&root);
        add(&mut history, &record(0)).unwrap();
        for number in 0..3000 {
            let event = format!("later-{number}");
            history.keep(StoredEntry { number: number + 2, time_s: 1, event, details: Details::new() });
        }
        let kept = history.newest(0);
        assert_eq!((kept.len(), kept[0].1.as_str()), (MAX_ENTRIES, "mode"));
    }

    #[test]
    fn a_reader_gets_what_it_does_not_know_yet_also_across_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let mut history = History::open(&root);
        assert_eq!(history.since(0), (0, Vec::new()));
        // As version 0.1.0 wrote it.
        fs::create_dir_all(history.file.parent().unwrap()).unwrap();
        fs::write(&history.file, "{\"time\":1,\"event\":\"unloaded\",\"details\":{}}\n").unwrap();
        history = History::open(&root);
        let (first, all) = history.since(0);
        assert_eq!((first, all.len()), (1, 1));
        add(&mut history, &record(2)).unwrap();
        add(&mut history, &record(3)).unwrap();
        let again = History::open(&root);
        for history in [&history, &again] {
            let (now, added) = history.since(first);
            assert_eq!((now, added.len()), (3, 2));
            assert_eq!(history.since(now), (3, Vec::new()));
            assert_eq!(history.since(99).1.len(), 3, "that was of a history that is gone");
        }
        for number in 0..=2 * MAX_ENTRIES as i64 {
            add(&mut history, &record(number)).unwrap();
        }
        let (now, _) = history.since(0);
        assert_eq!(History::open(&root).since(0).0, now, "also when the file was replaced");
    }

    #[test]
    fn what_could_not_be_written_is_written_later() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let mut history = History::open(&root);
        add(&mut history, &record(1)).unwrap();
        let (file, away) = (history.file.clone(), directory.path().join("away"));
        fs::rename(&file, &away).unwrap();
        fs::create_dir(&file).unwrap();
        add(&mut history, &record(2)).unwrap_err();
        write(&mut history).unwrap_err();
        fs::remove_dir(&file).unwrap();
        fs::rename(&away, &file).unwrap();
        write(&mut history).unwrap();
        assert_eq!(History::open(&root).entries, history.entries);
        assert_eq!(history.entries.len(), 2);
    }

    #[test]
    fn something_else_in_its_place_is_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        fs::create_dir_all(root.path("var/lib/scherzo/history.jsonl")).unwrap();
        assert!(History::open(&root).newest(0).is_empty());
    }
}
