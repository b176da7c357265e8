//! The mode decides the power profile, if that is wanted: a pretended power-profiles daemon on the same bus.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::process::Signal;
use zbus::Connection;
use zbus::object_server::SignalEmitter;

use crate::support::{Client, Stage, eventually};

const NAME: &str = "org.freedesktop.UPower.PowerProfiles";
const OLD_NAME: &str = "net.hadess.PowerProfiles";
const PATH: &str = "/org/freedesktop/UPower/PowerProfiles";
const OLD_PATH: &str = "/net/hadess/PowerProfiles";

/// What both interfaces of a daemon are about.
struct Ledger {
    chosen: String,
    held: BTreeMap<u32, String>,
    nr_holds: u32,
    nr_refusals: u32,
}

impl Ledger {
    fn active(&self) -> String {
        self.held.values().next().unwrap_or(&self.chosen).clone()
    }

    fn hold(&mut self, profile: String) -> zbus::fdo::Result<u32> {
        if self.nr_refusals > 0 {
            self.nr_refusals -= 1;
            return Err(zbus::fdo::Error::Failed("not yet".into()));
        }
        self.nr_holds += 1;
        self.held.insert(self.nr_holds, profile);
        Ok(self.nr_holds)
    }
}

/// Both interfaces tell it, whichever was called.
async fn tell_profile(bus: &Connection, ledger: &Mutex<Ledger>) -> zbus::Result<()> {
    let changed = HashMap::from([("ActiveProfile", zbus::Variant::from(ledger.lock().unwrap().active()))]);
    for (path, interface) in [(PATH, NAME), (OLD_PATH, OLD_NAME)] {
        let body = (interface, &changed, Vec::<&str>::new());
        bus.emit_signal(None::<&str>, path, "org.freedesktop.DBus.Properties", "PropertiesChanged", &body).await?;
    }
    Ok(())
}

/// An interface of the daemon.
macro_rules! profiles {
    ($type:ident, $name:literal) => {
        struct $type(Arc<Mutex<Ledger>>);

        #[zbus::interface(name = $name)]
        impl $type {
            #[zbus(property)]
            fn active_profile(&self) -> String {
                self.0.lock().unwrap().active()
            }

            async fn hold_profile(
                &mut self,
                profile: String,
                reason: String,
                application: String,
                #[zbus(connection)] bus: &Connection,
            ) -> zbus::fdo::Result<u32> {
                // As hardened distributions check it.
                let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == ' ';
                assert!(format!("{reason}{application}").chars().all(is_plain));
                let cookie = self.0.lock().unwrap().hold(profile)?;
                tell_profile(bus, &self.0).await?;
                Ok(cookie)
            }

            async fn release_profile(
                &mut self,
                cookie: u32,
                #[zbus(connection)] bus: &Connection,
            ) -> zbus::fdo::Result<()> {
                if self.0.lock().unwrap().held.remove(&cookie).is_none() {
                    return Err(zbus::fdo::Error::InvalidArgs("no such hold".into()));
                }
                tell_profile(bus, &self.0).await?;
                Ok(())
            }

            #[zbus(signal)]
            async fn profile_released(to: &SignalEmitter<'_>, cookie: u32) -> zbus::Result<()>;
        }
    };
}

profiles!(Profiles, "org.freedesktop.UPower.PowerProfiles");
profiles!(OldProfiles, "net.hadess.PowerProfiles");

struct Daemon {
    bus: Connection,
    ledger: Arc<Mutex<Ledger>>,
}

impl Daemon {
    /// With its new name only.
    async fn appear(stage: &Stage) -> Self {
        let daemon = Self::appear_nameless(stage, 0).await;
        daemon.bus.request_name(NAME).await.unwrap();
        daemon
    }

    /// As the real one starts, which asks for its names one after the other.
    async fn appear_nameless(stage: &Stage, nr_refusals: u32) -> Self {
        let chosen = "balanced".to_owned();
        let ledger = Arc::new(Mutex::new(Ledger { chosen, held: BTreeMap::new(), nr_holds: 0, nr_refusals }));
        let bus = zbus::connection::Builder::address(stage.address.as_str())
            .serve_at(PATH, Profiles(Arc::clone(&ledger)))
            .serve_at(OLD_PATH, OldProfiles(Arc::clone(&ledger)))
            .build()
            .await
            .unwrap();
        Self { bus, ledger }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    fn nr_held(&self) -> usize {
        self.ledger().held.len()
    }

    fn holds(&self) -> bool {
        self.nr_held() > 0
    }

    /// A person chooses a profile, which drops holds.
    async fn choose(&self, profile: &str) {
        profile.clone_into(&mut self.ledger().chosen);
        self.drop_holds().await;
        tell_profile(&self.bus, &self.ledger).await.unwrap();
    }

    /// It ends in order, as when it is restarted: it drops all holds before it leaves the bus.
    async fn end(self) {
        self.drop_holds().await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        self.bus.close().await.unwrap();
    }

    async fn drop_holds(&self) {
        let profiles = self.bus.object_server().interface::<_, Profiles>(PATH).await.unwrap();
        let old_profiles = self.bus.object_server().interface::<_, OldProfiles>(OLD_PATH).await.unwrap();
        let dropped = std::mem::take(&mut self.ledger().held);
        for cookie in dropped.into_keys() {
            Profiles::profile_released(profiles.signal_emitter(), cookie).await.unwrap();
            OldProfiles::profile_released(old_profiles.signal_emitter(), cookie).await.unwrap();
        }
    }
}

async fn wait_for(client: &Client, mode: &str, reason: &str) {
    eventually(&format!("{mode} because of {reason}"), async || {
        let now = client.snapshot().await;
        now.mode == mode && now.reason == reason
    })
    .await;
}

async fn follow_mode(client: &Client) {
    client.scheduler.configure(HashMap::from([("drive_power_profile", true.into())])).await.unwrap();
    client.scheduler.set_enabled(true).await.unwrap();
}

#[tokio::test]
async fn low_power_holds_a_profile_and_whoever_chooses_another_is_obeyed() {
    let stage = Stage::new();
    let daemon = Daemon::appear(&stage).await;
    let service = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    client.scheduler.set_mode("low-power").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!daemon.holds(), "it is not wanted by default");

    follow_mode(&client).await;
    eventually("the profile is held", async || daemon.holds()).await;
    eventually("it shows", async || client.snapshot().await.power_profile == "power-saver").await;
    client.scheduler.set_mode("auto").await.unwrap();
    wait_for(&client, "interactive", "power-profile").await;
    eventually("the profile is released", async || !daemon.holds()).await;
    wait_for(&client, "interactive", "power-profile").await;

    let holder = Client::new(&stage).await;
    holder.scheduler.hold_mode("low-power", "a test", "org.example.Test").await.unwrap();
    eventually("the profile is held again", async || daemon.holds()).await;
    daemon.choose("performance").await;
    eventually("the person's profile", async || client.snapshot().await.power_profile == "performance").await;
    assert_eq!(client.snapshot().await.mode, "low-power", "the program still holds the mode");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!daemon.holds(), "the person's profile stays");
    assert_eq!(stage.kernel().enable_seq, 1);
    service.signal(Signal::TERM);
    service.end();
}

