//! What goes wrong: dead and silent engines, kernels without sched_ext, other schedulers.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use rustix::process::Signal;
use scherzo_api::Error;
use scherzo_host::ThreadPolicy;
use tokio::time::timeout;
use zbus::OwnedVariant;

use crate::support::{Client, PATIENCE, Stage, eventually, read};

const MALFORMED_BTF: &[u8] = include_bytes!("../../../host/testdata/malformed.btf");
const BTF_WITHOUT_EXT_SERVER: &[u8] = include_bytes!("../../../host/testdata/no_ext_server.btf");
const QUARANTINE: &str = "var/lib/scherzo/quarantine.toml";
const SYSCTL: &str = "proc/sys/vm/compact_unevictable_allowed";

#[tokio::test]
async fn a_killed_engine_is_told_and_brought_back() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let mut exits = client.scheduler.receive_engine_exited().await.unwrap();
    client.scheduler.set_enabled(true).await.unwrap();
    let states = client.record_states().await;
    assert!(stage.file("run/scherzo/restore.toml").exists());
    assert_eq!(read(stage.file(SYSCTL)), "0", "killed, the engine cannot put it back");

    daemon.signal(Signal::USR1);
    let exit = timeout(PATIENCE, exits.next()).await.unwrap().unwrap();
    assert_eq!(exit.args().unwrap().reason(), "engine-killed");
    eventually("it is loaded again", async || stage.kernel().enable_seq == 2).await;
    client.wait_for_state("running").await;
    let now = client.snapshot().await;
    assert!(now.last_error.contains("signal 9"), "what happened stays told");
    assert_eq!((now.last_error_id.as_str(), &now.last_error_args["signal"]), ("engine-killed", &9.into()));
    assert_eq!(now.error_text(), now.last_error, "a client makes the same sentence of it");
    client.scheduler.set_enabled(false).await.unwrap();
    assert_eq!(states.await.unwrap(), ["fallback", "starting", "running", "stopped"]);
    daemon.signal(Signal::TERM);
    let (_, log) = daemon.end();
    assert!(log.contains("restored vm.compact_unevictable_allowed to 1, which the engine had left changed"), "{log}");
}

#[tokio::test]
async fn settings_that_fail_are_taken_back() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    client.scheduler.configure(HashMap::from([("starvation_ms", 50u32.into())])).await.unwrap();
    stage.tree().unload().unwrap();
    eventually("loaded as before", async || stage.kernel().enable_seq == 2).await;
    client.wait_for_state("running").await;
    let settings = client.scheduler.settings().await.unwrap();
    assert_eq!(settings["starvation_ms"], OwnedVariant::from(100u32));
    assert!(read(stage.file("var/lib/scherzo/settings.toml")).contains("starvation_ms = 100"));
    let now = client.snapshot().await;
    assert!(now.last_error.contains("starvation_ms") && now.last_error.contains("simulated ejection"), "{now:?}");
    assert_eq!((now.last_error_id.as_str(), now.error_text()), ("reverted", now.last_error.clone()));
    let events = client.scheduler.get_history(0).await.unwrap();
    let reverted = events.iter().find(|(_, event, _)| event == "reverted").unwrap();
    assert_eq!(scherzo_api::details::from_wire(&reverted.2)["settings"], "starvation_ms".into());
}

#[tokio::test]
async fn malformed_type_information_is_told_from_the_start() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.file("sys/kernel/btf")).unwrap();
    std::fs::write(stage.file("sys/kernel/btf/vmlinux"), MALFORMED_BTF).unwrap();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.reason.as_str()), ("unsupported", "malformed-btf"));
    let refusal = client.scheduler.set_enabled(true).await.unwrap_err();
    assert!(matches!(&refusal, Error::NotSupported(text) if text.contains("scx_bpf_kick_cpu")), "{refusal:?}");
    assert_eq!(stage.kernel().enable_seq, 0, "it was not tried");
}

