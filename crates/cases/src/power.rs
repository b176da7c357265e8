//! The mode follows the power daemons of a laptop: the real UPower and power-profiles-daemon, over a mocked battery.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::agreement::{ServiceReport, ensure_agreement, service_report};
use scherzo_rig::guest::Guest;
use scherzo_rig::image::SCRIPTS_DIR;
use scherzo_rig::progress::say;
use scherzo_rig::service::{KernelState, MOMENT, call, ensure_loaded, ensure_undisturbed, property, wait_until};
use scherzo_rig::shell::Shell;

/// Where `power.py` takes commands and answers.
const REQUESTS: &str = "/run/scherzo-rig/supply.in";
const ANSWERS: &str = "/run/scherzo-rig/supply.out";
/// More than `power.py` waits for a mode; on the guest's own clock.
const ANSWER_LIMIT_S: u32 = 30;
/// From the moment the plug is pulled until the new mode is in effect.
const MAX_FOLLOWING_MS: u64 = 1_000;

/// On battery the mode is low-power, on mains the previous one; a chosen mode ends when the power source changes.
pub(super) fn battery(guest: &mut Guest) -> Result<()> {
    let (loaded, before) = on_mains(guest)?;
    let unplugging_ms = follow(guest, "unplug low-power")?;
    ensure_agreement(guest, "running", "low-power", "on-battery")?;
    ensure!(property(guest, "OnBattery")? == "true", "OnBattery is not true");
    let plugging_ms = follow(guest, &format!("plug {}", before.mode))?;
    ensure_agreement(guest, "running", &before.mode, &before.reason)?;
    say(&format!("low-power {unplugging_ms} ms after the plug was pulled, back {plugging_ms} ms after it was put in"));

    call(guest, "SetMode", "s fifo")?;
    ensure_agreement(guest, "running", "fifo", "choice")?;
    follow(guest, "unplug low-power")?;
    ensure_agreement(guest, "running", "low-power", "on-battery")?;
    follow(guest, &format!("plug {}", before.mode))?;
    ensure_agreement(guest, "running", &before.mode, &before.reason)?;
    ensure_undisturbed(guest, &loaded)
}

/// A low battery overrides a chosen power profile.
pub(super) fn low_battery(guest: &mut Guest) -> Result<()> {
    let (loaded, before) = on_mains(guest)?;
    follow(guest, "unplug low-power")?;
    let_source_settle(guest)?;
    set_profile(guest, "power-saver")?;
    set_profile(guest, "balanced")?;
    ensure_agreement(guest, "running", "interactive", "power-profile-changed")?;
    supply(guest, "charge 15")?;
    ensure_agreement(guest, "running", "low-power", "battery-low")?;
    supply(guest, "charge 80")?;
    ensure_agreement(guest, "running", "interactive", "power-profile-changed")?;
    follow(guest, &format!("plug {}", before.mode))?;
    ensure_agreement(guest, "running", &before.mode, &before.reason)?;
    ensure_undisturbed(guest, &loaded)
}

/// The mode follows the profile that `powerprofilesctl` sets.
pub(super) fn profile(guest: &mut Guest) -> Result<()> {
    let (loaded, _) = on_mains(guest)?;
    let_source_settle(guest)?;
    set_profile(guest, "power-saver")?;
    ensure_agreement(guest, "running", "low-power", "power-profile-changed")?;
    ensure!(property(guest, "PowerProfile")? == "power-saver");
    set_profile(guest, "balanced")?;
    ensure_agreement(guest, "running", "interactive", "power-profile-changed")?;
    ensure_undisturbed(guest, &loaded)
}

/// The interface of the daemon that owns both names of power profiles.
const PROFILES: &str = "net.hadess.PowerProfiles /net/hadess/PowerProfiles net.hadess.PowerProfiles";
const PROFILES_UNIT: &str = "power-profiles-daemon.service";

/// While low-power is in effect one hold of ours is at the daemon of power profiles, whatever becomes of that: it restarts, and
/// it dies with our call unanswered.
pub(super) fn profile_hold(guest: &mut Guest) -> Result<()> {
    let (loaded, _) = on_mains(guest)?;
    guest.check("scherzoctl config set drive_power_profile true", MOMENT)?;
    ensure_holds(guest, 0)?;
    call(guest, "SetMode", "s low-power")?;
    ensure_holds(guest, 1)?;
    for _ in 0..3 {
        guest.check(&format!("systemctl restart {PROFILES_UNIT}"), MOMENT * 2)?;
        ensure_holds(guest, 1)?;
    }
    call(guest, "SetMode", "s interactive")?;
    ensure_holds(guest, 0)?;

    guest.check(&format!("systemctl kill -s STOP {PROFILES_UNIT}"), MOMENT)?;
    call(guest, "SetMode", "s low-power")?;
    // The daemon has our call by now, and never answers.
    guest.check(
        &format!("sleep 2; systemctl kill -s KILL {PROFILES_UNIT}; systemctl start {PROFILES_UNIT}"),
        MOMENT * 2,
    )?;
    ensure_holds(guest, 1)?;
    call(guest, "SetMode", "s auto")?;
    ensure_holds(guest, 0)?;
    guest.check("scherzoctl config unset drive_power_profile", MOMENT)?;
    ensure_undisturbed(guest, &loaded)
}

