//! Modes that programs hold.

use std::time::Duration;

use futures_util::StreamExt;
use rustix::process::Signal;
use scherzo_api::Error;
use scherzo_api::details::Detail;
use scherzo_api::names::OBJECT_PATH;
use tokio::time::timeout;
use zbus::MessageStream;
use zbus::fdo::MonitoringProxy;

use crate::support::{Client, PATIENCE, Stage, eventually};

async fn wait_for_mode(client: &Client, mode: &str, reason: &str) {
    let as_wanted = async || {
        let now = client.snapshot().await;
        now.mode == mode && now.reason == reason
    };
    eventually(&format!("{mode} because of {reason}"), as_wanted).await;
}

#[tokio::test]
async fn a_hold_lasts_as_long_as_its_holder() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let (client, holder) = (Client::new(&stage).await, Client::new(&stage).await);
    client.scheduler.set_enabled(true).await.unwrap();
    let first = holder.scheduler.hold_mode("fifo", "counting", "org.example.Counter").await.unwrap();
    wait_for_mode(&client, "fifo", "hold").await;
    let now = client.snapshot().await;
    assert!(now.why().contains("org.example.Counter"), "{}", now.why());
    assert_eq!(now.holds.len(), 1);
    assert_eq!(now.holds[0]["cookie"], Detail::Number(first.into()));
    assert_eq!(now.holds[0]["reason"], Detail::from("counting"), "the same user may read it");

    let second = holder.scheduler.hold_mode("low-power", "resting", "org.example.Counter").await.unwrap();
    wait_for_mode(&client, "low-power", "hold").await;
    holder.scheduler.release_mode(second).await.unwrap();
    wait_for_mode(&client, "fifo", "hold").await;
    assert!(matches!(holder.scheduler.release_mode(second).await, Err(Error::NoSuchHold(_))));

    holder.bus.close().await.unwrap();
    wait_for_mode(&client, "interactive", "default").await;
    assert!(client.snapshot().await.holds.is_empty());
    assert_eq!(stage.kernel().enable_seq, 1);
}

#[tokio::test]
async fn a_hold_by_descriptor_lasts_until_the_last_copy_is_closed() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let (client, holder) = (Client::new(&stage).await, Client::new(&stage).await);
    client.scheduler.set_enabled(true).await.unwrap();
    let (descriptor, _) = holder.scheduler.open_hold("fifo", "counting", "org.example.Counter", 0).await.unwrap();
    wait_for_mode(&client, "fifo", "hold").await;
    let descriptor = std::os::fd::OwnedFd::from(descriptor);
    let copy = descriptor.try_clone().unwrap();
    drop(descriptor);
    holder.bus.close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(client.snapshot().await.holds.len(), 1, "its holder has left the bus, but a copy is open");
    drop(copy);
    wait_for_mode(&client, "interactive", "default").await;

    let (descriptor, cookie) = client.scheduler.open_hold("fifo", "more", "org.example.Counter", 0).await.unwrap();
    client.scheduler.release_mode(cookie).await.unwrap();
    wait_for_mode(&client, "interactive", "default").await;
    drop(descriptor);
    for (mode, seconds) in [("auto", 0), ("turbo", 0), ("fifo", u32::MAX)] {
        let refused = client.scheduler.open_hold(mode, "why", "org.example.Counter", seconds).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidMode(_) | Error::InvalidArgs(_)), "{refused:?}");
    }
    let mut descriptors = Vec::new();
    let refused = loop {
        match client.scheduler.open_hold("fifo", "many", "org.example.Counter", 0).await {
            Ok((descriptor, _)) => descriptors.push(descriptor),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(&refused, Error::LimitReached(_)) && descriptors.len() == 32, "{refused:?}");
    descriptors.clear();
    wait_for_mode(&client, "interactive", "default").await;
}

#[tokio::test]
async fn holds_and_choices_end_by_themselves() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    let mut released = client.scheduler.receive_hold_released().await.unwrap();
    let (_descriptor, cookie) =
        client.scheduler.open_hold("fifo", "soon over", "org.example.Counter", 1).await.unwrap();
    wait_for_mode(&client, "fifo", "hold").await;
    assert!(client.snapshot().await.holds[0].contains_key("until"));
    let told = timeout(PATIENCE, released.next()).await.unwrap().unwrap();
    assert_eq!(*told.args().unwrap().cookie(), cookie);
    wait_for_mode(&client, "interactive", "default").await;

    client.scheduler.set_mode_for("low-power", 4).await.unwrap();
    let now = client.snapshot().await;
    assert_eq!((now.mode.as_str(), now.requested_mode.as_str()), ("low-power", "low-power"));
    assert!(now.requested_mode_until > 1_700_000_000);
    daemon.signal(Signal::TERM);
    daemon.end();
    let _daemon = stage.serve(&[]).await;
    let again = client.snapshot().await;
    assert_eq!(again.requested_mode_until, now.requested_mode_until, "the end is kept across restarts");
    eventually("auto again", async || client.snapshot().await.requested_mode == "auto").await;
    assert_eq!(client.snapshot().await.requested_mode_until, 0);
    for (mode, seconds) in [("auto", 60), ("fifo", 0), ("fifo", u32::MAX)] {
        let refused = client.scheduler.set_mode_for(mode, seconds).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidMode(_) | Error::InvalidArgs(_)), "{refused:?}");
    }
}