#[tokio::test]
async fn what_was_given_up_on_stays_so_until_someone_asks() {
    let stage = Stage::new();
    let version = env!("CARGO_PKG_VERSION");
    let file = format!(
        "kernel = \"6.18.0-simulated\"\nversion = \"{version}\"\nreason = \"stall\"\n[details]\ntext = \"cc1\"\n"
    );
    std::fs::create_dir_all(stage.file("var/lib/scherzo")).unwrap();
    std::fs::write(stage.file(QUARANTINE), file).unwrap();
    let desired = "enabled = true\nmode = \"auto\"\npreemption = true\n";
    std::fs::write(stage.file("var/lib/scherzo/state.toml"), desired).unwrap();
    std::fs::create_dir_all(stage.file("run/scherzo")).unwrap();
    std::fs::write(stage.file("run/scherzo/started"), "").unwrap();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.reason.as_str(), now.enabled), ("fallback", "quarantined", true));
    assert!(now.last_error.contains("6.18.0-simulated") && now.last_error.contains("cc1"), "{}", now.last_error);
    let findings = client.scheduler.diagnose().await.unwrap();
    assert!(findings.iter().any(|(id, severity, ..)| id == "quarantine" && severity == "error"), "{findings:?}");
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(client.snapshot().await.state, "running");
    assert!(!stage.file(QUARANTINE).exists());
}

#[tokio::test]
async fn what_cannot_be_stored_takes_effect_is_told_and_stored_later() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    // Where there is a file, there is no directory to write to, not even for root.
    let (directory, away) = (stage.file("var/lib/scherzo"), stage.file("away"));
    // The first file is written beside the loop, perhaps after the service has its name.
    eventually("its start is noted", async || directory.join("boots.toml").exists()).await;
    std::fs::rename(&directory, &away).unwrap();
    std::fs::write(&directory, "").unwrap();
    client.scheduler.set_enabled(true).await.unwrap();
    client.scheduler.set_mode("fifo").await.unwrap();
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.mode.as_str()), ("running", "fifo"));
    assert!(now.last_error.contains("cannot write"), "whoever is answered finds it: {}", now.last_error);
    assert_eq!((now.last_error_id.as_str(), now.error_text()), ("not-stored", now.last_error.clone()));
    assert!(now.last_error_args["not_stored"].to_string().contains("/var/lib/scherzo/state.toml"), "{now:?}");
    let findings = async || {
        let findings = client.scheduler.diagnose().await.unwrap();
        let files = findings.into_iter().filter(|(id, ..)| id == "not-stored");
        files
            .map(|(.., arguments)| String::try_from(arguments["file"].try_clone().unwrap()).unwrap())
            .collect::<Vec<_>>()
    };
    assert!(findings().await.contains(&"/var/lib/scherzo/state.toml".to_owned()));
    let refused = client.scheduler.configure(HashMap::from([("starvation_ms", 50u32.into())])).await.unwrap_err();
    assert!(matches!(refused, Error::NotStored(_)), "{refused:?}");
    assert_eq!(client.scheduler.settings().await.unwrap()["starvation_ms"], OwnedVariant::from(100u32));

    std::fs::remove_file(&directory).unwrap();
    std::fs::rename(&away, &directory).unwrap();
    eventually("it is stored", async || client.snapshot().await.last_error.is_empty()).await;
    assert_eq!(client.snapshot().await.last_error_id, "");
    assert_eq!(findings().await, Vec::<String>::new());
    assert!(read(directory.join("state.toml")).contains("mode = \"fifo\""));
    daemon.signal(Signal::TERM);
    daemon.end();
    let _daemon = stage.serve(&[]).await;
    client.wait_for_state("running").await;
    assert_eq!(client.snapshot().await.mode, "fifo");
    let events = client.scheduler.get_history(0).await.unwrap();
    assert!(events.iter().any(|(_, event, _)| event == "turned-on"), "{events:?}");
}

