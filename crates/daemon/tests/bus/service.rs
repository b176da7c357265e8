//! Turning on and off, choosing, and what survives.

use std::time::Duration;

use rustix::process::Signal;
use scherzo_api::types::RequestedMode;
use scherzo_api::{Error, SchedulerProxy};
use tokio::time::timeout;
use zbus::fdo::Error as Fdo;

use crate::support::{Client, PATIENCE, Stage, eventually, read};

#[tokio::test]
async fn on_and_off_follow_the_kernel() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let states = client.record_states().await;
    assert_eq!(client.snapshot().await.state, "stopped");

    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(stage.kernel().ops.as_deref(), Some("scherzo_simulated"));
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.reason.as_str(), now.enabled), ("running", "default", true));
    assert_eq!(now.kernel_ops, "scherzo_simulated");

    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(stage.kernel().enable_seq, 1, "turning on twice is turning on once");

    client.scheduler.set_enabled(false).await.unwrap();
    assert_eq!(stage.kernel().ops, None);
    client.scheduler.set_enabled(false).await.unwrap();
    assert_eq!(states.await.unwrap(), ["starting", "running", "stopped"]);
}

#[tokio::test]
async fn a_mode_change_does_not_load_anew() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    for mode in ["fifo", "low-power", "interactive", "interactive"] {
        client.scheduler.set_mode(mode).await.unwrap();
        let now = client.snapshot().await;
        assert_eq!((now.mode.as_str(), now.requested_mode.as_str(), now.reason.as_str()), (mode, mode, "choice"));
    }
    client.scheduler.set_preemption(false).await.unwrap();
    assert!(!client.snapshot().await.preemption);
    client.scheduler.set_mode("auto").await.unwrap();
    let now = client.snapshot().await;
    assert_eq!(
        (now.mode.as_str(), now.requested_mode.as_str(), now.reason.as_str()),
        ("interactive", "auto", "default")
    );
    assert_eq!(stage.kernel().enable_seq, 1);
}

#[tokio::test]
async fn an_engine_change_does_not_load_anew() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    assert_eq!(client.snapshot().await.engine, "kernel");
    client.scheduler.set_engine("user").await.unwrap();
    assert_eq!(client.snapshot().await.engine, "user", "recorded while off");
    client.scheduler.set_enabled(true).await.unwrap();
    for engine in ["kernel", "user", "user"] {
        client.scheduler.set_engine(engine).await.unwrap();
        let now = client.snapshot().await;
        assert_eq!((now.engine.as_str(), now.state.as_str()), (engine, "running"));
    }
    assert_eq!(stage.kernel().enable_seq, 1);
    daemon.signal(Signal::TERM);
    daemon.end();

    let _daemon = stage.serve(&[]).await;
    client.wait_for_state("running").await;
    assert_eq!(client.snapshot().await.engine, "user", "it survives a restart");
    let history = client.scheduler.get_history(0).await.unwrap();
    let chosen = history.iter().filter(|(_, event, _)| event == "engine");
    let chosen: Vec<_> = chosen.map(|(.., details)| scherzo_api::details::from_wire(details)).collect();
    let engines: Vec<_> = chosen.iter().map(|details| details["engine"].to_string()).collect();
    assert_eq!(engines, ["user", "kernel", "user"], "what changes nothing is no news");
    assert!(chosen.iter().all(|details| details.contains_key("uid")));

    let (kernel_seat, restored) = (("kernel_seat", false.into()), ("kernel_seat", true.into()));
    client.scheduler.configure([kernel_seat].into()).await.unwrap();
    client.scheduler.configure([restored].into()).await.unwrap();
    eventually("the setting counts again", async || client.snapshot().await.engine == "kernel").await;
}

#[tokio::test]
async fn the_kernel_seat_is_refused_while_a_setting_needs_user_space() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    let changes = [("builtin_idle", false.into()), ("full_user", true.into())];
    client.scheduler.configure(changes.into()).await.unwrap();
    client.scheduler.set_engine("user").await.unwrap();
    let before = client.snapshot().await;
    assert_eq!(before.engine, "user");
    let refused = client.scheduler.set_engine("kernel").await.unwrap_err();
    assert!(matches!(&refused, Error::Conflict(text) if text.contains("full_user")), "{refused:?}");
    let unknown = client.scheduler.set_engine("both").await.unwrap_err();
    assert!(matches!(&unknown, Error::InvalidArgs(text) if text.contains("both")), "{unknown:?}");
    assert_eq!(client.snapshot().await, before);
}

#[tokio::test]
async fn choices_are_recorded_while_off_and_survive_a_restart() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_mode("low-power").await.unwrap();
    client.scheduler.set_preemption(false).await.unwrap();
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.mode.as_str(), now.preemption), ("stopped", "low-power", false));
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(client.snapshot().await.mode, "low-power");

    daemon.signal(Signal::TERM);
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(stage.kernel().ops, None, "ending unloads");

    let _daemon = stage.serve(&[]).await;
    client.wait_for_state("running").await;
    let now = client.snapshot().await;
    assert_eq!((now.enabled, now.mode.as_str(), now.preemption), (true, "low-power", false));
}

