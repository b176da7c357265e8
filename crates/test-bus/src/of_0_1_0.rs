//! The service of version 0.1.0, without a scheduler: it has the members of that version and no others.
//!
//! Clients are to work with it, and to hide what it lacks. `crates/daemon/tests/bus/of_0_1_0` is where names come from;
//! `compatibility.rs` beside it compares the members.

// What is always the same is a property all the same.
#![allow(clippy::unused_self)]

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;
use zbus::connection::Builder;
use zbus::fdo::DBusProxy;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, OwnedVariant, Str, Variant};

/// As that service wrote them, with every setting changed: so all of them are there.
const SETTINGS: &str = include_str!("../../daemon/tests/bus/of_0_1_0/settings.toml");
const STATISTICS: &str = include_str!("../../daemon/tests/bus/of_0_1_0/statistics.txt");

const NAME: &str = "org.scherzo.Scheduler1";
const PATH: &str = "/org/scherzo/Scheduler1";
const AUTO: &str = "auto";
const MODES: [&str; 4] = [AUTO, "interactive", "fifo", "low-power"];
/// Whoever has chosen or changed anything.
const UID: i64 = 1000;

/// Waits of a second, by the powers of two of their microseconds.
const WAITS: [u64; 10] = [0, 5, 20, 60, 40, 20, 10, 5, 2, 1];
const CLASSES: [&str; 4] = ["new", "interactive", "batch", "kernel"];

type OldValues = HashMap<String, OwnedVariant>;
type OldEntry = (u64, String, OldValues);
/// Id, severity, text, arguments.
type OldFinding = (String, String, String, OldValues);

/// Serves on the bus at this address for as long as the runtime runs.
///
/// # Panics
///
/// If there is no such bus, or somebody else serves on it.
pub async fn serve(address: &str) {
    let service = OldService { settings: settings(), ..OldService::default() };
    let bus = Builder::address(address).serve_at(PATH, service).name(NAME).build().await;
    let bus = bus.expect("the bus takes the service");
    tokio::spawn(release_holds(bus.clone()));
    tokio::spawn(tell_statistics(bus));
}

/// Of those that leave the bus.
async fn release_holds(bus: Connection) {
    let service = bus.object_server().interface::<_, OldService>(PATH).await.expect("it is served");
    let registry = DBusProxy::new(&bus).await.expect("a bus has a registry");
    let mut owners = registry.receive_name_owner_changed().await.expect("the bus tells who leaves");
    while let Some(change) = owners.next().await {
        let change = change.args().expect("a bus keeps to the specification");
        if change.new_owner().is_none() {
            let mut now = service.get_mut().await;
            now.holds.retain(|hold| hold.holder != change.name().as_str());
            // The bus ends before its tests do.
            let _ = now.tell_choice(service.signal_emitter()).await;
        }
    }
}

/// Once per second, while somebody wants them and it is turned on.
async fn tell_statistics(bus: Connection) {
    let service = bus.object_server().interface::<_, OldService>(PATH).await.expect("it is served");
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let stats = {
            let now = service.get().await;
            now.loaded.filter(|_| now.is_watched).map(statistics)
        };
        if let Some(stats) = stats {
            // The bus ends before its tests do.
            let _ = OldService::stats_updated(service.signal_emitter(), stats).await;
        }
    }
}

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.scherzo.Scheduler1.Error")]
enum OldError {
    #[zbus(error)]
    Bus(zbus::Error),
    InvalidMode(String),
    InvalidSetting(String),
    NoSuchHold(String),
    NotRunning(String),
}

struct OldHold {
    holder: String,
    cookie: u32,
    mode: String,
    reason: String,
    application: String,
}

#[derive(Default)]
struct OldService {
    /// Since when it is loaded; turned off at first, as after installing.
    loaded: Option<Instant>,
    chosen: Option<String>,
    is_preemption_off: bool,
    settings: OldValues,
    holds: Vec<OldHold>,
    nr_holds: u32,
    history: Vec<OldEntry>,
    is_watched: bool,
}

impl OldService {
    fn note(&mut self, event: &str, details: OldValues) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later than 1970");
        self.history.push((now.as_secs(), event.to_owned(), details));
    }

    fn note_mode(&mut self) {
        let mut details = self.reason_args();
        let (mode, reason) = (of(self.mode()), of(self.reason()));
        details.extend([("mode".to_owned(), mode), ("reason".to_owned(), reason)]);
        self.note("mode", details);
    }

    async fn tell_choice(&self, to: &SignalEmitter<'_>) -> Result<(), OldError> {
        self.mode_changed(to).await?;
        self.requested_mode_changed(to).await?;
        self.reason_changed(to).await?;
        self.reason_args_changed(to).await?;
        Ok(self.holds_invalidate(to).await?)
    }

    fn running_since(&self) -> Result<Instant, OldError> {
        self.loaded.ok_or_else(|| OldError::NotRunning("No scheduler is loaded.".to_owned()))
    }
}

