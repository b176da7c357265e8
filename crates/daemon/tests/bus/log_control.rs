//! `org.freedesktop.LogControl1`: what `systemctl service-log-level scherzod` does.

use rustix::process::Signal;
use scherzo_api::names::BUS_NAME;
use zbus::Proxy;
use zbus::proxy::{self, CacheProperties};

use crate::support::{Client, Stage};

#[tokio::test]
async fn what_is_logged_changes_while_the_service_runs() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let interface = "org.freedesktop.LogControl1";
    let control = proxy::Builder::<Proxy<'_>>::new(&client.bus).destination(BUS_NAME).interface(interface);
    let control =
        control.path("/org/freedesktop/LogControl1").cache_properties(CacheProperties::No).build().await.unwrap();
    let level = async || control.get_property::<String>("LogLevel").await.unwrap();
    assert_eq!(
        (level().await.as_str(), control.get_property::<String>("SyslogIdentifier").await.unwrap()),
        ("info", "scherzod".into())
    );
    control.set_property("LogLevel", "debug").await.unwrap();
    assert_eq!(level().await, "debug");
    client.scheduler.set_mode("fifo").await.unwrap();
    control.set_property("LogLevel", "warning").await.unwrap();
    client.scheduler.set_mode("low-power").await.unwrap();
    assert_eq!(level().await, "warning");

    let refused = control.set_property("LogLevel", "chatty").await.unwrap_err();
    assert!(refused.to_string().contains("no such level"), "{refused}");
    control.set_property("LogTarget", "console").await.unwrap();
    control.set_property("LogTarget", "syslog").await.unwrap_err();

    daemon.signal(Signal::TERM);
    let log = daemon.end().1;
    assert!(log.contains("SetMode(Mode(Fifo))"), "the steps between were logged: {log}");
    assert!(!log.contains("low-power"), "nothing of what follows was: {log}");
}
