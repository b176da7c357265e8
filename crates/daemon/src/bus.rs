//! The D-Bus interface. Handlers validate, authorize, ask the core and reply; they decide nothing.

// The interface macro wants a method for each property, also for those that never change.
#![allow(clippy::unused_self)]

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use scherzo_api::Error;
use scherzo_api::details;
use scherzo_api::names::{ACTION_SET_ENABLED, ACTION_SET_MODE, INTERFACE, OBJECT_PATH};
use scherzo_api::types::RequestedMode;
use tokio::sync::{mpsc, oneshot, watch};
use zbus::fdo::DBusProxy;
use zbus::message::Header;
use zbus::names::BusName;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, OwnedVariant, Variant};

use crate::authorize::Authorizer;
use crate::core::{Published, Request};
use crate::shell::{Answer, Input};

/// The engine that is built in; the in-kernel one is to come.
const ENGINE: &str = "user";

/// The object at [`OBJECT_PATH`].
pub struct Service {
    /// Where requests go.
    pub inputs: mpsc::Sender<Input>,
    /// What the core last published.
    pub published: watch::Receiver<Published>,
    /// Who may do what.
    pub authorizer: Arc<dyn Authorizer>,
}

impl Service {
    async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let gone = || Error::Busy("The service is being stopped. Try again when it is back.".into());
        let (reply, answer) = oneshot::channel();
        self.inputs.send(Input::Request { request, reply }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    fn published<T>(&self, read: impl Fn(&Published) -> T) -> T {
        read(&self.published.borrow())
    }
}

fn sender(call: &Header<'_>) -> Result<String, Error> {
    let name = call.sender().ok_or_else(|| Error::AccessDenied("The message names no sender.".into()))?;
    Ok(name.to_string())
}

fn parse_mode(mode: &str) -> Result<RequestedMode, Error> {
    mode.parse().map_err(|_| {
        let known = RequestedMode::ALL.map(RequestedMode::name).join(", ");
        Error::InvalidMode(format!("There is no mode {mode:?}. Choose one of {known}."))
    })
}

#[zbus::interface(name = "org.scherzo.Scheduler1", introspection_docs = false)]
impl Service {
    async fn set_enabled(
        &self,
        enabled: bool,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        self.authorizer.check(bus, &call, ACTION_SET_ENABLED).await?;
        self.ask(Request::SetEnabled(enabled)).await.map(drop)
    }

    async fn set_mode(
        &self,
        mode: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        let mode = parse_mode(mode)?;
        self.authorizer.check(bus, &call, ACTION_SET_MODE).await?;
        self.ask(Request::SetMode(mode)).await.map(drop)
    }

    async fn set_preemption(
        &self,
        preemption: bool,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        self.authorizer.check(bus, &call, ACTION_SET_MODE).await?;
        self.ask(Request::SetPreemption(preemption)).await.map(drop)
    }

    #[zbus(out_args("stats"))]
    async fn get_stats(&self) -> Result<HashMap<String, OwnedVariant>, Error> {
        match self.ask(Request::GetStats).await? {
            Answer::Stats(stats) => Ok(stats.to_wire()),
            _ => Ok(HashMap::new()),
        }
    }

    #[zbus(out_args("histograms"))]
    async fn get_wait_histogram(&self) -> Result<HashMap<String, Vec<u64>>, Error> {
        match self.ask(Request::GetWaitHistogram).await? {
            Answer::Histograms(histograms) => Ok(histograms),
            _ => Ok(HashMap::new()),
        }
    }

    async fn subscribe(&self, #[zbus(header)] call: Header<'_>) -> Result<(), Error> {
        self.ask(Request::Subscribe(sender(&call)?)).await.map(drop)
    }

    async fn unsubscribe(&self, #[zbus(header)] call: Header<'_>) -> Result<(), Error> {
        self.ask(Request::Unsubscribe(sender(&call)?)).await.map(drop)
    }

    /// Statistics, for subscribers only.
    #[zbus(signal)]
    pub async fn stats_updated(to: &SignalEmitter<'_>, stats: HashMap<String, OwnedVariant>) -> zbus::Result<()>;

    /// The engine ended without having been asked to.
    #[zbus(signal)]
    pub async fn engine_exited(
        to: &SignalEmitter<'_>,
        reason: &str,
        details: HashMap<String, OwnedVariant>,
    ) -> zbus::Result<()>;

    #[zbus(property)]
    fn enabled(&self) -> bool {
        self.published(|now| now.enabled)
    }

    #[zbus(property)]
    fn state(&self) -> String {
        self.published(|now| now.state.name().to_owned())
    }

    #[zbus(property)]
    fn mode(&self) -> String {
        self.published(|now| now.choice.mode.name().to_owned())
    }

    #[zbus(property)]
    fn requested_mode(&self) -> String {
        self.published(|now| now.requested_mode.name().to_owned())
    }

    #[zbus(property)]
    fn reason(&self) -> String {
        self.published(|now| now.why.reason.name().to_owned())
    }

    #[zbus(property)]
    fn reason_args(&self) -> HashMap<String, OwnedVariant> {
        self.published(|now| details::to_wire(&now.why.details))
    }

    #[zbus(property)]
    fn preemption(&self) -> bool {
        self.published(|now| now.choice.preemption)
    }

    #[zbus(property)]
    fn engine(&self) -> String {
        ENGINE.to_owned()
    }

    #[zbus(property)]
    fn kernel_ops(&self) -> String {
        self.published(|now| now.kernel_ops.clone())
    }

    #[zbus(property)]
    fn last_error(&self) -> String {
        self.published(|now| now.last_error.clone())
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn modes(&self) -> Vec<String> {
        RequestedMode::ALL.map(|mode| mode.name().to_owned()).to_vec()
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }
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
    compare("Reason", text(old.why.reason.name()), text(new.why.reason.name()));
    let arguments = |now: &Published| Variant::new(details::to_wire(&now.why.details));
    compare("ReasonArgs", arguments(old), arguments(new));
    compare("Preemption", old.choice.preemption.into(), new.choice.preemption.into());
    compare("KernelOps", text(&old.kernel_ops), text(&new.kernel_ops));
    compare("LastError", text(&old.last_error), text(&new.last_error));
    changed
}

/// Emits one `PropertiesChanged` for all of them, so that no client sees half a transition.
pub(crate) async fn emit_changes(
    bus: &Connection,
    changed: &HashMap<&'static str, Variant<'static>>,
) -> zbus::Result<()> {
    let invalidated: [&str; 0] = [];
    let body = (INTERFACE, changed, &invalidated[..]);
    bus.emit_signal(None::<&str>, OBJECT_PATH, "org.freedesktop.DBus.Properties", "PropertiesChanged", &body).await
}

/// Waits until nobody owns this bus name.
pub async fn until_gone(bus: &Connection, name: &str) -> zbus::Result<()> {
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
