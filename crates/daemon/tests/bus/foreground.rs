//! The application in front.

use scherzo_api::Error;

use crate::support::{Client, Stage, eventually};

/// The slice of the user that runs this.
fn slice() -> String {
    format!("/user.slice/user-{}.slice", rustix::process::geteuid().as_raw())
}

/// Makes a group, and returns its path.
fn make(stage: &Stage, path: &str) -> String {
    std::fs::create_dir_all(stage.file("sys/fs/cgroup").join(&path[1..])).unwrap();
    path.to_owned()
}

fn with_groups() -> Stage {
    let stage = Stage::new();
    make(&stage, &slice());
    std::fs::write(stage.file("sys/fs/cgroup/cgroup.controllers"), "cpu memory\n").unwrap();
    stage
}

async fn wait_for_front(client: &Client, path: &str) {
    eventually(path, async || client.scheduler.foreground().await.unwrap() == path).await;
}

#[tokio::test]
async fn what_is_in_front_ends_with_its_caller() {
    let stage = with_groups();
    let _daemon = stage.serve(&[]).await;
    let (client, shell, other) = (Client::new(&stage).await, Client::new(&stage).await, Client::new(&stage).await);
    let game = make(&stage, &format!("{}/app.slice/app-game.scope", slice()));
    let editor = make(&stage, &format!("{}/app.slice/app-editor.scope", slice()));
    shell.scheduler.set_foreground(&editor).await.unwrap();
    wait_for_front(&client, &editor).await;
    client.scheduler.set_enabled(true).await.unwrap();
    let seq = stage.kernel().enable_seq;
    other.scheduler.set_foreground(&game).await.unwrap();
    wait_for_front(&client, &game).await;
    other.bus.close().await.unwrap();
    wait_for_front(&client, &editor).await;
    shell.scheduler.set_foreground("").await.unwrap();
    wait_for_front(&client, "").await;
    assert_eq!(stage.kernel().enable_seq, seq, "nothing is loaded anew");
    let now = client.snapshot().await;
    assert_eq!((now.mode.as_str(), now.reason.as_str()), ("interactive", "default"));
}

#[tokio::test]
async fn a_hold_has_a_group_in_front_until_it_ends() {
    let stage = with_groups();
    let _daemon = stage.serve(&[]).await;
    let (client, holder) = (Client::new(&stage).await, Client::new(&stage).await);
    let game = make(&stage, &format!("{}/app.slice/app-game.scope", slice()));
    let editor = make(&stage, &format!("{}/app.slice/app-editor.scope", slice()));
    client.scheduler.set_enabled(true).await.unwrap();
    let cookie = holder.scheduler.hold_mode("fifo", "plays", "org.example.Game").await.unwrap();
    holder.scheduler.set_hold_foreground(cookie, &game).await.unwrap();
    wait_for_front(&client, &game).await;
    assert_eq!(client.snapshot().await.holds[0]["foreground"].to_string(), game, "the same user may read it");
    assert!(matches!(client.scheduler.set_hold_foreground(cookie, &editor).await, Err(Error::NoSuchHold(_))));
    client.scheduler.set_foreground(&editor).await.unwrap();
    wait_for_front(&client, &editor).await;
    holder.scheduler.set_hold_foreground(cookie, &game).await.unwrap();
    wait_for_front(&client, &game).await;
    holder.bus.close().await.unwrap();
    wait_for_front(&client, &editor).await;

    let (descriptor, cookie) = client.scheduler.open_hold("fifo", "plays", "org.example.Game", 0).await.unwrap();
    client.scheduler.set_hold_foreground(cookie, &game).await.unwrap();
    wait_for_front(&client, &game).await;
    drop(descriptor);
    wait_for_front(&client, &editor).await;
}

#[tokio::test]
async fn a_bad_group_leaves_a_hold_as_it_is() {
    let stage = with_groups();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    let game = make(&stage, &format!("{}/app-game.scope", slice()));
    let cookie = client.scheduler.hold_mode("fifo", "plays", "org.example.Game").await.unwrap();
    client.scheduler.set_hold_foreground(cookie, &game).await.unwrap();
    let (kernel, holds) = (stage.kernel().enable_seq, client.snapshot().await.holds);
    std::fs::remove_dir(stage.file(&format!("sys/fs/cgroup{game}"))).unwrap();
    for path in [game.as_str(), "relative", "/"] {
        let refused = client.scheduler.set_hold_foreground(cookie, path).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidArgs(_)), "{path}: {refused:?}");
    }
    let others = make(&stage, "/user.slice/user-4242.slice/other.scope");
    if !rustix::process::geteuid().is_root() {
        let refused = client.scheduler.set_hold_foreground(cookie, &others).await.unwrap_err();
        assert!(matches!(refused, Error::AccessDenied(_)), "{refused:?}");
    }
    let now = client.snapshot().await;
    assert_eq!((now.mode.as_str(), now.holds, stage.kernel().enable_seq), ("fifo", holds, kernel));
    client.scheduler.set_hold_foreground(cookie, "").await.unwrap();
    wait_for_front(&client, "").await;
}

#[tokio::test]
async fn bad_groups_are_refused_and_what_is_in_front_stays() {
    let stage = with_groups();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    let own = slice();
    let game = make(&stage, &format!("{own}/app-game.scope"));
    std::os::unix::fs::symlink(stage.file("sys/fs/cgroup"), stage.file(&format!("sys/fs/cgroup{own}/link"))).unwrap();
    client.scheduler.set_foreground(&game).await.unwrap();
    for path in
        ["relative", "/", &format!("{own}/absent.scope"), &format!("{own}/link"), &format!("{own}/../../system.slice")]
    {
        let refused = client.scheduler.set_foreground(path).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidArgs(_)), "{path}: {refused:?}");
    }
    let others = make(&stage, "/user.slice/user-4242.slice/other.scope");
    let answer = client.scheduler.set_foreground(&others).await;
    if rustix::process::geteuid().is_root() {
        answer.unwrap();
        client.scheduler.set_foreground(&game).await.unwrap();
    } else {
        assert!(matches!(answer, Err(Error::AccessDenied(_))), "{answer:?}");
    }
    std::fs::remove_dir(stage.file(&format!("sys/fs/cgroup{game}"))).unwrap();
    assert_eq!(client.scheduler.foreground().await.unwrap(), game, "a group that is gone is in front in vain");
    assert!(matches!(client.scheduler.set_foreground(&game).await, Err(Error::InvalidArgs(_))));
    client.scheduler.set_mode("fifo").await.unwrap();
    assert_eq!(client.snapshot().await.mode, "fifo", "the rest goes on");
}

#[tokio::test]
async fn by_how_much_is_a_setting() {
    let stage = with_groups();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let set = async |percent: u32| {
        client.scheduler.configure([("foreground_percent", zbus::Variant::U32(percent))].into()).await
    };
    set(250).await.unwrap();
    for senseless in [0, 99, 1001] {
        assert!(matches!(set(senseless).await, Err(Error::InvalidSetting(_))));
    }
}
