//! What the power daemons say: UPower, whichever daemon offers power profiles, and logind about sleep.
//!
//! Nothing is polled. Any of them may be missing, start later, restart, or be replaced by another one.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{debug, info};
use zbus::fdo::{DBusProxy, PropertiesProxy};
use zbus::names::{BusName, WellKnownName};
use zbus::proxy::{CacheProperties, MethodFlags};
use zbus::{Connection, OwnedVariant, Proxy, Variant};

use crate::input::Input;
use scherzo_supervisor::{PowerEvent, Source};

const UPOWER: &str = "org.freedesktop.UPower";
/// UPower's `WarningLevel` from which on a battery is low, see its documentation of devices.
const WARNING_LOW: u32 = 3;
/// Longest profile name that is believed, in bytes.
const MAX_PROFILE_BYTES: usize = 64;

/// A property of someone else's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteProperty {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) interface: &'static str,
    property: &'static str,
}

const ON_BATTERY: RemoteProperty = RemoteProperty {
    name: UPOWER,
    path: "/org/freedesktop/UPower",
    interface: "org.freedesktop.UPower",
    property: "OnBattery",
};
const WARNING_LEVEL: RemoteProperty = RemoteProperty {
    name: UPOWER,
    path: "/org/freedesktop/UPower/devices/DisplayDevice",
    interface: "org.freedesktop.UPower.Device",
    property: "WarningLevel",
};
/// The modern name and the old one; a daemon may have either or both.
pub(crate) const PROFILES: [RemoteProperty; 2] = [
    RemoteProperty {
        name: "org.freedesktop.UPower.PowerProfiles",
        path: "/org/freedesktop/UPower/PowerProfiles",
        interface: "org.freedesktop.UPower.PowerProfiles",
        property: "ActiveProfile",
    },
    RemoteProperty {
        name: "net.hadess.PowerProfiles",
        path: "/net/hadess/PowerProfiles",
        interface: "net.hadess.PowerProfiles",
        property: "ActiveProfile",
    },
];

/// Reports what all of them say, as [`Input::Power`], until the set is dropped.
#[must_use]
pub fn follow(bus: &Connection, inputs: &mpsc::Sender<Input>) -> JoinSet<()> {
    let mut followers = JoinSet::new();
    let (resumed, wake) = watch::channel(());
    let mut spawn = |place: RemoteProperty, event_of: Box<dyn Fn(Option<OwnedVariant>) -> PowerEvent + Send + Sync>| {
        let follower = PropertyFollower { bus: bus.clone(), inputs: inputs.clone(), place, event_of };
        let wake = wake.clone();
        followers.spawn(async move {
            if let Err(error) = follower.run(wake).await {
                debug!("no longer following {place:?}: {error}");
            }
        });
    };
    spawn(ON_BATTERY, Box::new(|value| PowerEvent::Source(value.as_deref().and_then(source_of))));
    spawn(WARNING_LEVEL, Box::new(|value| PowerEvent::BatteryLow(value.as_deref().is_some_and(is_low))));
    let profiles = Arc::new(Mutex::new([const { None::<String> }; PROFILES.len()]));
    for (rank, place) in PROFILES.into_iter().enumerate() {
        let profiles = Arc::clone(&profiles);
        let best = move |value: Option<OwnedVariant>| {
            let mut known = profiles.lock().unwrap_or_else(PoisonError::into_inner);
            known[rank] = value.as_deref().and_then(profile_of);
            PowerEvent::Profile(known.iter().flatten().next().cloned())
        };
        spawn(place, Box::new(best));
    }
    followers.spawn(start_upower(bus.clone()));
    followers.spawn(follow_sleep(bus.clone(), inputs.clone(), resumed));
    followers
}

fn source_of(value: &Variant<'_>) -> Option<Source> {
    match value {
        Variant::Bool(true) => Some(Source::Battery),
        Variant::Bool(false) => Some(Source::Mains),
        _ => None,
    }
}

fn is_low(value: &Variant<'_>) -> bool {
    matches!(value, Variant::U32(level) if *level >= WARNING_LOW)
}

fn profile_of(value: &Variant<'_>) -> Option<String> {
    match value {
        Variant::Str(name) if name.len() <= MAX_PROFILE_BYTES => Some(name.to_string()),
        _ => None,
    }
}

