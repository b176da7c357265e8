//! The D-Bus interface. Handlers validate, authorize, ask the supervisor and reply; they decide nothing.

// The interface macro wants a method for each property, also for those that never change.
#![allow(clippy::unused_self)]

mod arguments;
mod asking;
mod descriptor;
mod telling;

use std::collections::HashMap;
use std::sync::Arc;

use scherzo_api::Error;
use scherzo_api::details;
use scherzo_api::names::{
    ACTION_INSPECT_HOLDS, ACTION_LIFT_GUARD, ACTION_SET_ENABLED, ACTION_SET_ENGINE, ACTION_SET_MODE,
};
use scherzo_api::types::RequestedMode;
use scherzo_host::Root;
use tokio::sync::{mpsc, watch};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, OwnedFd, OwnedVariant};

use crate::authorize::Authorizer;
use crate::callers::Callers;
use crate::describe::{self, Description};
use crate::diagnose::{self, Diagnosis};
use crate::foreground;
use crate::input::{Answer, HistoryEntry, Input};
use crate::rivals;
use crate::settings;
use crate::visibility::{Viewer, is_of_hold, show_history, show_hold};
use arguments::{END_NEEDS_MODE, HOLD_NEEDS_MODE, parse_mode_of_its_own};
pub(crate) use arguments::{check_changes, error_of, parse_engine, parse_mode};
use asking::stopping;
use descriptor::DescriptorTie;
use scherzo_supervisor::{Hold, HoldRequest, Published, Request, Tie, check_seconds};
use telling::show_settings;
pub(crate) use telling::{changes, emit_changes, invalidations, until_gone};

/// The object at [`OBJECT_PATH`].
pub struct BusInterface {
    /// Where requests go.
    pub inputs: mpsc::Sender<Input>,
    /// What the supervisor last published.
    pub published: watch::Receiver<Published>,
    /// Where the host's files are.
    pub root: Root,
    /// What was found when the host was last looked at, which is done once at a time.
    pub diagnosis: tokio::sync::Mutex<Option<Diagnosis>>,
    /// Counts the calls of each user.
    pub callers: Arc<Callers>,
    /// Decides which caller may do what.
    pub authorizer: Arc<dyn Authorizer>,
}

#[zbus::interface(name = "org.scherzo.Scheduler1", introspection_docs = false)]
impl BusInterface {
    async fn set_enabled(
        &self,
        enabled: bool,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        let failed_again = enabled && self.published(|now| now.lifting_needs_more);
        let (action, request) = if failed_again {
            (ACTION_LIFT_GUARD, Request::TurnOnAgain)
        } else {
            (ACTION_SET_ENABLED, Request::SetEnabled(enabled))
        };
        self.ask_with(bus, &call, action, request).await.map(drop)
    }

    async fn set_mode(
        &self,
        mode: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        let mode = parse_mode(mode)?;
        self.ask_with(bus, &call, ACTION_SET_MODE, Request::SetMode(mode)).await.map(drop)
    }

    async fn set_mode_for(
        &self,
        mode: &str,
        seconds: u32,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        let mode = parse_mode_of_its_own(mode, END_NEEDS_MODE)?;
        check_seconds(seconds).map_err(error_of)?;
        self.ask_with(bus, &call, ACTION_SET_MODE, Request::SetModeFor(mode, seconds)).await.map(drop)
    }

    async fn set_preemption(
        &self,
        preemption: bool,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        self.ask_with(bus, &call, ACTION_SET_MODE, Request::SetPreemption(preemption)).await.map(drop)
    }

    async fn set_engine(
        &self,
        engine: &str,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        let seat = parse_engine(engine)?;
        self.ask_with(bus, &call, ACTION_SET_ENGINE, Request::SetEngine(seat)).await.map(drop)
    }

    async fn set_foreground(
        &self,
        group: String,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        self.ask_for_foreground(bus, &call, group, Request::SetForeground).await
    }