#[tokio::test]
async fn a_damaged_state_file_is_named_and_replaced_by_defaults() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.file("var/lib/scherzo")).unwrap();
    std::fs::write(stage.file("var/lib/scherzo/state.toml"), "enabled = true\nmode = fast\n").unwrap();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.requested_mode.as_str()), ("stopped", "auto"));
    client.scheduler.set_mode("fifo").await.unwrap();
    assert!(read(stage.file("var/lib/scherzo/state.toml")).contains("mode = \"fifo\""));
    daemon.signal(Signal::TERM);
    let (_, log) = daemon.end();
    assert!(log.contains("state.toml:2"), "{log}");
}

#[tokio::test]
async fn bad_arguments_get_named_errors_and_change_nothing() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let before = client.snapshot().await;
    let refused = client.scheduler.set_mode("turbo").await.unwrap_err();
    assert!(matches!(&refused, Error::InvalidMode(text) if text.contains("turbo")), "{refused:?}");
    let wrong = client.scheduler.inner().call_method("SetMode", &true).await.unwrap_err();
    assert!(
        matches!(&wrong, zbus::Error::FDO(error) if matches!(**error, zbus::fdo::Error::InvalidArgs(_))),
        "{wrong:?}"
    );
    assert_eq!(client.snapshot().await, before);
    assert_eq!(before.modes, RequestedMode::ALL.map(RequestedMode::name));
}

#[tokio::test]
async fn a_second_daemon_leaves_the_first_alone() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    let (code, log) = stage.spawn(&[]).end();
    assert_eq!(code, Some(3), "{log}");
    assert!(log.contains("another scherzod already serves org.scherzo.Scheduler1"), "{log}");
    assert_eq!(client.snapshot().await.state, "running");
    assert_eq!(stage.kernel().enable_seq, 1);
}

#[tokio::test]
async fn the_history_survives_a_restart() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    client.scheduler.set_mode("fifo").await.unwrap();
    stage.tree().unload().unwrap();
    client.wait_for_state("fallback").await;
    // What happens is told before it is on the disk, which the loop does not wait for.
    let file = stage.file("var/lib/scherzo/history.jsonl");
    eventually("all six entries are on the disk", async || {
        std::fs::read_to_string(&file).unwrap_or_default().lines().count() == 6
    })
    .await;
    daemon.signal(Signal::KILL);
    daemon.end();
    let _daemon = stage.serve(&[]).await;
    client.wait_for_state("running").await;
    let entries = client.scheduler.get_history(0).await.unwrap();
    let events: Vec<_> = entries.iter().map(|(_, event, _)| event.as_str()).collect();
    assert_eq!(events, ["turned-on", "loaded", "mode", "ejected", "reverted", "mode", "loaded"]);
    let details = scherzo_api::details::from_wire(&entries[3].2);
    assert_eq!(details["reason"], "kernel-error".into());
    assert!(entries[0].0 > 1_700_000_000, "seconds since 1970");
    assert_eq!(client.scheduler.get_history(2).await.unwrap(), entries[5..]);
}

#[tokio::test]
async fn a_restart_loads_at_once_and_a_boot_waits() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    daemon.signal(Signal::TERM);
    daemon.end();
    let daemon = stage.serve(&[]).await;
    client.wait_for_state("running").await;
    daemon.signal(Signal::TERM);
    daemon.end();
    // As after a start of the system.
    std::fs::remove_file(stage.file("run/scherzo/started")).unwrap();
    let _daemon = stage.serve(&[]).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.reason.as_str()), ("starting", "boot-delay"));
    assert_eq!(stage.kernel().ops, None);
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(client.snapshot().await.state, "running");
}

/// Calls until the service answers. The bus does until it has its name, or if the last one has just left.
async fn call_until_served(scheduler: SchedulerProxy<'static>) {
    while let Err(error) = scheduler.set_enabled(false).await {
        let Error::Bus(zbus::Error::FDO(told)) = &error else { panic!("{error:?}") };
        assert!(matches!(**told, Fdo::ServiceUnknown(_) | Fdo::NoReply(_)), "{error:?}");
    }
}

#[tokio::test]
async fn calls_that_come_with_the_name_are_answered() {
    let stage = Stage::new();
    let client = Client::new(&stage).await;
    for _ in 0..10 {
        let calls: Vec<_> = (0..8).map(|_| tokio::spawn(call_until_served(client.scheduler.clone()))).collect();
        let daemon = stage.spawn(&[]);
        for call in calls {
            call.await.unwrap();
        }
        daemon.signal(Signal::TERM);
        daemon.end();
    }
}

#[tokio::test]
async fn a_call_that_is_never_answered_fails_its_test() {
    let stage = Stage::limited(Duration::from_millis(500));
    let (silent, client) = (stage.connect().await, stage.connect().await);
    let name = silent.unique_name().unwrap();
    let call = client.call_method(Some(name), "/", Some("org.example.Silent"), "Wait", &());
    timeout(PATIENCE, call).await.expect("the bus has ended").unwrap_err();
}
