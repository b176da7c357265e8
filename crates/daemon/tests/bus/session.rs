//! People who log in: a pretended logind on the same bus.

use std::time::Duration;

use rustix::process::Signal;
use zbus::object_server::{InterfaceRef, SignalEmitter};
use zbus::{ObjectPath, OwnedObjectPath};

use crate::support::{Client, Stage};

struct Login {
    uids: Vec<u32>,
}

fn path() -> OwnedObjectPath {
    ObjectPath::from_static_str_unchecked("/org/freedesktop/login1/session/_1").into()
}

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Login {
    fn list_sessions(&self) -> Vec<(String, u32, String, String, OwnedObjectPath)> {
        self.uids.iter().map(|uid| ("1".into(), *uid, "someone".into(), "seat0".into(), path())).collect()
    }

    #[zbus(signal)]
    async fn session_new(to: &SignalEmitter<'_>, id: &str, path: OwnedObjectPath) -> zbus::Result<()>;
}

#[tokio::test]
async fn the_first_person_who_logs_in_ends_the_wait() {
    let stage = Stage::new();
    let login = zbus::connection::Builder::address(stage.address.as_str())
        .serve_at("/org/freedesktop/login1", Login { uids: vec![0, 60_578] })
        .name("org.freedesktop.login1")
        .build()
        .await
        .unwrap();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    daemon.signal(Signal::TERM);
    daemon.end();
    std::fs::remove_file(stage.file("run/scherzo/started")).unwrap();
    let _daemon = stage.serve(&[]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(client.snapshot().await.reason, "boot-delay", "root and the greeter are nobody who waits for it");

    let manager: InterfaceRef<Login> = login.object_server().interface("/org/freedesktop/login1").await.unwrap();
    manager.get_mut().await.uids.push(1000);
    Login::session_new(manager.signal_emitter(), "1", path()).await.unwrap();
    client.wait_for_state("running").await;
}