    #[zbus(out_args("cookie"))]
    async fn hold_mode(
        &self,
        mode: &str,
        reason: String,
        application: String,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<u32, Error> {
        let mode = parse_mode_of_its_own(mode, HOLD_NEEDS_MODE)?;
        let wanted = HoldRequest { mode, reason, application, tie: Tie::Connection, seconds: None };
        self.ask_to_hold(bus, &call, wanted).await
    }

    #[zbus(out_args("descriptor", "cookie"))]
    async fn open_hold(
        &self,
        mode: &str,
        reason: String,
        application: String,
        seconds: u32,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(OwnedFd, u32), Error> {
        let (mode, seconds) = (parse_mode_of_its_own(mode, HOLD_NEEDS_MODE)?, (seconds != 0).then_some(seconds));
        let tie = DescriptorTie::new().map_err(|error| Error::LimitReached(format!("No descriptor: {error}.")))?;
        let wanted = HoldRequest { mode, reason, application, tie: Tie::Descriptor, seconds };
        let cookie = self.ask_to_hold(bus, &call, wanted).await?;
        Ok((tie.watch(cookie, self.published.clone(), self.inputs.clone()), cookie))
    }

    async fn set_hold_foreground(
        &self,
        cookie: u32,
        group: String,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        self.ask_for_foreground(bus, &call, group, |found| Request::SetHoldForeground(cookie, found)).await
    }

    async fn release_mode(
        &self,
        cookie: u32,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        let caller = self.callers.caller(bus, &call).await?;
        let own = |hold: &Hold| hold.cookie == cookie && hold.holder.name == caller.name;
        if !self.published(|now| now.holds.iter().any(own)) {
            self.authorizer.check(bus, &call, ACTION_SET_MODE).await?;
        }
        self.ask(&caller, Request::ReleaseMode(cookie)).await.map(drop)
    }

    #[zbus(out_args("stats"))]
    async fn get_stats(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<HashMap<String, OwnedVariant>, Error> {
        match self.ask_freely(bus, &call, Request::GetStats).await? {
            Answer::Stats(stats) => Ok(stats.to_wire()),
            _ => Ok(HashMap::new()),
        }
    }

    #[zbus(out_args("histograms"))]
    async fn get_wait_histogram(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<HashMap<String, Vec<u64>>, Error> {
        match self.ask_freely(bus, &call, Request::GetWaitHistogram).await? {
            Answer::Histograms(histograms) => Ok(histograms),
            _ => Ok(HashMap::new()),
        }
    }

    async fn configure(
        &self,
        settings: HashMap<String, OwnedVariant>,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        self.change_settings(check_changes(&settings)?, &call, bus).await
    }

    async fn reset_settings(
        &self,
        keys: Vec<String>,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        let changes: Result<_, String> = keys.iter().map(|key| Ok((settings::find(key)?, None))).collect();
        let changes = changes.map_err(|problem| Error::InvalidSetting(format!("{problem}.")))?;
        self.change_settings(changes, &call, bus).await
    }

    #[zbus(out_args("settings"))]
    async fn describe_settings(&self) -> Result<HashMap<String, Description>, Error> {
        self.read(|reply| Input::DescribeSettings { reply }).await
    }

    #[zbus(out_args("now", "entries"))]
    async fn get_history_since(
        &self,
        cursor: u64,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(u64, Vec<HistoryEntry>), Error> {
        let caller = self.callers.caller(bus, &call).await?;
        let (now, entries) = self.read(|reply| Input::GetHistorySince { cursor, reply }).await?;
        Ok((now, show_history(entries, Viewer::User(caller.uid))))
    }

    #[zbus(out_args("entries"))]
    async fn get_history(
        &self,
        nr_entries: u32,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<Vec<HistoryEntry>, Error> {
        let caller = self.callers.caller(bus, &call).await?;
        let viewer = Viewer::User(caller.uid);
        Ok(show_history(self.history(&caller, nr_entries).await?, viewer))
    }

    #[zbus(out_args("holds", "entries"))]
    async fn inspect_holds(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(Vec<HashMap<String, OwnedVariant>>, Vec<HistoryEntry>), Error> {
        let caller = self.callers.caller(bus, &call).await?;
        self.authorizer.check(bus, &call, ACTION_INSPECT_HOLDS).await?;
        let holds = self.published(|now| now.holds.clone());
        let holds = holds.iter().map(|hold| show_hold(hold, Viewer::Administrator)).collect();
        let mut entries = self.history(&caller, 0).await?;
        entries.retain(|(_, _, details)| is_of_hold(details));
        Ok((holds, entries))
    }

    #[zbus(out_args("findings"))]
    async fn diagnose(&self, #[zbus(connection)] bus: &Connection) -> Result<Vec<diagnose::WireFinding>, Error> {
        let mut last = self.diagnosis.lock().await;
        let now = self.published(Published::clone);
        if let Some(recent) = last.as_ref().filter(|last| last.is_recent(&now)) {
            return Ok(recent.findings().to_vec());
        }
        let (root, rivals) = (self.root.clone(), rivals::find(bus).await);
        let looked =
            tokio::task::spawn_blocking(move || Diagnosis::make(&root, &rivals, now)).await.map_err(|_| stopping())?;
        Ok(last.insert(looked).findings().to_vec())
    }

    async fn subscribe(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        self.ask_freely(bus, &call, Request::Subscribe).await.map(drop)
    }

    async fn unsubscribe(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> Result<(), Error> {
        self.ask_freely(bus, &call, Request::Unsubscribe).await.map(drop)
    }

    /// Statistics, for subscribers only.
    #[zbus(signal)]
    pub async fn stats_updated(to: &SignalEmitter<'_>, stats: HashMap<String, OwnedVariant>) -> zbus::Result<()>;

    /// A hold was released by someone else than its holder, who alone is told.
    #[zbus(signal)]
    pub async fn hold_released(to: &SignalEmitter<'_>, cookie: u32) -> zbus::Result<()>;

    /// The history has an entry more.
    #[zbus(signal)]
    pub async fn history_added(to: &SignalEmitter<'_>, now: u64) -> zbus::Result<()>;

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
    fn requested_mode_until(&self) -> u64 {
        self.published(|now| now.requested_until_s.unwrap_or_default())
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
        self.published(|now| now.choice.seat.name().to_owned())
    }

    #[zbus(property)]
    fn kernel_ops(&self) -> String {
        self.published(|now| now.kernel_ops.clone())
    }

    #[zbus(property)]
    fn last_error(&self) -> String {
        self.published(Published::errors)
    }

    #[zbus(property)]
    fn last_error_id(&self) -> String {
        self.published(|now| now.error_id().to_owned())
    }

    #[zbus(property)]
    fn last_error_args(&self) -> HashMap<String, OwnedVariant> {
        self.published(describe::error_arguments)
    }

    #[zbus(property)]
    fn on_battery(&self) -> bool {
        self.published(|now| now.on_battery)
    }

    #[zbus(property)]
    fn power_profile(&self) -> String {
        self.published(|now| now.power_profile.clone())
    }

    #[zbus(property(emits_changed_signal = "invalidates"))]
    async fn holds(
        &self,
        #[zbus(header)] call: Option<Header<'_>>,
        #[zbus(connection)] bus: &Connection,
    ) -> Vec<HashMap<String, OwnedVariant>> {
        let holds = self.published(|now| now.holds.clone());
        let asking = match call {
            Some(call) if !holds.is_empty() => self.callers.uid(bus, &call).await,
            _ => None,
        };
        holds.iter().map(|hold| show_hold(hold, Viewer::User(asking))).collect()
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn foreground(
        &self,
        #[zbus(header)] call: Option<Header<'_>>,
        #[zbus(connection)] bus: &Connection,
    ) -> String {
        let foreground = self.published(|now| now.foreground.clone());
        let asking = match call {
            Some(call) if foreground.is_some() => self.callers.uid(bus, &call).await,
            _ => None,
        };
        foreground::show(foreground.as_ref(), Viewer::User(asking))
    }

    #[zbus(property)]
    fn settings(&self) -> HashMap<String, OwnedVariant> {
        show_settings(self.published(|now| now.settings))
    }

    #[zbus(property)]
    fn mode_details(&self) -> HashMap<String, Description> {
        self.published(describe::modes)
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
