//! The bus on a thread of its own: reading calls, refusing them and writing answers never keep the loop, which supervises
//! the engine, from its work, however many calls there are.

use anyhow::Context;
use tokio::runtime;
use tokio::sync::oneshot;
use zbus::Connection;
use zbus::connection::Builder;

/// Threads that look at the host for clients; the unit's `TasksMax=` has room for them.
const MAX_BLOCKING_THREADS: usize = 4;

/// Connects, on a thread that serves the connection for as long as the process runs.
pub(crate) async fn connect(builder: Builder<'static>) -> anyhow::Result<Connection> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()
        .context("cannot prepare a thread for the bus")?;
    let (connected, connection) = oneshot::channel();
    let serve = async move {
        // Nobody waits for it if the service ends meanwhile.
        let _ = connected.send(builder.build().await);
        std::future::pending::<()>().await;
    };
    let thread = std::thread::Builder::new().name("bus".to_owned());
    thread.spawn(move || runtime.block_on(serve)).context("cannot start a thread for the bus")?;
    Ok(connection.await.context("the thread for the bus has ended")??)
}
