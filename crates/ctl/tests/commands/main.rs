//! The real `scherzoctl` against the real service with a simulated engine: what it prints, and its exit codes.

// A test may end where something else than expected comes.
#![allow(clippy::unwrap_used)]

mod completions;
mod documents;
mod foreground;
mod games;
mod history;
mod hung;
mod of_0_1_0;
mod signals;
mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use scherzo_daemon::engine::simulated::Tree;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader as AsyncBufReader};

use support::{Bus, Said, own_uid};

#[tokio::test]
async fn a_session_as_a_person_types_it() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    bus.serve(own_uid()).await;
    assert!(bus.ctl(&["status"]).await.plainly().starts_with("Scherzo is turned off"));
    assert_eq!(bus.ctl(&["enable"]).await.plainly(), "Scherzo is running in interactive mode, preemption on.\n");
    assert_eq!(bus.ctl(&["mode"]).await.plainly(), "interactive (chosen automatically)\n");
    assert_eq!(bus.ctl(&["mode", "fifo"]).await.plainly(), "Scherzo is running in fifo mode, preemption on.\n");
    bus.ctl(&["preemption", "off"]).await.plainly();
    assert_eq!(bus.ctl(&["preemption"]).await.plainly(), "off\n");
    let status = bus.ctl(&["--json", "status"]).await.json();
    assert_eq!(
        (&status["state"], &status["mode"], &status["preemption"]),
        (&"running".into(), &"fifo".into(), &false.into())
    );
    assert!(bus.ctl(&["stats"]).await.plainly().contains("submitted to user space"));
    let numbers = bus.ctl(&["stats", "--json"]).await.json();
    assert!(numbers["stats"]["nr_switches"].as_u64().unwrap() > 0);
    let history = bus.ctl(&["history"]).await.plainly();
    assert!(history.ends_with("The mode is First Come, First Served. It was chosen by hand.\n"), "{history}");
    let history = bus.ctl(&["history", "2", "--json"]).await.json();
    assert_eq!(history["history"][0]["event"], "loaded");
    assert_eq!(bus.ctl(&["engine"]).await.plainly(), "kernel\n");
    bus.ctl(&["engine", "user"]).await.plainly();
    assert_eq!(bus.ctl(&["engine"]).await.plainly(), "user\n");
    assert!(bus.ctl(&["history", "1"]).await.plainly().ends_with("The engine is User Space.\n"));
    bus.ctl(&["mode", "low-power", "--for", "2h"]).await.plainly();
    assert!(bus.ctl(&["status"]).await.plainly().contains("Until:   20"));
    let refused = bus.ctl(&["mode", "low-power", "--for", "9d"]).await;
    assert!(refused.code == 2 && refused.complaint.contains("a week at most"), "{refused:?}");
    assert!(bus.ctl(&["disable"]).await.plainly().starts_with("Scherzo is turned off"));
}

#[tokio::test]
async fn monitor_prints_documents_until_interrupted() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    let mut monitor = tokio::process::Command::new(env!("CARGO_BIN_EXE_scherzoctl"))
        .args(["monitor", "--json"])
        .env("DBUS_SYSTEM_BUS_ADDRESS", bus.0.address())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = monitor.stdout.take().unwrap();
    let lines = tokio::task::spawn_blocking(move || {
        let reader = std::fs::File::from(output.into_owned_fd().unwrap());
        BufReader::new(reader).lines().take(2).map(Result::unwrap).collect::<Vec<_>>()
    });
    let lines = lines.await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&lines[0]).unwrap()["state"], "running");
    let second: Value = serde_json::from_str(&lines[1]).unwrap();
    assert!(second["last_second"]["switches_per_s"].as_f64().unwrap() > 0.0);
    monitor.kill().await.unwrap();
}

