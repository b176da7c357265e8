//! The supervisor of the real engine process, against processes that behave and misbehave.

// A test may end where something else than expected comes.
#![allow(clippy::unwrap_used)]

#[path = "../bus/support.rs"]
#[allow(dead_code, reason = "shared with the tests on the bus, which use all of it")]
mod support;

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use scherzo_api::Error;
use scherzo_api::stats::Stats;
use scherzo_daemon::authorize::Polkit;
use scherzo_daemon::cli::serve;
use scherzo_daemon::engine::real::Real;
use scherzo_daemon::shell::{NR_INPUTS, Parts};
use support::{Client, PATIENCE, Stage, eventually, read};
use tokio::sync::mpsc;

/// The service in this process, with an engine that behaves as `behaviour` says.
struct Supervised {
    stage: Stage,
    client: Client,
}

impl Supervised {
    async fn by(behaviour: &str) -> Self {
        let stage = Stage::new();
        let libexec = stage.file("usr/libexec");
        std::fs::create_dir_all(&libexec).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_scherzo-fake-engine"), libexec.join("prepared")).unwrap();
        let engine_path = libexec.join(behaviour);
        if behaviour != "missing" {
            std::fs::rename(libexec.join("prepared"), &engine_path).unwrap();
        }

        let (inputs, inbox) = mpsc::channel(NR_INPUTS);
        let engine = Real::new(engine_path, inputs.clone());
        let parts = Parts { root: stage.root(), engine, bus: stage.connect().await, inputs };
        let own_uid = rustix::process::geteuid().as_raw();
        tokio::spawn(async move {
            serve(parts, inbox, Polkit { trusted_uid: Some(own_uid) }).await.unwrap();
        });
        let client = Client::new(&stage).await;
        eventually("the service answers", async || scherzo_api::Snapshot::read(&client.bus).await.is_ok()).await;
        Self { stage, client }
    }

    async fn enable(&self) -> Result<(), Error> {
        self.client.scheduler.set_enabled(true).await
    }

    fn engine(&self) -> Pid {
        Pid::from_raw(read(self.stage.file("pid")).parse().unwrap()).unwrap()
    }

    /// The refusal of an engine that cannot be loaded; the wish is dropped and nothing is left behind.
    async fn refusal(&self) -> Error {
        let refusal = self.enable().await.unwrap_err();
        let now = self.client.snapshot().await;
        assert!(!now.enabled && now.last_error.contains(&refusal.to_string()), "{now:?}");
        eventually("the note is gone", async || !self.stage.file("run/scherzo/restore.toml").exists()).await;
        assert_eq!(self.stage.kernel().ops, None);
        refusal
    }
}

#[tokio::test]
async fn a_good_engine_loads_switches_and_unloads() {
    let supervised = Supervised::by("behaves").await;
    let scheduler = &supervised.client.scheduler;
    supervised.enable().await.unwrap();
    assert_eq!(supervised.stage.kernel().ops.as_deref(), Some("scherzo_fake"));
    assert_eq!(read(supervised.stage.file("traces")), "environment 0 leaked 0");
    scheduler.set_mode("fifo").await.unwrap();
    assert_eq!(supervised.client.snapshot().await.mode, "fifo");
    let stats = Stats::from_wire(&scheduler.get_stats().await.unwrap());
    assert_eq!((stats.nr_cpus, stats.load_us), (1, 1_000));

    let engine = supervised.engine();
    scheduler.set_enabled(false).await.unwrap();
    assert!(test_kill_process(engine).is_err(), "the engine is still there");
    assert_eq!(supervised.stage.kernel().ops, None);
    assert!(!supervised.stage.file("run/scherzo/restore.toml").exists());
}

#[test]
fn an_engine_without_its_daemon_unloads() {
    let daemon = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stage = daemon.block_on(async {
        let supervised = Supervised::by("behaves").await;
        supervised.enable().await.unwrap();
        supervised.stage
    });
    assert_eq!(stage.kernel().ops.as_deref(), Some("scherzo_fake"));
    // With it goes everything that the service held, as with a process.
    drop(daemon);
    let died = Instant::now();
    while scherzo_host::SchedExt::read(&stage.root()).unwrap().unwrap().ops.is_some() {
        assert!(died.elapsed() < PATIENCE, "the engine goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_killed_engine_is_replaced() {
    let supervised = Supervised::by("behaves").await;
    supervised.enable().await.unwrap();
    let first = supervised.engine();
    kill_process(first, Signal::KILL).unwrap();
    // The real kernel does this by itself.
    supervised.stage.tree().unload().unwrap();
    eventually("another engine", async || supervised.engine() != first).await;
    supervised.client.wait_for_state("running").await;
    let last_error = supervised.client.snapshot().await.last_error;
    assert!(last_error.contains("signal 9"), "{last_error}");
}

#[tokio::test]
async fn engines_of_another_make_are_refused() {
    for behaviour in ["babbles", "of-another-version", "brings-no-pages"] {
        let supervised = Supervised::by(behaviour).await;
        let refusal = supervised.refusal().await;
        assert!(matches!(&refusal, Error::LoadFailed(text) if text.contains("versions")), "{behaviour}: {refusal:?}");
        let engine = supervised.engine();
        eventually("the engine is killed", async || test_kill_process(engine).is_err()).await;
    }
}

#[tokio::test]
async fn engines_that_cannot_run_are_told() {
    let refusal = Supervised::by("missing").await.refusal().await;
    assert!(matches!(&refusal, Error::LoadFailed(text) if text.contains("usr/libexec/missing")), "{refusal:?}");
    let refusal = Supervised::by("ends").await.refusal().await;
    assert!(matches!(&refusal, Error::LoadFailed(text) if text.contains("code 7")), "{refusal:?}");
}

#[tokio::test]
async fn a_malformed_kernel_is_unsupported() {
    let supervised = Supervised::by("meets-malformed-btf").await;
    let refusal = supervised.refusal().await;
    assert!(matches!(&refusal, Error::NotSupported(text) if text.contains("hidden argument")), "{refusal:?}");
    let now = supervised.client.snapshot().await;
    assert_eq!((now.state.as_str(), now.reason.as_str()), ("unsupported", "malformed-btf"));
}

#[tokio::test]
async fn a_hanging_engine_is_killed_in_time() {
    let supervised = Supervised::by("hangs").await;
    let scheduler = supervised.client.scheduler.clone();
    let enabling = tokio::spawn(async move { scheduler.set_enabled(true).await });
    eventually("the engine runs", async || supervised.stage.file("pid").exists()).await;
    let engine = supervised.engine();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(18)).await;
    tokio::time::resume();
    // The service's alarm is the kernel's, which time does not leap for: whoever asks has it look at the clock.
    supervised.client.scheduler.get_history(1).await.unwrap();
    let refusal = tokio::time::timeout(PATIENCE, enabling).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(&refusal, Error::LoadFailed(text) if text.contains("in time")), "{refusal:?}");
    assert!(test_kill_process(engine).is_err(), "the engine is still there");
}
