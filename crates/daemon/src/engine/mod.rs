//! The engine behind one trait: the real process, or a simulation.
//!
//! What an engine does arrives at the shell as [`Input::Engine`], in order, and ends with
//! [`EngineEvent::Gone`] or [`EngineEvent::NotStarted`].

pub mod real;
pub mod simulated;

use tokio::sync::mpsc;
use tracing::debug;

use scherzo_wire::layout::WIRE_VERSION;
use scherzo_wire::message::{ToDaemon, ToEngine};

use crate::input::Input;
use crate::sample::SharedPages;
use scherzo_supervisor::{EngineEvent, Run};

/// Starts, tells and kills engines, one at a time.
pub trait Engine: Send {
    /// Starts one.
    fn spawn(&mut self, run: Run);
    /// Tells the one that runs; if it is gone, that is reported anyway.
    fn send(&mut self, message: &ToEngine);
    /// Kills the one that runs.
    fn kill(&mut self);
    /// Has a standby engine wait to be the next, prepared as far as possible for what the one that runs was told to load.
    /// Where an engine starts at once, this does nothing.
    fn prepare_standby(&mut self) {}
    /// Does without a standby engine.
    fn drop_standby(&mut self) {}
}

/// Where the doings of one engine go.
#[derive(Clone, Debug)]
pub struct Reporter {
    run: Run,
    inputs: mpsc::Sender<Input>,
}

impl Reporter {
    /// For the engine of that run.
    #[must_use]
    pub fn new(run: Run, inputs: mpsc::Sender<Input>) -> Self {
        Self { run, inputs }
    }

    /// Reports one event, with the pages if it is loaded. A shell that has ended does not listen.
    pub async fn report(&self, event: EngineEvent, pages: Option<SharedPages>) {
        debug!("engine {}: {event:?}", self.run.0);
        let _ = self.inputs.send(Input::Engine { run: self.run, event, pages }).await;
    }
}

/// The supervisor's view of a message, apart from its pages; `None` for what does not concern it.
pub(crate) fn event_of(message: ToDaemon) -> Option<EngineEvent> {
    Some(match message {
        ToDaemon::Hello { wire_version } => EngineEvent::Hello { wire_version },
        ToDaemon::Loaded { .. } => EngineEvent::Loaded,
        ToDaemon::Failed { kind, text } => EngineEvent::Failed { kind, text },
        ToDaemon::Done { seq } => EngineEvent::Done { seq },
        ToDaemon::Exited { kind, code, text } => EngineEvent::Exited { kind, code, text },
        ToDaemon::Prepared => return None,
    })
}

/// What a well-meaning engine says first.
fn hello() -> EngineEvent {
    EngineEvent::Hello { wire_version: WIRE_VERSION }
}
