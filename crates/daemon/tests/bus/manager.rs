//! What a service manager is told, as systemd would hear it.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{PATIENCE, Stage};

/// The next message, which has to come.
fn hear(socket: &UnixDatagram) -> String {
    let mut message = [0; 256];
    let length = socket.recv(&mut message).expect("the service says something");
    String::from_utf8_lossy(&message[..length]).into_owned()
}

/// The next message about something else than that the service lives.
fn hear_news(socket: &UnixDatagram) -> String {
    loop {
        let message = hear(socket);
        if message != "WATCHDOG=1\n" {
            return message;
        }
    }
}

#[tokio::test]
async fn the_service_manager_hears_when_it_serves_reloads_lives_and_ends() {
    let stage = Stage::new();
    let path = stage.file("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let limit = Duration::from_millis(400).as_micros().to_string();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", &limit)];
    let daemon = stage.spawn_with(&[], &environment);
    assert_eq!(hear_news(&socket), "READY=1\n");
    for _ in 0..3 {
        assert_eq!(hear(&socket), "WATCHDOG=1\n");
    }
    daemon.signal(Signal::HUP);
    let reloading = hear_news(&socket);
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(hear_news(&socket), "READY=1\n");
    daemon.signal(Signal::TERM);
    assert_eq!(hear_news(&socket), "STOPPING=1\n");
    assert_eq!(daemon.end().0, Some(0));
}