#[zbus::interface(name = "org.scherzo.Scheduler1")]
impl OldService {
    async fn set_enabled(
        &mut self,
        enabled: bool,
        #[zbus(signal_emitter)] to: SignalEmitter<'_>,
    ) -> Result<(), OldError> {
        if enabled != self.loaded.is_some() {
            self.loaded = enabled.then(Instant::now);
            self.note(if enabled { "turned-on" } else { "turned-off" }, by_user());
        }
        self.enabled_changed(&to).await?;
        self.state_changed(&to).await?;
        self.kernel_ops_changed(&to).await?;
        self.tell_choice(&to).await
    }

    async fn set_mode(&mut self, mode: String, #[zbus(signal_emitter)] to: SignalEmitter<'_>) -> Result<(), OldError> {
        checked(&mode)?;
        self.chosen = Some(mode).filter(|mode| mode != AUTO);
        for hold in std::mem::take(&mut self.holds) {
            Self::hold_released(&to, hold.cookie).await?;
        }
        self.note_mode();
        self.tell_choice(&to).await
    }

    async fn set_preemption(
        &mut self,
        preemption: bool,
        #[zbus(signal_emitter)] to: SignalEmitter<'_>,
    ) -> Result<(), OldError> {
        self.is_preemption_off = !preemption;
        Ok(self.preemption_changed(&to).await?)
    }

    #[zbus(out_args("cookie"))]
    async fn hold_mode(
        &mut self,
        mode: String,
        reason: String,
        application: String,
        #[zbus(header)] call: Header<'_>,
        #[zbus(signal_emitter)] to: SignalEmitter<'_>,
    ) -> Result<u32, OldError> {
        checked(&mode)?;
        self.nr_holds += 1;
        let cookie = self.nr_holds;
        let holder = call.sender().map(ToString::to_string).unwrap_or_default();
        self.holds.push(OldHold { holder, cookie, mode, reason, application });
        self.tell_choice(&to).await?;
        Ok(cookie)
    }

    async fn release_mode(
        &mut self,
        cookie: u32,
        #[zbus(signal_emitter)] to: SignalEmitter<'_>,
    ) -> Result<(), OldError> {
        let place = self.holds.iter().position(|hold| hold.cookie == cookie);
        self.holds.remove(place.ok_or_else(|| OldError::NoSuchHold(format!("There is no hold {cookie}.")))?);
        self.tell_choice(&to).await
    }

    #[zbus(out_args("stats"))]
    fn get_stats(&self) -> Result<OldValues, OldError> {
        self.running_since().map(statistics)
    }

    #[zbus(out_args("histograms"))]
    fn get_wait_histogram(&self) -> Result<HashMap<String, Vec<u64>>, OldError> {
        let seconds = self.running_since()?.elapsed().as_secs();
        let waits = || WAITS.iter().map(|count| count * seconds).collect();
        Ok(CLASSES.map(|class| (class.to_owned(), waits())).into())
    }

    async fn configure(
        &mut self,
        settings: OldValues,
        #[zbus(signal_emitter)] to: SignalEmitter<'_>,
    ) -> Result<(), OldError> {
        if let Some(unknown) = settings.keys().find(|key| !self.settings.contains_key(*key)) {
            return Err(OldError::InvalidSetting(format!("There is no setting {unknown}.")));
        }
        self.settings.extend(settings.into_iter().map(|(key, value)| (key, stored(value))));
        self.note("configured", by_user());
        Ok(self.settings_changed(&to).await?)
    }

    #[zbus(out_args("entries"))]
    fn get_history(&self, nr_entries: u32) -> Vec<OldEntry> {
        let nr_older = self.history.len().saturating_sub(nr_entries as usize);
        self.history[if nr_entries == 0 { 0 } else { nr_older }..].to_vec()
    }

    #[zbus(out_args("findings"))]
    fn diagnose(&self) -> Vec<OldFinding> {
        let finding = ["sched-ext", "good", "The kernel can load schedulers."].map(str::to_owned);
        let [id, severity, text] = finding;
        vec![(id, severity, text, OldValues::new())]
    }

    fn subscribe(&mut self) {
        self.is_watched = true;
    }

    fn unsubscribe(&mut self) {
        self.is_watched = false;
    }

    #[zbus(signal)]
    async fn stats_updated(to: &SignalEmitter<'_>, stats: OldValues) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn hold_released(to: &SignalEmitter<'_>, cookie: u32) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn engine_exited(to: &SignalEmitter<'_>, reason: &str, details: OldValues) -> zbus::Result<()>;

    #[zbus(property)]
    fn enabled(&self) -> bool {
        self.loaded.is_some()
    }

    #[zbus(property)]
    fn state(&self) -> &'static str {
        if self.loaded.is_some() { "running" } else { "stopped" }
    }

