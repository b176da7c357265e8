//! A hold of the power profile `power-saver`, at whichever daemon offers power profiles.
//!
//! A hold, unlike choosing a profile, leaves the holds of others alone, and ends with our connection at the latest.

use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};
use zbus::proxy::SignalStream;
use zbus::{Connection, Proxy};

use crate::power::{PROFILES, Place, is_owned};
use crate::shell::Input;
use scherzo_supervisor::PowerEvent;

const PROFILE: &str = "power-saver";
/// Some distributions let no other characters through than letters and spaces.
const REASON: &str = "The scheduler saves power";
const APPLICATION: &str = "Scherzo";

/// Holds the profile while `wanted` says so, until its sender is gone.
pub async fn keep(bus: Connection, inputs: mpsc::Sender<Input>, mut wanted: watch::Receiver<bool>) {
    while wanted.wait_for(|wanted| *wanted).await.is_ok() {
        let news = match hold(&bus, &mut wanted).await {
            Ok(End::Dropped) => Some(PowerEvent::ProfileHoldDropped),
            Ok(End::Unwanted | End::NewDaemon) => None,
            Err(error) => {
                warn!("cannot hold the power profile {PROFILE}: {error}");
                Some(PowerEvent::ProfileHoldRefused)
            }
        };
        if let Some(news) = news {
            // A loop that has ended does not listen.
            let _ = inputs.send(Input::Power(news)).await;
            until_unwanted(&mut wanted).await;
        }
        let _ = inputs.send(Input::Power(PowerEvent::ProfileHoldEnded)).await;
    }
}

/// How a hold ends.
enum End {
    Unwanted,
    /// Someone chose a profile.
    Dropped,
    /// The daemon has left, or another one has come.
    NewDaemon,
}

async fn until_unwanted(wanted: &mut watch::Receiver<bool>) {
    // A sender that is gone wants nothing.
    let _ = wanted.wait_for(|wanted| !wanted).await;
}

/// Holds the profile, through changes of daemons.
async fn hold(bus: &Connection, wanted: &mut watch::Receiver<bool>) -> zbus::Result<End> {
    loop {
        let owners = follow_owners(bus).await?;
        let held = match owned_place(bus).await {
            Some(place) => Some(Held::take(bus, place).await?),
            None => None,
        };
        match last(held, owners, wanted).await? {
            End::NewDaemon => {}
            end => return Ok(end),
        }
    }
}

/// Waits for the end of the hold.
async fn last(
    mut held: Option<Held>,
    owners: Vec<NameOwnerChangedStream>,
    wanted: &mut watch::Receiver<bool>,
) -> zbus::Result<End> {
    let mut owners = futures_util::stream::select_all(owners);
    tokio::select! {
        () = until_unwanted(wanted) => {
            if let Some(held) = held {
                held.release().await;
            }
            Ok(End::Unwanted)
        }
        () = dropped(&mut held) => {
            info!("someone chose a power profile, so {PROFILE} is no longer held");
            Ok(End::Dropped)
        }
        change = owners.next() => match change {
            Some(_) => Ok(End::NewDaemon),
            None => Err(zbus::Error::Failure("the bus is gone".into())),
        },
    }
}

async fn dropped(held: &mut Option<Held>) {
    match held {
        Some(held) => held.dropped().await,
        None => std::future::pending().await,
    }
}

async fn follow_owners(bus: &Connection) -> zbus::Result<Vec<NameOwnerChangedStream>> {
    let dbus = DBusProxy::new(bus).await?;
    let mut streams = Vec::new();
    for place in PROFILES {
        streams.push(dbus.receive_name_owner_changed_with_args(&[(0, place.name)]).await?);
    }
    Ok(streams)
}

async fn owned_place(bus: &Connection) -> Option<Place> {
    for place in PROFILES {
        if is_owned(bus, place.name).await {
            return Some(place);
        }
    }
    debug!("no daemon offers power profiles");
    None
}

/// A hold that was granted.
struct Held {
    daemon: Proxy<'static>,
    released: SignalStream<'static>,
    cookie: u32,
}

impl Held {
    async fn take(bus: &Connection, place: Place) -> zbus::Result<Self> {
        let daemon = Proxy::new(bus, place.name, place.path, place.interface).await?;
        let released = daemon.receive_signal("ProfileReleased").await?;
        let cookie = daemon.call("HoldProfile", &(PROFILE, REASON, APPLICATION)).await?;
        debug!("{} lets us hold {PROFILE} as {cookie}", place.name);
        Ok(Self { daemon, released, cookie })
    }

    /// Waits until the daemon drops the hold.
    async fn dropped(&mut self) {
        while let Some(signal) = self.released.next().await {
            if signal.body().deserialize::<u32>().is_ok_and(|cookie| cookie == self.cookie) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn release(self) {
        if let Err(error) = self.daemon.call::<_, _, ()>("ReleaseProfile", &(self.cookie,)).await {
            debug!("cannot release the power profile: {error}");
        }
    }
}
