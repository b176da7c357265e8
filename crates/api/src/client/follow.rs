//! Following the service: what happens on the client's own thread.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream, PropertiesProxy};
use zbus::names::{BusName, InterfaceName, OwnedUniqueName, WellKnownName};
use zbus::proxy::CacheProperties;

use super::{Bus, ClientEvent, ClientState, Entry, Exit, Link, Reading, Watched};
use crate::details;
use crate::histogram::Waits;
use crate::names::{BUS_NAME, INTERFACE, OBJECT_PATH};
use crate::patience::{self, READ};
use crate::stats::Stats;
use crate::{Error, SchedulerProxy, Snapshot};

/// Wait before the bus is tried again, at first and at most.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_AT_MOST: Duration = Duration::from_secs(30);
/// Wait before a service that did not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// A proxy without a cache of properties.
pub(super) async fn scheduler(bus: &Connection) -> zbus::Result<SchedulerProxy<'static>> {
    SchedulerProxy::builder(bus).cache_properties(CacheProperties::No).build().await
}

pub(super) async fn start_service(bus: &Connection) -> Result<(), Error> {
    let name = WellKnownName::from_static_str_unchecked(BUS_NAME);
    let started = DBusProxy::new(bus).await?.start_service_by_name(name, 0).await;
    started.map(drop).map_err(|problem| zbus::Error::from(problem).into())
}

pub(super) struct TopicFollower<F> {
    bus: Bus,
    on_change: F,
    state: ClientState,
    connections: watch::Sender<Option<Connection>>,
    wanted: watch::Receiver<Watched>,
    impatience: Arc<Notify>,
}

impl<F: FnMut(&ClientState)> TopicFollower<F> {
    pub(super) fn new(
        bus: Bus,
        on_change: F,
        connections: watch::Sender<Option<Connection>>,
        wanted: watch::Receiver<Watched>,
        impatience: Arc<Notify>,
    ) -> Self {
        Self { bus, on_change, state: ClientState::default(), connections, wanted, impatience }
    }

    pub(super) async fn follow(mut self) {
        (self.on_change)(&self.state);
        let mut wait = RETRY;
        loop {
            let problem = match self.connect().await {
                Ok(bus) => {
                    wait = RETRY;
                    self.connections.send_replace(Some(bus.clone()));
                    let ended = self.follow_bus(&bus).await;
                    self.connections.send_replace(None);
                    ended.err().map_or_else(|| "the connection was closed".to_owned(), |error| error.to_string())
                }
                Err(error) => error.to_string(),
            };
            self.hear(ClientEvent::BusLost(problem));
            tokio::select! {
                () = sleep(wait) => wait = (wait * 2).min(RETRY_AT_MOST),
                () = self.impatience.notified() => wait = RETRY,
            }
        }
    }

    async fn connect(&self) -> zbus::Result<Connection> {
        let builder = match &self.bus {
            Bus::System => Builder::system(),
            Bus::Session => Builder::session(),
            Bus::Address(address) => Builder::address(address.as_str()),
        };
        let silent = || zbus::Error::Failure("the bus does not answer".to_owned());
        timeout(READ, builder.build()).await.unwrap_or_else(|_| Err(silent()))
    }

    /// Until the bus is lost.
    async fn follow_bus(&mut self, bus: &Connection) -> Result<(), Error> {
        let registry = DBusProxy::new(bus).await?;
        // Subscribed before the first question, so that no change between the two is missed.
        let mut owners = registry.receive_name_owner_changed_with_args(&[(0, BUS_NAME)]).await?;
        let mut installed = registry.inner().receive_signal("ActivatableServicesChanged").await?;
        loop {
            if let Some(owner) = patience::read(owner(&registry)).await? {
                self.follow_service(bus, &owner, &mut owners).await?;
            } else {
                let names = registry.list_activatable_names().await.map_err(zbus::Error::from)?;
                self.hear(ClientEvent::ServiceAbsent(names.iter().any(|name| name.as_str() == BUS_NAME)));
                tokio::select! {
                    Some(_) = owners.next() => {}
                    // Something was installed or removed.
                    Some(_) = installed.next() => {}
                    () = self.impatience.notified() => {}
                    () = bus.closed() => return Ok(()),
                }
            }
            if bus.is_closed() {
                return Ok(());
            }
        }
    }

