//! What waits for files to be written: answers about what is to last, loading, and further changes of settings.

use std::collections::VecDeque;
use std::io;

use scherzo_api::Error;
use scherzo_api::types::State;
use scherzo_model::LoadSettings;
use scherzo_supervisor::{Caller, Event, Reply, RequestId, Stored};
use scherzo_wire::message::ToEngine;
use tokio::sync::oneshot;
use tracing::info;

use super::MainLoop;
use crate::config::Change;
use crate::engine::Engine;
use crate::manager;

#[derive(Default)]
pub(super) struct Later {
    /// Answers to those who have set something, with the number of the write that each waits for.
    replies: VecDeque<(u64, RequestId, Reply)>,
    /// What the engine is told when it is stored that it may freeze the system.
    loading: Option<LoadSettings>,
    /// The client's change that is being written.
    change: Option<ClientChange>,
    changes: VecDeque<SettingsChange>,
}

/// A change of settings. One is made at a time.
pub(super) enum SettingsChange {
    /// By a client.
    Client(ClientChange),
    /// By whoever has changed the files.
    Reload,
}

/// What a client has asked for.
pub(super) struct ClientChange {
    pub(super) caller: Caller,
    pub(super) changes: Vec<Change>,
    pub(super) reply: oneshot::Sender<Result<(), Error>>,
}

impl Later {
    /// What the engine is told next comes instead.
    pub(super) fn forget_loading(&mut self) {
        self.loading = None;
    }
}

impl<E: Engine> MainLoop<E> {
    /// Answers a request: who has set something when all is written that was to be written by now.
    pub(super) fn reply_when_stored(&mut self, id: RequestId, reply: Reply) {
        let (newest, settled) = self.files.progress();
        if settled < newest && reply == Reply::Result(Ok(())) {
            self.later.replies.push_back((newest, id, reply));
        } else {
            self.reply(id, reply);
        }
    }

    /// Tells the engine to load: if the system freezes, the next start is to know.
    pub(super) fn load_when_stored(&mut self, settings: LoadSettings) {
        self.later.loading = Some(settings);
        self.go_on();
    }

    /// Does what no longer waits for anything.
    pub(super) fn go_on(&mut self) {
        if let Some(settings) = self.later.loading.take_if(|_| !self.files.is_awaited(Stored::Boot)) {
            self.engine.send(&ToEngine::Load(settings));
        }
        let (_, settled) = self.files.progress();
        while self.later.replies.front().is_some_and(|(number, ..)| *number <= settled)
            && let Some((_, id, reply)) = self.later.replies.pop_front()
        {
            self.reply(id, reply);
        }
    }

    /// Answers all, whatever has been written.
    pub(super) fn answer_all(&mut self) {
        for (_, id, reply) in std::mem::take(&mut self.later.replies) {
            self.reply(id, reply);
        }
    }

    /// A file has been written, or could not be.
    pub(super) fn note_written(&mut self, what: Stored, stored: io::Result<()>) {
        let stored = match self.later.change.take_if(|_| what == Stored::Settings) {
            Some(change) => {
                self.end_change(change, stored);
                None
            }
            None => Some(stored),
        };
        if let Some(event) = self.files.note_written(what, stored) {
            self.happen(event);
        }
        while !self.files.is_changing()
            && let Some(change) = self.later.changes.pop_front()
        {
            self.change_settings(change);
        }
        self.go_on();
    }

    /// Changes settings, or does so when the changes before have been written.
    pub(super) fn change_settings(&mut self, change: SettingsChange) {
        if self.files.is_changing() {
            self.later.changes.push_back(change);
            return;
        }
        match change {
            SettingsChange::Client(change) => match self.files.begin_change(&change.changes) {
                Ok(()) => self.later.change = Some(change),
                // A client that has left does not mind.
                Err(error) => drop(change.reply.send(Err(error))),
            },
            SettingsChange::Reload => {
                info!("reading the configuration again");
                manager::reloading();
                self.files.read_settings_again();
                self.apply_settings(None);
                manager::ready();
            }
        }
    }

    fn end_change(&mut self, change: ClientChange, stored: io::Result<()>) {
        let ClientChange { caller, changes, reply } = change;
        let changed = self.files.end_change(&changes, stored);
        if changed.is_ok() {
            self.apply_settings(Some(caller));
        }
        // A client that has left does not mind.
        let _ = reply.send(changed);
    }

    fn apply_settings(&mut self, by: Option<Caller>) {
        self.happen(Event::Settings { settings: self.files.settings(), by });
        if matches!(self.supervisor.view().state, State::Running | State::Degraded) {
            self.prepare_standby();
        }
    }
}