#[tokio::test]
async fn a_disk_that_hangs_keeps_nobody_waiting_for_long() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    // Whoever opens a pipe to write waits for someone who reads.
    let (file, away) = (stage.file("var/lib/scherzo/history.jsonl"), stage.file("away"));
    std::fs::rename(&file, &away).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let enable_seq = stage.kernel().enable_seq;
    let choice = async {
        client.scheduler.set_mode("fifo").await.unwrap();
        client.snapshot().await
    };
    let others = async {
        eventually("the mode is in effect", async || client.snapshot().await.mode == "fifo").await;
        daemon.signal(Signal::USR1);
        eventually("another engine", async || stage.kernel().enable_seq > enable_seq).await;
    };
    let (answered, ()) = tokio::join!(choice, others);
    assert!(answered.last_error_args["not_stored"].to_string().contains("history.jsonl"), "it is told: {answered:?}");
    assert!(read(stage.file("var/lib/scherzo/state.toml")).contains("fifo"), "other files are written meanwhile");
    std::fs::File::options().read(true).write(true).open(&file).unwrap();
    let nothing_lacks = async || !client.snapshot().await.last_error_args.contains_key("not_stored");
    eventually("nothing lacks any more", nothing_lacks).await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
}

#[tokio::test]
async fn refused_calls_do_not_fill_the_journal() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    for _ in 0..300 {
        client.scheduler.get_stats().await.unwrap_err();
    }
    daemon.signal(Signal::TERM);
    let (_, log) = daemon.end();
    let refused: Vec<_> = log.lines().filter(|line| line.contains("refused")).collect();
    assert_eq!(refused.len(), 6, "{refused:#?}");
    assert!(refused[5].ends_with("refused 295 more calls within a minute: NotRunning 295"), "{refused:#?}");
}

#[tokio::test]
async fn another_service_that_loads_schedulers_is_found_by_its_name_on_the_bus() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let rivals = async || {
        let findings = client.scheduler.diagnose().await.unwrap();
        findings.into_iter().filter(|(id, ..)| id == "rivals").map(|(_, severity, text, _)| (severity, text)).collect()
    };
    let before: Vec<_> = rivals().await;
    assert!(matches!(&before[..], [(severity, _)] if severity == "good"), "{before:?}");
    let loader = stage.connect().await;
    loader.request_name("org.scx.Loader").await.unwrap();
    let is_named = |(severity, text): &(String, String)| severity == "warning" && text.contains("org.scx.Loader");
    // What was found before counts for a second.
    eventually("the rival is named", async || matches!(&rivals().await[..], [only] if is_named(only))).await;
}

#[tokio::test]
async fn turning_on_does_not_wait_for_the_next_attempt() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    stage.tree().unload().unwrap();
    client.wait_for_state("fallback").await;
    timeout(Duration::from_millis(800), client.scheduler.set_enabled(true)).await.unwrap().unwrap();
    assert_eq!(client.snapshot().await.state, "running");
}

#[tokio::test]
async fn a_killed_daemon_leaves_a_note_that_the_next_one_heeds() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(read(stage.file(SYSCTL)), "0");
    daemon.signal(Signal::KILL);
    daemon.end();
    // The engine notices, and the kernel takes over.
    stage.tree().unload().unwrap();

    let _daemon = stage.serve(&[]).await;
    eventually("the setting is restored", async || read(stage.file(SYSCTL)) == "1").await;
    client.wait_for_state("running").await;
}

#[tokio::test]
async fn rcu_goes_before_real_time_programs_while_it_is_loaded() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.file("sys/kernel/btf")).unwrap();
    std::fs::write(stage.file("sys/kernel/btf/vmlinux"), BTF_WITHOUT_EXT_SERVER).unwrap();
    let policy = || scherzo_host::rcu_thread(&stage.root()).unwrap().unwrap().policy;
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    assert_eq!(policy(), ThreadPolicy::Normal);
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(policy(), ThreadPolicy::Fifo(99));
    client.scheduler.set_enabled(false).await.unwrap();
    assert_eq!(policy(), ThreadPolicy::Normal);
    client.scheduler.set_enabled(true).await.unwrap();
    daemon.signal(Signal::KILL);
    daemon.end();
    stage.tree().unload().unwrap();
    assert_eq!(policy(), ThreadPolicy::Fifo(99), "killed, the service cannot put it back");

    let daemon = stage.serve(&[]).await;
    client.wait_for_state("running").await;
    daemon.signal(Signal::TERM);
    daemon.end();
    assert_eq!(policy(), ThreadPolicy::Normal, "the next one knows");
}

