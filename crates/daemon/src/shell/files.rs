//! The service's files, and what they say about the host: stored choices, settings, notes and the history.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use scherzo_api::Error;
use scherzo_host::{KernelTypes, Root};
use scherzo_supervisor::{Boot, BootWatch, Build, Event, FileAction, Kernel, NotStored, Start, Stored};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};

use super::disk::{DiskWriter, WriteJob};
use crate::config::{Change, Config};
use crate::describe::{self, Description};
use crate::history::{History, now_s};
use crate::input::HistoryEntry;
use crate::kernel;
use crate::rcu::{Rcu, SetPolicy};
use crate::settings::Settings;
use crate::store::Store;

/// What is said of a file whose disk does not answer.
const SLOW: &str = "the disk takes its time";
/// How long a service that ends waits for the disk.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Nothing else in the service writes files. What is kept is written beside the loop; what is noted in memory (`/run`) and
/// in the kernel's own files is written at once.
pub(super) struct Files {
    root: Root,
    store: Arc<Store>,
    disk: DiskWriter,
    /// What the writes under way were asked for, but for changes of settings.
    writing: BTreeMap<Stored, FileAction>,
    boot: Boot,
    config: Config,
    history: History,
    /// What could not be stored and is to be, with the reason.
    not_stored: BTreeMap<Stored, (FileAction, String)>,
    /// The same, as the supervisor knows it.
    told: NotStored,
}

impl Files {
    /// Reads what is there, and writes nothing yet.
    pub(super) fn open(root: Root, types: &KernelTypes, set_policy: SetPolicy) -> Self {
        let store = Arc::new(Store::new(root.clone(), Rcu::new(root.clone(), types, set_policy)));
        let (boot, config, history) = (store.boot(), read_config(&root), History::open(&root));
        let (disk, writing) = (DiskWriter::default(), BTreeMap::new());
        let (not_stored, told) = (BTreeMap::new(), NotStored::new());
        Self { root, store, disk, writing, boot, config, history, not_stored, told }
    }

    /// What the supervisor starts from.
    pub(super) fn start(&self, kernel: Kernel, types: &KernelTypes) -> Start {
        Start {
            desired: self.store.desired(),
            started_at_s: now_s(),
            settings: self.config.settings,
            unfit: kernel::unfit(types),
            kernel,
            noted: self.store.has_note(),
            boot: self.boot,
            build: build(&self.root),
            quarantine: self.store.quarantine(),
            lifted: self.store.lifted(),
        }
    }

    /// Notes that the service has started on this boot.
    pub(super) fn note_boot(&mut self) {
        self.store(FileAction::WatchBoot(BootWatch::Paused));
    }

    pub(super) fn settings(&self) -> Settings {
        self.config.settings
    }

    /// The kernel may move locked memory about.
    pub(super) fn compaction(&self) -> bool {
        self.store.compaction()
    }

    /// Whether settings are being written: the next change builds on how that ends.
    pub(super) fn is_changing(&self) -> bool {
        self.disk.is_writing(Stored::Settings)
    }

    /// Has changed settings written, which count once that has succeeded: see [`Self::end_change`].
    pub(super) fn begin_change(&mut self, changes: &[Change]) -> Result<(), Error> {
        let write = self.config.changed(changes)?.write_own(&self.root);
        self.disk.start(Stored::Settings, Box::new(write));
        Ok(())
    }

    /// The changes count if they are stored.
    pub(super) fn end_change(&mut self, changes: &[Change], stored: io::Result<()>) -> Result<(), Error> {
        stored.map_err(|error| {
            Error::NotStored(format!("The settings cannot be stored: {error}. Nothing was changed."))
        })?;
        // Settings may have been put back meanwhile: those are written next.
        self.config = self.config.changed(changes)?;
        // Settings that were put back before are in the file now, but for those that have just been changed.
        self.not_stored.remove(&Stored::Settings);
        Ok(())
    }

    pub(super) fn read_settings_again(&mut self) {
        self.config = read_config(&self.root);
    }

    /// All about each setting, by its name.
    pub(super) fn describe_settings(&self) -> HashMap<String, Description> {
        describe::settings(&self.config)
    }

    /// The number of the newest entry of the history.
    pub(super) const fn last_history_number(&self) -> u64 {
        self.history.last_number()
    }

    /// The same, and the entries after the one with this number.
    pub(super) fn history_since(&self, cursor: u64) -> (u64, Vec<HistoryEntry>) {
        self.history.since(cursor)
    }

    /// The newest first.
    pub(super) fn history(&self, nr_entries: u32) -> Vec<HistoryEntry> {
        self.history.newest(nr_entries)
    }

    /// Writes, or has it written: what becomes of that is told by [`Self::written`] and [`Self::note_written`].
    pub(super) fn perform(&mut self, action: FileAction) {
        match action {
            FileAction::NoteSettings => {
                let takes_all = !self.config.settings.tunables.partial;
                complain("note the settings to restore", self.store.note_settings(takes_all));
            }
            FileAction::RestoreSettings => complain("restore settings", self.store.restore_settings()),
            FileAction::ForbidCompaction => {
                complain("turn off compaction of locked memory", self.store.forbid_compaction());
            }
            FileAction::StoreAgain => self.store_again(),
            kept => self.store(kept),
        }
    }

