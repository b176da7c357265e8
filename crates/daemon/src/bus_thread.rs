//! The bus on a thread of its own: reading calls, refusing them and writing answers never keep the loop, which supervises
//! the engine, from its work, however many calls there are.

use std::sync::Arc;

use anyhow::Context;
use tokio::runtime;
use tokio::sync::oneshot;
use zbus::connection::Builder;
use zbus::{Address, Connection};

use crate::bus_socket::BusSocket;
use crate::callers::Callers;
use crate::log_control::{self, LogControl};

/// Threads that look at the host for clients; the unit's `TasksMax=` has room for them.
const MAX_BLOCKING_THREADS: usize = 4;

/// Connects, on a thread that serves the connection for as long as the process runs.
///
/// The connection takes calls when this returns, because something is served from the start. If the first object were added
/// later, a call that the thread reads before it has begun to take calls would be lost: nobody would ever answer it. Such a call
/// comes with the bus's answer to the request for the name if the service is started by it, or if the thread waits for a CPU.
pub(crate) async fn connect(
    address: Address,
    callers: Arc<Callers>,
    log_control: LogControl,
) -> anyhow::Result<Connection> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()
        .context("cannot prepare a thread for the bus")?;
    let (connected, connection) = oneshot::channel();
    let serve = async move {
        // Nobody waits for it if the service ends meanwhile.
        let _ = connected.send(build(&address, callers, log_control).await);
        std::future::pending::<()>().await;
    };
    let thread = std::thread::Builder::new().name("bus".to_owned());
    thread.spawn(move || runtime.block_on(serve)).context("cannot start a thread for the bus")?;
    connection.await.context("the thread for the bus has ended")?
}

async fn build(address: &Address, callers: Arc<Callers>, log_control: LogControl) -> anyhow::Result<Connection> {
    let socket = BusSocket::connect(address, callers).await?;
    Ok(Builder::socket(socket).serve_at(log_control::PATH, log_control).build().await?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use scherzo_api::names::{INTERFACE, OBJECT_PATH};
    use scherzo_test_bus::PrivateBus;
    use tokio::time::{sleep, timeout};
    use zbus::Message;

    use super::*;
    use crate::callers::{Cost, Fate, WaitingCall};

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A call of this user's that has its turn until a minute is over.
    fn occupy_the_turn(callers: &Callers, uid: u32) {
        let sender = "occupant".to_owned();
        let call = WaitingCall { sender, serial: 1, cost: Cost::Long, wants_answer: true, bytes: Vec::new() };
        callers.know("occupant".into(), Some(uid));
        assert!(matches!(callers.come(call), Fate::Begins(_)));
    }

    async fn until(done: impl Fn() -> bool) {
        let waiting = async {
            while !done() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("in time");
    }

    #[tokio::test]
    async fn calls_of_a_program_that_has_gone_wait_for_no_turn() {
        let private = PrivateBus::start();
        let address = private.address().try_into().unwrap();
        let callers: Arc<Callers> = Arc::default();
        let service = connect(address, Arc::clone(&callers), LogControl { trusted_uid: None }).await.unwrap();
        occupy_the_turn(&callers, rustix::process::getuid().as_raw());
        let client = Builder::address(private.address()).build().await.unwrap();
        let call = Message::method_call(OBJECT_PATH, "GetHistory").interface(INTERFACE);
        let call = call.destination(service.unique_name().unwrap()).build(&(0u32,)).unwrap();
        client.send(&call).await.unwrap();
        let name = client.unique_name().unwrap().to_string();
        until(|| callers.knows(&name) && callers.has_waiting()).await;
        client.close().await.unwrap();
        until(|| !callers.has_waiting()).await;
    }

    #[tokio::test]
    async fn calls_are_taken_from_the_start() {
        let private = PrivateBus::start();
        let address = private.address().try_into().unwrap();
        let service = connect(address, Arc::default(), LogControl { trusted_uid: None }).await.unwrap();
        let client = Builder::address(private.address()).build().await.unwrap();
        let name = service.unique_name().unwrap();
        let ping = client.call_method(Some(name), "/", Some("org.freedesktop.DBus.Peer"), "Ping", &());
        timeout(PATIENCE, ping).await.expect("somebody answers").unwrap();
    }
}
