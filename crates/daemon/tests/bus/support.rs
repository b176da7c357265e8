//! A private bus, the real daemon on it with a simulated engine, and clients.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use scherzo_api::names::{BUS_NAME, OBJECT_PATH};
use scherzo_api::{SchedulerProxy, Snapshot};
use scherzo_daemon::engine::simulated::Tree;
use scherzo_host::{Root, SchedExt};
use scherzo_test_bus::PrivateBus;
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::{DBusProxy, PropertiesProxy};
use zbus::names::BusName;
use zbus::proxy::CacheProperties;

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Longer than any test takes, also on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);

/// Ends a bus on which a test takes too long: whoever waits for an answer then gets an error, so that the test fails instead of
/// waiting for good.
struct TimeLimit(Option<(Sender<()>, JoinHandle<()>)>);

impl TimeLimit {
    fn start(bus: &PrivateBus, limit: Duration) -> Self {
        let (pid, (end, ended)) = (bus.pid(), channel());
        let wait = move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("the test takes longer than {limit:?}: its bus is ended");
                // Already gone is fine.
                let _ = kill_process(pid, Signal::KILL);
            }
        };
        Self(Some((end, std::thread::spawn(wait))))
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// A process that ends with its owner.
pub struct Process(Child);

impl Process {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// The memory that is its own, in KiB, with its part of what it shares (PSS).
    pub fn pss_kib(&self) -> u64 {
        let text = read(format!("/proc/{}/smaps_rollup", self.0.id()));
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits for its end: exit code and what it wrote to standard error.
    pub fn end(mut self) -> (Option<i32>, String) {
        let started = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.0.wait().unwrap().code(), text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bus and a pretended kernel, nobody on it yet.
pub struct Stage {
    pub address: String,
    // It is dropped before the bus, whose number may be another process's afterwards.
    _limit: TimeLimit,
    bus: PrivateBus,
}

impl Stage {
    /// With the files of a kernel that has sched_ext.
    pub fn new() -> Self {
        let stage = Self::bare();
        Tree::plant(stage.root()).unwrap();
        stage
    }

    /// With a kernel that has no sched_ext.
    pub fn bare() -> Self {
        Self::limited(LIMIT)
    }

    /// As [`Self::bare`], with another limit for the test.
    pub fn limited(limit: Duration) -> Self {
        let bus = PrivateBus::start();
        Self { address: bus.address().to_owned(), _limit: TimeLimit::start(&bus, limit), bus }
    }

    pub fn root(&self) -> Root {
        Root::new(self.bus.directory())
    }

    pub fn tree(&self) -> Tree {
        Tree::at(self.root())
    }

    pub fn file(&self, relative: &str) -> std::path::PathBuf {
        self.bus.directory().join(relative)
    }

    /// What the pretended kernel says.
    pub fn kernel(&self) -> SchedExt {
        SchedExt::read(&self.root()).unwrap().unwrap()
    }

    pub async fn connect(&self) -> Connection {
        Builder::address(self.address.as_str()).build().await.unwrap()
    }

    /// Starts the daemon without waiting for it.
    pub fn spawn(&self, options: &[&str]) -> Process {
        self.spawn_with(options, &[])
    }

    /// Starts the daemon with these variables in its environment, without waiting for it.
    pub fn spawn_with(&self, options: &[&str], environment: &[(&str, &str)]) -> Process {
        let child = Command::new(env!("CARGO_BIN_EXE_scherzod"))
            .args(["--simulate", "--address", &self.address, "--simulate-root"])
            .arg(self.bus.directory())
            .args(options)
            .envs(environment.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Process(child)
    }

    /// Starts the daemon and waits until it serves.
    pub async fn serve(&self, options: &[&str]) -> Process {
        let daemon = self.spawn(options);
        let bus = self.connect().await;
        let proxy = DBusProxy::new(&bus).await.unwrap();
        let served = async || proxy.name_has_owner(BusName::from_static_str(BUS_NAME).unwrap()).await.unwrap();
        eventually("the service has its name", served).await;
        daemon
    }
}

/// A client of the service.
pub struct Client {
    pub bus: Connection,
    pub scheduler: SchedulerProxy<'static>,
}

impl Client {
    pub async fn new(stage: &Stage) -> Self {
        let bus = stage.connect().await;
        let scheduler = SchedulerProxy::builder(&bus).cache_properties(CacheProperties::No).build().await.unwrap();
        Self { bus, scheduler }
    }

    pub async fn snapshot(&self) -> Snapshot {
        Snapshot::read(&self.bus).await.unwrap()
    }

    pub async fn wait_for_state(&self, wanted: &str) {
        eventually(wanted, async || self.snapshot().await.state == wanted).await;
    }

    /// Records every `State` that `PropertiesChanged` tells from now on.
    pub async fn record_states(&self) -> tokio::task::JoinHandle<Vec<String>> {
        let properties =
            PropertiesProxy::builder(&self.bus).destination(BUS_NAME).path(OBJECT_PATH).build().await.unwrap();
        let mut changes = properties.receive_properties_changed().await.unwrap();
        tokio::spawn(async move {
            let mut states = Vec::new();
            while let Some(change) = changes.next().await {
                let arguments = change.args().unwrap();
                if let Some(state) = arguments.changed_properties().get("State") {
                    states.push(String::try_from(state.try_clone().unwrap()).unwrap());
                }
                if states.last().is_some_and(|state| state == "stopped") {
                    break;
                }
            }
            states
        })
    }
}

/// Asks until the answer is yes.
pub async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !done().await {
        assert!(started.elapsed() < PATIENCE, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}