#[tokio::test]
async fn a_setting_that_someone_turns_back_is_put_right_once() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(read(stage.file(SYSCTL)), "0");
    std::fs::write(stage.file(SYSCTL), "1\n").unwrap();
    eventually("it is off again", async || read(stage.file(SYSCTL)) == "0").await;
    std::fs::write(stage.file(SYSCTL), "1\n").unwrap();
    // Longer than it takes to notice.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(read(stage.file(SYSCTL)), "1", "whoever insists is not fought");
    let findings = client.scheduler.diagnose().await.unwrap();
    assert!(findings.iter().any(|(id, severity, ..)| id == "compaction" && severity == "warning"), "{findings:?}");
    client.scheduler.set_enabled(false).await.unwrap();
    assert_eq!(read(stage.file(SYSCTL)), "1");
}

#[tokio::test]
async fn a_silent_engine_shows_as_degraded() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    daemon.signal(Signal::USR2);
    client.wait_for_state("degraded").await;
    assert_eq!(client.snapshot().await.reason, "user-space-silent");
    assert!(!client.scheduler.get_stats().await.unwrap().is_empty(), "statistics come all the same");
    let refused = client.scheduler.set_mode("fifo").await.unwrap_err();
    assert!(matches!(refused, Error::Busy(_)), "{refused:?}");

    daemon.signal(Signal::USR2);
    client.wait_for_state("running").await;
    assert_eq!(client.snapshot().await.mode, "fifo", "the choice takes effect once the engine is back");
    assert_eq!(stage.kernel().enable_seq, 1);
}

#[tokio::test]
async fn a_foreign_scheduler_is_named_and_left_alone() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    stage.tree().load("lavd_1.0").unwrap();
    let refused = client.scheduler.set_enabled(true).await.unwrap_err();
    assert!(matches!(&refused, Error::Conflict(text) if text.contains("lavd_1.0")), "{refused:?}");
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.kernel_ops.as_str(), now.enabled), ("foreign", "lavd_1.0", false));
    client.scheduler.set_enabled(false).await.unwrap();
    assert_eq!(stage.kernel().ops.as_deref(), Some("lavd_1.0"));

    stage.tree().unload().unwrap();
    client.scheduler.set_enabled(true).await.unwrap();
}

#[tokio::test]
async fn the_name_of_a_foreign_scheduler_is_not_trusted() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    stage.tree().load("lavd\u{1b}[31m\u{7}").unwrap();
    let refused = client.scheduler.set_enabled(true).await.unwrap_err();
    let printable = "lavd\u{fffd}[31m\u{fffd}";
    assert!(matches!(&refused, Error::Conflict(text) if text.contains(printable)), "{refused:?}");
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.kernel_ops.as_str()), ("foreign", printable));
    let findings = client.scheduler.diagnose().await.unwrap();
    let told: Vec<_> = findings.iter().map(|(_, _, text, _)| text.as_str()).chain([now.last_error.as_str()]).collect();
    assert!(told.iter().any(|text| text.contains(printable)), "{told:?}");
    assert!(!told.iter().any(|text| text.contains(char::is_control)), "{told:?}");
}

#[tokio::test]
async fn a_foreign_scheduler_may_follow_an_ejection_at_once() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    stage.tree().unload().unwrap();
    stage.tree().load("lavd_1.0").unwrap();
    client.wait_for_state("foreign").await;
    client.scheduler.set_enabled(false).await.unwrap();
    assert_eq!(stage.kernel().ops.as_deref(), Some("lavd_1.0"));
}

#[tokio::test]
async fn a_kernel_without_sched_ext_is_said_so() {
    let stage = Stage::bare();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let now = client.snapshot().await;
    assert_eq!((now.state.as_str(), now.reason.as_str()), ("unsupported", "no-sched-ext"));
    let refused = client.scheduler.set_enabled(true).await.unwrap_err();
    assert!(matches!(&refused, Error::NotSupported(text) if text.contains("CONFIG_SCHED_CLASS_EXT")), "{refused:?}");
    assert!(!client.snapshot().await.enabled);
}
