//! The supervisor of the real engine process, against processes that behave and misbehave.

// A test may end where something else than expected comes.
#![allow(clippy::unwrap_used)]

#[path = "../bus/support.rs"]
#[allow(dead_code, reason = "shared with the tests on the bus, which use all of it")]
mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use scherzo_api::Error;
use scherzo_api::stats::Stats;
use scherzo_daemon::authorize::Polkit;
use scherzo_daemon::cli::serve;
use scherzo_daemon::engine::real::Real;
use scherzo_daemon::engine::simulated;
use scherzo_daemon::input::NR_INPUTS;
use scherzo_daemon::shell::Parts;
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
        let bus = stage.connect().await;
        let parts = Parts {
            root: stage.root(),
            set_policy: simulated::set_policy,
            engine,
            bus,
            callers: Arc::default(),
            inputs,
        };
        let own_uid = rustix::process::geteuid().as_raw();
        tokio::spawn(async move {
            serve(parts, inbox, Polkit::trusting(Some(own_uid))).await.unwrap();
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

    fn standby(&self) -> Option<Pid> {
        let path = self.stage.file("standby-pid");
        path.exists().then(|| Pid::from_raw(read(path).parse().unwrap()).unwrap())
    }

    /// The scheduler is loaded; gives its engine and the standby engine.
    async fn running_with_standby(behaviour: &str) -> (Self, Pid, Pid) {
        let supervised = Self::by(behaviour).await;
        supervised.enable().await.unwrap();
        eventually("a standby engine", async || supervised.standby().is_some()).await;
        let (engine, standby) = (supervised.engine(), supervised.standby().unwrap());
        assert_ne!(engine, standby);
        (supervised, engine, standby)
    }

    /// Kills the engine; gives the next one, which must have loaded.
    async fn engine_after_a_kill(&self) -> Pid {
        let victim = self.engine();
        kill_process(victim, Signal::KILL).unwrap();
        // The real kernel does this by itself.
        self.stage.tree().unload().unwrap();
        eventually("another engine", async || self.engine() != victim).await;
        self.client.wait_for_state("running").await;
        self.engine()
    }

    /// The refusal of an engine that cannot be loaded; the desired state is dropped and nothing is left behind.
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
    let (stage, standby) = daemon.block_on(async {
        let (supervised, _, standby) = Supervised::running_with_standby("behaves").await;
        (supervised.stage, standby)
    });
    assert_eq!(stage.kernel().ops.as_deref(), Some("scherzo_fake"));
    // With it goes everything that the service held, as with a process.
    drop(daemon);
    let died = Instant::now();
    while scherzo_host::SchedExt::read(&stage.root()).unwrap().unwrap().ops.is_some() {
        assert!(died.elapsed() < PATIENCE, "the engine goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
    await_death(standby);
}

#[tokio::test]
async fn a_killed_engine_is_replaced() {
    let supervised = Supervised::by("behaves").await;
    supervised.enable().await.unwrap();
    supervised.engine_after_a_kill().await;
    let last_error = supervised.client.snapshot().await.last_error;
    assert!(last_error.contains("signal 9"), "{last_error}");
}

#[tokio::test]
async fn the_standby_engine_is_the_next_one() {
    let (supervised, _, mut standby) = Supervised::running_with_standby("behaves").await;
    assert_eq!(read(supervised.stage.file("standby-traces")), "environment 0 leaked 0");
    for _ in 0..3 {
        assert_eq!(supervised.engine_after_a_kill().await, standby);
        supervised.client.scheduler.set_mode("fifo").await.unwrap();
        eventually("another standby engine", async || supervised.standby() != Some(standby)).await;
        standby = supervised.standby().unwrap();
    }
}

#[tokio::test]
async fn a_standby_engine_may_be_needed_before_it_is_ready() {
    let (supervised, _, standby) = Supervised::running_with_standby("prepares-slowly").await;
    assert_eq!(supervised.engine_after_a_kill().await, standby);
}

#[tokio::test]
async fn a_killed_standby_engine_is_no_failure() {
    let (supervised, engine, standby) = Supervised::running_with_standby("behaves").await;
    kill_process(standby, Signal::KILL).unwrap();
    eventually("nothing is left of it", async || test_kill_process(standby).is_err()).await;
    let now = supervised.client.snapshot().await;
    assert_eq!((now.state.as_str(), now.last_error.as_str()), ("running", ""));
    assert_eq!(supervised.engine(), engine);
    let next = supervised.engine_after_a_kill().await;
    assert!(next != engine && next != standby);
    eventually("another standby engine", async || supervised.standby().is_some_and(|now| now != standby)).await;
}

/// Nothing else in this process happens meanwhile: whoever should wait for the process has not noticed when this returns.
fn await_death(process: Pid) {
    let started = Instant::now();
    let is_dead = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    while !is_dead() {
        assert!(started.elapsed() < PATIENCE, "process {process:?} goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Even if both die at once the standby engine counts for nothing.
#[tokio::test]
async fn engines_that_are_killed_together_are_one_failure() {
    let (supervised, engine, standby) = Supervised::running_with_standby("behaves").await;
    kill_process(standby, Signal::KILL).unwrap();
    await_death(standby);
    let next = supervised.engine_after_a_kill().await;
    assert!(next != engine && next != standby);
    let history = supervised.client.scheduler.get_history(0).await.unwrap();
    assert_eq!(history.iter().filter(|(_, event, _)| event == "ejected" || event == "not-loaded").count(), 1);
}

#[tokio::test]
async fn a_standby_engine_that_fails_is_tried_again_after_the_next_load() {
    let (supervised, engine, standby) = Supervised::running_with_standby("prepares-badly").await;
    eventually("nothing is left of it", async || test_kill_process(standby).is_err()).await;
    let now = supervised.client.snapshot().await;
    assert_eq!((now.state.as_str(), now.last_error.as_str()), ("running", ""));
    let next = supervised.engine_after_a_kill().await;
    assert!(next != engine && next != standby);
    eventually("another standby engine", async || supervised.standby().is_some_and(|now| now != standby)).await;
}

#[tokio::test]
async fn a_standby_engine_that_is_outdated_is_made_anew_and_that_is_no_failure() {
    let (supervised, engine, standby) = Supervised::running_with_standby("prepares-in-vain").await;
    kill_process(engine, Signal::KILL).unwrap();
    supervised.stage.tree().unload().unwrap();
    eventually("a third engine", async || ![engine, standby].contains(&supervised.engine())).await;
    supervised.client.wait_for_state("running").await;
    let history = supervised.client.scheduler.get_history(0).await.unwrap();
    let failures: Vec<_> = history.iter().filter(|(_, event, _)| event == "not-loaded").collect();
    assert!(failures.is_empty(), "{failures:?}");
}

#[tokio::test]
async fn a_machine_that_is_turned_off_pays_nothing() {
    let (supervised, _, standby) = Supervised::running_with_standby("behaves").await;
    supervised.client.scheduler.set_enabled(false).await.unwrap();
    eventually("the standby engine has ended", async || test_kill_process(standby).is_err()).await;
    supervised.enable().await.unwrap();
    eventually("another standby engine", async || supervised.standby() != Some(standby)).await;
}

#[tokio::test]
async fn whoever_wants_no_standby_engine_has_none() {
    let (supervised, engine, standby) = Supervised::running_with_standby("behaves").await;
    let configure = async |standby: bool| {
        let changes = HashMap::from([("standby", standby.into())]);
        supervised.client.scheduler.configure(changes).await.unwrap();
    };
    configure(false).await;
    eventually("the standby engine has ended", async || test_kill_process(standby).is_err()).await;
    assert_ne!(supervised.engine_after_a_kill().await, standby);
    assert_eq!(supervised.standby(), Some(standby), "there is another one");
    configure(true).await;
    eventually("another standby engine", async || supervised.standby() != Some(standby)).await;
    assert_ne!(supervised.engine(), engine);
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
