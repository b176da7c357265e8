//! Settings: over the bus, in files, and both.

use std::collections::HashMap;

use rustix::process::Signal;
use scherzo_api::Error;
use zbus::Variant;

use crate::support::{Client, Stage, eventually, read};

async fn setting(client: &Client, key: &str) -> Variant<'static> {
    client.scheduler.settings().await.unwrap().remove(key).unwrap().into()
}

fn write(stage: &Stage, name: &str, text: &str) {
    let path = stage.file(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn settings_change_what_happens_and_survive() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    client.scheduler.configure(HashMap::from([("default_mode", "fifo".into())])).await.unwrap();
    eventually("the new default", async || client.snapshot().await.mode == "fifo").await;
    assert_eq!((client.snapshot().await.reason.as_str(), stage.kernel().enable_seq), ("default", 1));

    let changes = HashMap::from([("base_slice_us", Variant::from(4_000u32)), ("starvation_ms", 50i64.into())]);
    client.scheduler.configure(changes).await.unwrap();
    assert_eq!(stage.kernel().enable_seq, 1, "slices change in place");
    client.scheduler.configure(HashMap::from([("partial", true.into())])).await.unwrap();
    eventually("loaded anew", async || stage.kernel().enable_seq == 2).await;
    client.wait_for_state("running").await;
    daemon.signal(Signal::TERM);
    daemon.end();
    let _daemon = stage.serve(&[]).await;
    assert_eq!(setting(&client, "base_slice_us").await, Variant::from(4_000u32));
    assert_eq!(setting(&client, "default_mode").await, Variant::from("fifo"));
    assert!(read(stage.file("var/lib/scherzo/settings.toml")).contains("starvation_ms = 50"));
}

#[tokio::test]
async fn what_was_changed_is_taken_back() {
    let stage = Stage::new();
    write(&stage, "etc/scherzo/scherzo.toml", "battery_mode = \"fifo\"\n");
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let default = setting(&client, "base_slice_us").await;
    let changes = HashMap::from([("base_slice_us", Variant::from(4_000u32)), ("default_mode", "fifo".into())]);
    client.scheduler.configure(changes).await.unwrap();
    for (keys, part) in
        [(["base_slice_us", "speed"], "there is no setting"), (["base_slice_us", "battery_mode"], "etc")]
    {
        let refused = client.scheduler.reset_settings(&keys).await.unwrap_err();
        assert!(matches!(&refused, Error::InvalidSetting(text) if text.contains(part)), "{refused}");
    }
    assert_eq!(setting(&client, "base_slice_us").await, Variant::from(4_000u32), "all or none");

    client.scheduler.reset_settings(&["base_slice_us"]).await.unwrap();
    assert_eq!(setting(&client, "base_slice_us").await, default);
    let stored = read(stage.file("var/lib/scherzo/settings.toml"));
    assert!(stored.contains("default_mode") && !stored.contains("base_slice_us"), "{stored}");
    daemon.signal(Signal::TERM);
    daemon.end();
    let _daemon = stage.serve(&[]).await;
    assert_eq!(setting(&client, "base_slice_us").await, default);
    assert_eq!(setting(&client, "default_mode").await, Variant::from("fifo"));
}

#[tokio::test]
async fn refusals_name_what_is_wrong_and_change_nothing() {
    let stage = Stage::new();
    write(&stage, "etc/scherzo/scherzo.toml", "battery_mode = \"fifo\"\nspeed = 9\n");
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let before = client.scheduler.settings().await.unwrap();
    for (key, value, part) in [
        ("base_slice_us", Variant::from(1u32), "allowed is 250 to 20000"),
        ("min_slice_us", Variant::from(19_000u32), "min_slice_us is 19000"),
        ("full_user", true.into(), "needs builtin_idle = false"),
        ("battery_mode", Variant::from("interactive"), "etc/scherzo/scherzo.toml"),
        ("battery_mode", Variant::from("auto"), "takes one of"),
        ("follow_holds", Variant::from(1u32), "true or false"),
        ("speed", Variant::from(1u32), "there is no setting"),
    ] {
        let changes = HashMap::from([(key, value), ("starvation_ms", 77u32.into())]);
        let refused = client.scheduler.configure(changes).await.unwrap_err();
        assert!(matches!(&refused, Error::InvalidSetting(text) if text.contains(part)), "{key}: {refused:?}");
    }
    assert_eq!(client.scheduler.settings().await.unwrap(), before);
    daemon.signal(Signal::TERM);
    let (_, log) = daemon.end();
    assert!(log.contains("scherzo.toml:2: there is no setting \"speed\""), "{log}");
}

#[tokio::test]
async fn files_are_read_again_when_asked() {
    let stage = Stage::new();
    let daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.configure(HashMap::from([("battery_mode", "interactive".into())])).await.unwrap();
    write(&stage, "etc/scherzo/scherzo.toml.d/50-site.toml", "battery_mode = \"fifo\"\n");
    daemon.signal(Signal::HUP);
    let fifo = Variant::from("fifo");
    eventually("the administrator's word", async || setting(&client, "battery_mode").await == fifo).await;
    write(&stage, "etc/scherzo/scherzo.toml.d/50-site.toml", "= = =\n");
    daemon.signal(Signal::HUP);
    let own = Variant::from("interactive");
    eventually("what was set below counts", async || setting(&client, "battery_mode").await == own).await;
}