    /// Follows the service until it leaves the bus. Calls go to its unique name: for the well-known name the bus would
    /// start another service.
    async fn follow_service(
        &mut self,
        bus: &Connection,
        owner: &OwnedUniqueName,
        owners: &mut NameOwnerChangedStream,
    ) -> Result<(), Error> {
        let service =
            SchedulerProxy::builder(bus).destination(owner).cache_properties(CacheProperties::No).build().await?;
        let properties = PropertiesProxy::builder(bus)
            .destination(owner)
            .path(OBJECT_PATH)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let mut changes = properties.receive_properties_changed().await?;
        let mut exits = service.receive_engine_exited().await?;
        let mut seconds = service.receive_stats_updated().await?;
        self.read(&properties).await;
        let mut served = Watched::default();
        loop {
            let is_served;
            (served, is_served) = self.serve_watches(&service, served).await;
            let is_silent = matches!(self.state.link, Link::NoAnswer { .. });
            tokio::select! {
                () = bus.closed() => return Ok(()),
                Some(_) = owners.next() => return Ok(()),
                Some(_) = changes.next() => {
                    self.read(&properties).await;
                    // Every change of a property has an entry in the history.
                    served.nr_history = 0;
                }
                Some(exit) = exits.next() => if let Ok(exit) = exit.args() {
                    let details = details::from_wire(exit.details());
                    self.hear(ClientEvent::Exited(Exit { reason: exit.reason().clone(), details }));
                },
                Some(second) = seconds.next() => if let Ok(second) = second.args() {
                    self.read_waits(&service, Stats::from_wire(second.stats())).await;
                },
                // It fails only when the client has been dropped, which ends this future as well.
                _ = self.wanted.changed() => {}
                () = sleep(ASK_AGAIN), if is_silent => self.read(&properties).await,
                () = sleep(ASK_AGAIN), if !is_served => {}
                () = self.impatience.notified() => self.read(&properties).await,
            }
        }
    }

    /// Subscribes to statistics, unsubscribes, or reads the history, as clients watch these topics; returns the topics
    /// that are served now, and whether these are all that are wanted: a user's other programs may subscribe to as much as a user may.
    async fn serve_watches(&mut self, service: &SchedulerProxy<'_>, served: Watched) -> (Watched, bool) {
        let wanted = *self.wanted.borrow_and_update();
        let (has, wants) = (served.nr_statistics > 0, wanted.nr_statistics > 0);
        let is_served = match (has, wants) {
            (false, true) => matches!(timeout(READ, service.subscribe()).await, Ok(Ok(()))),
            (true, false) => {
                // Whoever is sent statistics without wanting them ignores them.
                drop(timeout(READ, service.unsubscribe()).await);
                true
            }
            _ => true,
        };
        if served.nr_history == 0 && wanted.nr_history > 0 {
            self.read_history(service).await;
        }
        let nr_statistics = if is_served { wanted.nr_statistics } else { 0 };
        (Watched { nr_statistics, ..wanted }, is_served)
    }

    async fn read(&mut self, properties: &PropertiesProxy<'_>) {
        let read = async {
            let all = properties.get_all(InterfaceName::from_static_str_unchecked(INTERFACE)).await;
            all.map_err(|problem| problem.to_string())
        };
        let event = match timeout(READ, read).await {
            Ok(Ok(all)) => ClientEvent::Properties(Box::new(Snapshot::from_properties(all))),
            Ok(Err(problem)) => ClientEvent::ServiceSilent(problem),
            Err(elapsed) => ClientEvent::ServiceSilent(elapsed.to_string()),
        };
        self.hear(event);
    }

    async fn read_waits(&mut self, service: &SchedulerProxy<'_>, stats: Stats) {
        // An error means that the scheduler has just been unloaded; a change of State follows.
        if let Ok(Ok(waits)) = timeout(READ, service.get_wait_histogram()).await {
            let waits = Waits::from_wire(&waits);
            self.hear(ClientEvent::Statistics(Box::new(Reading { stats, waits })));
        }
    }

    async fn read_history(&mut self, service: &SchedulerProxy<'_>) {
        if let Ok(Ok(entries)) = timeout(READ, service.get_history(0)).await {
            let entry = |(time_s, event, wire)| Entry { time_s, event, details: details::from_wire(&wire) };
            self.hear(ClientEvent::History(entries.into_iter().map(entry).collect()));
        }
    }

    fn hear(&mut self, event: ClientEvent) {
        if self.state.apply(event) {
            (self.on_change)(&self.state);
        }
    }
}

/// The unique name of the service, if it runs. Asking does not start it.
async fn owner(registry: &DBusProxy<'_>) -> Result<Option<OwnedUniqueName>, Error> {
    match registry.get_name_owner(BusName::from_static_str(BUS_NAME)?).await {
        Ok(owner) => Ok(Some(owner)),
        Err(zbus::fdo::Error::NameHasNoOwner(_)) => Ok(None),
        Err(problem) => Err(zbus::Error::from(problem).into()),
    }
}
