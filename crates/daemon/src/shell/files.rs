//! The service's files, and what they say about the host: stored choices, settings, notes and the history.

use std::collections::{BTreeMap, HashMap};
use std::io;

use scherzo_api::Error;
use scherzo_host::{KernelTypes, Root};
use scherzo_supervisor::{Boot, BootWatch, Build, Event, FileAction, Kernel, NotStored, Start, Stored};
use tracing::{debug, info, warn};

use crate::config::{Change, Config};
use crate::describe::{self, Description};
use crate::history::{History, now_s};
use crate::input::HistoryEntry;
use crate::kernel;
use crate::rcu::{Rcu, SetPolicy};
use crate::settings::Settings;
use crate::store::Store;

/// Nothing else in the service writes files.
pub(super) struct Files {
    root: Root,
    store: Store,
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
        let store = Store::new(root.clone(), Rcu::new(root.clone(), types, set_policy));
        let (boot, config, history) = (store.boot(), read_config(&root), History::open(&root));
        Self { root, store, boot, config, history, not_stored: BTreeMap::new(), told: NotStored::new() }
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
    pub(super) fn note_boot(&mut self) -> Option<Event> {
        self.store(FileAction::WatchBoot(BootWatch::Paused));
        self.tell()
    }

    pub(super) fn settings(&self) -> Settings {
        self.config.settings
    }

    /// The kernel may move locked memory about.
    pub(super) fn compaction(&self) -> bool {
        self.store.compaction()
    }

    pub(super) fn change(&mut self, changes: &[Change]) -> Result<(), Error> {
        self.config.change(&self.root, changes)?;
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

    /// The number of the newest entry of the history, and the entries after the one with this number.
    pub(super) fn history_since(&self, cursor: u64) -> (u64, Vec<HistoryEntry>) {
        self.history.since(cursor)
    }

    /// The newest first.
    pub(super) fn history(&self, nr_entries: u32) -> Vec<HistoryEntry> {
        self.history.newest(nr_entries)
    }

    /// Writes; what cannot be stored, or can at last, is for the supervisor to know.
    pub(super) fn perform(&mut self, action: FileAction) -> Option<Event> {
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
        self.tell()
    }

    fn store(&mut self, action: FileAction) {
        if let Some(what) = action.stored() {
            let stored = self.write(&action);
            self.remember(what, action, stored);
        }
    }

    fn store_again(&mut self) {
        for (what, (action, _)) in self.not_stored.clone() {
            // An entry of the history is not added twice.
            let stored = if what == Stored::History { self.history.catch_up() } else { self.write(&action) };
            self.remember(what, action, stored);
        }
    }

    fn write(&mut self, action: &FileAction) -> io::Result<()> {
        match action {
            FileAction::Record(record) => self.history.add(record),
            FileAction::WatchBoot(watch) => {
                if *watch == BootWatch::Over {
                    self.boot.nr_unclean = 0;
                }
                self.store.watch_boot(self.boot.nr_unclean, *watch)
            }
            FileAction::RevertSettings(settings) => self.config.revert(&self.root, *settings),
            FileAction::KeepQuarantine(quarantine) => self.store.keep_quarantine(quarantine.as_ref()),
            FileAction::Persist(desired) => self.store.save_desired(*desired),
            FileAction::KeepLifted(causes) => self.store.keep_lifted(causes),
            FileAction::NoteSettings
            | FileAction::RestoreSettings
            | FileAction::ForbidCompaction
            | FileAction::StoreAgain => Ok(()),
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

    fn tell(&mut self) -> Option<Event> {
        let now: NotStored = self.not_stored.iter().map(|(what, (_, error))| (*what, error.clone())).collect();
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
