//! Version 0.1.0: its interface is still there, its files are read, and its clients' calls are answered as before.
//!
//! `of_0_1_0/` holds what that version had; it changes no more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures_util::StreamExt;
use rustix::process::Signal;
use scherzo_api::Error;
use scherzo_api::names::{BUS_NAME, INTERFACE, OBJECT_PATH};
use scherzo_test_bus::{PrivateBus, of_0_1_0};
use serde::Serialize;
use tokio::time::timeout;
use zbus::fdo::{IntrospectableProxy, PropertiesProxy};
use zbus::names::InterfaceName;
use zbus::{Connection, DynamicType, Message, OwnedVariant, Proxy, Variant};

use crate::contract::{CONTRACT, members};
use crate::support::{PATIENCE, Process, Stage, eventually, read};

const INTERFACE_OF_0_1_0: &str = include_str!("of_0_1_0/org.scherzo.Scheduler1.xml");
const STATISTICS_OF_0_1_0: &str = include_str!("of_0_1_0/statistics.txt");
/// As that service wrote it, with every setting changed that it had.
const SETTINGS_OF_0_1_0: &str = include_str!("of_0_1_0/settings.toml");
const STATE_OF_0_1_0: &str = include_str!("of_0_1_0/state.toml");

/// An entry of the history.
type Entry = (u64, String, HashMap<String, OwnedVariant>);

const OWN_SETTINGS: &str = "var/lib/scherzo/settings.toml";

#[tokio::test]
async fn every_member_of_0_1_0_is_there_unchanged() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let bus = stage.connect().await;
    let proxy = IntrospectableProxy::builder(&bus).destination(BUS_NAME).path(OBJECT_PATH).build().await.unwrap();
    let live = members(&proxy.introspect().await.unwrap());
    let old = members(INTERFACE_OF_0_1_0);
    assert_eq!(old.len(), 31, "{old:?}");
    for (now, what) in [(members(CONTRACT), "documented"), (live, "there")] {
        let changed: Vec<_> = old.difference(&now).collect();
        assert!(changed.is_empty(), "no longer {what} as in 0.1.0: {changed:#?}");
    }
}

/// What other clients are tested with.
#[tokio::test]
async fn the_simulated_service_of_0_1_0_has_its_members_and_no_others() {
    let bus = PrivateBus::start();
    of_0_1_0::serve(bus.address()).await;
    let connection = zbus::connection::Builder::address(bus.address()).build().await.unwrap();
    let proxy =
        IntrospectableProxy::builder(&connection).destination(BUS_NAME).path(OBJECT_PATH).build().await.unwrap();
    assert_eq!(members(&proxy.introspect().await.unwrap()), members(INTERFACE_OF_0_1_0));
}

/// A client as 0.1.0 knew the service: names and signatures, no proxy of today's.
struct OldClient {
    bus: Connection,
    /// Methods that it has called.
    called: BTreeSet<&'static str>,
}

impl OldClient {
    async fn new(stage: &Stage) -> Self {
        Self { bus: stage.connect().await, called: BTreeSet::new() }
    }

    async fn call(&mut self, method: &'static str, body: &(impl Serialize + DynamicType)) -> zbus::Result<Message> {
        self.called.insert(method);
        self.bus.call_method(Some(BUS_NAME), OBJECT_PATH, Some(INTERFACE), method, body).await
    }

    /// Calls a method that answers with this signature.
    async fn ask(&mut self, method: &'static str, body: &(impl Serialize + DynamicType), signature: &str) -> Message {
        let reply = self.call(method, body).await.unwrap_or_else(|error| panic!("{method}: {error}"));
        assert_eq!(reply.body().signature().to_string_no_parens(), signature, "{method}");
        reply
    }

    async fn properties(&self) -> HashMap<String, OwnedVariant> {
        let proxy = PropertiesProxy::builder(&self.bus).destination(BUS_NAME).path(OBJECT_PATH).build().await.unwrap();
        proxy.get_all(InterfaceName::from_static_str(INTERFACE).unwrap()).await.unwrap()
    }

    async fn text(&self, property: &str) -> String {
        String::try_from(self.properties().await.remove(property).unwrap()).unwrap()
    }

    async fn settings(&self) -> HashMap<String, OwnedVariant> {
        HashMap::try_from(self.properties().await.remove("Settings").unwrap()).unwrap()
    }

    async fn wait_for_state(&self, state: &str) {
        eventually(state, async || self.text("State").await == state).await;
    }

    /// A proxy for signals.
    async fn listen(&self) -> Proxy<'static> {
        Proxy::new_owned(self.bus.clone(), BUS_NAME, OBJECT_PATH, INTERFACE).await.unwrap()
    }
}

