//! The loop between the supervisor and the world. It owns the supervisor, and has carried out what that decides: by the
//! engine, by the service's [`files`], and by programs on the bus, its [`clients`].

mod clients;
mod disk;
mod files;
mod later;
mod outbox;
mod statistics;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use scherzo_host::Root;
use scherzo_wire::message::ToEngine;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{debug, warn};
use zbus::Connection;

use crate::alarm::Alarm;
use crate::bus;
use crate::callers::Callers;
use crate::engine::Engine;
use crate::history::now_s;
use crate::input::{Answer, Input};
use crate::kernel;
use crate::manager::{self, Watchdog};
use crate::rcu::SetPolicy;
use clients::{Clients, log_state};
use files::Files;
use later::{ClientChange, Later, SettingsChange};
use scherzo_supervisor::{
    Action, EngineCommand, EngineEvent, Event, FileAction, Kernel, Published, Reply, RequestId, Supervisor,
};
use statistics::Statistics;

/// The loop's belongings.
pub struct MainLoop<E> {
    supervisor: Supervisor,
    first: Vec<Action>,
    started: Instant,
    root: Root,
    engine: E,
    files: Files,
    statistics: Statistics,
    clients: Clients,
    later: Later,
    leaving: bool,
}

/// How far apart the clock and the time since the start may be: more than seconds that are cut off.
const MAX_CLOCK_DRIFT_S: u64 = 2;

/// When the service was started by the clock as it is now, if that is not what was believed: the clock was set, or the machine has slept.
fn moved_start_s(believed_s: u64, now_s: u64, running: Duration) -> Option<u64> {
    let started_at_s = now_s.saturating_sub(running.as_secs());
    (started_at_s.abs_diff(believed_s) > MAX_CLOCK_DRIFT_S).then_some(started_at_s)
}

/// What the loop starts from.
pub struct Parts<E> {
    /// Where the host's files are.
    pub root: Root,
    /// How the kernel there is told to schedule a thread.
    pub set_policy: SetPolicy,
    /// The engine.
    pub engine: E,
    /// The connection that clients see. Something is served on it already, see `bus_thread`.
    pub bus: Connection,
    /// Who calls on it.
    pub callers: Arc<Callers>,
    /// Where inputs are sent.
    pub inputs: mpsc::Sender<Input>,
}

impl<E: Engine> MainLoop<E> {
    /// Reads what the files and the kernel say, and touches nothing yet. The receiver is for the interface.
    pub fn new(parts: Parts<E>) -> Result<(Self, watch::Receiver<Published>), scherzo_host::Error> {
        let Parts { root, set_policy, engine, bus, inputs, callers: _ } = parts;
        let kernel = kernel::read(&root)?;
        let types = kernel::types(&root, &kernel);
        let files = Files::open(root.clone(), &types, set_policy);
        let (supervisor, first) = Supervisor::new(files.start(kernel, &types));
        let clients = Clients::new(bus, inputs, supervisor.view());
        let (statistics, published) = (Statistics::new(root.clone()), clients.published());
        let (started, later) = (Instant::now(), Later::default());
        let shell =
            Self { supervisor, first, started, root, engine, files, statistics, clients, later, leaving: false };
        Ok((shell, published))
    }

    /// Whether a frugal power profile is to be held.
    #[must_use]
    pub fn hold_profile(&self) -> watch::Receiver<bool> {
        self.clients.hold_profile()
    }

