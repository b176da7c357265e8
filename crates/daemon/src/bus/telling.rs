//! Signals to all clients, and clients that have left the bus.

use std::collections::HashMap;

use futures_util::StreamExt;
use scherzo_api::names::{INTERFACE, OBJECT_PATH};
use zbus::fdo::DBusProxy;
use zbus::names::BusName;
use zbus::{Connection, Variant};

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
