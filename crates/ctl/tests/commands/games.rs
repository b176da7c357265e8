//! Games that GameMode knows of decide the mode while they run.

use std::sync::{Arc, Mutex};

use scherzo_daemon::engine::simulated::Tree;
use zbus::object_server::SignalEmitter;
use zbus::{ObjectPath, OwnedObjectPath};

use crate::support::{Bus, own_uid};

const NAME: &str = "com.feralinteractive.GameMode";
const PATH: &str = "/com/feralinteractive/GameMode";

/// GameMode as far as it is listened to.
#[derive(Clone, Default)]
struct FakeGameMode(Arc<Mutex<Vec<(i32, OwnedObjectPath)>>>);

#[zbus::interface(name = "com.feralinteractive.GameMode")]
impl FakeGameMode {
    fn list_games(&self) -> Vec<(i32, OwnedObjectPath)> {
        self.0.lock().unwrap().clone()
    }

    #[zbus(signal)]
    async fn game_registered(to: &SignalEmitter<'_>, process: i32, game: ObjectPath<'_>) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn game_unregistered(to: &SignalEmitter<'_>, process: i32, game: ObjectPath<'_>) -> zbus::Result<()>;
}

#[tokio::test]
async fn games_decide_the_mode_while_they_are_registered() {
    let bus = Bus::start();
    Tree::plant(bus.root()).unwrap();
    bus.serve(own_uid()).await;
    bus.ctl(&["enable"]).await.plainly();
    let slice = bus.0.directory().join("app.slice");
    std::fs::create_dir(&slice).unwrap();
    let mut watching = bus.command(&["applications", "watch", "--slice", slice.to_str().unwrap()]);
    let mut watching = watching.env("DBUS_SESSION_BUS_ADDRESS", bus.0.address()).kill_on_drop(true).spawn().unwrap();

    // A game that runs before GameMode is found.
    let games = FakeGameMode::default();
    let game = OwnedObjectPath::try_from("/game/7").unwrap();
    games.0.lock().unwrap().push((7, game.clone()));
    let builder = zbus::connection::Builder::address(bus.0.address()).serve_at(PATH, games.clone());
    let session = builder.build().await.unwrap();
    session.request_name(NAME).await.unwrap();
    bus.is_in("interactive", "hold").await;
    let to = SignalEmitter::new(&session, PATH).unwrap();
    games.0.lock().unwrap().clear();
    FakeGameMode::game_unregistered(&to, 7, game.as_ref()).await.unwrap();
    bus.is_in("interactive", "default").await;

    // A rule says otherwise.
    bus.ctl(&["applications", "set", NAME, "fifo"]).await.plainly();
    games.0.lock().unwrap().push((8, game.clone()));
    FakeGameMode::game_registered(&to, 8, game.as_ref()).await.unwrap();
    bus.is_in("fifo", "hold").await;
    bus.ctl(&["applications", "set", NAME, "auto"]).await.plainly();
    bus.is_in("interactive", "default").await;
    bus.ctl(&["applications", "unset", NAME]).await.plainly();
    bus.is_in("interactive", "hold").await;

    // GameMode ends with its session.
    drop((to, session));
    bus.is_in("interactive", "default").await;
    assert!(watching.try_wait().unwrap().is_none(), "it goes on");
}
