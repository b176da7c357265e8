//! Reading properties takes turns, as calls do: what is here stands in the place of the library's own interface at the service's
//! object, and has that answer once the turn has come. Until then a call takes little memory.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use scherzo_api::names::OBJECT_PATH;
use zbus::export::async_trait::async_trait;
use zbus::fdo;
use zbus::message::Header;
use zbus::names::{InterfaceName, MemberName};
use zbus::object_server::{DispatchResult, Interface, ObjectServer, SignalEmitter};
use zbus::{BoxDBusError, Connection, Message, OwnedVariant, Variant};

use crate::callers::{Callers, Cost};

/// `org.freedesktop.DBus.Properties` of the service's object.
pub(crate) struct Properties {
    callers: Arc<Callers>,
}

impl Properties {
    /// Takes the place of the library's. The service's own interface is there already.
    pub(crate) async fn serve(server: &ObjectServer, callers: Arc<Callers>) -> zbus::Result<()> {
        server.remove::<fdo::Properties, _>(OBJECT_PATH).await?;
        server.at(OBJECT_PATH, Self { callers }).await.map(drop)
    }

    async fn answer(
        &self,
        server: &ObjectServer,
        bus: &Connection,
        call: &Message,
        member: MemberName<'_>,
    ) -> Result<(), BoxDBusError> {
        let admitted = self.callers.admit(bus, &call.header(), Cost::Read).await;
        let _admitted = admitted.map_err(|error| -> BoxDBusError { Box::new(error) })?;
        match fdo::Properties.call(server, bus, call, member.as_ref()) {
            DispatchResult::Async(answer) => answer.await,
            _ => Err(Box::new(fdo::Error::UnknownMethod(format!("Unknown method '{member}'")))),
        }
    }
}

/// The interface has no properties itself.
#[async_trait]
impl Interface for Properties {
    fn name() -> InterfaceName<'static> {
        fdo::Properties::name()
    }

    async fn get(
        &self,
        _: &str,
        _: &ObjectServer,
        _: &Connection,
        _: Option<&Header<'_>>,
        _: &SignalEmitter<'_>,
    ) -> Option<Result<OwnedVariant, BoxDBusError>> {
        None
    }

    async fn get_all(
        &self,
        _: &ObjectServer,
        _: &Connection,
        _: Option<&Header<'_>>,
        _: &SignalEmitter<'_>,
    ) -> fdo::Result<HashMap<String, OwnedVariant>> {
        Ok(HashMap::new())
    }

    async fn set_mut(
        &mut self,
        _: &str,
        _: &Variant<'_>,
        _: &ObjectServer,
        _: &Connection,
        _: Option<&Header<'_>>,
        _: &SignalEmitter<'_>,
    ) -> Option<Result<(), BoxDBusError>> {
        None
    }

    fn call<'call>(
        &'call self,
        server: &'call ObjectServer,
        bus: &'call Connection,
        call: &'call Message,
        member: MemberName<'call>,
    ) -> DispatchResult<'call> {
        DispatchResult::Async(Box::pin(self.answer(server, bus, call, member)))
    }

    fn call_mut<'call>(
        &'call mut self,
        _: &'call ObjectServer,
        _: &'call Connection,
        _: &'call Message,
        _: MemberName<'call>,
    ) -> DispatchResult<'call> {
        DispatchResult::NotFound
    }

    fn introspect_to_writer(&self, writer: &mut dyn Write, level: usize) {
        fdo::Properties.introspect_to_writer(writer, level);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::getuid;
    use scherzo_test_bus::PrivateBus;
    use tokio::time::timeout;
    use zbus::connection::Builder;

    use super::*;

    struct Numbers;

    #[zbus::interface(name = "org.example.Numbers")]
    impl Numbers {
        #[zbus(property)]
        fn one(&self) -> u32 {
            1
        }
    }

    #[tokio::test]
    async fn reading_a_single_property_takes_a_turn() {
        let private = PrivateBus::start();
        let connect = || Builder::address(private.address());
        let service = connect().serve_at(OBJECT_PATH, Numbers).build().await.unwrap();
        let callers = Arc::<Callers>::default();
        Properties::serve(service.object_server(), Arc::clone(&callers)).await.unwrap();
        let (client, name) = (connect().build().await.unwrap(), service.unique_name().unwrap());
        let read = async |property: &str| {
            let asked = ("org.example.Numbers", property);
            let answer = client.call_method(Some(name), OBJECT_PATH, Some(Properties::name()), "Get", &asked).await;
            answer.map(|answer| u32::try_from(answer.body().deserialize::<Variant<'_>>().unwrap()).unwrap())
        };
        assert_eq!(read("One").await.unwrap(), 1);
        read("Two").await.unwrap_err();
        let turns = callers.take_all_reads(Some(getuid().as_raw())).await;
        let mut waiting = Box::pin(read("One"));
        timeout(Duration::from_millis(100), &mut waiting).await.expect_err("it has no turn");
        drop(turns);
        assert_eq!(waiting.await.unwrap(), 1);
    }
}