/// A Ctrl-C that arrives while the service is asked for the waits ends it too.
#[tokio::test]
async fn monitor_ends_when_it_is_interrupted_while_it_waits_for_an_answer() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    let mut monitor = bus.command(&["monitor", "--json"]).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = AsyncBufReader::new(monitor.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        lines.next_line().await.unwrap().expect("it goes on until it is interrupted");
    }
    // The next statistics reach its socket, but the bus carries no answer to what it asks then.
    send(&monitor, Signal::STOP);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    bus.0.signal(Signal::STOP);
    send(&monitor, Signal::CONT);
    tokio::time::sleep(Duration::from_millis(500)).await;
    send(&monitor, Signal::INT);
    tokio::time::sleep(Duration::from_millis(100)).await;
    bus.0.signal(Signal::CONT);
    let status = tokio::time::timeout(Duration::from_secs(10), monitor.wait()).await.expect("it ends at once");
    assert!(status.unwrap().success());
}

fn send(child: &tokio::process::Child, signal: Signal) {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn a_command_runs_in_the_mode_it_needs() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let alone = bus.ctl(&["run", "--mode", "fifo", "--", "sh", "-c", "exit 7"]).await;
    assert!(alone.code == 7 && alone.complaint.contains("not running"), "without a service it runs all the same");
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    let ask = format!("for i in 1 2 3 4 5 6 7 8 9; do {} mode; done; exit 7", env!("CARGO_BIN_EXE_scherzoctl"));
    let held = bus.ctl(&["run", "-m", "low-power", "--", "sh", "-c", &ask]).await;
    assert_eq!((held.code, held.complaint.as_str()), (7, ""));
    assert!(held.text.ends_with("low-power (chosen automatically)\n"), "{held:?}");
    let ended = bus.ctl(&["hold", "-m", "fifo", "-r", "a test", "sh", "-c", "kill -TERM $$"]).await;
    assert_eq!(ended.code, 143, "{ended:?}");
    bus.ctl(&["run", "-m", "fifo", "--", "/does/not/exist"]).await.refused(127, "/does/not/exist");
    let ended = bus.ctl(&["hold", "-m", "fifo", "-r", "a test", "--for", "1s"]).await;
    assert!(ended.code == 0 && ended.complaint.contains("time is over"), "{ended:?}");
    let ended = bus.ctl(&["hold", "-m", "fifo", "-r", "a test", "--for", "1s", "sh", "-c", "sleep 2; exit 5"]).await;
    assert!(ended.code == 5 && ended.complaint.contains("time is over"), "the command goes on: {ended:?}");
    assert_eq!(bus.ctl(&["--json", "status"]).await.json()["holds"], serde_json::json!([]));
    bus.ctl(&["hold", "-m", "auto", "-r", "a test", "true"]).await.refused(2, "auto");
}

#[tokio::test]
async fn settings_are_shown_and_changed() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    bus.serve(own_uid()).await;
    assert!(bus.ctl(&["config"]).await.plainly().contains("base_slice_us = 5000\nbattery_mode = \"low-power\"\n"));
    assert_eq!(bus.ctl(&["config", "set", "battery_mode", "fifo"]).await.plainly(), "fifo\n");
    assert_eq!(bus.ctl(&["config", "get", "battery_mode"]).await.plainly(), "fifo\n");
    assert_eq!(bus.ctl(&["config", "--json"]).await.json()["settings"]["follow_holds"], true);
    bus.ctl(&["config", "set", "starvation_ms", "50"]).await.plainly();
    assert_eq!(bus.ctl(&["config", "unset", "battery_mode", "starvation_ms"]).await.plainly(), "low-power\n100\n");
    let stored = std::fs::read_to_string(bus.0.directory().join("var/lib/scherzo/settings.toml")).unwrap();
    assert!(!stored.contains("battery_mode") && !stored.contains("starvation_ms"), "{stored}");
    bus.ctl(&["config", "unset", "speed"]).await.refused(2, "there is no setting");
    bus.ctl(&["config", "set", "base_slice_us", "1"]).await.refused(2, "allowed is 250 to 20000");
    bus.ctl(&["config", "get", "speed"]).await.refused(2, "starvation_ms");
}

