//! Clients that call as fast as the bus carries it and read no answer: the service goes on. How fast is asserted in a
//! guest, where time is virtual.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use scherzo_api::names::{BUS_NAME, INTERFACE, OBJECT_PATH};
use zbus::message::Flags;
use zbus::{Message, Variant};

use crate::flood::{Flood, NR_CONNECTIONS};
use crate::support::{Client, Stage, eventually, read};

/// The service's memory stays below this, however much it is asked, and how often that is looked at.
const MAX_PSS_KIB: u64 = 24 << 10;
const NR_LOOKS: u32 = 40;
/// As many calls the bus lets a connection of a user have open. Fewer of a flood are answered before another user is; the best of so
/// many times is told, since the machine may be busy.
const NR_OPEN: u64 = 128;
const NR_TIMES: u32 = 3;
/// Interfaces that the library answers for.
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const PEER: &str = "org.freedesktop.DBus.Peer";
const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";

fn call_of<'a>(interface: &'a str, member: &'a str) -> zbus::message::Builder<'a> {
    Message::method_call(OBJECT_PATH, member).destination(BUS_NAME).interface(interface)
}

/// A call of each method, valid ones where that is possible.
fn calls() -> Vec<(String, Message)> {
    let call = |member| call_of(INTERFACE, member);
    let settings = HashMap::from([("battery_mode", Variant::from("fifo"))]);
    let hold = ("fifo", "a flood", "org.example.Flood");
    let plain =
        ["GetStats", "GetWaitHistogram", "DescribeSettings", "Diagnose", "Subscribe", "Unsubscribe", "InspectHolds"];
    let messages = [
        call("GetHistory").build(&(0u32,)),
        call("GetHistorySince").build(&(0u64,)),
        call("SetMode").build(&("fifo",)),
        call("SetModeFor").build(&("fifo", 60u32)),
        call("SetEnabled").build(&(false,)),
        call("SetEngine").build(&("user",)),
        call("SetForeground").build(&("/user.slice",)),
        call("SetHoldForeground").build(&(7u32, "/user.slice")),
        call("SetPreemption").build(&(true,)),
        call("HoldMode").build(&hold),
        call("OpenHold").build(&(hold.0, hold.1, hold.2, 60u32)),
        call("ReleaseMode").build(&(7u32,)),
        call("Configure").build(&(settings,)),
        call("ResetSettings").build(&(vec!["battery_mode"],)),
        call("NoSuchMethod").build(&()),
    ];
    let of_library = [
        call_of(PROPERTIES, "Get").build(&(INTERFACE, "Mode")),
        call_of(PROPERTIES, "GetAll").build(&(INTERFACE,)),
        call_of(PROPERTIES, "Set").build(&(INTERFACE, "Mode", Variant::from("fifo"))),
        call_of(PEER, "Ping").build(&()),
        call_of(PEER, "GetMachineId").build(&()),
        call_of(INTROSPECTABLE, "Introspect").build(&()),
    ];
    let plain = plain.iter().map(|member| call(member).build(&()));
    let all = messages.into_iter().chain(of_library).chain(plain).map(Result::unwrap);
    all.map(|message| (message.header().member().unwrap().to_string(), message)).collect()
}

/// Calls that the bus passes on without counting them: nobody waits for an answer.
fn without_answer() -> Message {
    call_of(INTERFACE, "GetHistory").with_flags(Flags::NO_REPLY_EXPECTED).build(&(0u32,)).unwrap()
}

#[tokio::test]
async fn who_floods_the_service_stalls_neither_it_nor_others() {
    let stage = Stage::new();
    for (name, text) in [
        ("var/lib/scherzo/state.toml", "enabled = true\nmode = \"auto\"\npreemption = true\n"),
        // A service that restarts loads at once.
        ("run/scherzo/started", ""),
    ] {
        std::fs::create_dir_all(stage.file(name).parent().unwrap()).unwrap();
        std::fs::write(stage.file(name), text).unwrap();
    }
    // Whoever floods may change nothing: without polkit, nobody may.
    let daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    client.wait_for_state("running").await;
    let enable_seq = stage.kernel().enable_seq;

    let all: Vec<_> = calls().into_iter().map(|(_, call)| call).collect();
    let flood = Flood::begin(&stage, &all);
    eventually("the flood has begun", async || flood.nr_calls() > 1_000).await;

    let asked_at = Instant::now();
    client.scheduler.state().await.unwrap();
    let answered_after = asked_at.elapsed();
    let killed_at = Instant::now();
    daemon.signal(Signal::USR1);
    eventually("another engine", async || stage.kernel().enable_seq > enable_seq).await;
    let back_after = killed_at.elapsed();
    let mut pss_kib = 0;
    for _ in 0..NR_LOOKS {
        pss_kib = pss_kib.max(daemon.pss_kib());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(pss_kib < MAX_PSS_KIB, "the service takes {pss_kib} KiB");
    eprintln!(
        "under a flood of {} calls: State after {answered_after:?}, another engine after {back_after:?}, \
         at most {pss_kib} KiB",
        flood.nr_calls()
    );
    drop(flood);

    client.wait_for_state("running").await;
    assert_eq!(client.snapshot().await.requested_mode, "auto", "the flood has changed nothing");
    daemon.signal(Signal::TERM);
    let (code, log) = daemon.end();
    assert_eq!((code, read(stage.file("sys/kernel/sched_ext/state")).as_str()), (Some(0), "disabled"), "{log}");
}

#[tokio::test]
async fn of_each_method_few_calls_come_before_those_of_another_user() {
    for (name, call) in calls() {
        ensure_others_come_first(&name, call).await;
    }
}

#[tokio::test]
async fn calls_without_answer_do_not_pile_up() {
    ensure_others_come_first("GetHistory, without answer", without_answer()).await;
}

async fn ensure_others_come_first(name: &str, call: Message) {
    let stage = Stage::new();
    std::fs::set_permissions(stage.file(""), PermissionsExt::from_mode(0o755)).unwrap();
    let daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    client.scheduler.state().await.unwrap();
    let flood = Flood::begin(&stage, &[call]);
    eventually("the flood has begun", async || flood.nr_calls() > 2 * NR_OPEN * NR_CONNECTIONS).await;
    let (mut fewest, mut times) = (u64::MAX, Vec::new());
    for _ in 0..NR_TIMES {
        let (nr_answered, asked_at) = (flood.nr_answers(), Instant::now());
        client.scheduler.state().await.unwrap();
        times.push(asked_at.elapsed());
        fewest = fewest.min(flood.nr_answers() - nr_answered);
    }
    let pss_kib = daemon.pss_kib();
    eprintln!("{name}: State after {times:?}, {fewest} calls of the flood were answered before, {pss_kib} KiB");
    assert!(fewest < NR_OPEN, "{name}: {fewest} calls of the flood were answered before that of another user");
    assert!(pss_kib < MAX_PSS_KIB, "{name}: the service takes {pss_kib} KiB");
}

/// A method that comes later is flooded as well.
#[test]
fn every_method_is_called() {
    let interface = include_str!("../../../../dbus/org.scherzo.Scheduler1.xml");
    let methods = interface.split("<method name=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let called: Vec<_> = calls().into_iter().map(|(name, _)| name).collect();
    for method in methods {
        assert!(called.iter().any(|name| name == method), "{method}");
    }
}