#[tokio::test]
async fn every_method_of_0_1_0_answers_as_it_did() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let mut client = OldClient::new(&stage).await;
    client.ask("SetEnabled", &(true,), "").await;
    client.ask("SetMode", &("low-power",), "").await;
    client.ask("SetPreemption", &(false,), "").await;
    assert_eq!((client.text("State").await, client.text("Mode").await), ("running".into(), "low-power".into()));
    client.ask("SetMode", &("auto",), "").await;

    let cookie: u32 =
        client.ask("HoldMode", &("fifo", "counting", "org.example.Counter"), "u").await.body().deserialize().unwrap();
    eventually("held", async || client.text("Mode").await == "fifo").await;
    client.ask("ReleaseMode", &(cookie,), "").await;
    eventually("released", async || client.text("Mode").await == "interactive").await;

    let histograms: HashMap<String, Vec<u64>> =
        client.ask("GetWaitHistogram", &(), "a{sat}").await.body().deserialize().unwrap();
    assert!(["new", "interactive", "batch", "kernel"].iter().all(|class| histograms.contains_key(*class)));
    let changes = HashMap::from([("base_slice_us", Variant::from(4_000u32)), ("minimal_policy", true.into())]);
    client.ask("Configure", &(changes,), "").await;
    // While the old scheduler is on its way out the state is still running.
    let is_loaded = async || client.text("State").await == "running" && client.text("Reason").await == "default";
    eventually("loaded anew", is_loaded).await;
    client.ask("GetHistory", &(0u32,), "a(tsa{sv})").await;
    client.ask("Diagnose", &(), "a(sssa{sv})").await;
    client.ask("GetStats", &(), "a{sv}").await;
    client.ask("Subscribe", &(), "").await;
    client.ask("Unsubscribe", &(), "").await;

    let old = members(INTERFACE_OF_0_1_0);
    let methods: BTreeSet<_> =
        old.iter().filter_map(|member| member.strip_prefix("method ")?.split(' ').next()).collect();
    assert_eq!(client.called, methods);
}

#[tokio::test]
async fn every_property_of_0_1_0_can_be_read() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = OldClient::new(&stage).await;
    let now = client.properties().await;
    let old = members(INTERFACE_OF_0_1_0);
    let properties: Vec<_> = old.iter().filter_map(|member| member.strip_prefix("property ")).collect();
    assert_eq!(properties.len(), 16);
    for property in properties {
        let (name, rest) = property.split_once(' ').unwrap();
        let signature = rest.split(' ').next().unwrap();
        assert_eq!(now[name].value_signature().to_string(), signature, "{name}");
    }
}

#[tokio::test]
async fn every_signal_of_0_1_0_is_sent() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let mut client = OldClient::new(&stage).await;
    let listener = client.listen().await;
    let mut statistics = listener.receive_signal("StatsUpdated").await.unwrap();
    let mut released = listener.receive_signal("HoldReleased").await.unwrap();
    client.call("Subscribe", &()).await.unwrap();
    client.call("SetEnabled", &(true,)).await.unwrap();
    let update = timeout(PATIENCE, statistics.next()).await.unwrap().unwrap();
    let update: HashMap<String, OwnedVariant> = update.body().deserialize().unwrap();
    expect_old_statistics(&update);

    let held = client.call("HoldMode", &("fifo", "counting", "org.example.Counter")).await.unwrap();
    client.call("SetMode", &("interactive",)).await.unwrap();
    let told = timeout(PATIENCE, released.next()).await.unwrap().unwrap();
    assert_eq!(told.body().deserialize::<u32>().unwrap(), held.body().deserialize::<u32>().unwrap());

    let mut exited = listener.receive_signal("EngineExited").await.unwrap();
    stage.tree().unload().unwrap();
    let told = timeout(PATIENCE, exited.next()).await.unwrap().unwrap();
    let (reason, _): (String, HashMap<String, OwnedVariant>) = told.body().deserialize().unwrap();
    assert_eq!(reason, "kernel-error");
}

#[tokio::test]
async fn statistics_still_have_the_names_of_0_1_0() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let mut client = OldClient::new(&stage).await;
    client.call("SetEnabled", &(true,)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let stats: HashMap<String, OwnedVariant> =
        client.call("GetStats", &()).await.unwrap().body().deserialize().unwrap();
    expect_old_statistics(&stats);
    for (old, new) in scherzo_model::statistics::RENAMED {
        assert_eq!(stats[*old], stats[*new], "{old} is now {new}");
    }
}

fn expect_old_statistics(stats: &HashMap<String, OwnedVariant>) {
    for key in STATISTICS_OF_0_1_0.lines() {
        let signature = if key == "user_share" { "d" } else { "t" };
        let value = stats.get(key).unwrap_or_else(|| panic!("{key} is missing"));
        assert_eq!(value.value_signature().to_string(), signature, "{key}");
    }
}

