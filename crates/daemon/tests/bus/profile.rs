//! The mode decides the power profile, if that is wanted: a pretended power-profiles daemon on the same bus.

use std::collections::HashMap;

use rustix::process::Signal;
use zbus::Connection;
use zbus::object_server::{InterfaceRef, SignalEmitter};

use crate::support::{Client, Stage, eventually};

const PATH: &str = "/org/freedesktop/UPower/PowerProfiles";

/// One hold at most, which is all that is needed here.
struct Profiles {
    chosen: String,
    held: Option<(u32, String)>,
    nr_holds: u32,
}

#[zbus::interface(name = "org.freedesktop.UPower.PowerProfiles")]
impl Profiles {
    #[zbus(property)]
    fn active_profile(&self) -> String {
        self.held.as_ref().map_or_else(|| self.chosen.clone(), |(_, profile)| profile.clone())
    }

    async fn hold_profile(
        &mut self,
        profile: String,
        reason: String,
        application: String,
        #[zbus(signal_emitter)] to: SignalEmitter<'_>,
    ) -> zbus::fdo::Result<u32> {
        // As hardened distributions check it.
        assert!(format!("{reason}{application}").chars().all(|letter| letter.is_ascii_alphanumeric() || letter == ' '));
        self.nr_holds += 1;
        self.held = Some((self.nr_holds, profile));
        self.active_profile_changed(&to).await?;
        Ok(self.nr_holds)
    }

    async fn release_profile(
        &mut self,
        cookie: u32,
        #[zbus(signal_emitter)] to: SignalEmitter<'_>,
    ) -> zbus::fdo::Result<()> {
        if self.held.take_if(|(held, _)| *held == cookie).is_none() {
            return Err(zbus::fdo::Error::InvalidArgs("no such hold".into()));
        }
        self.active_profile_changed(&to).await?;
        Ok(())
    }

    #[zbus(signal)]
    async fn profile_released(to: &SignalEmitter<'_>, cookie: u32) -> zbus::Result<()>;
}

struct Daemon(Connection);

impl Daemon {
    async fn appear(stage: &Stage) -> Self {
        let profiles = Profiles { chosen: "balanced".to_owned(), held: None, nr_holds: 0 };
        let bus = zbus::connection::Builder::address(stage.address.as_str())
            .serve_at(PATH, profiles)
            .name("org.freedesktop.UPower.PowerProfiles")
            .build()
            .await
            .unwrap();
        Self(bus)
    }

    async fn profiles(&self) -> InterfaceRef<Profiles> {
        self.0.object_server().interface(PATH).await.unwrap()
    }

    async fn holds(&self) -> bool {
        self.profiles().await.get().await.held.is_some()
    }

    /// A person chooses a profile, which drops holds.
    async fn choose(&self, profile: &str) {
        let profiles = self.profiles().await;
        profile.clone_into(&mut profiles.get_mut().await.chosen);
        let dropped = profiles.get_mut().await.held.take();
        if let Some((cookie, _)) = dropped {
            Profiles::profile_released(profiles.signal_emitter(), cookie).await.unwrap();
        }
        profiles.get().await.active_profile_changed(profiles.signal_emitter()).await.unwrap();
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
    assert!(!daemon.holds().await, "it is not wanted by default");

    follow_mode(&client).await;
    eventually("the profile is held", async || daemon.holds().await).await;
    eventually("it shows", async || client.snapshot().await.power_profile == "power-saver").await;
    client.scheduler.set_mode("auto").await.unwrap();
    wait_for(&client, "interactive", "power-profile").await;
    eventually("the profile is released", async || !daemon.holds().await).await;
    wait_for(&client, "interactive", "power-profile").await;

    let holder = Client::new(&stage).await;
    holder.scheduler.hold_mode("low-power", "a test", "org.example.Test").await.unwrap();
    eventually("the profile is held again", async || daemon.holds().await).await;
    daemon.choose("performance").await;
    eventually("the person's profile", async || client.snapshot().await.power_profile == "performance").await;
    assert_eq!(client.snapshot().await.mode, "low-power", "the program still holds the mode");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!daemon.holds().await, "the person's profile stays");
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
    eventually("the profile is held", async || daemon.holds().await).await;
    client.scheduler.set_enabled(false).await.unwrap();
    eventually("the profile is released", async || !daemon.holds().await).await;
    assert_eq!(daemon.profiles().await.get().await.nr_holds, 1);
}
