//! A service that runs and does not answer: nobody who asks it hangs.

use std::time::{Duration, Instant};

use scherzo_daemon::engine::simulated::Tree;
use serde_json::Value;

use crate::support::{Bus, Said, own_uid};

/// Questions are given up after 2 s. Unit tests hold that limit itself; the rest is for a busy machine.
const QUESTION: Duration = Duration::from_secs(5);
/// Changes are given up after 25 s.
const CHANGE: Duration = Duration::from_secs(32);
/// A command starts within a second.
const START: Duration = Duration::from_secs(4);

/// The service of this process, whose thread waits meanwhile: it answers as little as one that was stopped.
fn ask_hung(bus: &Bus, arguments: &[&str]) -> (Said, Duration) {
    let since = Instant::now();
    // Where nothing gives up, this does, with a code of its own.
    let mut command = std::process::Command::new("timeout");
    command.arg("60").arg(env!("CARGO_BIN_EXE_scherzoctl")).args(arguments);
    let output = command.env("DBUS_SYSTEM_BUS_ADDRESS", bus.0.address()).output().unwrap();
    (Said::of(&output), since.elapsed())
}

async fn served() -> Bus {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    bus
}

#[tokio::test]
async fn questions_are_given_up() {
    let bus = served().await;
    let questions: [&[&str]; 8] = [
        &["mode"],
        &["stats"],
        &["history"],
        &["config", "get", "standby"],
        &["preemption"],
        &["engine"],
        &["monitor"],
        &["is-running"],
    ];
    for question in questions {
        let (said, took) = ask_hung(&bus, question);
        said.refused(10, "does not answer");
        assert!(took < QUESTION, "{question:?} took {took:?}");
    }
    let (said, _) = ask_hung(&bus, &["status"]);
    said.refused(10, "does not answer");
    let (said, _) = ask_hung(&bus, &["doctor"]);
    assert!(said.code == 1 && said.text.contains("does not answer"), "{said:?}");
    assert_eq!(bus.ctl(&["status"]).await.code, 0, "it was only this long");
}

#[tokio::test]
async fn no_answer_is_told_apart_in_json() {
    let bus = served().await;
    let (said, _) = ask_hung(&bus, &["--json", "status"]);
    let document: Value = serde_json::from_str(&said.text).unwrap();
    assert_eq!((&document["reachable"], &document["error"]["id"]), (&false.into(), &"no-answer".into()));
    let (said, _) = ask_hung(&bus, &["--json", "mode"]);
    assert_eq!((said.code, said.error()["id"].as_str(), said.text.as_str()), (10, Some("no-answer"), ""));
    let (said, _) = ask_hung(&bus, &["--json", "doctor"]);
    assert!(said.text.contains("\"service-silent\""), "{said:?}");
}

#[tokio::test]
async fn changes_are_given_up() {
    let bus = served().await;
    let changes: [&[&str]; 3] =
        [&["mode", "fifo"], &["config", "set", "standby", "false"], &["hold", "-m", "fifo", "-r", "a test"]];
    // All at once, since each takes its time.
    let asked = std::thread::scope(|scope| {
        let asked = changes.map(|change| scope.spawn(|| ask_hung(&bus, change)));
        asked.map(|asked| asked.join().unwrap())
    });
    for (said, took) in asked {
        said.refused(10, "does not answer");
        assert!((Duration::from_secs(20)..CHANGE).contains(&took), "gave up after {took:?}");
    }
}

#[tokio::test]
async fn a_command_does_not_wait() {
    let bus = served().await;
    let (said, took) = ask_hung(&bus, &["run", "-m", "fifo", "--", "sh", "-c", "echo started; exit 7"]);
    assert_eq!((said.code, said.text.as_str()), (7, "started\n"));
    assert!(said.complaint.contains("fifo is not held") && said.complaint.contains("does not answer"), "{said:?}");
    assert!(took < START, "it took {took:?}");
}

/// The service hangs for a while; then it grants the hold, which the command has until its end.
#[tokio::test]
async fn a_late_hold_counts() {
    let bus = served().await;
    let command = ["run", "-m", "low-power", "--", "sh", "-c", "echo started; sleep 60"];
    let mut run = bus.command(&command).stdout(std::process::Stdio::piped()).spawn().unwrap();
    // This thread serves nobody until the command has started.
    let mut started = [0; 8];
    let mut output = std::fs::File::from(run.stdout.take().unwrap().into_owned_fd().unwrap());
    std::io::Read::read_exact(&mut output, &mut started).unwrap();
    bus.is_in("low-power", "hold").await;
    run.kill().await.unwrap();
}

#[tokio::test]
async fn a_bus_that_hangs_hangs_nobody() {
    let bus = served().await;
    bus.0.signal(rustix::process::Signal::STOP);
    let (said, took) = ask_hung(&bus, &["status"]);
    let (ran, started_after) = ask_hung(&bus, &["run", "-m", "fifo", "--", "echo", "started"]);
    bus.0.signal(rustix::process::Signal::CONT);
    said.refused(10, "message bus does not answer");
    assert!(took < QUESTION, "it took {took:?}");
    assert!(started_after < START, "it took {started_after:?}");
    assert_eq!((ran.code, ran.text.as_str()), (0, "started\n"));
}
