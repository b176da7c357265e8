use std::collections::HashMap;

use zbus::OwnedVariant;

use crate::{Error, details};

/// An entry of the history: seconds since 1970, a stable id, arguments.
pub type HistoryEntry = (u64, String, details::Wire);

/// The service, typed. See `dbus/org.scherzo.Scheduler1.xml` for what each member means.
#[zbus::proxy(
    interface = "org.scherzo.Scheduler1",
    default_service = "org.scherzo.Scheduler1",
    default_path = "/org/scherzo/Scheduler1"
)]
pub trait Scheduler {
    /// Loads or unloads; answers when the kernel has confirmed.
    #[zbus(allow_interactive_auth)]
    fn set_enabled(&self, enabled: bool) -> Result<(), Error>;

    /// Chooses a mode: `auto`, `interactive`, `fifo` or `low-power`.
    #[zbus(allow_interactive_auth)]
    fn set_mode(&self, mode: &str) -> Result<(), Error>;

    /// Chooses a mode for so many seconds.
    #[zbus(allow_interactive_auth)]
    fn set_mode_for(&self, mode: &str, seconds: u32) -> Result<(), Error>;

    /// Turns preemption on or off.
    #[zbus(allow_interactive_auth)]
    fn set_preemption(&self, preemption: bool) -> Result<(), Error>;

    /// Chooses the engine: `user` or `kernel`.
    #[zbus(allow_interactive_auth)]
    fn set_engine(&self, engine: &str) -> Result<(), Error>;

    /// Names the control group of the application in front, by its path in the default hierarchy; an empty one names none.
    /// It ends with this connection.
    #[zbus(allow_interactive_auth)]
    fn set_foreground(&self, group: &str) -> Result<(), Error>;

    /// Holds a mode until it is released or this connection ends; answers with the hold's cookie.
    #[zbus(allow_interactive_auth)]
    fn hold_mode(&self, mode: &str, reason: &str, application: &str) -> Result<u32, Error>;

    /// As `hold_mode`, but the user is never asked for a password.
    #[zbus(name = "HoldMode")]
    fn hold_mode_quietly(&self, mode: &str, reason: &str, application: &str) -> Result<u32, Error>;

    /// As `hold_mode`, until the descriptor is closed, or for so many seconds at most unless these are 0; answers with
    /// the descriptor and the hold's cookie.
    #[zbus(allow_interactive_auth)]
    fn open_hold(
        &self,
        mode: &str,
        reason: &str,
        application: &str,
        seconds: u32,
    ) -> Result<(zbus::OwnedFd, u32), Error>;

    /// Names the control group that is in front while a hold of this connection lasts; an empty one names none.
    #[zbus(allow_interactive_auth)]
    fn set_hold_foreground(&self, cookie: u32, group: &str) -> Result<(), Error>;

    /// As `set_hold_foreground`, but the user is never asked for a password.
    #[zbus(name = "SetHoldForeground")]
    fn set_hold_foreground_quietly(&self, cookie: u32, group: &str) -> Result<(), Error>;

    /// Releases a hold.
    #[zbus(allow_interactive_auth)]
    fn release_mode(&self, cookie: u32) -> Result<(), Error>;

    /// Statistics since loading, see [`crate::stats`].
    fn get_stats(&self) -> Result<HashMap<String, OwnedVariant>, Error>;

    /// Wait histogram per task class, see [`crate::histogram`].
    fn get_wait_histogram(&self) -> Result<HashMap<String, Vec<u64>>, Error>;

