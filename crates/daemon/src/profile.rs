//! A hold of the power profile `power-saver`, at whichever daemon offers power profiles.
//!
//! A hold, unlike choosing a profile, leaves the holds of others alone, and ends with our connection at the latest.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SelectAll;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};
use zbus::names::{BusName, OwnedUniqueName};
use zbus::proxy::SignalStream;
use zbus::{Connection, Proxy};

use crate::input::Input;
use crate::power::{PROFILES, RemoteProperty};
use scherzo_supervisor::PowerEvent;

const PROFILE: &str = "power-saver";
/// Some distributions let no other characters through than letters and spaces.
const REASON: &str = "The scheduler saves power";
const APPLICATION: &str = "Scherzo";
/// A hold that was refused is tried again after this, and then after twice the time of before.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(5);
/// A daemon that ends has left the bus so long after it has dropped all holds, at the latest.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// Holds the profile while `wanted` says so, until its sender is gone.
pub async fn keep(bus: Connection, inputs: mpsc::Sender<Input>, mut wanted: watch::Receiver<bool>) {
    while wanted.wait_for(|wanted| *wanted).await.is_ok() {
        let news = match hold(&bus, &inputs, &mut wanted).await {
            Ok(HoldEnd::Dropped) => Some(PowerEvent::ProfileHoldDropped),
            Ok(HoldEnd::Unwanted) => None,
            Err(error) => {
                warn!("cannot follow the daemons of power profiles: {error}");
                Some(PowerEvent::ProfileHoldRefused)
            }
        };
        if let Some(news) = news {
            tell(&inputs, news).await;
            until_unwanted(&mut wanted).await;
        }
        tell(&inputs, PowerEvent::ProfileHoldEnded).await;
    }
}

/// Tells that a daemon has come or gone.
type Owners = SelectAll<NameOwnerChangedStream>;

/// How a hold ends.
enum HoldEnd {
    Unwanted,
    /// Someone chose a profile.
    Dropped,
}

async fn tell(inputs: &mpsc::Sender<Input>, news: PowerEvent) {
    // A loop that has ended does not listen.
    let _ = inputs.send(Input::Power(news)).await;
}

async fn until_unwanted(wanted: &mut watch::Receiver<bool>) {
    // A sender that is gone wants nothing.
    let _ = wanted.wait_for(|wanted| !wanted).await;
}

/// Holds the profile, through changes of daemons, of which one alone has a hold of ours.
async fn hold(
    bus: &Connection,
    inputs: &mpsc::Sender<Input>,
    wanted: &mut watch::Receiver<bool>,
) -> zbus::Result<HoldEnd> {
    let mut owners = futures_util::stream::select_all(follow_owners(bus).await?);
    let mut held: Option<GrantedHold> = None;
    let mut retry = Retry::default();
    loop {
        let daemon = find_daemon(bus).await;
        // A daemon that owns both names gets them one after the other: that is no new one.
        let is_held = held.as_ref().map(|held| &held.owner) == daemon.as_ref().map(|(_, owner)| owner);
        if !is_held {
            if let Some(held) = held.take() {
                held.release().await;
            }
            held = match daemon {
                Some((place, owner)) => retry.attempt(bus, inputs, place, owner).await,
                None => None,
            };
        }
        tokio::select! {
            () = until_unwanted(wanted) => {
                if let Some(held) = held {
                    held.release().await;
                }
                return Ok(HoldEnd::Unwanted);
            }
            owner = dropped(&mut held) => {
                tokio::select! {
                    () = until_unwanted(wanted) => return Ok(HoldEnd::Unwanted),
                    has_left = leaves(bus, &owner, &mut owners) => if !has_left {
                        info!("someone chose a power profile, so {PROFILE} is no longer held");
                        return Ok(HoldEnd::Dropped);
                    }
                }
                held = None;
            }
            change = owners.next() => if change.is_none() {
                return Err(zbus::Error::Failure("the bus is gone".into()));
            },
            () = retry.wait() => {}
        }
    }
}

