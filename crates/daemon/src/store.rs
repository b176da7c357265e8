//! Small files: the desired state, how boots went and what was given up on, which survive a reboot, and the note of
//! settings to restore, which survives the service but not a reboot.

mod quarantine;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use scherzo_api::durable;
use scherzo_api::types::{Reason, RequestedMode};
use scherzo_host::Root;
use scherzo_model::Seat;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::rcu::Rcu;
use quarantine::QuarantineFile;
use scherzo_supervisor::{Boot, BootWatch, Desired, Quarantine, Source, Stored};

/// The files, and the host whose settings the note is about.
#[derive(Debug)]
pub struct Store {
    root: Root,
    rcu: Rcu,
    state_file: PathBuf,
    note_file: PathBuf,
    boots_file: PathBuf,
    quarantine_file: PathBuf,
    started_file: PathBuf,
    lifted_file: PathBuf,
}

/// What a later version adds is ignored: going back to this one keeps the desired state.
#[derive(Debug, Deserialize, Serialize)]
struct DesiredFile {
    enabled: bool,
    mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chosen_by: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chosen_on: Option<StoredSource>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chosen_until: Option<u64>,
    preemption: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum StoredSource {
    Mains,
    Battery,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Boots {
    nr_unclean: u32,
    on_watch: bool,
}

/// Causes by their names; those that this version does not know are left out.
#[derive(Debug, Default, Deserialize, Serialize)]
struct LiftedFile {
    causes: Vec<String>,
}

/// What loading changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Note {
    /// As it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compact_unevictable_allowed: Option<u32>,
    /// RCU's thread was an ordinary one and has been given a real-time priority, or is about to be.
    #[serde(default)]
    rcu_thread_raised: bool,
}

impl Store {
    /// The files where the unit's `StateDirectory=` and `RuntimeDirectory=` put them.
    #[must_use]
    pub fn new(root: Root, rcu: Rcu) -> Self {
        let state_file = root.path("var/lib/scherzo/state.toml");
        let note_file = root.path("run/scherzo/restore.toml");
        let boots_file = root.path("var/lib/scherzo/boots.toml");
        let quarantine_file = root.path("var/lib/scherzo/quarantine.toml");
        let started_file = root.path("run/scherzo/started");
        let lifted_file = root.path("run/scherzo/lifted.toml");
        Self { root, rcu, state_file, note_file, boots_file, quarantine_file, started_file, lifted_file }
    }

    /// The desired state of last time. A file that makes no sense is reported and counts as none.
    #[must_use]
    pub fn desired(&self) -> Desired {
        match read::<DesiredFile>(&self.state_file).and_then(|file| file.map(|file| self.check(&file)).transpose()) {
            Ok(desired) => desired.unwrap_or_default(),
            Err(problem) => {
                warn!("{problem}; starting with the defaults: off, automatic mode, preemption on");
                Desired::default()
            }
        }
    }

    fn check(&self, file: &DesiredFile) -> Result<Desired, String> {
        let mode: RequestedMode =
            file.mode.parse().map_err(|error| format!("{}: mode: {error}", self.state_file.display()))?;
        let chosen_on = file.chosen_on.map(|source| match source {
            StoredSource::Mains => Source::Mains,
            StoredSource::Battery => Source::Battery,
        });
        let seat = file.engine.as_deref().and_then(Seat::from_name);
        let DesiredFile { enabled, chosen_by, preemption, .. } = *file;
        let chosen_until_s = file.chosen_until.filter(|_| mode != RequestedMode::Auto);
        Ok(Desired { enabled, mode, chosen_by, chosen_on, chosen_until_s, preemption, seat })
    }

    /// Writes the desired state so that either the old or the new one survives whatever happens.
    pub fn save_desired(&self, desired: Desired) -> io::Result<()> {
        let Desired { enabled, mode, chosen_by, chosen_on, chosen_until_s: chosen_until, preemption, seat } = desired;
        let chosen_on = chosen_on.map(|source| match source {
            Source::Mains => StoredSource::Mains,
            Source::Battery => StoredSource::Battery,
        });
        let engine = seat.map(|seat| seat.name().to_owned());
        let mode = mode.name().to_owned();
        let file = DesiredFile { enabled, mode, chosen_by, chosen_on, chosen_until, preemption, engine };
        replace(&self.state_file, &file)
    }

    /// How this start of the system and those before went. A service that restarts is no start of the system: the
    /// first one leaves a mark in `/run`.
    #[must_use]
    pub fn boot(&self) -> Boot {
        let mut boots = self.boots();
        let first_start = !self.started_file.exists();
        if std::mem::take(&mut boots.on_watch) && first_start {
            boots.nr_unclean += 1;
        }
        Boot { first_start, nr_unclean: boots.nr_unclean }
    }

