//! All properties of the service at one moment.

use std::collections::{BTreeMap, HashMap};

use zbus::fdo::PropertiesProxy;
use zbus::names::InterfaceName;
use zbus::{Connection, OwnedVariant, Variant};

use crate::Error;
use crate::catalogue;
use crate::details::{self, Details};
use crate::names::{BUS_NAME, INTERFACE, OBJECT_PATH};
use crate::types::{Reason, State};

/// Argument of a hold that only its own user and root are told.
const APPLICATION: &str = "application";

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A number, in the unit that the setting's name ends in.
    Number(u32),
    /// On or off.
    Flag(bool),
    /// A mode.
    Text(String),
}

/// What the service shows.
///
/// Values that a newer service may extend stay strings here; [`Self::known_state`] and [`Self::why`] parse those that
/// this version knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub struct Snapshot {
    /// Whether Scherzo is turned on; whether it runs is in `state`.
    pub enabled: bool,
    /// What runs, see [`State`].
    pub state: String,
    /// The mode in effect, or the one that will be.
    pub mode: String,
    /// What a person asked for.
    pub requested_mode: String,
    /// When that ends by itself, in seconds since 1970; 0 if it does not.
    pub requested_mode_until: u64,
    /// Why it is so, see [`Reason`].
    pub reason: String,
    /// Arguments of the reason.
    pub reason_args: Details,
    /// Preemption in effect, or as it will be.
    pub preemption: bool,
    /// Which engine decides, see [`crate::types::Seat`].
    pub engine: String,
    /// Operations that the kernel names, empty if none.
    pub kernel_ops: String,
    /// The last failure, empty if none.
    pub last_error: String,
    /// Its id; empty if there was none, and from a service of before.
    pub last_error_id: String,
    /// Its arguments.
    pub last_error_args: Details,
    /// The machine runs on battery.
    pub on_battery: bool,
    /// The active power profile, empty if none.
    pub power_profile: String,
    /// What programs hold, the oldest first: `cookie`, `mode` and `uid`, of one's own also `application`, `reason`, and
    /// `foreground` if there is a control group that is in front meanwhile.
    pub holds: Vec<Details>,
    /// The path of the control group in front, empty if there is none, or it is another user's. That it has changed is told to
    /// nobody: it is that of the moment of reading.
    pub foreground: String,
    /// Every setting by its name.
    pub settings: BTreeMap<String, Setting>,
    /// Modes that can be asked for.
    pub modes: Vec<String>,
    /// Version of the service.
    pub version: String,
    /// It is of version 0.1.0: its engine cannot be chosen, and nothing can be put in front.
    pub is_of_0_1_0: bool,
}

impl Snapshot {
    /// Reads all properties in one call.
    pub async fn read(bus: &Connection) -> Result<Self, Error> {
        let proxy = PropertiesProxy::builder(bus)
            .destination(BUS_NAME)
            .path(OBJECT_PATH)
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await?;
        let interface = InterfaceName::from_static_str_unchecked(INTERFACE);
        let properties = proxy.get_all(interface).await.map_err(zbus::Error::from)?;
        Ok(Self::from_properties(properties))
    }

    /// Reads the reply of `GetAll`; missing properties stay empty.
    #[must_use]
    pub fn from_properties(mut properties: HashMap<String, OwnedVariant>) -> Self {
        // The methods that it lacks came together with this property.
        let is_of_0_1_0 = !properties.contains_key("Foreground");
        let mut take = |name: &str| properties.remove(name);
        let mut snapshot = Self {
            enabled: flag(take("Enabled")),
            state: text(take("State")),
            mode: text(take("Mode")),
            requested_mode: text(take("RequestedMode")),
            requested_mode_until: take("RequestedModeUntil")
                .and_then(|value| value.try_into().ok())
                .unwrap_or_default(),
            reason: text(take("Reason")),
            reason_args: arguments(take("ReasonArgs")),
            preemption: flag(take("Preemption")),
            engine: text(take("Engine")),
            kernel_ops: text(take("KernelOps")),
            last_error: text(take("LastError")),
            last_error_id: text(take("LastErrorId")),
            last_error_args: arguments(take("LastErrorArgs")),
            on_battery: flag(take("OnBattery")),
            power_profile: text(take("PowerProfile")),
            holds: take("Holds").map(holds).unwrap_or_default(),
            foreground: text(take("Foreground")),
            settings: take("Settings").map(settings).unwrap_or_default(),
            modes: take("Modes").and_then(|value| Vec::try_from(value).ok()).unwrap_or_default(),
            version: text(take("Version")),
            is_of_0_1_0,
        };
        snapshot.name_deciding_hold();
        snapshot
    }

    /// Everybody is told the cookie of the hold that decides; whose application it is, is in its hold, if one may know.
    fn name_deciding_hold(&mut self) {
        if self.reason != Reason::Hold.name() || self.reason_args.contains_key(APPLICATION) {
            return;
        }
        let Some(cookie) = self.reason_args.get("cookie") else { return };
        let hold = self.holds.iter().find(|hold| hold.get("cookie") == Some(cookie));
        if let Some(application) = hold.and_then(|hold| hold.get(APPLICATION)).cloned() {
            self.reason_args.insert(APPLICATION.to_owned(), application);
        }
    }