/// A hold that was refused is tried again, ever more rarely.
#[derive(Default)]
struct Retry {
    /// Since the last success.
    nr_refusals: u32,
    at: Option<Instant>,
}

impl Retry {
    async fn attempt(
        &mut self,
        bus: &Connection,
        inputs: &mpsc::Sender<Input>,
        place: RemoteProperty,
        owner: OwnedUniqueName,
    ) -> Option<GrantedHold> {
        if self.nr_refusals > 0 {
            // It may succeed, and then the daemon tells a new profile before it answers.
            tell(inputs, PowerEvent::ProfileHoldTried).await;
        }
        match GrantedHold::take(bus, place, owner).await {
            Ok(held) => {
                *self = Self::default();
                Some(held)
            }
            Err(error) => {
                let delay = FIRST_RETRY.saturating_mul(1 << self.nr_refusals.min(16)).min(LAST_RETRY);
                if self.nr_refusals == 0 {
                    warn!("cannot hold the power profile {PROFILE}, which is tried again: {error}");
                } else {
                    debug!("cannot hold the power profile {PROFILE}, which is tried again in {delay:?}: {error}");
                }
                self.nr_refusals += 1;
                self.at = Some(Instant::now() + delay);
                tell(inputs, PowerEvent::ProfileHoldRefused).await;
                None
            }
        }
    }

    /// Waits until it is time for another attempt, for ever if none is due.
    async fn wait(&mut self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.at = None;
    }
}

/// Waits until the daemon with this name drops the hold.
async fn dropped(held: &mut Option<GrantedHold>) -> OwnedUniqueName {
    match held {
        Some(held) => {
            held.dropped().await;
            held.owner.clone()
        }
        None => std::future::pending().await,
    }
}

/// Whether the daemon that has dropped a hold ends: then nobody has chosen a profile.
async fn leaves(bus: &Connection, owner: &OwnedUniqueName, owners: &mut Owners) -> bool {
    let deadline = Instant::now() + LEAVES_WITHIN;
    while let Ok(Some(_)) = timeout_at(deadline, owners.next()).await {
        if find_daemon(bus).await.is_none_or(|(_, now)| now != *owner) {
            return true;
        }
    }
    false
}

async fn follow_owners(bus: &Connection) -> zbus::Result<Vec<NameOwnerChangedStream>> {
    let dbus = DBusProxy::new(bus).await?;
    let mut streams = Vec::new();
    for place in PROFILES {
        streams.push(dbus.receive_name_owner_changed_with_args(&[(0, place.name)]).await?);
    }
    Ok(streams)
}

/// The daemon that offers power profiles, by the better of its names, and its unique one.
async fn find_daemon(bus: &Connection) -> Option<(RemoteProperty, OwnedUniqueName)> {
    let dbus = DBusProxy::new(bus).await.ok()?;
    for place in PROFILES {
        if let Ok(owner) = dbus.get_name_owner(BusName::from_static_str(place.name).ok()?).await {
            return Some((place, owner));
        }
    }
    debug!("no daemon offers power profiles");
    None
}

/// A hold that was granted.
struct GrantedHold {
    daemon: Proxy<'static>,
    owner: OwnedUniqueName,
    released: SignalStream<'static>,
    cookie: u32,
}

impl GrantedHold {
    /// Asks this daemon and no successor of its: a cookie is worth nothing to another one.
    async fn take(bus: &Connection, place: RemoteProperty, owner: OwnedUniqueName) -> zbus::Result<Self> {
        let daemon = Proxy::new(bus, owner.clone(), place.path, place.interface).await?;
        let released = daemon.receive_signal("ProfileReleased").await?;
        let cookie = daemon.call("HoldProfile", &(PROFILE, REASON, APPLICATION)).await?;
        debug!("{} lets us hold {PROFILE} as {cookie}", place.name);
        Ok(Self { daemon, owner, released, cookie })
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
