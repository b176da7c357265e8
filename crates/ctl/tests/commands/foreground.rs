//! Control groups in front for as long as a hold lasts, and applications that are in front by a rule.

use std::path::PathBuf;
use std::time::Duration;

use scherzo_daemon::engine::simulated::Tree;

use crate::support::{Bus, own_uid};

/// Where the applications of the user that runs this are.
fn applications() -> String {
    let uid = own_uid().unwrap();
    format!("/user.slice/user-{uid}.slice/user@{uid}.service/app.slice")
}

/// The service, turned on, with a hierarchy of groups.
async fn with_groups() -> Bus {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    make(&bus, &applications());
    std::fs::write(bus.root().path("sys/fs/cgroup/cgroup.controllers"), "cpu memory\n").unwrap();
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    bus
}

fn directory_of(bus: &Bus, group: &str) -> PathBuf {
    bus.root().path("sys/fs/cgroup").join(&group[1..])
}

fn make(bus: &Bus, group: &str) {
    std::fs::create_dir_all(directory_of(bus, group)).unwrap();
}

async fn is_in_front(bus: &Bus, group: &str) {
    for _ in 0..200 {
        if bus.ctl(&["--json", "status"]).await.json()["foreground"] == group {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{group:?} is never in front");
}

#[tokio::test]
async fn a_group_is_in_front_while_a_hold_lasts() {
    let bus = with_groups().await;
    let game = format!("{}/app-game.scope", applications());
    make(&bus, &game);
    let foreground = format!("--foreground={game}");
    let mut held =
        bus.command(&["hold", "-m", "fifo", "-r", "a test", &foreground]).kill_on_drop(true).spawn().unwrap();
    is_in_front(&bus, &game).await;
    assert!(
        bus.ctl(&["status"])
            .await
            .plainly()
            .contains(&format!("\nFront:   {game}, which counts for 400 % of its weight\n"))
    );
    bus.ctl(&["disable"]).await.plainly();
    assert!(bus.ctl(&["status"]).await.plainly().contains(&format!("\nFront:   {game}\n")), "nobody heeds it");
    bus.ctl(&["enable"]).await.plainly();
    held.kill().await.unwrap();
    is_in_front(&bus, "").await;
    let show = format!("{} --json status", env!("CARGO_BIN_EXE_scherzoctl"));
    let ran = bus.ctl(&["run", "-m", "fifo", &foreground, "--", "sh", "-c", &show]).await.json();
    assert_eq!((&ran["mode"], &ran["foreground"]), (&"fifo".into(), &game.as_str().into()));
    is_in_front(&bus, "").await;
}

#[tokio::test]
async fn a_group_that_is_not_there_ends_a_hold_and_no_command() {
    let bus = with_groups().await;
    let gone = format!("--foreground={}/app-gone.scope", applications());
    let refused = bus.ctl(&["hold", "-m", "fifo", "-r", "a test", &gone, "--", "echo", "ran"]).await;
    refused.refused(2, "There is no control group");
    let ran = bus.ctl(&["run", "-m", "fifo", &gone, "--", "sh", "-c", "echo ran; exit 7"]).await;
    assert_eq!((ran.code, ran.text.as_str()), (7, "ran\n"));
    assert!(ran.complaint.contains("The mode fifo is not held: There is no control group"), "{}", ran.complaint);
    bus.is_in("interactive", "default").await;
}

#[tokio::test]
async fn an_application_is_in_front_by_its_rule() {
    let bus = with_groups().await;
    let slice = directory_of(&bus, &applications());
    let [first, second] = [1, 2].map(|number| format!("{}/app-org.example.Game-{number}.scope", applications()));
    bus.ctl(&["applications", "set", "org.example.Game", "fifo", "--foreground"]).await.plainly();
    let watch = ["applications", "watch", "--slice", slice.to_str().unwrap()];
    let mut watching = bus.command(&watch).kill_on_drop(true).spawn().unwrap();
    make(&bus, &first);
    is_in_front(&bus, &first).await;
    bus.is_in("fifo", "hold").await;
    make(&bus, &second);
    is_in_front(&bus, &second).await;
    std::fs::remove_dir(directory_of(&bus, &second)).unwrap();
    is_in_front(&bus, &first).await;
    bus.ctl(&["applications", "set", "org.example.Game", "fifo"]).await.plainly();
    is_in_front(&bus, "").await;
    bus.is_in("fifo", "hold").await;
    bus.ctl(&["applications", "set", "org.example.Game", "fifo", "--foreground"]).await.plainly();
    is_in_front(&bus, &first).await;
    std::fs::remove_dir(directory_of(&bus, &first)).unwrap();
    is_in_front(&bus, "").await;
    bus.is_in("interactive", "default").await;
    assert!(watching.try_wait().unwrap().is_none(), "it goes on");
}