    /// Notes what a system that goes down now would say about the scheduler, and how many have before; then leaves the mark
    /// that this start of the system has been counted.
    pub fn watch_boot(&self, nr_unclean: u32, watch: BootWatch) -> io::Result<()> {
        replace(&self.boots_file, &Boots { nr_unclean, on_watch: watch == BootWatch::On })?;
        if self.started_file.exists() { Ok(()) } else { durable::replace(&self.started_file, "") }
    }

    fn boots(&self) -> Boots {
        // Losing count is no reason not to start.
        read(&self.boots_file).inspect_err(|problem| warn!("{problem}")).ok().flatten().unwrap_or_default()
    }

    /// What an earlier run has given up on. A file that makes no sense is reported and counts as none.
    #[must_use]
    pub fn quarantine(&self) -> Option<Quarantine> {
        let file =
            read::<QuarantineFile>(&self.quarantine_file).inspect_err(|problem| warn!("{problem}")).ok().flatten()?;
        Quarantine::try_from(file).inspect_err(|problem| warn!("{}: {problem}", self.quarantine_file.display())).ok()
    }

    /// Remembers it, or forgets it.
    pub fn keep_quarantine(&self, quarantine: Option<&Quarantine>) -> io::Result<()> {
        match quarantine {
            Some(quarantine) => replace(&self.quarantine_file, &QuarantineFile::from(quarantine)),
            None => durable::remove(&self.quarantine_file),
        }
    }

    /// The causes of guards that people have lifted since the system started.
    #[must_use]
    pub fn lifted(&self) -> BTreeSet<Reason> {
        let file = read::<LiftedFile>(&self.lifted_file).inspect_err(|problem| warn!("{problem}"));
        file.ok().flatten().unwrap_or_default().causes.iter().filter_map(|cause| cause.parse().ok()).collect()
    }

    /// Remembers them until the system is started again.
    pub fn keep_lifted(&self, causes: &BTreeSet<Reason>) -> io::Result<()> {
        replace(&self.lifted_file, &LiftedFile { causes: causes.iter().map(|cause| cause.name().to_owned()).collect() })
    }

    /// Where it is stored, as this system calls it.
    #[must_use]
    pub fn file_of(what: Stored) -> &'static str {
        match what {
            Stored::Desired => "/var/lib/scherzo/state.toml",
            Stored::Settings => "/var/lib/scherzo/settings.toml",
            Stored::Quarantine => "/var/lib/scherzo/quarantine.toml",
            Stored::Boot => "/var/lib/scherzo/boots.toml",
            Stored::Lifted => "/run/scherzo/lifted.toml",
            Stored::History => "/var/lib/scherzo/history.jsonl",
        }
    }

    /// An earlier run left a note.
    #[must_use]
    pub fn has_note(&self) -> bool {
        self.note_file.exists()
    }

    /// Notes `vm.compact_unevictable_allowed`, and RCU's thread if the scheduler is to take all tasks, which is then given a
    /// real-time priority where that is needed. What is noted already stays: it is older, thus nearer to the truth.
    ///
    /// Nothing is changed that could not be noted: if the service is killed, the next one would not know.
    pub fn note_settings(&self, takes_all: bool) -> io::Result<()> {
        let noted = read::<Note>(&self.note_file).map_err(io::Error::other)?.unwrap_or_default();
        let mut note = noted;
        if noted.compact_unevictable_allowed.is_none() {
            note.compact_unevictable_allowed =
                scherzo_host::compact_unevictable(&self.root).map_err(io::Error::other)?;
        }
        let thread = if takes_all { self.rcu.find_to_raise() } else { None };
        note.rcu_thread_raised |= thread.is_some();
        if note != noted {
            replace(&self.note_file, &note)?;
        }
        if let Some(thread) = thread {
            self.rcu.raise(thread);
        }
        Ok(())
    }

    /// Whether the kernel may move locked memory about. A setting that cannot be read counts as off: loading has failed
    /// then, or is about to.
    #[must_use]
    pub fn compaction(&self) -> bool {
        matches!(scherzo_host::compact_unevictable(&self.root), Ok(Some(1..)))
    }

    /// Turns off what loading had turned off, and what someone else has turned on since. The note stays as it is.
    pub fn forbid_compaction(&self) -> io::Result<()> {
        scherzo_host::set_compact_unevictable(&self.root, 0).map_err(io::Error::other)?;
        warn!(
            "someone has turned vm.compact_unevictable_allowed on while the scheduler runs, which makes its engine wait \
             for memory; it is off again, and next time it stays as it is"
        );
        Ok(())
    }