    /// The state, if this version knows it.
    #[must_use]
    pub fn known_state(&self) -> Option<State> {
        self.state.parse().ok()
    }

    /// The reason as an English sentence; a reason of a newer service shows as its id.
    #[must_use]
    pub fn why(&self) -> String {
        self.reason
            .parse::<Reason>()
            .map_or_else(|_| format!("{}.", self.reason), |reason| catalogue::text(reason, &self.reason_args))
    }

    /// The last failure in the language of the person, as far as this version knows it; empty if there was none.
    #[must_use]
    pub fn error_text(&self) -> String {
        catalogue::error_text(&self.last_error_id, &self.last_error_args).unwrap_or_else(|| self.last_error.clone())
    }
}

fn arguments(value: Option<OwnedVariant>) -> Details {
    let wire = value.and_then(|value| HashMap::try_from(value).ok());
    wire.map(|wire| details::from_wire(&wire)).unwrap_or_default()
}

fn text(value: Option<OwnedVariant>) -> String {
    value.and_then(|value| String::try_from(value).ok()).unwrap_or_default()
}

fn holds(value: OwnedVariant) -> Vec<Details> {
    let wires = Vec::<HashMap<String, OwnedVariant>>::try_from(value).unwrap_or_default();
    wires.iter().map(details::from_wire).collect()
}

/// Returns nothing for a value of a type that no setting has.
fn settings(value: OwnedVariant) -> BTreeMap<String, Setting> {
    let wire = HashMap::<String, OwnedVariant>::try_from(value).unwrap_or_default();
    let setting = |value: &Variant<'_>| match value {
        Variant::U32(number) => Some(Setting::Number(*number)),
        Variant::Bool(flag) => Some(Setting::Flag(*flag)),
        Variant::Str(text) => Some(Setting::Text(text.to_string())),
        _ => None,
    };
    wire.iter().filter_map(|(key, value)| Some((key.clone(), setting(value)?))).collect()
}

fn flag(value: Option<OwnedVariant>) -> bool {
    value.is_some_and(|value| matches!(&*value, Variant::Bool(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> OwnedVariant {
        OwnedVariant::from(zbus::Str::from(text.to_owned()))
    }

    #[test]
    fn properties_find_their_fields() {
        let args = details::to_wire(&Details::from([("ops".into(), "lavd".into())]));
        let snapshot = Snapshot::from_properties(HashMap::from([
            ("State".to_owned(), string("foreign")),
            ("Reason".to_owned(), string("foreign-scheduler")),
            ("ReasonArgs".to_owned(), OwnedVariant::from(args)),
            ("Enabled".to_owned(), OwnedVariant::from(true)),
            (
                "Settings".to_owned(),
                OwnedVariant::from(HashMap::from([("boot_delay_s".to_owned(), OwnedVariant::from(30u32))])),
            ),
        ]));
        assert_eq!((snapshot.known_state(), snapshot.enabled), (Some(State::Foreign), true));
        assert!(snapshot.why().contains("lavd"), "{}", snapshot.why());
        assert_eq!(snapshot.mode, "");
        assert_eq!(snapshot.settings["boot_delay_s"], Setting::Number(30));
        assert!(snapshot.is_of_0_1_0);
        assert!(!Snapshot::from_properties([("Foreground".to_owned(), string(""))].into()).is_of_0_1_0);
    }

    #[test]
    fn the_deciding_hold_is_named_if_one_may_know() {
        let of = |hold: &Details| {
            let args = details::to_wire(&Details::from([("cookie".into(), 7.into())]));
            let properties = HashMap::from([
                ("Reason".to_owned(), string("hold")),
                ("ReasonArgs".to_owned(), OwnedVariant::from(args)),
                ("Holds".to_owned(), OwnedVariant::try_from(Variant::new(vec![details::to_wire(hold)])).unwrap()),
            ]);
            Snapshot::from_properties(properties)
        };
        let mut hold = Details::from([("cookie".into(), 7.into())]);
        assert_eq!(of(&hold).why(), "A program asked for this mode.");
        hold.insert("application".into(), "make".into());
        assert_eq!(of(&hold).why(), "The program make asked for this mode.");
        hold.insert("cookie".into(), 8.into());
        assert_eq!(of(&hold).why(), "A program asked for this mode.", "that is another one");
    }

    #[test]
    fn newer_services_are_understood_as_far_as_possible() {
        let properties = HashMap::from([("Reason".to_owned(), string("moon")), ("State".to_owned(), string("full"))]);
        let snapshot = Snapshot::from_properties(properties);
        assert_eq!((snapshot.known_state(), snapshot.why()), (None, "moon.".to_owned()));
        let properties = [("LastErrorId", "eclipse"), ("LastError", "The moon is away.")];
        let properties = properties.map(|(name, value)| (name.to_owned(), string(value)));
        assert_eq!(Snapshot::from_properties(properties.into()).error_text(), "The moon is away.");
    }
}
