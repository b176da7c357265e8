//! What clients can build on rather than on lists of their own: descriptions of settings and modes, and a history that is
//! read where it was left.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use scherzo_api::Error;
use tokio::time::timeout;
use zbus::{OwnedVariant, Variant};

use crate::support::{Client, PATIENCE, Stage};

type Described = HashMap<String, HashMap<String, OwnedVariant>>;

/// A fact as text, whatever its type.
fn fact(described: &Described, of: &str, name: &str) -> String {
    match described[of].get(name).map(|value| &**value) {
        None => "none".to_owned(),
        Some(Variant::Str(text)) => text.to_string(),
        Some(Variant::U32(number)) => number.to_string(),
        Some(Variant::Bool(flag)) => flag.to_string(),
        Some(other) => format!("{other:?}"),
    }
}

#[tokio::test]
async fn settings_are_described_with_the_source_of_their_value() {
    let stage = Stage::new();
    let file = stage.file("etc/scherzo/scherzo.toml.d/50-site.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "battery_mode = \"fifo\"\n").unwrap();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.configure(HashMap::from([("starvation_ms", 70u32.into())])).await.unwrap();
    let described = client.scheduler.describe_settings().await.unwrap();
    let current = client.scheduler.settings().await.unwrap();
    assert_eq!(described.len(), current.len());
    for (key, value) in &current {
        assert_eq!(described[key]["value"], *value, "{key}");
    }
    let facts = |key: &str, names: &[&str]| names.iter().map(|name| fact(&described, key, name)).collect::<Vec<_>>();
    let names = ["type", "value", "default", "minimum", "maximum", "source", "file", "reloads"];
    assert_eq!(facts("starvation_ms", &names), ["number", "70", "100", "5", "1000", "settings", "none", "false"]);
    assert_eq!(facts("watchdog_s", &names), ["number", "30", "30", "1", "30", "default", "none", "true"]);
    let path = file.display().to_string();
    assert_eq!(facts("battery_mode", &["type", "value", "source", "file"]), ["mode", "fifo", "file", &path]);
    assert!(fact(&described, "battery_mode", "choices").contains("low-power"));
    assert_eq!(fact(&described, "battery_mode", "action"), "org.scherzo.Scheduler1.configure-automation");
    assert_eq!(facts("slice_timer", &["type", "value"]), ["choice", "auto"]);
    assert!(fact(&described, "slice_timer", "choices").contains("off"));
    assert!(fact(&described, "policy", "choices").contains("scherzo"));
    assert!(described.values().all(|facts| facts.contains_key("text")));
    client.scheduler.reset_settings(&["starvation_ms"]).await.unwrap();
    let described = client.scheduler.describe_settings().await.unwrap();
    assert_eq!(fact(&described, "starvation_ms", "source"), "default");
}

#[tokio::test]
async fn modes_are_described_and_say_why_they_are_not_available() {
    for (stage, available, why_not) in [(Stage::new(), "true", "none"), (Stage::bare(), "false", "no-sched-ext")] {
        let _daemon = stage.serve(&[]).await;
        let client = Client::new(&stage).await;
        let described = client.scheduler.mode_details().await.unwrap();
        for mode in client.scheduler.modes().await.unwrap() {
            assert!(!fact(&described, &mode, "title").is_empty() && !fact(&described, &mode, "summary").is_empty());
            let is_available = [fact(&described, &mode, "available"), fact(&described, &mode, "why_not")];
            assert_eq!(is_available, [available, why_not], "{mode}");
        }
    }
}

#[tokio::test]
async fn the_history_is_read_where_it_was_left() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let mut added = client.scheduler.receive_history_added().await.unwrap();
    client.scheduler.set_mode("fifo").await.unwrap();
    let told = *timeout(PATIENCE, added.next()).await.unwrap().unwrap().args().unwrap().now();
    let (now, entries) = client.scheduler.get_history_since(0).await.unwrap();
    assert_eq!((now, entries.len()), (told, 1));
    assert_eq!(entries, client.scheduler.get_history(0).await.unwrap());
    assert_eq!(client.scheduler.get_history_since(now).await.unwrap(), (now, Vec::new()));
    client.scheduler.set_mode("low-power").await.unwrap();
    let (later, entries) = client.scheduler.get_history_since(now).await.unwrap();
    assert_eq!((later, entries.len(), entries[0].1.as_str()), (now + 1, 1, "mode"));
    assert_eq!(client.scheduler.get_history_since(u64::MAX).await.unwrap().1.len(), 2, "of a history that was lost");
    assert!(matches!(client.scheduler.set_mode("turbo").await, Err(Error::InvalidMode(_))));
    timeout(PATIENCE, added.next()).await.unwrap().unwrap();
    assert!(timeout(Duration::from_millis(50), added.next()).await.is_err(), "nothing else has happened");
}
