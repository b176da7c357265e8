//! A client of the service, for programs that show it: applets, apps.
//!
//! [`ClientState`] is the state that such a program shows, a fold over [`ClientEvent`]s. [`Client`] keeps it current: it connects
//! to the bus, follows the service, reconnects when either has gone, and passes every new state to a closure. It has a
//! thread of its own, which sleeps until a message arrives, so it works with any main loop and without one:
//!
//! ```no_run
//! use scherzo_api::client::{Bus, Client};
//!
//! let (states, inbox) = std::sync::mpsc::channel();
//! let client = Client::start(Bus::System, move |state| {
//!     // In an app: send it to the main loop. It fails when the receiver has ended, which is no error.
//!     let _ = states.send(state.clone());
//! })?;
//! for state in inbox {
//!     println!("{:?}", state.state());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Calls are futures that any executor can drive: `client.set_mode(RequestedMode::Auto).await`. Statistics and history
//! are followed only while someone holds a [`Watch`] of them. Nothing here starts the service, except
//! [`Client::start_service`] and calls: a person wants something then.

mod follow;
mod state;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, watch};
use zbus::{Connection, Variant};

use crate::details::{self, Details};
use crate::types::{RequestedMode, Seat};
use crate::{Error, SchedulerProxy, patience};

pub use state::{ClientEvent, ClientState, Entry, Exit, Link, Reading, TELL_AFTER};

/// Where the service is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bus {
    /// The system bus, where it really is.
    System,
    /// The session bus, where `scherzod --simulate` offers it.
    Session,
    /// The bus at this address.
    Address(String),
}

/// What is followed only on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// [`ClientState::reading`], once per second.
    Statistics,
    /// [`ClientState::history`], with every change of the service's properties.
    History,
}

/// How many watch each topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watched {
    nr_statistics: usize,
    nr_history: usize,
}

impl Watched {
    fn of(&mut self, topic: Topic) -> &mut usize {
        match topic {
            Topic::Statistics => &mut self.nr_statistics,
            Topic::History => &mut self.nr_history,
        }
    }
}

/// A topic is followed as long as this lives.
#[derive(Debug)]
#[must_use = "the topic is followed only as long as this lives"]
pub struct Watch {
    watched: Arc<watch::Sender<Watched>>,
    topic: Topic,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watched.send_modify(|watched| *watched.of(self.topic) -= 1);
    }
}

/// What a finding of [`Client::diagnose`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnosisFinding {
    /// A stable id.
    pub id: String,
    /// `good`, `note`, `warning` or `error`.
    pub severity: String,
    /// An English text that says what to do.
    pub text: String,
    /// Its arguments.
    pub details: Details,
}

/// The connection to the service. Dropping it ends its thread.
#[derive(Debug)]
pub struct Client {
    runtime: Handle,
    bus: watch::Receiver<Option<Connection>>,
    watched: Arc<watch::Sender<Watched>>,
    impatience: Arc<Notify>,
    _end: tokio::sync::oneshot::Sender<()>,
}

impl Client {
    /// Starts the thread that connects and listens. `on_change` runs on it, first with what is known at the start and
    /// then whenever that changes; it must not block.
    pub fn start(bus: Bus, on_change: impl FnMut(&ClientState) + Send + 'static) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (connections, connection) = watch::channel(None);
        let (watched, wanted) = watch::channel(Watched::default());
        let impatience = Arc::new(Notify::new());
        let (end, ended) = tokio::sync::oneshot::channel();
        let handle = runtime.handle().clone();
        let follower = follow::TopicFollower::new(bus, on_change, connections, wanted, Arc::clone(&impatience));
        thread::Builder::new().name("scherzo-client".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = follower.follow() => {}
                    // Ends when the client is dropped: nothing is ever sent.
                    _ = ended => {}
                }
            });
            // A call that somebody still waits for is given up.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, bus: connection, watched: Arc::new(watched), impatience, _end: end })
    }

    /// Follows a topic until the result is dropped.
    pub fn watch(&self, topic: Topic) -> Watch {
        self.watched.send_modify(|watched| *watched.of(topic) += 1);
        Watch { watched: Arc::clone(&self.watched), topic }
    }

    /// Tries at once what would be tried again later: the bus, or a service that did not answer.
    pub fn retry(&self) {
        self.impatience.notify_one();
    }

    /// Asks the bus to start the service. Calls do so as well.
    pub async fn start_service(&self) -> Result<(), Error> {
        self.call(|bus| async move { patience::change(&bus, follow::start_service(&bus)).await }).await
    }

    /// See `SetEnabled`.
    pub async fn set_enabled(&self, enabled: bool) -> Result<(), Error> {
        self.change(move |service| async move { service.set_enabled(enabled).await }).await
    }

    /// See `SetMode`.
    pub async fn set_mode(&self, mode: RequestedMode) -> Result<(), Error> {
        self.change(move |service| async move { service.set_mode(mode.name()).await }).await
    }

    /// See `SetPreemption`.
    pub async fn set_preemption(&self, preemption: bool) -> Result<(), Error> {
        self.change(move |service| async move { service.set_preemption(preemption).await }).await
    }

    /// See `SetEngine`.
    pub async fn set_engine(&self, seat: Seat) -> Result<(), Error> {
        self.change(move |service| async move { service.set_engine(seat.name()).await }).await
    }

    /// See `ReleaseMode`.
    pub async fn release_mode(&self, cookie: u32) -> Result<(), Error> {
        self.change(move |service| async move { service.release_mode(cookie).await }).await
    }

    /// See `Configure`, for one setting.
    pub async fn configure(&self, key: &'static str, value: impl Into<Variant<'static>>) -> Result<(), Error> {
        let settings = HashMap::from([(key, value.into())]);
        self.change(move |service| async move { service.configure(settings).await }).await
    }

    /// See `Diagnose`.
    pub async fn diagnose(&self) -> Result<Vec<DiagnosisFinding>, Error> {
        let findings = self.ask(|service| async move { service.diagnose().await }).await?;
        let finding =
            |(id, severity, text, wire)| DiagnosisFinding { id, severity, text, details: details::from_wire(&wire) };
        Ok(findings.into_iter().map(finding).collect())
    }

    /// Waits for the answer to a question, but not long.
    async fn ask<T, Answer>(
        &self,
        question: impl FnOnce(SchedulerProxy<'static>) -> Answer + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        Answer: Future<Output = Result<T, Error>> + Send,
    {
        self.call(|bus| patience::read(async move { question(follow::scheduler(&bus).await?).await })).await
    }

    /// Waits for a change, longer than for an answer.
    async fn change<Answer>(
        &self,
        change: impl FnOnce(SchedulerProxy<'static>) -> Answer + Send + 'static,
    ) -> Result<(), Error>
    where
        Answer: Future<Output = Result<(), Error>> + Send,
    {
        self.call(
            |bus| async move { patience::change(&bus, async { change(follow::scheduler(&bus).await?).await }).await },
        )
        .await
    }

    /// Does it on the client's own thread, where the connection lives, so that any executor may wait for it.
    async fn call<T, Answer>(&self, call: impl FnOnce(Connection) -> Answer) -> Result<T, Error>
    where
        T: Send + 'static,
        Answer: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let bus = self.bus.borrow().clone();
        let answer = call(bus.ok_or_else(gone)?);
        self.runtime.spawn(answer).await.unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> Error {
    zbus::Error::FDO(Box::new(zbus::fdo::Error::Disconnected("The bus is not reachable.".to_owned()))).into()
}
