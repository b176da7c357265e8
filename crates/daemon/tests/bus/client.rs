//! The client state that apps and applets share, beside the real service.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use scherzo_api::client::{Bus, Client, ClientState, Link, Topic};
use scherzo_api::types::{Mode, RequestedMode, State};
use scherzo_api::{Error, patience};
use zbus::connection::Builder;

use super::support::{PATIENCE, Stage};

fn start(stage: &Stage) -> (Client, Receiver<ClientState>) {
    let (states, inbox) = channel();
    let show = move |state: &ClientState| drop(states.send(state.clone()));
    (Client::start(Bus::Address(stage.address.clone()), show).unwrap(), inbox)
}

/// Waits for a state; the last one heard is in the failure.
fn wait(inbox: &Receiver<ClientState>, what: &str, is_it: impl Fn(&ClientState) -> bool) -> ClientState {
    let started = Instant::now();
    let mut last = None;
    while let Some(left) = PATIENCE.checked_sub(started.elapsed()) {
        match inbox.recv_timeout(left) {
            Ok(state) if is_it(&state) => return state,
            Ok(state) => last = Some(state),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => panic!("the client ended before: {what}"),
        }
    }
    panic!("{what}: {last:#?}")
}

fn is(state: State) -> impl Fn(&ClientState) -> bool {
    move |now| now.state() == Some(state)
}

#[tokio::test]
async fn the_service_may_come_go_and_return() {
    let stage = Stage::new();
    let (client, inbox) = start(&stage);
    wait(&inbox, "nobody serves", |now| now.link == Link::NoService { installed: false });
    assert!(client.set_enabled(true).await.unwrap_err().is_unreachable());
    let daemon = stage.serve(&[]).await;
    wait(&inbox, "it serves", is(State::Stopped));
    client.set_enabled(true).await.unwrap();
    wait(&inbox, "it runs", is(State::Running));
    drop(daemon);
    let gone = wait(&inbox, "it has gone", |now| now.link == Link::NoService { installed: false });
    assert_eq!(gone.state(), None);
    let _daemon = stage.serve(&[]).await;
    wait(&inbox, "it is back", |now| now.link == Link::Up);
}

#[tokio::test]
async fn calls_and_changes_by_others_show() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let (client, inbox) = start(&stage);
    client_ready(&inbox);
    client.set_mode(RequestedMode::Mode(Mode::Fifo)).await.unwrap();
    wait(&inbox, "the mode", |now| now.service.mode == "fifo");
    client.configure("boot_delay_s", 60u32).await.unwrap();
    wait(&inbox, "the setting", |now| {
        now.service.settings.get("boot_delay_s") == Some(&scherzo_api::Setting::Number(60))
    });
    let other = scherzo_api::SchedulerProxy::new(&stage.connect().await).await.unwrap();
    let cookie = other.hold_mode("low-power", "a film", "org.example.Player").await.unwrap();
    let held = wait(&inbox, "the hold", |now| now.service.holds.len() == 1);
    assert_eq!(held.service.holds[0]["application"].to_string(), "org.example.Player");
    client.release_mode(cookie).await.unwrap();
    wait(&inbox, "its release", |now| now.service.holds.is_empty());
    assert!(!client.diagnose().await.unwrap().is_empty());
}

fn client_ready(inbox: &Receiver<ClientState>) {
    wait(inbox, "the service is read", |now| now.link == Link::Up);
}

#[tokio::test]
async fn statistics_and_history_are_followed_while_watched() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let (client, inbox) = start(&stage);
    client_ready(&inbox);
    client.set_enabled(true).await.unwrap();
    let running = wait(&inbox, "it runs", is(State::Running));
    assert!(running.reading.is_none() && running.history.is_empty());
    let (statistics, _history) = (client.watch(Topic::Statistics), client.watch(Topic::History));
    wait(&inbox, "a reading", |now| now.reading.as_ref().is_some_and(|reading| reading.stats.nr_direct > 0));
    client.set_mode(RequestedMode::Mode(Mode::Fifo)).await.unwrap();
    wait(&inbox, "the entry", |now| now.history.iter().any(|entry| entry.event == "mode"));
    drop(statistics);
    std::thread::sleep(std::time::Duration::from_millis(500));
    while inbox.try_recv().is_ok() {}
    let silence = inbox.recv_timeout(std::time::Duration::from_secs(2));
    assert!(matches!(silence, Err(RecvTimeoutError::Timeout)), "{silence:?}");
    // A service that returns knows no subscribers: the client subscribes again.
    let _statistics = client.watch(Topic::Statistics);
    drop(daemon);
    stage.tree().unload().unwrap();
    wait(&inbox, "it has gone", |now| now.reading.is_none() && now.link != Link::Up);
    let _daemon = stage.serve(&[]).await;
    client_ready(&inbox);
    client.set_enabled(true).await.unwrap();
    wait(&inbox, "a reading after the return", |now| now.reading.is_some());
}

#[tokio::test]
async fn a_service_that_hangs_hangs_no_client() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let (client, inbox) = start(&stage);
    client_ready(&inbox);
    daemon.signal(Signal::STOP);
    let asked = Instant::now();
    let answer = tokio::time::timeout(PATIENCE, client.diagnose()).await.expect("questions are given up");
    assert!(matches!(answer, Err(Error::NoAnswer(_))), "{answer:?}");
    // After 2 s, which a unit test holds; the rest is for a busy machine.
    assert!(asked.elapsed() < Duration::from_secs(5), "given up after {:?}", asked.elapsed());
    let answer = tokio::time::timeout(2 * patience::CHANGE, client.set_enabled(true)).await.expect("and changes");
    assert!(matches!(answer, Err(Error::NoAnswer(_))), "{answer:?}");
    client.retry();
    wait(&inbox, "it is silent", |now| matches!(now.link, Link::NoAnswer { .. }));
    daemon.signal(Signal::CONT);
    wait(&inbox, "it answers again", |now| now.link == Link::Up);
}

#[tokio::test]
async fn an_exit_is_told_once() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let (client, inbox) = start(&stage);
    client_ready(&inbox);
    client.set_enabled(true).await.unwrap();
    wait(&inbox, "it runs", is(State::Running));
    daemon.signal(rustix::process::Signal::USR1);
    let told = wait(&inbox, "the exit", |now| now.nr_exits == 1);
    assert_eq!(told.last_exit.unwrap().reason, "engine-killed");
}

#[tokio::test]
async fn a_lost_bus_is_told_and_tried_again() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let (client, inbox) = start(&stage);
    client_ready(&inbox);
    drop(stage);
    wait(&inbox, "the bus is lost", |now| matches!(now.link, Link::NoBus { .. }));
    assert!(client.set_mode(RequestedMode::Auto).await.unwrap_err().is_unreachable());
}

/// Somebody has the name and never answers: that is neither absent nor up.
#[tokio::test]
async fn a_service_that_does_not_answer_is_told() {
    let stage = Stage::new();
    let impostor = Builder::address(stage.address.as_str()).build().await.unwrap();
    impostor.request_name(scherzo_api::names::BUS_NAME).await.unwrap();
    let (_client, inbox) = start(&stage);
    wait(&inbox, "it is silent", |now| matches!(now.link, Link::NoAnswer { .. }));
}