/// Whether someone owns this bus name.
async fn is_owned(bus: &Connection, name: &'static str) -> bool {
    let owned = async {
        let dbus = DBusProxy::new(bus).await?;
        dbus.name_has_owner(BusName::from_static_str(name)?).await.map_err(zbus::Error::from)
    };
    owned.await.unwrap_or_default()
}

/// UPower starts on demand, and on a plain desktop nobody else may ask for it.
async fn start_upower(bus: Connection) {
    let started = async {
        let name = WellKnownName::from_static_str(UPOWER)?;
        DBusProxy::new(&bus).await?.start_service_by_name(name, 0).await.map_err(zbus::Error::from)
    };
    if let Err(error) = started.await {
        debug!("there is no UPower: {error}");
    }
}

async fn follow_sleep(bus: Connection, inputs: mpsc::Sender<Input>, resumed: watch::Sender<()>) {
    let listen = async {
        let logind =
            Proxy::new(&bus, "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager");
        logind.await?.receive_signal("PrepareForSleep").await
    };
    let mut signals = match listen.await {
        Ok(signals) => signals,
        Err(error) => return debug!("cannot hear of sleep: {error}"),
    };
    while let Some(signal) = signals.next().await {
        let awake = matches!(signal.body().deserialize::<bool>(), Ok(false));
        if awake && inputs.send(Input::Power(PowerEvent::Resumed)).await.is_ok() {
            info!("the system is awake again");
            let _ = inputs.send(Input::KernelChanged).await;
            resumed.send_replace(());
        }
    }
}

struct PropertyFollower<F> {
    bus: Connection,
    inputs: mpsc::Sender<Input>,
    place: RemoteProperty,
    event_of: F,
}

impl<F: Fn(Option<OwnedVariant>) -> PowerEvent> PropertyFollower<F> {
    /// Reports the value now and after every change.
    async fn run(&self, mut wake: watch::Receiver<()>) -> zbus::Result<()> {
        let RemoteProperty { name, path, interface, property } = self.place;
        let properties = PropertiesProxy::builder(&self.bus)
            .destination(name)
            .path(path)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let mut changes = properties.receive_properties_changed_with_args(&[(0, interface)]).await?;
        let mut owners = DBusProxy::new(&self.bus).await?.receive_name_owner_changed_with_args(&[(0, name)]).await?;
        loop {
            let event = (self.event_of)(self.value().await);
            if self.inputs.send(Input::Power(event)).await.is_err() {
                return Ok(());
            }
            loop {
                tokio::select! {
                    change = changes.next() => {
                        let Some(change) = change else { return Ok(()) };
                        let arguments = change.args()?;
                        // UPower tells a new charge every few seconds; that is none of our business.
                        if arguments.changed_properties().contains_key(property)
                            || arguments.invalidated_properties().contains(&property)
                        {
                            break;
                        }
                    }
                    owner = owners.next() => if owner.is_some() { break } else { return Ok(()) },
                    Ok(()) = wake.changed() => break,
                }
            }
        }
    }

    /// The value if someone owns the name; asking starts nobody.
    async fn value(&self) -> Option<OwnedVariant> {
        let RemoteProperty { name, path, interface, property } = self.place;
        if !is_owned(&self.bus, name).await {
            return None;
        }
        let proxy = Proxy::new(&self.bus, name, path, "org.freedesktop.DBus.Properties").await.ok()?;
        let answer: zbus::Result<Option<OwnedVariant>> =
            proxy.call_with_flags("Get", MethodFlags::NO_AUTO_START, &(interface, property)).await;
        answer.inspect_err(|error| debug!("{name} does not tell {property}: {error}")).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_types_say_nothing() {
        assert_eq!(source_of(&Variant::from(true)), Some(Source::Battery));
        assert_eq!(source_of(&Variant::from(1u32)), None);
        assert!(is_low(&Variant::from(3u32)) && !is_low(&Variant::from(2u32)) && !is_low(&Variant::from(true)));
        assert_eq!(profile_of(&Variant::from("balanced")), Some("balanced".to_owned()));
        assert_eq!(profile_of(&Variant::from("x".repeat(65))), None);
    }
}
