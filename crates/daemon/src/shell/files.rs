//! The service's files, and what they say about the host: stored choices, settings, notes and the history.

use std::collections::HashMap;

use scherzo_api::Error;

use scherzo_host::{KernelTypes, Root};
use scherzo_supervisor::{Boot, Build, FileAction, Kernel, Start};
use tracing::{debug, warn};

use crate::config::{Change, Config};
use crate::describe::{self, Description};
use crate::history::History;
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
}

impl Files {
    /// Reads what is there, and writes nothing yet.
    pub(super) fn open(root: Root, types: &KernelTypes, set_policy: SetPolicy) -> Self {
        let store = Store::new(root.clone(), Rcu::new(root.clone(), types, set_policy));
        let (boot, config, history) = (store.boot(), read_config(&root), History::open(&root));
        Self { root, store, boot, config, history }
    }

    /// What the supervisor starts from.
    pub(super) fn start(&self, kernel: Kernel, types: &KernelTypes) -> Start {
        Start {
            desired: self.store.desired(),
            settings: self.config.settings,
            unfit: kernel::unfit(types),
            kernel,
            noted: self.store.has_note(),
            boot: self.boot,
            build: build(&self.root),
            quarantine: self.store.quarantine(),
        }
    }

    /// Notes that the service has started on this boot.
    pub(super) fn note_boot(&self) {
        complain("note how this boot goes", self.store.note_boot(self.boot));
    }

    pub(super) fn settings(&self) -> Settings {
        self.config.settings
    }

    /// The kernel may move locked memory about.
    pub(super) fn compaction(&self) -> bool {
        self.store.compaction()
    }

    pub(super) fn change(&mut self, changes: &[Change]) -> Result<(), Error> {
        self.config.change(&self.root, changes)
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

    pub(super) fn perform(&mut self, action: FileAction) {
        match action {
            FileAction::Record(record) => complain("write the history", self.history.add(&record)),
            FileAction::WatchBoot(watch) => complain("note how this boot goes", self.store.watch_boot(watch)),
            FileAction::NoteSettings => {
                let takes_all = !self.config.settings.tunables.partial;
                complain("note the settings to restore", self.store.note_settings(takes_all));
            }
            FileAction::RestoreSettings => complain("restore settings", self.store.restore_settings()),
            FileAction::ForbidCompaction => {
                complain("turn off compaction of locked memory", self.store.forbid_compaction());
            }
            FileAction::RevertSettings(settings) => {
                complain("store the settings of before", self.config.revert(&self.root, settings));
            }
            FileAction::KeepQuarantine(quarantine) => {
                complain("remember what does not work", self.store.keep_quarantine(quarantine.as_ref()));
            }
            FileAction::Persist(desired) => complain("store your choice", self.store.save_desired(desired)),
        }
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