/// Everything that the service sends to nobody in particular.
async fn broadcasts(stage: &Stage) -> MessageStream {
    let monitor = stage.connect().await;
    let messages = MessageStream::from(&monitor);
    let rule = format!("type='signal',path='{OBJECT_PATH}'");
    MonitoringProxy::new(&monitor)
        .await
        .unwrap()
        .become_monitor(&[rule.as_str().try_into().unwrap()], 0)
        .await
        .unwrap();
    messages
}

#[tokio::test]
async fn broadcasts_do_not_say_which_application_holds_a_mode_and_why() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    let mut heard = broadcasts(&stage).await;
    let cookie = client.scheduler.hold_mode("fifo", "errand-of-mine", "org.example.Private").await.unwrap();
    wait_for_mode(&client, "fifo", "hold").await;
    client.scheduler.release_mode(cookie).await.unwrap();
    wait_for_mode(&client, "interactive", "default").await;
    let mut nr_of_hold = 0;
    while let Ok(message) = timeout(std::time::Duration::from_millis(200), heard.next()).await {
        let message = message.unwrap().unwrap();
        let body = String::from_utf8_lossy(message.body().data().bytes()).into_owned();
        assert!(!body.contains("errand-of-mine") && !body.contains("org.example.Private"), "{body}");
        nr_of_hold += u32::from(body.contains("cookie"));
    }
    assert!(nr_of_hold > 0, "it is told that somebody holds a mode");
    let (holds, past) = client.scheduler.inspect_holds().await.unwrap();
    assert_eq!((holds.len(), past.len()), (0, 1), "{past:?}");
    assert_eq!(String::try_from(past[0].2["application"].try_clone().unwrap()).unwrap(), "org.example.Private");
    let history = client.scheduler.get_history(0).await.unwrap();
    assert!(history.contains(&past[0]), "one's own holds are told in full");
}

#[tokio::test]
async fn holders_are_told_when_a_choice_releases_them() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let (client, holder) = (Client::new(&stage).await, Client::new(&stage).await);
    let mut told = holder.scheduler.receive_hold_released().await.unwrap();
    let mut not_told = client.scheduler.receive_hold_released().await.unwrap();
    let cookie = holder.scheduler.hold_mode("low-power", "resting", "org.example.Rest").await.unwrap();
    client.scheduler.set_mode("fifo").await.unwrap();
    let signal = timeout(PATIENCE, told.next()).await.unwrap().unwrap();
    assert_eq!(*signal.args().unwrap().cookie(), cookie);
    assert!(timeout(std::time::Duration::from_millis(20), not_told.next()).await.is_err(), "only the holder is told");
    let now = client.snapshot().await;
    assert!(now.holds.is_empty() && now.mode == "fifo");
    let uid = i64::from(rustix::process::geteuid().as_raw());
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(client.snapshot().await.reason_args["uid"], Detail::Number(uid), "whose choice it was");
}

#[tokio::test]
async fn a_service_that_is_to_end_does_not_wait_for_holders() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let holder = Client::new(&stage).await;
    holder.scheduler.hold_mode("fifo", "staying", "org.example.Stay").await.unwrap();
    holder.scheduler.subscribe().await.unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
}

#[tokio::test]
async fn senseless_holds_are_refused() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let before = client.snapshot().await;
    for (mode, reason, application) in [("auto", "a", "b"), ("turbo", "a", "b")] {
        let refused = client.scheduler.hold_mode(mode, reason, application).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidMode(_)), "{refused:?}");
    }
    let refused = client.scheduler.hold_mode("fifo", "", "b").await.unwrap_err();
    assert!(matches!(refused, Error::InvalidArgs(_)), "{refused:?}");
    assert_eq!(client.snapshot().await, before);
    for _ in 0..64 {
        client.scheduler.hold_mode("fifo", "many", "org.example.Many").await.unwrap();
    }
    let refused = client.scheduler.hold_mode("fifo", "many", "org.example.Many").await.unwrap_err();
    assert!(matches!(refused, Error::LimitReached(_)), "{refused:?}");
}
