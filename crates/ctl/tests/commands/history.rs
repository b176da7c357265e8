//! `scherzoctl history`: when things happened, and what happens while one looks.

use std::process::Stdio;

use rustix::process::{Pid, Signal};
use scherzo_daemon::engine::simulated::Tree;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Bus, own_uid};

/// A history of long ago, and a service that goes on with it.
async fn served() -> Bus {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let directory = bus.0.directory().join("var/lib/scherzo");
    std::fs::create_dir_all(&directory).unwrap();
    let old = "{\"time\": 1772384709, \"event\": \"unloaded\", \"details\": {}}\n";
    std::fs::write(directory.join("history.jsonl"), old).unwrap();
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    bus
}

#[tokio::test]
async fn times_are_local_and_bound_what_is_shown() {
    let bus = served().await;
    let first = async |arguments: &[&str], zone: &str| {
        let output = bus.command(arguments).env("TZ", zone).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().next().unwrap_or_default().to_owned()
    };
    assert!(first(&["history"], "XXX-5:30").await.starts_with("2026-03-01 22:35:09  "));
    assert!(first(&["history", "--utc"], "XXX-5:30").await.starts_with("2026-03-01 17:05:09 UTC  "));
    assert!(first(&["history", "--since", "2026-03-01 22:35:09"], "XXX-5:30").await.starts_with("2026-03-01"));
    assert!(!first(&["history", "--since", "2026-03-01 22:35:10"], "XXX-5:30").await.starts_with("2026-03-01"));
    let recent = bus.ctl(&["history", "--json", "--since", "-1h"]).await.json();
    assert_eq!(recent["history"][0]["event"], "turned-on");
    assert_eq!(bus.ctl(&["history", "1", "--json"]).await.json()["history"].as_array().unwrap().len(), 1);
    assert_eq!(bus.ctl(&["history", "--since", "soon"]).await.code, 2);
}

#[tokio::test]
async fn what_happens_is_followed() {
    let bus = served().await;
    let mut command = bus.command(&["history", "--follow", "--since", "now", "--json"]);
    let mut follow = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = lines.next_line().await.unwrap().expect("it goes on until it is interrupted");
        serde_json::from_str::<Value>(&line).unwrap()["history"].clone()
    };
    next().await;
    for mode in ["fifo", "low-power", "fifo"] {
        bus.ctl(&["mode", mode]).await.plainly();
        let added = next().await;
        assert_eq!((&added[0]["event"], &added[0]["details"]["mode"]), (&"mode".into(), &mode.into()));
        assert_eq!(added.as_array().unwrap().len(), 1, "nothing twice: {added}");
    }
    let pid = Pid::from_raw(follow.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert_eq!(follow.wait().await.unwrap().code(), Some(0));
}