fn write(stage: &Stage, name: &str, text: &str) {
    let path = stage.file(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn log_of(daemon: Process) -> String {
    daemon.signal(Signal::TERM);
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    log
}

/// A settings file, as key and value.
fn entries(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = ")).collect()
}

/// A value of the bus as a settings file has it.
fn as_toml(value: &Variant<'_>) -> String {
    match value {
        Variant::Bool(flag) => flag.to_string(),
        Variant::U32(number) => number.to_string(),
        Variant::Str(text) => format!("{:?}", text.as_str()),
        other => panic!("{other:?} is no value of a setting"),
    }
}

#[tokio::test]
async fn a_settings_file_of_0_1_0_counts_and_is_rewritten_when_saved() {
    let stage = Stage::new();
    write(&stage, OWN_SETTINGS, SETTINGS_OF_0_1_0);
    let daemon = stage.serve(&[]).await;
    let mut client = OldClient::new(&stage).await;
    let mut expected = entries(SETTINGS_OF_0_1_0);
    assert_eq!((expected.len(), expected.remove("minimal_policy")), (24, Some("true")));
    expected.insert("policy", "\"fifo\"");
    let now = client.settings().await;
    for (key, value) in &expected {
        assert_eq!(as_toml(&now[*key]), *value, "{key}");
    }
    assert_eq!(read(stage.file(OWN_SETTINGS)), SETTINGS_OF_0_1_0.trim(), "reading rewrites nothing");

    client.call("Configure", &(HashMap::from([("starvation_ms", Variant::from(60u32))]),)).await.unwrap();
    expected.insert("starvation_ms", "60");
    assert_eq!(entries(&read(stage.file(OWN_SETTINGS))), expected);
    let log = log_of(daemon);
    assert!(log.contains("minimal_policy is now called policy"), "{log}");
    assert!(!log.contains("there is no setting"), "{log}");

    let daemon = stage.serve(&[]).await;
    assert_eq!(as_toml(&client.settings().await["policy"]), "\"fifo\"");
    let log = log_of(daemon);
    assert!(!log.contains("minimal_policy"), "the notice ends once the file is rewritten: {log}");
}

#[tokio::test]
async fn an_old_and_a_new_name_that_contradict_each_other_are_refused_by_both_names() {
    let stage = Stage::new();
    write(&stage, "etc/scherzo/scherzo.toml", "minimal_policy = true\npolicy = \"scherzo\"\nstarvation_ms = 50\n");
    let daemon = stage.serve(&[]).await;
    let mut client = OldClient::new(&stage).await;
    let now = client.settings().await;
    assert_eq!((as_toml(&now["policy"]), as_toml(&now["starvation_ms"])), ("\"scherzo\"".into(), "50".into()));

    let both = HashMap::from([("minimal_policy", Variant::from(true)), ("policy", Variant::from("scherzo"))]);
    let refused = Error::from(client.call("Configure", &(both,)).await.unwrap_err());
    let names_both = |text: &str| text.contains("minimal_policy") && text.contains("policy = \"scherzo\"");
    assert!(matches!(&refused, Error::InvalidSetting(text) if names_both(text)), "{refused}");
    let log = log_of(daemon);
    assert!(log.lines().any(names_both), "{log}");
}

#[tokio::test]
async fn what_was_chosen_with_0_1_0_counts() {
    let stage = Stage::new();
    write(&stage, "var/lib/scherzo/state.toml", STATE_OF_0_1_0);
    write(&stage, "var/lib/scherzo/boots.toml", "nr_unclean = 1\non_watch = false\n");
    write(
        &stage,
        "var/lib/scherzo/history.jsonl",
        "{\"time\":1763900000,\"event\":\"turned-on\",\"details\":{\"uid\":1000}}\n",
    );
    // A service that restarts, so that the scheduler is loaded at once.
    write(&stage, "run/scherzo/started", "");
    let daemon = stage.serve(&[]).await;
    let mut client = OldClient::new(&stage).await;
    client.wait_for_state("running").await;
    assert_eq!(
        (client.text("RequestedMode").await, client.text("Reason").await),
        ("low-power".into(), "choice".into())
    );
    let preemption = client.properties().await.remove("Preemption").unwrap();
    assert_eq!(preemption, OwnedVariant::from(false));
    let history: Vec<Entry> = client.call("GetHistory", &(0u32,)).await.unwrap().body().deserialize().unwrap();
    assert_eq!((history[0].0, history[0].1.as_str()), (1_763_900_000, "turned-on"));

    client.call("SetPreemption", &(true,)).await.unwrap();
    let written = read(stage.file("var/lib/scherzo/state.toml"));
    assert_eq!(written, STATE_OF_0_1_0.replace("preemption = false", "preemption = true").trim());
    let log = log_of(daemon);
    assert!(!log.contains("WARN"), "{log}");
}
