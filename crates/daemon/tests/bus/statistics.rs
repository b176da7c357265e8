//! Statistics: asked for, and sent to whoever subscribed.

use std::time::Duration;

use futures_util::StreamExt;
use scherzo_api::Error;
use scherzo_api::histogram::Histogram;
use scherzo_api::stats::Stats;
use tokio::time::timeout;
use zbus::MessageStream;
use zbus::fdo::MonitoringProxy;

use crate::support::{Client, PATIENCE, Stage};

#[tokio::test]
async fn statistics_move_while_running_only() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    assert!(matches!(client.scheduler.get_stats().await, Err(Error::NotRunning(_))));
    assert!(matches!(client.scheduler.get_wait_histogram().await, Err(Error::NotRunning(_))));

    client.scheduler.set_enabled(true).await.unwrap();
    let first = Stats::from_wire(&client.scheduler.get_stats().await.unwrap());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let second = Stats::from_wire(&client.scheduler.get_stats().await.unwrap());
    assert!(second.nr_switches > first.nr_switches && second.uptime_ns > first.uptime_ns);
    assert_eq!((second.nr_cpus, second.nr_page_faults), (4, 0));
    assert!((0.5..=1.0).contains(&second.user_share), "{}", second.user_share);

    let histograms = client.scheduler.get_wait_histogram().await.unwrap();
    let interactive = Histogram::from_slice(&histograms["interactive"]);
    assert!(interactive.nr_total() > 0 && second.wait_interactive_p99_us >= second.wait_interactive_p50_us);
}

#[tokio::test]
async fn only_subscribers_are_told_and_only_while_they_live() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let (client, bystander) = (Client::new(&stage).await, Client::new(&stage).await);
    let monitor = stage.connect().await;
    let mut overheard = MessageStream::from(&monitor);
    let rules = ["type='signal',member='StatsUpdated'".try_into().unwrap()];
    MonitoringProxy::new(&monitor).await.unwrap().become_monitor(&rules, 0).await.unwrap();
    let mut told = client.scheduler.receive_stats_updated().await.unwrap();
    let mut not_told = bystander.scheduler.receive_stats_updated().await.unwrap();

    client.scheduler.subscribe().await.unwrap();
    client.scheduler.subscribe().await.unwrap();
    client.scheduler.set_enabled(true).await.unwrap();
    for _ in 0..2 {
        let update = timeout(PATIENCE, told.next()).await.unwrap().unwrap();
        assert!(Stats::from_wire(update.args().unwrap().stats()).nr_switches > 0);
    }
    assert!(timeout(Duration::from_millis(1), not_told.next()).await.is_err(), "statistics are not for everyone");

    client.scheduler.unsubscribe().await.unwrap();
    client.scheduler.unsubscribe().await.unwrap();
    drain(&mut overheard).await;
    assert!(timeout(Duration::from_millis(1200), overheard.next()).await.is_err(), "sent to nobody");

    client.scheduler.subscribe().await.unwrap();
    timeout(PATIENCE, overheard.next()).await.unwrap();
    drop(told);
    client.bus.close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drain(&mut overheard).await;
    assert!(timeout(Duration::from_millis(1200), overheard.next()).await.is_err(), "sent to the dead");
}

async fn drain(messages: &mut MessageStream) {
    while timeout(Duration::from_millis(20), messages.next()).await.is_ok() {}
}
