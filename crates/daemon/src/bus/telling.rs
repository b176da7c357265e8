//! Signals to all clients and what is in them, and clients that have left the bus.

use std::collections::HashMap;

use futures_util::StreamExt;
use scherzo_api::details;
use scherzo_api::names::{INTERFACE, OBJECT_PATH};
use scherzo_supervisor::Published;
use zbus::fdo::DBusProxy;
use zbus::names::BusName;
use zbus::{Connection, OwnedVariant, Variant};

use crate::describe;
use crate::settings::{self, Settings};

/// Emits one `PropertiesChanged` for all of them, so that no client sees half a transition.
pub(crate) async fn emit_changes(
    bus: &Connection,
    changed: &HashMap<&'static str, Variant<'static>>,
    invalidated: &[&'static str],
) -> zbus::Result<()> {
    let body = (INTERFACE, changed, invalidated);
    bus.emit_signal(None::<&str>, OBJECT_PATH, "org.freedesktop.DBus.Properties", "PropertiesChanged", &body).await
}

/// Waits until this bus name has no owner.
pub(crate) async fn until_gone(bus: &Connection, name: &str) -> zbus::Result<()> {
    let proxy = DBusProxy::new(bus).await?;
    let mut changes = proxy.receive_name_owner_changed_with_args(&[(0, name)]).await?;
    // It may have gone before the stream began.
    if !proxy.name_has_owner(BusName::try_from(name)?).await? {
        return Ok(());
    }
    while let Some(change) = changes.next().await {
        if change.args()?.new_owner().is_none() {
            break;
        }
    }
    Ok(())
}

pub(super) fn show_settings(current: Settings) -> HashMap<String, OwnedVariant> {
    settings::ALL.iter().map(|setting| (setting.key.to_owned(), settings::to_variant(setting.get(current)))).collect()
}

/// Properties that differ between two publications, by name.
pub(crate) fn changes(old: &Published, new: &Published) -> HashMap<&'static str, Variant<'static>> {
    let mut changed = HashMap::new();
    let mut compare = |name, before: Variant<'static>, now: Variant<'static>| {
        if before != now {
            changed.insert(name, now);
        }
    };
    let text = |text: &str| Variant::new(text.to_owned());
    compare("Enabled", old.enabled.into(), new.enabled.into());
    compare("State", text(old.state.name()), text(new.state.name()));
    compare("Mode", text(old.choice.mode.name()), text(new.choice.mode.name()));
    compare("RequestedMode", text(old.requested_mode.name()), text(new.requested_mode.name()));
    let until = |now: &Published| now.requested_until_s.unwrap_or_default();
    compare("RequestedModeUntil", until(old).into(), until(new).into());
    compare("Reason", text(old.why.reason.name()), text(new.why.reason.name()));
    let arguments = |now: &Published| Variant::new(details::to_wire(&now.why.details));
    compare("ReasonArgs", arguments(old), arguments(new));
    compare("Preemption", old.choice.preemption.into(), new.choice.preemption.into());
    compare("Engine", text(old.choice.seat.name()), text(new.choice.seat.name()));
    compare("KernelOps", text(&old.kernel_ops), text(&new.kernel_ops));
    compare("OnBattery", old.on_battery.into(), new.on_battery.into());
    compare("PowerProfile", text(&old.power_profile), text(&new.power_profile));
    let settings = |now: &Published| Variant::new(show_settings(now.settings));
    if old.settings != new.settings {
        compare("Settings", settings(old), settings(new));
    }
    let modes = |now: &Published| Variant::new(describe::modes(now));
    if (old.state, old.why.reason) != (new.state, new.why.reason) {
        compare("ModeDetails", modes(old), modes(new));
    }
    compare("LastError", text(&old.errors()), text(&new.errors()));
    compare("LastErrorId", text(old.error_id()), text(new.error_id()));
    let arguments = |now: &Published| Variant::new(describe::error_arguments(now));
    compare("LastErrorArgs", arguments(old), arguments(new));
    changed
}

/// Properties that differ, but whose value is not the same for everyone.
pub(crate) fn invalidations(old: &Published, new: &Published) -> Vec<&'static str> {
    if old.holds == new.holds { Vec::new() } else { vec!["Holds"] }
}