    fn store(&mut self, action: FileAction) {
        // In memory it is so at once.
        match &action {
            FileAction::Record(record) => self.history.add(record),
            FileAction::RevertSettings(settings) => self.config.revert(*settings),
            FileAction::WatchBoot(BootWatch::Over) => self.boot.nr_unclean = 0,
            _ => {}
        }
        if let Some(what) = action.stored() {
            self.ask(what, action);
        }
    }

    fn store_again(&mut self) {
        for (what, (action, _)) in self.not_stored.clone() {
            if !self.disk.is_writing(what) {
                self.ask(what, action);
            }
        }
    }

    fn ask(&mut self, what: Stored, action: FileAction) {
        if let Some(action) = self.disk.ask(what, action) {
            let write = self.begin(what, action);
            self.disk.start(what, write);
        }
    }

    /// Prepares a write of what is so now. What it was asked for is remembered until it has succeeded.
    fn begin(&mut self, what: Stored, action: FileAction) -> WriteJob {
        let (store, nr_unclean) = (Arc::clone(&self.store), self.boot.nr_unclean);
        self.writing.insert(what, action.clone());
        match action {
            FileAction::Record(_) => Box::new(self.history.write()),
            FileAction::RevertSettings(_) => Box::new(self.config.write_own(&self.root)),
            FileAction::WatchBoot(watch) => Box::new(move || store.watch_boot(nr_unclean, watch)),
            FileAction::KeepQuarantine(quarantine) => Box::new(move || store.keep_quarantine(quarantine.as_ref())),
            FileAction::Persist(desired) => Box::new(move || store.save_desired(desired)),
            FileAction::KeepLifted(causes) => Box::new(move || store.keep_lifted(&causes)),
            FileAction::NoteSettings
            | FileAction::RestoreSettings
            | FileAction::ForbidCompaction
            | FileAction::StoreAgain => Box::new(|| Ok(())),
        }
    }

    /// Waits until a file has been written, or could not be. [`Self::note_written`] is to be told.
    pub(super) async fn written(&mut self) -> (Stored, io::Result<()>) {
        self.disk.written().await
    }

    /// A write has ended, and another one may begin. What cannot be stored, or can at last, is for the supervisor to know.
    /// A change of settings has been dealt with by [`Self::end_change`].
    pub(super) fn note_written(&mut self, what: Stored, stored: Option<io::Result<()>>) -> Option<Event> {
        let action = self.writing.remove(&what);
        if let Some((stored, action)) = stored.zip(action) {
            if what == Stored::History {
                self.history.written(stored.is_ok());
            }
            self.remember(what, action, stored);
        }
        if let Some((number, action)) = self.disk.finish(what) {
            let write = self.begin(what, action);
            self.disk.start_as(number, what, write);
        }
        self.tell()
    }

    /// The number of the newest write, and that up to which nobody waits for any.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.disk.newest(), self.disk.settled())
    }

    /// Whether a file is being written, and that is worth waiting for.
    pub(super) fn is_awaited(&self, what: Stored) -> bool {
        self.disk.is_awaited(what)
    }

    /// When a write will have taken so long that nobody waits for it any more; then [`Self::tell`].
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.disk.due_at()
    }

    /// Waits until all is written, for a while.
    pub(super) async fn leave(&mut self) {
        let deadline = Instant::now() + LAST_PATIENCE;
        while !self.disk.is_idle() {
            let Ok((what, stored)) = timeout_at(deadline, self.disk.written()).await else {
                warn!("the disk takes too long: what has changed last may be lost");
                return;
            };
            self.note_written(what, Some(stored));
        }
    }

    /// Remembers what is still to be stored. The journal hears of it once, and again when it has been.
    fn remember(&mut self, what: Stored, action: FileAction, stored: io::Result<()>) {
        let file = Store::file_of(what);
        match stored {
            Ok(()) => {
                if self.not_stored.remove(&what).is_some() {
                    info!("{file} is written at last");
                }
            }
            Err(error) => {
                let error = error.to_string();
                let before = self.not_stored.insert(what, (action, error.clone()));
                if before.is_none_or(|(_, before)| before != error) {
                    warn!("cannot write {file}, which is tried again: {error}");
                }
            }
        }
    }

    /// What the supervisor does not know yet.
    pub(super) fn tell(&mut self) -> Option<Event> {
        let mut now: NotStored = self.not_stored.iter().map(|(what, (_, error))| (*what, error.clone())).collect();
        // A change of settings does not count yet either.
        let slow = self.disk.slow().filter(|what| self.writing.contains_key(what));
        for what in slow {
            now.entry(what).or_insert_with(|| SLOW.to_owned());
        }
        if now == self.told {
            return None;
        }
        self.told.clone_from(&now);
        Some(Event::NotStored(now))
    }
}

/// What runs on what; a kernel that does not say its release counts as one of its own.
fn build(root: &Root) -> Build {
    let kernel = scherzo_host::release(root).inspect_err(|error| debug!("{error}")).unwrap_or_default();
    Build { kernel, version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn read_config(root: &Root) -> Config {
    let config = Config::read(root);
    for problem in &config.problems {
        warn!("{problem}; what is below it counts instead");
    }
    config
}

fn complain(what: &str, result: std::io::Result<()>) {
    if let Err(error) = result {
        warn!("cannot {what}: {error}");
    }
}