    #[zbus(property)]
    fn mode(&self) -> String {
        let held = self.holds.last().map(|hold| hold.mode.clone());
        let usual = || self.settings["default_mode"].clone().try_into().expect("a mode is a string");
        self.chosen.clone().or(held).unwrap_or_else(usual)
    }

    #[zbus(property)]
    fn requested_mode(&self) -> String {
        self.chosen.clone().unwrap_or_else(|| AUTO.to_owned())
    }

    #[zbus(property)]
    fn reason(&self) -> &'static str {
        match (&self.loaded, &self.chosen, self.holds.last()) {
            (None, ..) => "disabled",
            (_, Some(_), _) => "choice",
            (_, _, Some(_)) => "hold",
            _ => "default",
        }
    }

    #[zbus(property)]
    fn reason_args(&self) -> OldValues {
        match (self.reason(), self.holds.last()) {
            ("choice", _) => by_user(),
            ("hold", Some(hold)) => OldValues::from([("cookie".to_owned(), i64::from(hold.cookie).into())]),
            _ => OldValues::new(),
        }
    }

    #[zbus(property)]
    fn preemption(&self) -> bool {
        !self.is_preemption_off
    }

    #[zbus(property)]
    fn engine(&self) -> &'static str {
        "user"
    }

    #[zbus(property)]
    fn kernel_ops(&self) -> &'static str {
        if self.loaded.is_some() { "scherzo_0_1_0" } else { "" }
    }

    #[zbus(property)]
    fn last_error(&self) -> &'static str {
        ""
    }

    #[zbus(property)]
    fn on_battery(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn power_profile(&self) -> &'static str {
        ""
    }

    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn holds(&self) -> Vec<OldValues> {
        let show = |hold: &OldHold| {
            let texts = [("mode", &hold.mode), ("reason", &hold.reason), ("application", &hold.application)];
            let mut shown: OldValues = texts.map(|(key, text)| (key.to_owned(), of(text.clone()))).into();
            shown.extend(
                [("cookie", hold.cookie), ("uid", UID as u32)].map(|(key, value)| (key.to_owned(), value.into())),
            );
            shown
        };
        self.holds.iter().map(show).collect()
    }

    #[zbus(property)]
    fn settings(&self) -> OldValues {
        self.settings.clone()
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn modes(&self) -> Vec<&'static str> {
        MODES.to_vec()
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> &'static str {
        "0.1.0"
    }
}

fn checked(mode: &str) -> Result<(), OldError> {
    let problem = || OldError::InvalidMode(format!("There is no mode {mode}."));
    MODES.contains(&mode).then_some(()).ok_or_else(problem)
}

fn of(text: impl Into<String>) -> OwnedVariant {
    Str::from(text.into()).into()
}

/// The value of a setting as the service shows it, whichever type of number was sent.
fn stored(value: OwnedVariant) -> OwnedVariant {
    match &*value {
        Variant::I32(number) => (*number as u32).into(),
        Variant::I64(number) => (*number as u32).into(),
        _ => value,
    }
}

fn by_user() -> OldValues {
    OldValues::from([("uid".to_owned(), UID.into())])
}

fn settings() -> OldValues {
    let value = |text: &str| match (text.parse::<u32>(), text.parse::<bool>()) {
        (Ok(number), _) => number.into(),
        (_, Ok(flag)) => flag.into(),
        _ => of(text.trim_matches('"')),
    };
    let pairs = SETTINGS.lines().filter_map(|line| line.split_once(" = "));
    pairs.map(|(key, text)| (key.to_owned(), value(text))).collect()
}

/// All that there were: what counts grows evenly, what is of the moment stays.
fn statistics(loaded: Instant) -> OldValues {
    let (uptime_ns, seconds) = (loaded.elapsed().as_nanos() as u64, loaded.elapsed().as_secs());
    let value = |key: &str| match key {
        "uptime_ns" => uptime_ns,
        "nr_cpus" | "nr_online_cpus" => 4,
        "nr_running" | "nr_waiting" | "nr_custody" | "nr_pooled" => 3,
        "health" | "fifo_by_itself" => 0,
        _ if key.ends_with("_ns") => uptime_ns / 2,
        _ if key.ends_with("_bytes") => 8 << 20,
        _ if key.starts_with("nr_") => 100 * seconds,
        _ => 100,
    };
    let mut stats: OldValues = STATISTICS.lines().map(|key| (key.to_owned(), value(key).into())).collect();
    stats.insert("user_share".to_owned(), OwnedVariant::try_from(Variant::from(0.9)).expect("a number is copied"));
    stats
}
