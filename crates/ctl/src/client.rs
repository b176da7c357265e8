//! The connection to the service.

use scherzo_api::names::BUS_NAME;
use scherzo_api::{Error, SchedulerProxy, Snapshot, patience};
use scherzo_i18n::{fill, gettext};
use tokio::time::timeout;
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::DBusProxy;
use zbus::names::{BusName, OwnedUniqueName};
use zbus::proxy::CacheProperties;

use crate::failure::{Failure, Kind};

#[derive(Clone)]
pub(crate) struct CommandClient {
    pub(crate) bus: Connection,
}

impl CommandClient {
    pub(crate) async fn connect(session: bool) -> Result<Self, Failure> {
        let builder = if session { Builder::session() } else { Builder::system() };
        let Ok(built) = timeout(patience::READ, builder.build()).await else {
            return Err(Failure::new(Kind::NoAnswer, gettext("The message bus does not answer.")));
        };
        let bus = built.map_err(|error| {
            let sentence = if session {
                gettext("The session bus is not reachable ({error}). Is D-Bus running?")
            } else {
                gettext("The system bus is not reachable ({error}). Is D-Bus running?")
            };
            Failure::new(Kind::Unreachable, fill(&sentence, &[("error", &error)]))
        })?;
        Ok(Self { bus })
    }

    /// The service; calling it starts it where it is installed.
    pub(crate) async fn scheduler(&self) -> Result<SchedulerProxy<'static>, Failure> {
        Ok(SchedulerProxy::builder(&self.bus).cache_properties(CacheProperties::No).build().await?)
    }

    /// The service if it runs already; else a failure that says so. Asking does not start it.
    pub(crate) async fn running(&self) -> Result<SchedulerProxy<'static>, Failure> {
        match self.owner().await? {
            Some(owner) => self.scheduler_at(owner).await,
            None => Err(Failure::unreachable()),
        }
    }

    /// The connection that serves, if the service runs. Asking does not start it.
    pub(crate) async fn owner(&self) -> Result<Option<OwnedUniqueName>, Failure> {
        let proxy = DBusProxy::new(&self.bus).await?;
        match proxy.get_name_owner(BusName::from_static_str(BUS_NAME)?).await {
            Ok(owner) => Ok(Some(owner)),
            Err(zbus::fdo::Error::NameHasNoOwner(_)) => Ok(None),
            Err(error) => Err(zbus::Error::from(error).into()),
        }
    }

    /// The service behind this connection and no other: calls fail once it has ended.
    pub(crate) async fn scheduler_at(&self, owner: OwnedUniqueName) -> Result<SchedulerProxy<'static>, Failure> {
        let builder = SchedulerProxy::builder(&self.bus).cache_properties(CacheProperties::No);
        Ok(builder.destination(owner).build().await?)
    }

    /// The properties of a service that runs already.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, Failure> {
        self.running().await?;
        Ok(Snapshot::read(&self.bus).await?)
    }

    /// Waits for a change, see [`patience::change`].
    pub(crate) async fn change<T, Answer>(
        &self,
        change: impl FnOnce(SchedulerProxy<'static>) -> Answer,
    ) -> Result<T, Failure>
    where
        Answer: Future<Output = Result<T, Error>>,
    {
        patience::change(&self.bus, async { Ok(change(self.scheduler().await?).await?) }).await
    }
}