    /// Runs until the service is to end and nothing is loaded any more. Fails if time cannot be told.
    ///
    /// `inbox` has what engine, kernel and other daemons do; it comes before the `calls` of clients.
    pub async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Input>,
        mut calls: mpsc::Receiver<Input>,
    ) -> std::io::Result<()> {
        let (mut alarm, mut watchdog) = (Alarm::new()?, Watchdog::new());
        log_state(&self.supervisor.view());
        self.files.note_boot();
        let first = std::mem::take(&mut self.first);
        self.carry_out(first);
        while !self.leaving {
            watchdog.feed(Instant::now());
            let wakeup = self.next_wakeup().into_iter().chain(watchdog.due_at()).min();
            let input = tokio::select! {
                biased;
                input = inbox.recv() => input.unwrap_or(Input::Shutdown),
                (what, stored) = self.files.written() => {
                    self.note_written(what, stored);
                    continue;
                }
                rung = alarm.ring_at(wakeup) => {
                    rung?;
                    self.tick();
                    continue;
                }
                Some(call) = calls.recv(), if self.clients.have_room() => call,
            };
            self.take(input);
        }
        self.clients.sum_up_refusals(true);
        self.files.leave().await;
        self.answer_all();
        self.clients.leave().await;
        Ok(())
    }

    fn tick(&mut self) {
        self.clients.sum_up_refusals(false);
        if let Some(event) = self.files.tell() {
            self.happen(event);
        }
        self.happen(Event::Tick);
        self.go_on();
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let supervisor = self.supervisor.next_wakeup().map(|at| self.started + at);
        supervisor.into_iter().chain(self.clients.refusals_due_at()).chain(self.files.due_at()).min()
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Request { caller, request, reply } => {
                let id = self.clients.expect(reply);
                // Decide on what the kernel says now, not on what it last said.
                if !request.only_reads() {
                    self.read_kernel();
                }
                self.happen(Event::Request { id, caller, request });
            }
            Input::Engine { run, event, pages } => {
                if let Some(pages) = pages {
                    self.statistics.begin(pages);
                }
                if matches!(event, EngineEvent::Exited { .. } | EngineEvent::HungUp | EngineEvent::Gone(_)) {
                    self.statistics.end();
                    // What is told of the end is what the kernel says now, not what it said before.
                    self.read_kernel();
                }
                let has_loaded = event == EngineEvent::Loaded;
                self.happen(Event::Engine { run, event });
                if has_loaded {
                    self.prepare_standby();
                }
            }
            Input::KernelChanged => self.read_kernel(),
            Input::Configure { caller, changes, reply } => {
                self.change_settings(SettingsChange::Client(ClientChange { caller, changes, reply }));
            }
            // A client that has left does not mind.
            Input::DescribeSettings { reply } => drop(reply.send(self.files.describe_settings())),
            Input::GetHistorySince { cursor, reply } => drop(reply.send(self.files.history_since(cursor))),
            Input::Reload => self.change_settings(SettingsChange::Reload),
            Input::Session => self.happen(Event::Session),
            Input::Power(event) => self.happen(Event::Power(event)),
            Input::PeerGone(peer) => {
                self.clients.has_gone(&peer);
                self.happen(Event::PeerGone(peer));
            }
            Input::HoldClosed(cookie) => self.happen(Event::HoldClosed(cookie)),
            Input::Shutdown => {
                manager::stopping();
                self.happen(Event::Shutdown);
            }
        }
    }

    /// An engine that ends is replaced at once, if it is to be replaced at all.
    fn prepare_standby(&mut self) {
        if self.wants_standby() {
            self.engine.prepare_standby();
        }
    }

    fn wants_standby(&self) -> bool {
        self.files.settings().standby && self.supervisor.would_load_again()
    }

    fn read_kernel(&mut self) {
        if let Some(kernel) = self.kernel() {
            self.happen(Event::Kernel(kernel));
        }
    }

    fn kernel(&self) -> Option<Kernel> {
        kernel::read(&self.root).inspect_err(|error| warn!("{error}")).ok()
    }

    fn happen(&mut self, event: Event) {
        if let Some(started_at_s) = moved_start_s(self.supervisor.started_at_s(), now_s(), self.started.elapsed()) {
            self.supervise(Event::Clock { started_at_s });
        }
        self.supervise(event);
    }

    fn supervise(&mut self, event: Event) {
        debug!("{event:?}");
        let actions = self.supervisor.step(self.started.elapsed(), event);
        self.carry_out(actions);
        if !self.wants_standby() {
            self.engine.drop_standby();
        }
    }

    /// Performs actions, and those that follow from what they find. Answers come last: a caller that is answered finds published
    /// what the answer is about.
    fn carry_out(&mut self, actions: Vec<Action>) {
        let (mut queue, mut replies) = (VecDeque::from(actions), Vec::new());
        while let Some(action) = queue.pop_front() {
            if let Action::Reply { id, reply } = action {
                replies.push((id, reply));
            } else if let Some(event) = self.perform(action) {
                queue.extend(self.supervisor.step(self.started.elapsed(), event));
            }
        }
        for (id, reply) in replies {
            self.reply_when_stored(id, reply);
        }
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Engine(command) => self.command_engine(command),
            Action::Files(action) => self.perform_on_files(action),
            Action::Bus(action) => self.clients.perform(action),
            Action::Reply { id, reply } => self.reply(id, reply),
            Action::SendStats(peers) => {
                if let Some(stats) = self.statistics.read() {
                    self.clients.send_stats(peers, stats);
                }
            }
            Action::ReadKernel => return self.kernel().map(Event::Kernel),
            Action::ReadHealth => {
                let degraded = self.statistics.degraded()?;
                return Some(Event::Health { degraded, compaction: self.files.compaction() });
            }
            Action::Exit => self.leaving = true,
        }
        None
    }

    fn perform_on_files(&mut self, action: FileAction) {
        let is_record = matches!(action, FileAction::Record(_));
        self.files.perform(action);
        if is_record {
            self.clients.tell_history_added(self.files.last_history_number());
        }
    }

    fn command_engine(&mut self, command: EngineCommand) {
        if !matches!(command, EngineCommand::Load(..)) {
            self.later.forget_loading();
        }
        match command {
            EngineCommand::Spawn(run) => {
                self.statistics.forget();
                self.engine.spawn(run);
            }
            EngineCommand::Load(_, settings) => self.load_when_stored(settings),
            EngineCommand::Switch { seq, settings, .. } => self.engine.send(&ToEngine::Apply { seq, settings }),
            EngineCommand::Refresh { seq, .. } => self.engine.send(&ToEngine::Refresh { seq }),
            EngineCommand::Unload(_) => self.engine.send(&ToEngine::Unload),
            EngineCommand::Kill(_) => self.engine.kill(),
        }
    }

    fn reply(&mut self, id: RequestId, reply: Reply) {
        let answer = match reply {
            Reply::Result(result) => result.map(|()| Answer::Done).map_err(bus::error_of),
            Reply::Hold(cookie) => Ok(Answer::Hold(cookie)),
            Reply::Stats => self.statistics.answer().map(|stats| Answer::Stats(Box::new(stats))),
            Reply::Histograms => self.statistics.histograms().map(Answer::Histograms),
            Reply::History(nr_entries) => Ok(Answer::History(self.files.history(nr_entries))),
        };
        self.clients.answer(id, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_noticed_and_one_that_ticks_is_not() {
        let after = |now_s, running_s| moved_start_s(1_000, now_s, Duration::from_secs(running_s));
        assert_eq!([after(1_000, 0), after(1_501, 500), after(1_498, 500)], [None; 3]);
        assert_eq!(after(1_500, 100), Some(1_400), "it has slept for 400 s");
        assert_eq!(after(50, 100), Some(0));
    }
}
