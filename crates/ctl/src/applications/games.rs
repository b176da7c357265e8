//! Games that run, as far as they have registered themselves with GameMode on the bus of the session.

use std::collections::BTreeSet;
use std::future::pending;

use futures_util::StreamExt;
use zbus::connection::Builder;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};
use zbus::names::BusName;
use zbus::{Connection, MessageStream, OwnedObjectPath, Proxy};

/// Bus name and interface of GameMode. Its rule is called so too: without one, `interactive` is held.
pub(crate) const GAME_MODE: &str = "com.feralinteractive.GameMode";
const PATH: &str = "/com/feralinteractive/GameMode";

/// Follows the registrations.
#[derive(Debug)]
pub(crate) struct GameMode {
    bus: Connection,
    /// Its signals.
    registrations: MessageStream,
    /// That it comes or goes.
    owners: NameOwnerChangedStream,
}

impl GameMode {
    /// On the bus of this session. A session without one has no GameMode either.
    pub(crate) async fn follow() -> zbus::Result<Self> {
        let bus = Builder::session().build().await?;
        let owners = DBusProxy::new(&bus).await?.receive_name_owner_changed_with_args(&[(0, GAME_MODE)]).await?;
        let of_games = format!("type='signal',interface='{GAME_MODE}',path='{PATH}'");
        let registrations = MessageStream::for_match_rule(of_games.as_str(), &bus, None).await?;
        Ok(Self { bus, registrations, owners })
    }

    /// Waits until games may have come or gone. A bus that is gone tells nothing more.
    pub(crate) async fn changed(&mut self) {
        let is_told = tokio::select! {
            told = self.registrations.next() => told.is_some(),
            told = self.owners.next() => told.is_some(),
        };
        if !is_told {
            pending::<()>().await;
        }
    }

    /// The processes that are registered now. Asking does not start GameMode.
    pub(crate) async fn games(&self) -> BTreeSet<i32> {
        // Without GameMode there are no games, and if it has just ended, that is told next.
        self.list().await.unwrap_or_default().into_iter().map(|(process, _)| process).collect()
    }

    async fn list(&self) -> zbus::Result<Vec<(i32, OwnedObjectPath)>> {
        let owner = DBusProxy::new(&self.bus).await?.get_name_owner(BusName::from_static_str(GAME_MODE)?).await?;
        Proxy::new(&self.bus, owner, PATH, GAME_MODE).await?.call("ListGames", &()).await
    }
}