#[tokio::test]
async fn other_programs_are_served() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let directory = bus.0.directory().to_str().unwrap();
    bus.ctl(&["generate", directory]).await.plainly();
    let read = |name: &str| std::fs::read_to_string(bus.0.directory().join(name)).unwrap();
    assert!(read("scherzoctl.1").contains("preemption") && !read("scherzoctl.1").contains("generate"));
    assert!(read("scherzoctl-run.1").contains("\\-\\-mode"), "{}", read("scherzoctl-run.1"));
    for (file, part) in [("scherzoctl.bash", "preemption"), ("_scherzoctl", "doctor"), ("scherzoctl.fish", "monitor")] {
        assert!(read(file).contains(part) && read(file).contains("low-power"), "{file}");
    }
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    let metrics = bus.ctl(&["stats", "--format", "openmetrics"]).await.plainly();
    assert!(metrics.contains("\nscherzo_switches_total ") && metrics.ends_with("# EOF\n"), "{metrics}");
    let older = bus.ctl(&["stats", "--format", "prometheus"]).await.plainly();
    assert!(older.contains("# TYPE scherzo_switches_total counter\n") && !older.contains("EOF"), "{older}");
}

#[tokio::test]
async fn the_doctor_comes_with_and_without_a_service() {
    let bus = Bus::start();
    let alone = bus.ctl(&["doctor"]).await;
    assert!(alone.code == 1 && alone.text.contains("systemctl start scherzod"), "{alone:?}");
    assert!(alone.text.lines().count() > 5 && alone.complaint.is_empty(), "{alone:?}");
    Tree::plant(bus.root()).unwrap();
    std::fs::create_dir_all(bus.0.directory().join("etc/scherzo")).unwrap();
    std::fs::write(bus.0.directory().join("etc/scherzo/scherzo.toml"), "speed = 1\n").unwrap();
    bus.serve(own_uid()).await;
    let told = bus.ctl(&["doctor", "--json"]).await;
    let document: Value = serde_json::from_str(&told.text).unwrap();
    let finding = |id: &str| document["findings"].as_array().unwrap().iter().find(|found| found["id"] == id).unwrap();
    assert_eq!((told.code, &finding("btf")["severity"]), (1, &"error".into()), "the simulated kernel has no BTF");
    assert_eq!(finding("sched-ext")["severity"], "good");
    assert!(finding("configuration")["text"].as_str().unwrap().contains("scherzo.toml:1: there is no setting"));
}

#[tokio::test]
async fn refusals_have_their_codes() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let absent = bus.ctl(&["status"]).await;
    assert!(absent.code == 3 && absent.text.contains("not running"), "{absent:?}");
    bus.ctl(&["stats"]).await.refused(3, "systemctl start scherzod");
    bus.ctl(&["enable"]).await.refused(3, "not running");

    bus.serve(own_uid()).await;
    bus.ctl(&["mode", "turbo"]).await.refused(2, "turbo");
    bus.ctl(&["stats"]).await.refused(7, "scherzoctl enable");
    assert_eq!(bus.ctl(&["preemption", "perhaps"]).await.code, 2);
    assert_eq!(bus.ctl(&["engine", "both"]).await.code, 2);
    Tree::at(bus.root()).load("lavd").unwrap();
    bus.ctl(&["enable"]).await.refused(6, "lavd");
    assert!(bus.ctl(&["status"]).await.plainly().contains("Another scheduler is loaded: the scheduler lavd"));
}

#[tokio::test]
async fn failures_are_documents_for_programs() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let failure = |said: &Said| (said.code, said.error()["id"].as_str().unwrap().to_owned(), said.text.clone());
    let absent = bus.ctl(&["--json", "stats"]).await;
    assert_eq!(failure(&absent), (3, "unreachable".to_owned(), String::new()));
    assert_eq!((&absent.error()["exit_code"], absent.error()["text"].is_string()), (&3.into(), true));
    bus.serve(own_uid()).await;
    assert_eq!(failure(&bus.ctl(&["mode", "turbo", "--json"]).await).1, "usage");
    assert_eq!(failure(&bus.ctl(&["--json", "preemption", "perhaps"]).await).1, "usage");
    assert_eq!(failure(&bus.ctl(&["--json", "stats"]).await).1, "not-running");
    assert_eq!(bus.ctl(&["--json", "run", "-m", "fifo", "/does/not/exist"]).await.error()["id"], "not-found");
    assert!(bus.ctl(&["--json", "--help"]).await.plainly().contains("Usage"), "help is no failure");
}