    /// Changes settings: all or, with an error, none.
    #[zbus(allow_interactive_auth)]
    fn configure(&self, settings: HashMap<&str, zbus::Variant<'_>>) -> Result<(), Error>;

    /// Takes back what `configure` has changed: all or, with an error, none.
    #[zbus(allow_interactive_auth)]
    fn reset_settings(&self, keys: &[&str]) -> Result<(), Error>;

    /// All about each setting: type, range, default, value, where that comes from, and what a change takes.
    fn describe_settings(&self) -> Result<HashMap<String, HashMap<String, OwnedVariant>>, Error>;

    /// The number of the newest entry of the history, and the entries after the one with the number `cursor`.
    fn get_history_since(&self, cursor: u64) -> Result<(u64, Vec<HistoryEntry>), Error>;

    /// The history has an entry more; its number.
    #[zbus(signal)]
    fn history_added(&self, now: u64) -> zbus::Result<()>;

    /// The newest entries of the history, the oldest of them first; 0 stands for all that are kept.
    fn get_history(&self, nr_entries: u32) -> Result<Vec<HistoryEntry>, Error>;

    /// Everybody's holds with their applications and reasons, and the history of all holds.
    #[zbus(allow_interactive_auth)]
    fn inspect_holds(&self) -> Result<(Vec<HashMap<String, OwnedVariant>>, Vec<HistoryEntry>), Error>;

    /// Looks for what is wrong: id, severity (`good`, `note`, `warning`, `error`), English text, arguments.
    fn diagnose(&self) -> Result<Vec<(String, String, String, HashMap<String, OwnedVariant>)>, Error>;

    /// Starts `StatsUpdated` for this caller.
    fn subscribe(&self) -> Result<(), Error>;

    /// Ends `StatsUpdated` for this caller.
    fn unsubscribe(&self) -> Result<(), Error>;

    /// Statistics, once per second, to subscribers only.
    #[zbus(signal)]
    fn stats_updated(&self, stats: HashMap<String, OwnedVariant>) -> Result<(), Error>;

    /// A hold of this connection was released by someone else.
    #[zbus(signal)]
    fn hold_released(&self, cookie: u32) -> Result<(), Error>;

    /// The engine ended without having been asked to.
    #[zbus(signal)]
    fn engine_exited(&self, reason: String, details: HashMap<String, OwnedVariant>) -> Result<(), Error>;

    /// Whether Scherzo is turned on.
    #[zbus(property)]
    fn enabled(&self) -> zbus::Result<bool>;

    /// What runs, see [`crate::types::State`].
    #[zbus(property)]
    fn state(&self) -> zbus::Result<String>;

    /// The mode in effect, or the one that will be.
    #[zbus(property)]
    fn mode(&self) -> zbus::Result<String>;

    /// What a person asked for.
    #[zbus(property)]
    fn requested_mode(&self) -> zbus::Result<String>;

    /// When that ends by itself, in seconds since 1970; 0 if it does not.
    #[zbus(property)]
    fn requested_mode_until(&self) -> zbus::Result<u64>;

    /// Why it is so, see [`crate::types::Reason`].
    #[zbus(property)]
    fn reason(&self) -> zbus::Result<String>;

    /// Arguments of the reason.
    #[zbus(property)]
    fn reason_args(&self) -> zbus::Result<HashMap<String, OwnedVariant>>;

    /// Preemption in effect, or as it will be.
    #[zbus(property)]
    fn preemption(&self) -> zbus::Result<bool>;

    /// Which engine decides: `user` or `kernel`.
    #[zbus(property)]
    fn engine(&self) -> zbus::Result<String>;

    /// Name of the loaded operations as the kernel shows it, empty if none.
    #[zbus(property)]
    fn kernel_ops(&self) -> zbus::Result<String>;

    /// The last failure as a sentence, empty if none.
    #[zbus(property)]
    fn last_error(&self) -> zbus::Result<String>;

    /// The id of the last failure: of a reason, or `reverted` or `not-stored`; empty if none.
    #[zbus(property)]
    fn last_error_id(&self) -> zbus::Result<String>;

    /// Its arguments.
    #[zbus(property)]
    fn last_error_args(&self) -> zbus::Result<HashMap<String, OwnedVariant>>;

    /// The machine runs on battery.
    #[zbus(property)]
    fn on_battery(&self) -> zbus::Result<bool>;

    /// The active power profile, empty if there is none.
    #[zbus(property)]
    fn power_profile(&self) -> zbus::Result<String>;

    /// What programs hold, the oldest first.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn holds(&self) -> zbus::Result<Vec<HashMap<String, OwnedVariant>>>;

    /// The path of the control group in front, empty if there is none, or it is another user's.
    #[zbus(property(emits_changed_signal = "false"))]
    fn foreground(&self) -> zbus::Result<String>;

    /// Every setting by its name.
    #[zbus(property)]
    fn settings(&self) -> zbus::Result<HashMap<String, OwnedVariant>>;

    /// What there is to know about each mode.
    #[zbus(property)]
    fn mode_details(&self) -> zbus::Result<HashMap<String, HashMap<String, OwnedVariant>>>;

    /// Arguments `SetMode` takes.
    #[zbus(property(emits_changed_signal = "const"))]
    fn modes(&self) -> zbus::Result<Vec<String>>;

    /// Version of the service.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> zbus::Result<String>;
}
