//! What `Diagnose` says about weights and limits of control groups, and that each of its texts has an id of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use scherzo_api::catalogue::TEXT_ID;
use scherzo_api::details;

use crate::support::{Client, Stage};

/// The sources that have texts of findings.
const SOURCES: [&str; 4] = [
    include_str!("../../../host/src/diagnosis.rs"),
    include_str!("../../../host/src/control_groups.rs"),
    include_str!("../../src/diagnose.rs"),
    include_str!("../../src/rivals.rs"),
];

fn set(stage: &Stage, group: &str, file: &str, value: &str) {
    let directory = stage.file("sys/fs/cgroup").join(group);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(file), value).unwrap();
}

/// Texts about control groups by their ids.
async fn found(client: &Client) -> BTreeMap<String, String> {
    let findings = client.scheduler.diagnose().await.unwrap();
    let mut groups = BTreeMap::new();
    for (id, _, text, wire) in findings {
        let text_id = details::from_wire(&wire)[TEXT_ID].to_string();
        assert!(text_id.strip_prefix(&id).is_some_and(|rest| rest.starts_with('/')), "{id}: {text_id}");
        if id == "control-groups" {
            groups.insert(text_id, text);
        }
    }
    groups
}

#[tokio::test]
async fn weights_and_limits_are_told_before_during_and_where_they_do_not_count() {
    let stage = Stage::new();
    set(&stage, "box.service", "cpu.weight", "20\n");
    set(&stage, "box.service", "cpu.max", "50000 100000\n");
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let groups = found(&client).await;
    assert!(groups["control-groups/kept-when-on"].contains("box.service (CPUQuota=50%)"), "{groups:?}");

    client.scheduler.set_enabled(true).await.unwrap();
    assert!(found(&client).await["control-groups/kept"].contains("box.service (CPUWeight=20)"));
    client.scheduler.set_engine("user").await.unwrap();
    assert!(found(&client).await["control-groups/kept"].contains("box.service (CPUWeight=20)"));
    client.scheduler.configure(HashMap::from([("policy", "classes".into())])).await.unwrap();
    let groups = found(&client).await;
    let text = &groups["control-groups/weights-ignored-by-setting"];
    assert!(text.contains("CPUWeight=20") && !text.contains("CPUQuota"), "limits are kept: {groups:?}");

    client.scheduler.set_enabled(false).await.unwrap();
    stage.tree().load("other_1.0").unwrap();
    let groups = found(&client).await;
    let text = &groups["control-groups/foreign"];
    assert!(text.contains("other_1.0") && text.contains("CPUQuota=50%"), "{groups:?}");
}

#[test]
fn each_text_has_an_id_of_its_own() {
    let is_id = |word: &&str| {
        let is_part =
            |part: &str| !part.is_empty() && part.chars().all(|char| char.is_ascii_lowercase() || char == '-');
        word.split_once('/').is_some_and(|(check, text)| is_part(check) && is_part(text))
    };
    let code = SOURCES.iter().map(|source| source.split("#[cfg(test)]").next().unwrap_or_default());
    let ids: Vec<_> = code.flat_map(|code| code.split('"').filter(is_id)).collect();
    assert!(ids.len() > 30, "{ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}
