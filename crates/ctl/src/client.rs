//! The connection to the service.

use scherzo_api::names::BUS_NAME;
use scherzo_api::{SchedulerProxy, Snapshot};
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::DBusProxy;
use zbus::names::BusName;
use zbus::proxy::CacheProperties;

use crate::failure::{Failure, UNREACHABLE};

pub(crate) struct Client {
    pub(crate) bus: Connection,
}

impl Client {
    pub(crate) async fn connect(session: bool) -> Result<Self, Failure> {
        let (name, builder) = if session { ("session", Builder::session()) } else { ("system", Builder::system()) };
        let bus = builder.build().await.map_err(|error| {
            Failure::new(UNREACHABLE, format!("The {name} bus is not reachable ({error}). Is D-Bus running?"))
        })?;
        Ok(Self { bus })
    }

    /// The service; calling it starts it where it is installed.
    pub(crate) async fn scheduler(&self) -> Result<SchedulerProxy<'static>, Failure> {
        Ok(SchedulerProxy::builder(&self.bus).cache_properties(CacheProperties::No).build().await?)
    }

    /// Whether the service runs. Asking does not start it.
    pub(crate) async fn is_served(&self) -> Result<bool, Failure> {
        let proxy = DBusProxy::new(&self.bus).await?;
        let name = BusName::from_static_str(BUS_NAME)?;
        Ok(proxy.name_has_owner(name).await.map_err(zbus::Error::from)?)
    }

    /// The properties of a service that runs already.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, Failure> {
        if !self.is_served().await? {
            return Err(Failure::unreachable());
        }
        Ok(Snapshot::read(&self.bus).await?)
    }
}
