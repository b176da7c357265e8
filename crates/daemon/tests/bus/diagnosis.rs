//! `Diagnose` looks at the host once a second at most, whoever asks.

use std::time::{Duration, Instant};

use crate::support::{Client, Stage};

/// A little longer than what was found is answered again.
const LONG_AGO: Duration = Duration::from_millis(1_050);
/// A busy machine may take longer for two questions than what was found lasts.
const NR_ATTEMPTS: u32 = 20;

/// What `Diagnose` looks at: the weight of a control group.
fn set_weight(stage: &Stage, weight: u32) {
    let directory = stage.file("sys/fs/cgroup/box.service");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("cpu.weight"), format!("{weight}\n")).unwrap();
}

/// The weight that it answers.
async fn told_weight(client: &Client) -> u32 {
    let findings = client.scheduler.diagnose().await.unwrap();
    let (_, _, text, _) = findings.iter().find(|(id, ..)| id == "control-groups").expect("a weight is set");
    let (_, rest) = text.split_once("box.service (CPUWeight=").expect("the group is named");
    rest.split_once(')').unwrap().0.parse().unwrap()
}

#[tokio::test]
async fn the_host_is_looked_at_once_a_second() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let (client, other) = (Client::new(&stage).await, Client::new(&stage).await);
    for attempt in 1..=NR_ATTEMPTS {
        let (before, after) = (2 * attempt, 2 * attempt + 1);
        set_weight(&stage, before);
        let asked = Instant::now();
        assert_eq!(told_weight(&client).await, before, "what was found a second ago counts no longer");
        set_weight(&stage, after);
        let told = told_weight(&other).await;
        let is_within_a_second = asked.elapsed() < Duration::from_secs(1);
        tokio::time::sleep(LONG_AGO).await;
        assert_eq!(told_weight(&other).await, after, "the change is seen after a second");
        if is_within_a_second {
            assert_eq!(told, before, "nothing was looked at for the second question");
            return;
        }
        tokio::time::sleep(LONG_AGO).await;
    }
    panic!("no two questions were answered within a second");
}
