//! The connection to the service.

use scherzo_api::names::BUS_NAME;
use scherzo_api::{SchedulerProxy, Snapshot};
use scherzo_i18n::{fill, gettext};
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::DBusProxy;
use zbus::names::{BusName, OwnedUniqueName};
use zbus::proxy::CacheProperties;

use crate::failure::{Failure, UNREACHABLE};

pub(crate) struct Client {
    pub(crate) bus: Connection,
}

impl Client {
    pub(crate) async fn connect(session: bool) -> Result<Self, Failure> {
        let builder = if session { Builder::session() } else { Builder::system() };
        let bus = builder.build().await.map_err(|error| {
            let sentence = if session {
                gettext("The session bus is not reachable ({error}). Is D-Bus running?")
            } else {
                gettext("The system bus is not reachable ({error}). Is D-Bus running?")
            };
            Failure::new(UNREACHABLE, fill(&sentence, &[("error", &error)]))
        })?;
        Ok(Self { bus })
    }

    /// The service; calling it starts it where it is installed.
    pub(crate) async fn scheduler(&self) -> Result<SchedulerProxy<'static>, Failure> {
        Ok(SchedulerProxy::builder(&self.bus).cache_properties(CacheProperties::No).build().await?)
    }

    /// Whether the service runs. Asking does not start it.
    pub(crate) async fn is_served(&self) -> Result<bool, Failure> {
        Ok(self.owner().await?.is_some())
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
        if !self.is_served().await? {
            return Err(Failure::unreachable());
        }
        Ok(Snapshot::read(&self.bus).await?)
    }
}