#[tokio::test]
async fn scripts_ask_whether_it_runs() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let is_running = async || {
        let quiet = bus.ctl(&["is-running", "--quiet"]).await;
        assert_eq!((quiet.text.as_str(), quiet.complaint.as_str()), ("", ""));
        let said = bus.ctl(&["is-running"]).await;
        assert_eq!(quiet.code, said.code);
        (said.code, said.text)
    };
    assert_eq!(is_running().await, (3, String::new()));
    bus.serve(own_uid()).await;
    assert_eq!(is_running().await, (7, "stopped\n".to_owned()));
    bus.ctl(&["enable"]).await.plainly();
    assert_eq!(is_running().await, (0, "running\n".to_owned()));
    assert_eq!(bus.ctl(&["--json", "is-running"]).await.json()["running"], true);
    bus.ctl(&["disable"]).await.plainly();
    Tree::at(bus.root()).load("lavd").unwrap();
    bus.ctl(&["enable"]).await.refused(6, "lavd");
    assert_eq!(is_running().await, (6, "foreign\n".to_owned()));
}

/// A version that was given up on this kernel stays so, whoever asks and however often.
#[tokio::test]
async fn scripts_learn_that_the_scheduler_fell_back() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let quarantine = format!("kernel = \"6.18.0-simulated\"\nversion = \"{version}\"\nreason = \"stall\"\n[details]\n");
    let files = [
        ("var/lib/scherzo/quarantine.toml", quarantine.as_str()),
        ("var/lib/scherzo/state.toml", "enabled = true\nmode = \"auto\"\npreemption = true\n"),
        // It does not wait for somebody to log in, as it does after a start of the system.
        ("run/scherzo/started", ""),
    ];
    for (path, text) in files {
        let path = bus.0.directory().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    bus.serve(own_uid()).await;
    bus.is_in("interactive", "quarantined").await;
    let said = bus.ctl(&["is-running"]).await;
    assert_eq!((said.code, said.text.as_str(), said.complaint.as_str()), (11, "fallback\n", ""));
    let quiet = bus.ctl(&["is-running", "--quiet"]).await;
    assert_eq!((quiet.code, quiet.text.as_str(), quiet.complaint.as_str()), (11, "", ""));
    let said = bus.ctl(&["--json", "is-running"]).await;
    let document: Value = serde_json::from_str(&said.text).unwrap();
    assert_eq!((said.code, &document["state"], &document["running"]), (11, &"fallback".into(), &false.into()));
    let help = bus.ctl(&["--help"]).await.plainly();
    assert!(help.contains("\n 11  the scheduler fell back"), "{help}");
    bus.ctl(&["enable"]).await.plainly();
    assert_eq!(bus.ctl(&["is-running"]).await.plainly(), "running\n");
}

#[tokio::test]
async fn colour_is_a_choice() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    assert!(bus.ctl(&["--color=always", "status"]).await.plainly().contains("\u{1b}[32mrunning\u{1b}[0m"));
    for plain in ["--color=auto", "--color=never"] {
        assert!(!bus.ctl(&["status", plain]).await.plainly().contains('\u{1b}'), "{plain}");
    }
}

#[tokio::test]
async fn nobody_is_asked_for_a_password_by_run() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    bus.serve(own_uid()).await;
    let seen = bus.calls("HoldMode").await;
    bus.ctl(&["run", "-m", "fifo", "--", "true"]).await;
    bus.ctl(&["run", "--ask", "-m", "fifo", "--", "true"]).await;
    bus.ctl(&["hold", "-m", "fifo", "-r", "a test", "--", "true"]).await;
    assert_eq!(seen.may_prompt(3).await, [false, true, true]);
}

