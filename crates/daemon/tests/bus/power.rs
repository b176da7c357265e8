//! Power: pretended daemons on the same bus.

use std::time::{Duration, Instant};

use zbus::Connection;
use zbus::object_server::InterfaceRef;

use crate::support::{Client, Stage, eventually};

struct UPower {
    on_battery: bool,
}

#[zbus::interface(name = "org.freedesktop.UPower")]
impl UPower {
    #[zbus(property)]
    fn on_battery(&self) -> bool {
        self.on_battery
    }
}

struct DisplayDevice {
    warning_level: u32,
}

#[zbus::interface(name = "org.freedesktop.UPower.Device")]
impl DisplayDevice {
    #[zbus(property)]
    fn warning_level(&self) -> u32 {
        self.warning_level
    }
}

struct Profiles {
    active: &'static str,
}

#[zbus::interface(name = "org.freedesktop.UPower.PowerProfiles")]
impl Profiles {
    #[zbus(property)]
    fn active_profile(&self) -> &str {
        self.active
    }
}

struct OldProfiles {
    active: &'static str,
}

#[zbus::interface(name = "net.hadess.PowerProfiles")]
impl OldProfiles {
    #[zbus(property)]
    fn active_profile(&self) -> &str {
        self.active
    }
}

struct Battery(Connection);

impl Battery {
    async fn appear(stage: &Stage, on_battery: bool) -> Self {
        let bus = zbus::connection::Builder::address(stage.address.as_str())
            .serve_at("/org/freedesktop/UPower", UPower { on_battery })
            .serve_at("/org/freedesktop/UPower/devices/DisplayDevice", DisplayDevice { warning_level: 1 })
            .name("org.freedesktop.UPower")
            .build()
            .await
            .unwrap();
        Self(bus)
    }

    async fn unplug(&self, on_battery: bool) {
        let upower: InterfaceRef<UPower> = self.0.object_server().interface("/org/freedesktop/UPower").await.unwrap();
        upower.get_mut().await.on_battery = on_battery;
        upower.get().await.on_battery_changed(upower.signal_emitter()).await.unwrap();
    }

    async fn warn(&self, warning_level: u32) {
        let device: InterfaceRef<DisplayDevice> =
            self.0.object_server().interface("/org/freedesktop/UPower/devices/DisplayDevice").await.unwrap();
        device.get_mut().await.warning_level = warning_level;
        device.get().await.warning_level_changed(device.signal_emitter()).await.unwrap();
    }
}

async fn choose_profile(bus: &Connection, profile: &'static str) {
    let profiles: InterfaceRef<Profiles> =
        bus.object_server().interface("/org/freedesktop/UPower/PowerProfiles").await.unwrap();
    profiles.get_mut().await.active = profile;
    profiles.get().await.active_profile_changed(profiles.signal_emitter()).await.unwrap();
}

async fn wait_for(client: &Client, mode: &str, reason: &str) {
    let mut last = String::new();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(8) {
        let now = client.snapshot().await;
        if now.mode == mode && now.reason == reason {
            return;
        }
        last = format!("{now:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not {mode} because of {reason}: {last}");
}

#[tokio::test]
async fn unplugging_saves_power_and_plugging_in_stops_that() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    assert!(!client.snapshot().await.on_battery);
    // A daemon that comes later.
    let battery = Battery::appear(&stage, true).await;
    wait_for(&client, "low-power", "on-battery").await;
    assert!(client.snapshot().await.on_battery);
    battery.unplug(false).await;
    wait_for(&client, "interactive", "default").await;
    let unplugged = Instant::now();
    battery.unplug(true).await;
    wait_for(&client, "low-power", "on-battery").await;
    assert!(unplugged.elapsed() < Duration::from_secs(1), "{:?}", unplugged.elapsed());

    client.scheduler.set_mode("fifo").await.unwrap();
    battery.warn(3).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(client.snapshot().await.mode, "fifo", "a choice counts more than a low battery");
    client.scheduler.set_mode("auto").await.unwrap();
    wait_for(&client, "low-power", "battery-low").await;
    battery.warn(1).await;
    client.scheduler.set_mode("fifo").await.unwrap();
    battery.unplug(false).await;
    wait_for(&client, "interactive", "default").await;
    assert_eq!(client.snapshot().await.requested_mode, "auto", "plugging in ends a choice");
    assert_eq!(stage.kernel().enable_seq, 1);
}

#[tokio::test]
async fn a_power_daemon_may_leave() {
    let stage = Stage::new();
    let battery = Battery::appear(&stage, true).await;
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    wait_for(&client, "low-power", "on-battery").await;
    battery.0.close().await.unwrap();
    wait_for(&client, "interactive", "default").await;
    assert!(!client.snapshot().await.on_battery);
}

#[tokio::test]
async fn profiles_count_under_both_names() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    let old = zbus::connection::Builder::address(stage.address.as_str())
        .serve_at("/net/hadess/PowerProfiles", OldProfiles { active: "power-saver" })
        .name("net.hadess.PowerProfiles")
        .build()
        .await
        .unwrap();
    wait_for(&client, "low-power", "power-profile").await;
    assert_eq!(client.snapshot().await.power_profile, "power-saver");
    old.close().await.unwrap();
    eventually("no profile", async || client.snapshot().await.power_profile.is_empty()).await;

    let modern = zbus::connection::Builder::address(stage.address.as_str())
        .serve_at("/org/freedesktop/UPower/PowerProfiles", Profiles { active: "balanced" })
        .name("org.freedesktop.UPower.PowerProfiles")
        .build()
        .await
        .unwrap();
    wait_for(&client, "interactive", "power-profile").await;
    let _battery = Battery::appear(&stage, true).await;
    wait_for(&client, "low-power", "on-battery").await;
    choose_profile(&modern, "performance").await;
    wait_for(&client, "interactive", "power-profile-changed").await;
    assert!(client.snapshot().await.why().contains("Performance"));
}

struct Login;

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Login {
    #[zbus(signal)]
    async fn prepare_for_sleep(to: &zbus::object_server::SignalEmitter<'_>, start: bool) -> zbus::Result<()>;
}

#[tokio::test]
async fn waking_up_reads_everything_again() {
    let stage = Stage::new();
    let battery = Battery::appear(&stage, false).await;
    let login = zbus::connection::Builder::address(stage.address.as_str())
        .serve_at("/org/freedesktop/login1", Login)
        .name("org.freedesktop.login1")
        .build()
        .await
        .unwrap();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    wait_for(&client, "interactive", "default").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Unplugged while asleep, and the signal got lost.
    let upower: InterfaceRef<UPower> = battery.0.object_server().interface("/org/freedesktop/UPower").await.unwrap();
    upower.get_mut().await.on_battery = true;
    let manager: InterfaceRef<Login> = login.object_server().interface("/org/freedesktop/login1").await.unwrap();
    Login::prepare_for_sleep(manager.signal_emitter(), false).await.unwrap();
    wait_for(&client, "low-power", "on-battery").await;
}
