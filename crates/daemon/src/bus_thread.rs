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

    use scherzo_test_bus::PrivateBus;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn calls_are_taken_from_the_start() {
        let private = PrivateBus::start();
        let address = private.address().try_into().unwrap();
        let service = connect(address, Arc::default(), LogControl { trusted_uid: None }).await.unwrap();
        let client = Builder::address(private.address()).build().await.unwrap();
        let name = service.unique_name().unwrap();
        let ping = client.call_method(Some(name), "/", Some("org.freedesktop.DBus.Peer"), "Ping", &());
        timeout(Duration::from_secs(10), ping).await.expect("somebody answers").unwrap();
    }
}