/// Waits until so many holds are ours, as the daemon says, and sees that it stays so.
fn ensure_holds(guest: &mut Guest, nr_wanted: usize) -> Result<()> {
    let mut said = String::new();
    let mut is_so = |shell: &mut dyn Shell| {
        said = shell.run(&format!("busctl --system get-property {PROFILES} ActiveProfileHolds"), MOMENT)?.stdout;
        Ok(!said.is_empty() && said.matches("\"Scherzo\"").count() == nr_wanted)
    };
    let waited = wait_until(guest, "holds of a profile", Duration::from_secs(30), &mut is_so);
    let stayed = waited.and_then(|()| {
        guest.check("sleep 2", MOMENT)?;
        ensure!(is_so(guest)?, "not for long");
        Ok(())
    });
    stayed.with_context(|| format!("not {nr_wanted} holds but {said}"))
}

/// Sets a profile once the change of source is long enough ago: sooner, the change counts as the power daemon's own.
fn let_source_settle(guest: &mut Guest) -> Result<()> {
    guest.check("sleep 3", MOMENT).map(drop)
}

fn set_profile(guest: &mut Guest, profile: &str) -> Result<()> {
    guest.check(&format!("powerprofilesctl set {profile}"), MOMENT * 2).map(drop)
}

/// Loads the scheduler on mains power with the mode left to Scherzo; what kernel and service report then.
fn on_mains(guest: &mut Guest) -> Result<(KernelState, ServiceReport)> {
    ensure_supply(guest)?;
    let loaded = ensure_loaded(guest)?;
    // A change of source ends the mode that an earlier case has chosen.
    call(guest, "SetMode", "s auto")?;
    follow(guest, "unplug low-power")?;
    follow(guest, "plug interactive")?;
    Ok((loaded, service_report(guest)?))
}

/// Starts the mocked supply unless it is there, and waits until UPower and the service see it.
fn ensure_supply(guest: &mut Guest) -> Result<()> {
    if guest.run(&format!("test -p {REQUESTS}"), MOMENT)?.status == 0 {
        return Ok(());
    }
    // It goes on as long as the guest does.
    guest.spawn(&format!(
        "exec env TMPDIR=/run umockdev-wrapper python3 {SCRIPTS_DIR}/power.py >/run/supply.log 2>&1"
    ))?;
    let appeared = wait_until(guest, "the mocked supply is there", Duration::from_secs(20), |shell| {
        Ok(shell.run(&format!("test -p {REQUESTS}"), MOMENT)?.status == 0)
    });
    let log = guest.run("cat /run/supply.log", MOMENT)?.stdout;
    appeared.with_context(|| format!("power.py says {log}"))?;
    wait_until(guest, "UPower has a battery", Duration::from_secs(20), |shell| {
        Ok(shell.check("upower --enumerate", MOMENT)?.contains("battery_BAT0"))
    })
}

/// Changes the supply and waits for a mode; how long that took, in ms, which must not be too long.
fn follow(guest: &mut Guest, command: &str) -> Result<u64> {
    let took = supply(guest, command)?;
    let took_ms: u64 = took.parse().with_context(|| format!("`{command}`: {took}"))?;
    ensure!(took_ms <= MAX_FOLLOWING_MS, "`{command}` took {took_ms} ms");
    Ok(took_ms)
}

fn supply(guest: &mut Guest, command: &str) -> Result<String> {
    let ask = format!("echo '{command}' >{REQUESTS}; cat {ANSWERS}");
    let answer = guest.run(&format!("timeout {ANSWER_LIMIT_S} sh -c \"{ask}\""), Duration::from_mins(1))?;
    if answer.status == 0 {
        return Ok(answer.stdout.trim().to_owned());
    }
    let log = guest.run("cat /run/supply.log", MOMENT)?.stdout;
    bail!("the mocked supply did not answer `{command}` within {ANSWER_LIMIT_S} s of the guest's time. It says: {log}")
}