#[tokio::test]
async fn rights_and_kernels_may_be_missing() {
    let bus = Bus::start();
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.refused(5, "CONFIG_SCHED_CLASS_EXT");
    let bus = Bus::start();
    bus.serve(None).await;
    bus.ctl(&["mode", "fifo"]).await.refused(4, "polkit");
    assert_eq!(bus.ctl(&["status"]).await.code, 0, "reading is free");
}

#[tokio::test]
async fn rules_for_applications_are_kept() {
    let bus = Bus::start();
    assert!(bus.ctl(&["applications"]).await.plainly().starts_with("There are no rules."));
    let set = bus.ctl(&["applications", "set", "org.example.Game.desktop", "fifo"]).await.plainly();
    assert_eq!(set, "fifo         org.example.Game\n");
    bus.ctl(&["applications", "set", "/usr/bin/make", "low-power"]).await.plainly();
    let listed = bus.ctl(&["applications", "--json"]).await.json();
    assert_eq!(listed["applications"]["/usr/bin/make"], "low-power");
    assert_eq!(listed["foreground"], serde_json::json!([]));
    bus.ctl(&["applications", "set", "/usr/bin/make", "low-power", "--foreground"]).await.plainly();
    assert!(bus.ctl(&["applications"]).await.plainly().starts_with("low-power    /usr/bin/make (in front)\n"));
    assert_eq!(bus.ctl(&["applications", "--json"]).await.json()["foreground"], serde_json::json!(["/usr/bin/make"]));
    bus.ctl(&["applications", "set", "x", "auto", "--foreground"]).await.refused(2, "in front");
    bus.ctl(&["applications", "set", "x", "turbo"]).await.refused(2, "turbo");
    bus.ctl(&["applications", "set", "bin/make", "fifo"]).await.refused(2, "absolute path");
    bus.ctl(&["applications", "unset", "/usr/bin/make"]).await.plainly();
    assert_eq!(bus.ctl(&["applications", "unset", "org.example.Game"]).await.code, 0);
    assert_eq!(bus.ctl(&["applications", "watch", "--slice", "/does/not/exist"]).await.code, 1);
}

#[tokio::test]
async fn applications_decide_the_mode_while_they_run() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let slice = bus.0.directory().join("app.slice");
    let unit = |name: &str| slice.join(name);
    std::fs::create_dir_all(unit("app-org.example.Game-1.scope")).unwrap();
    bus.ctl(&["applications", "set", "org.example.Game", "fifo"]).await.plainly();
    let own = std::env::current_exe().unwrap();
    let mut watching =
        bus.command(&["applications", "watch", "--slice", slice.to_str().unwrap()]).kill_on_drop(true).spawn().unwrap();

    // The service comes later than the application.
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    bus.is_in("fifo", "hold").await;
    std::fs::remove_dir(unit("app-org.example.Game-1.scope")).unwrap();
    bus.is_in("interactive", "default").await;

    // An application in a slice of its own, and a rule for its executable that comes later.
    std::fs::create_dir(unit("app-x.slice")).unwrap();
    let scope = unit("app-x.slice/app-gnome-org.example.Other-7.scope");
    std::fs::create_dir(&scope).unwrap();
    std::fs::write(scope.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    bus.ctl(&["applications", "set", own.to_str().unwrap(), "low-power"]).await.plainly();
    bus.is_in("low-power", "hold").await;

    // Whoever chooses a mode has the last word, until the application starts again.
    bus.ctl(&["mode", "interactive"]).await.plainly();
    bus.ctl(&["mode", "auto"]).await.plainly();
    tokio::time::sleep(Duration::from_millis(300)).await;
    bus.is_in("interactive", "default").await;
    std::fs::create_dir(unit("app-org.example.Game@2.service")).unwrap();
    bus.is_in("fifo", "hold").await;
    bus.ctl(&["applications", "unset", "org.example.Game"]).await.plainly();
    bus.is_in("interactive", "default").await;
    assert!(watching.try_wait().unwrap().is_none(), "it goes on");
}
