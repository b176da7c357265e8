//! The session bus: a single instance, notifications, and starting the app.

use std::collections::HashMap;
use std::process::Command;

use tokio::sync::mpsc::UnboundedSender;
use zbus::connection::Builder;
use zbus::fdo::{DBusProxy, RequestNameFlags};
use zbus::names::BusName;
use zbus::{Connection, Variant};

use crate::remote::Remote;
use crate::view::{MenuAction, Notice};

/// Held by the one that is in the panel.
const OWN_NAME: &str = "org.scherzo.Tray";
const OWN_PATH: &str = "/org/scherzo/Tray";
/// Held by the one program of a session that tells people of an ejected scheduler: whoever came first.
const NOTIFIER_NAME: &str = "org.scherzo.Notifier";
/// The app.
const APP_NAME: &str = "org.scherzo.Scherzo";
const APP_PATH: &str = "/org/scherzo/Scherzo";
const APP_PROGRAM: &str = "scherzo";

#[zbus::proxy(
    interface = "org.freedesktop.Notifications",
    default_service = "org.freedesktop.Notifications",
    default_path = "/org/freedesktop/Notifications"
)]
trait Notifications {
    #[allow(clippy::too_many_arguments)] // As the specification has it.
    fn notify(
        &self,
        application: &str,
        replaces: u32,
        icon: &str,
        title: &str,
        text: &str,
        actions: &[&str],
        hints: HashMap<&str, Variant<'_>>,
        expires_ms: i32,
    ) -> zbus::Result<u32>;
}

#[zbus::proxy(interface = "org.freedesktop.Application")]
trait FreedesktopApplication {
    fn activate(&self, platform_data: HashMap<&str, Variant<'_>>) -> zbus::Result<()>;
}

/// A connection to the session bus.
pub struct Session {
    bus: Connection,
}

impl Session {
    /// Connects; `None` if another one is in the panel already. What others ask for by its name becomes `actions`.
    pub async fn connect(actions: UnboundedSender<MenuAction>) -> zbus::Result<Option<Self>> {
        let bus = Builder::session().serve_at(OWN_PATH, Remote::new(actions)).build().await?;
        match bus.request_name_with_flags(OWN_NAME, RequestNameFlags::DO_NOT_QUEUE).await {
            Ok(_) => {}
            Err(zbus::Error::NameTaken) => return Ok(None),
            Err(error) => return Err(error),
        }
        // In the queue if there is one already: the name passes on when that ends.
        bus.request_name_with_flags(NOTIFIER_NAME, RequestNameFlags::empty()).await?;
        Ok(Some(Self { bus }))
    }

    /// Waits until the bus has gone.
    pub async fn lost(&self) {
        self.bus.closed().await;
    }

    /// Shows a notice.
    pub async fn tell(&self, notice: &Notice) {
        if let Err(error) = self.try_tell(notice).await {
            eprintln!("scherzo-tray: {}: {} ({error})", notice.title, notice.text);
        }
    }

    async fn try_tell(&self, notice: &Notice) -> zbus::Result<()> {
        let hints = HashMap::from([("desktop-entry", APP_NAME.into()), ("category", "device.error".into())]);
        let text = escaped(&notice.text);
        let notifications = NotificationsProxy::new(&self.bus).await?;
        notifications.notify("Scherzo", 0, APP_NAME, &notice.title, &text, &[], hints, -1).await.map(drop)
    }

    /// Whether this program is the one that tells people what happened: not if another one is, and not while the app
    /// is open, which shows it itself.
    pub async fn is_notifier(&self) -> bool {
        let own = self.bus.unique_name().map(ToString::to_string);
        own.is_some() && self.owner(NOTIFIER_NAME).await == own && self.owner(APP_NAME).await.is_none()
    }

    async fn owner(&self, name: &'static str) -> Option<String> {
        let registry = DBusProxy::new(&self.bus).await.ok()?;
        let owner = registry.get_name_owner(BusName::from_static_str(name).ok()?).await;
        owner.ok().map(|owner| owner.to_string())
    }

    /// Opens the app, by its name on the bus or else as a program.
    pub async fn open_app(&self, token: Option<String>) -> std::io::Result<()> {
        match self.activate_app(token.as_deref()).await {
            Ok(()) => Ok(()),
            Err(_) => spawn_app(token),
        }
    }

    async fn activate_app(&self, token: Option<&str>) -> zbus::Result<()> {
        let app = FreedesktopApplicationProxy::builder(&self.bus).destination(APP_NAME).path(APP_PATH).build().await?;
        app.activate(token.map(|token| ("activation-token", token.into())).into_iter().collect()).await
    }
}

/// The app beside this program, or wherever the shell would find it.
fn spawn_app(token: Option<String>) -> std::io::Result<()> {
    let beside = std::env::current_exe().map(|program| program.with_file_name(APP_PROGRAM));
    let program = beside.ok().filter(|program| program.exists()).unwrap_or_else(|| APP_PROGRAM.into());
    let mut child = Command::new(program).envs(token.map(|token| ("XDG_ACTIVATION_TOKEN", token))).spawn()?;
    // The thread waits for the process, so that it does not stay a zombie.
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Escapes a text for notifications, which may contain markup.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_shown_not_obeyed() {
        assert_eq!(escaped("<b>a & b</b>"), "&lt;b&gt;a &amp; b&lt;/b&gt;");
    }
}