    /// Restores what was noted and removes the note.
    pub fn restore_settings(&self) -> io::Result<()> {
        let note = match read::<Note>(&self.note_file) {
            Ok(Some(note)) => note,
            Ok(None) => return Ok(()),
            Err(problem) => {
                fs::remove_file(&self.note_file)?;
                return Err(io::Error::other(problem));
            }
        };
        // Neither waits for the other to succeed.
        let lowered = if note.rcu_thread_raised { self.rcu.lower() } else { Ok(()) };
        if let Some(noted) = note.compact_unevictable_allowed {
            self.restore_compaction(noted)?;
        }
        lowered?;
        fs::remove_file(&self.note_file)
    }

    fn restore_compaction(&self, noted: u32) -> io::Result<()> {
        if scherzo_host::compact_unevictable(&self.root).map_err(io::Error::other)? != Some(noted) {
            scherzo_host::set_compact_unevictable(&self.root, noted).map_err(io::Error::other)?;
            info!("restored vm.compact_unevictable_allowed to {noted}, which the engine had left changed");
        }
        Ok(())
    }
}

/// Reads a file if it exists; problems name file, line and column.
fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>, String> {
    match fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text).map(Some).map_err(|error| describe(path, &text, &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// What is wrong with a file, with the line.
pub(crate) fn describe(path: &Path, text: &str, error: &toml::de::Error) -> String {
    at(path, text, error.span().map_or(0, |span| span.start), error.message())
}

/// A problem at this byte of a file, with the line.
pub(crate) fn at(path: &Path, text: &str, byte: usize, problem: &str) -> String {
    let line = text.get(..byte).unwrap_or_default().matches('\n').count() + 1;
    format!("{}:{line}: {problem}", path.display())
}

fn replace(path: &Path, content: &impl Serialize) -> io::Result<()> {
    durable::replace(path, &toml::to_string(content).map_err(io::Error::other)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::simulated::{self, Tree};
    use scherzo_api::types::Mode;
    use scherzo_host::{KernelTypes, ThreadPolicy, rcu_thread};
    use scherzo_supervisor::{Build, Fault};

    const SYSCTL: &str = "proc/sys/vm/compact_unevictable_allowed";

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        Tree::plant(root.clone()).unwrap();
        let store = reopen(&root);
        (dir, store)
    }

    /// As a service does that starts.
    fn reopen(root: &Root) -> Store {
        let types = KernelTypes { has_ext_server: Some(false), ..KernelTypes::default() };
        Store::new(root.clone(), Rcu::new(root.clone(), &types, simulated::set_policy))
    }

    fn is_raised(store: &Store) -> bool {
        matches!(rcu_thread(&store.root).unwrap().unwrap().policy, ThreadPolicy::Fifo(99))
    }

    #[test]
    fn the_desired_state_comes_back() {
        let (_dir, store) = store();
        assert_eq!(store.desired(), Desired::default());
        let desired = Desired {
            enabled: true,
            mode: RequestedMode::Mode(Mode::LowPower),
            chosen_by: Some(1000),
            chosen_on: Some(Source::Battery),
            chosen_until_s: Some(1_780_000_000),
            preemption: false,
            seat: Some(Seat::User),
        };
        store.save_desired(desired).unwrap();
        assert_eq!(store.desired(), desired);
    }

    #[test]
    fn boots_that_end_badly_are_counted_and_restarts_are_not() {
        let (_dir, store) = store();
        let start = || {
            let boot = store.boot();
            store.watch_boot(boot.nr_unclean, BootWatch::Paused).unwrap();
            boot
        };
        let nr_unclean = || store.boots().nr_unclean;
        assert_eq!(start(), Boot { first_start: true, nr_unclean: 0 });
        store.watch_boot(nr_unclean(), BootWatch::On).unwrap();
        assert_eq!(start(), Boot { first_start: false, nr_unclean: 0 }, "killed and restarted");
        for nr in 1..=2 {
            store.watch_boot(nr_unclean(), BootWatch::On).unwrap();
            fs::remove_file(&store.started_file).unwrap();
            assert_eq!(start(), Boot { first_start: true, nr_unclean: nr });
        }
        fs::remove_file(&store.started_file).unwrap();
        assert_eq!(start().nr_unclean, 2, "nothing was loaded, so nothing is known");
        store.watch_boot(nr_unclean(), BootWatch::On).unwrap();
        store.watch_boot(nr_unclean(), BootWatch::Paused).unwrap();
        fs::remove_file(&store.started_file).unwrap();
        assert_eq!(start().nr_unclean, 2, "it had failed and was not loaded");
        store.watch_boot(nr_unclean(), BootWatch::On).unwrap();
        store.watch_boot(0, BootWatch::Over).unwrap();
        fs::remove_file(&store.started_file).unwrap();
        assert_eq!(start().nr_unclean, 0);
    }

    #[test]
    fn what_people_have_lifted_comes_back() {
        let (_dir, store) = store();
        assert!(store.lifted().is_empty());
        let causes = BTreeSet::from([Reason::Stall, Reason::UncleanBoots]);
        store.keep_lifted(&causes).unwrap();
        assert_eq!(store.lifted(), causes);
        fs::write(&store.lifted_file, "causes = [\"stall\", \"of a later version\"]\n").unwrap();
        assert_eq!(store.lifted(), [Reason::Stall].into());
    }

    #[test]
    fn what_was_given_up_on_comes_back_until_it_is_forgotten() {
        let (_dir, store) = store();
        assert_eq!(store.quarantine(), None);
        let mut cause = Fault::with_text(scherzo_api::types::Reason::Stall, "a \"task\"\nwaited");
        cause.details.insert("code".to_owned(), 3.into());
        let build = Build { kernel: "6.18.15".to_owned(), version: "0.1.0".to_owned() };
        let quarantine = Quarantine { build, cause };
        store.keep_quarantine(Some(&quarantine)).unwrap();
        assert_eq!(store.quarantine(), Some(quarantine));
        fs::write(&store.quarantine_file, "kernel = 3\n").unwrap();
        assert_eq!(store.quarantine(), None);
        store.keep_quarantine(None).unwrap();
        store.keep_quarantine(None).unwrap();
        assert!(!store.quarantine_file.exists());
    }

    #[test]
    fn nonsense_is_named_and_ignored() {
        let (_dir, store) = store();
        store.save_desired(Desired { enabled: true, ..Desired::default() }).unwrap();
        fs::write(&store.state_file, "enabled = true\nmode = 7\n").unwrap();
        assert_eq!(store.desired(), Desired::default());
        let problem = read::<DesiredFile>(&store.state_file).unwrap_err();
        assert!(problem.contains("state.toml:2:"), "{problem}");
        fs::write(&store.state_file, "enabled = true\nmode = \"fast\"\npreemption = true\n").unwrap();
        assert_eq!(store.desired(), Desired::default());
    }

    #[test]
    fn the_desired_state_of_a_later_version_counts() {
        let (_dir, store) = store();
        fs::create_dir_all(store.state_file.parent().unwrap()).unwrap();
        fs::write(&store.state_file, "enabled = true\nmode = \"fifo\"\npreemption = true\nmood = \"good\"\n").unwrap();
        assert_eq!(store.desired().mode, RequestedMode::Mode(Mode::Fifo));
    }

    #[test]
    fn the_first_note_counts() {
        let (dir, store) = store();
        store.note_settings(true).unwrap();
        fs::write(dir.path().join(SYSCTL), "0\n").unwrap();
        store.note_settings(true).unwrap();
        store.restore_settings().unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(SYSCTL)).unwrap(), "1");
        assert!(!store.has_note());
        store.restore_settings().unwrap();
    }

    #[test]
    fn the_next_service_knows_what_a_killed_one_has_raised() {
        let (_dir, store) = store();
        assert!(!is_raised(&store));
        store.note_settings(true).unwrap();
        assert!(is_raised(&store));
        let next = reopen(&store.root);
        assert!(next.has_note());
        next.note_settings(true).unwrap();
        next.restore_settings().unwrap();
        assert!(!is_raised(&next) && !next.has_note());
    }

    #[test]
    fn a_priority_that_is_not_ours_stays() {
        let (_dir, store) = store();
        simulated::set_policy(&store.root, simulated::RCU_THREAD, ThreadPolicy::Fifo(99)).unwrap();
        store.note_settings(true).unwrap();
        store.restore_settings().unwrap();
        assert!(is_raised(&store), "whoever started the kernel has chosen the same");
    }

    #[test]
    fn a_scheduler_of_some_tasks_leaves_rcu_alone() {
        let (_dir, store) = store();
        store.note_settings(false).unwrap();
        assert!(store.has_note() && !is_raised(&store));
    }

    #[test]
    fn notes_of_an_earlier_version_are_understood() {
        let (dir, store) = store();
        fs::create_dir_all(store.note_file.parent().unwrap()).unwrap();
        fs::write(&store.note_file, "compact_unevictable_allowed = 0\n").unwrap();
        store.restore_settings().unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(SYSCTL)).unwrap(), "0");
    }

    #[test]
    fn what_cannot_be_noted_is_not_changed() {
        let (_dir, store) = store();
        fs::create_dir_all(&store.note_file).unwrap();
        assert!(store.note_settings(true).is_err());
        assert!(!is_raised(&store));
    }

    #[test]
    fn a_broken_note_does_not_stay() {
        let (_dir, store) = store();
        store.note_settings(true).unwrap();
        fs::write(&store.note_file, "?").unwrap();
        assert!(store.restore_settings().is_err());
        assert!(!store.has_note());
    }
}