#[tokio::test]
async fn nothing_is_held_while_nothing_runs_and_a_new_daemon_is_asked_too() {
    let stage = Stage::new();
    let _service = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    follow_mode(&client).await;
    client.scheduler.set_mode("low-power").await.unwrap();
    // A daemon that comes later.
    let daemon = Daemon::appear(&stage).await;
    eventually("the profile is held", async || daemon.holds()).await;
    client.scheduler.set_enabled(false).await.unwrap();
    eventually("the profile is released", async || !daemon.holds()).await;
    assert_eq!(daemon.ledger().nr_holds, 1);
}

#[tokio::test]
async fn a_daemon_that_gets_its_names_one_after_the_other_has_one_hold() {
    let stage = Stage::new();
    let _service = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    follow_mode(&client).await;
    client.scheduler.set_mode("low-power").await.unwrap();
    for _ in 0..2 {
        let daemon = Daemon::appear_nameless(&stage, 0).await;
        daemon.bus.request_name(OLD_NAME).await.unwrap();
        eventually("the profile is held", async || daemon.holds()).await;
        daemon.bus.request_name(NAME).await.unwrap();
        eventually("the other name is heard of", async || client.snapshot().await.power_profile == "power-saver").await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!((daemon.nr_held(), daemon.ledger().nr_holds), (1, 1));
        client.scheduler.set_mode("interactive").await.unwrap();
        eventually("nothing is left behind", async || !daemon.holds()).await;
        client.scheduler.set_mode("low-power").await.unwrap();
        eventually("the profile is held again", async || daemon.holds()).await;
        // It restarts.
        daemon.bus.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_daemon_that_ends_in_order_has_not_been_told_another_profile() {
    let stage = Stage::new();
    let _service = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    follow_mode(&client).await;
    client.scheduler.set_mode("low-power").await.unwrap();
    for _ in 0..2 {
        let daemon = Daemon::appear_nameless(&stage, 0).await;
        daemon.bus.request_name(OLD_NAME).await.unwrap();
        daemon.bus.request_name(NAME).await.unwrap();
        eventually("the profile is held", async || daemon.holds()).await;
        daemon.end().await;
    }
}

#[tokio::test]
async fn another_daemon_takes_the_hold_over() {
    let stage = Stage::new();
    let _service = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let old = Daemon::appear_nameless(&stage, 0).await;
    old.bus.request_name(OLD_NAME).await.unwrap();
    follow_mode(&client).await;
    client.scheduler.set_mode("low-power").await.unwrap();
    eventually("the profile is held", async || old.holds()).await;
    let new = Daemon::appear(&stage).await;
    eventually("the profile is held by the other one", async || new.holds() && !old.holds()).await;
}

#[tokio::test]
async fn a_hold_that_is_refused_is_tried_again() {
    let stage = Stage::new();
    let daemon = Daemon::appear_nameless(&stage, 1).await;
    daemon.bus.request_name(NAME).await.unwrap();
    let _service = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    follow_mode(&client).await;
    client.scheduler.set_mode("low-power").await.unwrap();
    eventually("the profile is held", async || daemon.holds()).await;
    client.scheduler.set_mode("auto").await.unwrap();
    eventually("the profile is released", async || !daemon.holds()).await;
    wait_for(&client, "interactive", "power-profile").await;
}
