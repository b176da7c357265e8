//! `docs/json.md` against what the commands print: every field is in its table with its type, and no other is.

use std::collections::BTreeSet;
use std::process::Stdio;

use scherzo_daemon::engine::simulated::Tree;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Bus, own_uid};

const DOCUMENTATION: &str = include_str!("../../../../docs/json.md");

/// A field as it is documented: where it is, and what it may be.
#[derive(Debug)]
struct Documented {
    path: &'static str,
    types: Vec<&'static str>,
}

/// The table below a heading.
fn documented(command: &str) -> Vec<Documented> {
    let heading = format!("\n## {command}\n");
    let (_, section) = DOCUMENTATION.split_once(&heading).unwrap_or_else(|| panic!("{command} is not documented"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let fields = rows.map(|(path, rest)| {
        let types = rest.split(" | ").next().unwrap().split([',', ' ']);
        Documented { path, types: types.filter(|word| !["", "or"].contains(word)).collect() }
    });
    fields.collect()
}

/// Where every value of a document is, and its type.
fn leaves(value: &Value, path: String, found: &mut BTreeSet<(String, &'static str)>) {
    match value {
        Value::Object(fields) => {
            let dot = if path.is_empty() { "" } else { "." };
            fields.iter().for_each(|(name, value)| leaves(value, format!("{path}{dot}{name}"), found));
        }
        Value::Array(elements) => elements.iter().for_each(|value| leaves(value, format!("{path}[]"), found)),
        Value::Null => drop(found.insert((path, "null"))),
        Value::Bool(_) => drop(found.insert((path, "boolean"))),
        Value::Number(_) => drop(found.insert((path, "number"))),
        Value::String(_) => drop(found.insert((path, "string"))),
    }
}

/// Whether a documented path, in which `*` is one name (that may have dots itself), means this one.
fn means(documented: &str, real: &str) -> bool {
    let Some((before, after)) = documented.split_once('*') else { return documented == real };
    real.len() > before.len() + after.len() && real.starts_with(before) && real.ends_with(after)
}

/// Holds documents of a command against its table; each documented field must occur in one of them at least.
fn check(command: &str, documents: &[Value]) {
    let table = documented(command);
    let mut found = BTreeSet::new();
    for document in documents {
        leaves(document, String::new(), &mut found);
    }
    assert!(found.remove(&("schema".to_owned(), "number")), "{command} prints no schema");
    for (path, kind) in &found {
        // A field's own row counts more than one that means many.
        let exact = table.iter().find(|field| field.path == path);
        let row = exact.or_else(|| table.iter().find(|field| means(field.path, path)));
        let row = row.unwrap_or_else(|| panic!("{command} prints {path}, which docs/json.md does not tell"));
        assert!(row.types.contains(kind), "{command}: {path} is a {kind}, documented as {row:?}");
    }
    for field in table {
        assert!(found.iter().any(|(path, _)| means(field.path, path)), "{command} never prints {}", field.path);
    }
}

#[tokio::test]
async fn every_field_is_documented_and_no_other() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    let absent: Value = serde_json::from_str(&bus.ctl(&["--json", "status"]).await.text).unwrap();
    bus.serve(own_uid()).await;
    let off = bus.ctl(&["--json", "status"]).await.json();
    let on = bus.ctl(&["--json", "enable"]).await.json();
    let mut held = bus.command(&["hold", "-m", "low-power", "-r", "a test"]).kill_on_drop(true).spawn().unwrap();
    bus.is_in("low-power", "hold").await;
    let holds = bus.ctl(&["--json", "status"]).await.json();
    held.kill().await.unwrap();
    let chosen = bus.ctl(&["--json", "mode", "fifo"]).await.json();
    let unstored = while_nothing_can_be_stored(&bus, &["--json", "preemption", "off"]).await;
    check("status", &[absent, off, on, holds, chosen, unstored]);
    check("is-running", &[bus.ctl(&["--json", "is-running"]).await.json()]);
    let failure = bus.ctl(&["--json", "config", "get", "speed"]).await;
    check("Failures", &[serde_json::from_str(&failure.complaint).unwrap()]);
    check("mode", &[bus.ctl(&["--json", "mode"]).await.json()]);
    check("preemption", &[bus.ctl(&["--json", "preemption"]).await.json()]);
    check("engine", &[bus.ctl(&["--json", "engine"]).await.json()]);
    check("config", &[bus.ctl(&["--json", "config"]).await.json()]);
    bus.ctl(&["applications", "set", "org.example.Game", "fifo", "--foreground"]).await.plainly();
    check("applications", &[bus.ctl(&["--json", "applications"]).await.json()]);
    let doctor = serde_json::from_str(&bus.ctl(&["--json", "doctor"]).await.text).unwrap();
    check("doctor", &[doctor]);
    check("history", &[bus.ctl(&["--json", "history"]).await.json()]);
    check("stats", &[bus.ctl(&["--json", "stats"]).await.json()]);
    check("monitor", &monitored(&bus, 3).await);
}

/// What a command prints while there is a file where the service's directory should be.
async fn while_nothing_can_be_stored(bus: &Bus, arguments: &[&str]) -> Value {
    let [directory, away] = ["var/lib/scherzo", "away"].map(|name| bus.0.directory().join(name));
    std::fs::rename(&directory, &away).unwrap();
    std::fs::write(&directory, "").unwrap();
    let said = bus.ctl(arguments).await.json();
    std::fs::remove_file(&directory).unwrap();
    std::fs::rename(&away, &directory).unwrap();
    said
}

/// The first documents that `monitor` prints.
async fn monitored(bus: &Bus, nr_documents: usize) -> Vec<Value> {
    let mut monitor = bus.command(&["monitor", "--json"]).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(monitor.stdout.take().unwrap()).lines();
    let mut documents = Vec::new();
    while documents.len() < nr_documents {
        let line = lines.next_line().await.unwrap().expect("it goes on until it is killed");
        documents.push(serde_json::from_str(&line).unwrap());
    }
    documents
}

#[test]
fn a_path_with_a_star_means_many() {
    assert!(means("settings.*", "settings.a") && means("applications.*", "applications.org.x.Y"));
    assert!(means("wait_log2_us.*[]", "wait_log2_us.batch[]") && means("a", "a"));
    assert!(!means("settings.*", "settings.") && !means("a", "b") && !means("holds[].*", "history[].time"));
}
