//! Storms on CPUs that really run at the same time: in software emulation a thread of the host for each, where all other groups
//! have one for all. What only two CPUs at once can get wrong shows here.
//!
//! The emulator has a weakness there: code that the kernel patches may reach another CPU too late, and loading and unloading
//! patch. So the scheduler is loaded once on a quiet guest, and stays. The host's load reaches the guest's clock, so no time is
//! asserted: what must hold is that everything ends, the same scheduler stays, and no task is lost.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    ENGINE, KernelState, MOMENT, call, change_modes_command, end_load, ensure_loaded, ensure_undisturbed, kernel,
    start_load, wait_for_calm, wait_for_state, with_user_seat,
};
use scherzo_rig::shell::Shell;

use crate::survival;

const STORM_LIMIT: Duration = Duration::from_mins(1);
const NR_MODE_CHANGES: u32 = 100;

/// Loads, and lets the standby engine be prepared, so that nothing is patched later.
pub(super) fn load(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    wait_for_calm(guest)?;
    ensure_undisturbed_and_sound(guest, &loaded)
}

pub(super) fn affinity(guest: &mut Guest) -> Result<()> {
    survives(guest, "--affinity $((2 * $(nproc))) --affinity-rand --race-sched 2")
}

pub(super) fn fork(guest: &mut Guest) -> Result<()> {
    survives(guest, "--fork $((2 * $(nproc))) --exec 2")
}

pub(super) fn futex(guest: &mut Guest) -> Result<()> {
    survives(guest, "--futex $((2 * $(nproc))) --pipe 2 --switch 2")
}

/// One CPU leaves and returns, once, under two hogs per CPU.
pub(super) fn hotplug(guest: &mut Guest) -> Result<()> {
    let cpu = "/sys/devices/system/cpu/cpu1/online";
    undisturbed(guest, |guest| {
        let load = start_load(guest)?;
        guest.check(&format!("echo 0 >{cpu}; sleep 3; echo 1 >{cpu}; sleep 3"), STORM_LIMIT)?;
        end_load(guest, &load)
    })
}

/// Modes change one after the other, in either seat, while tasks come and go.
pub(super) fn mode_changes(guest: &mut Guest) -> Result<()> {
    undisturbed(guest, |guest| {
        let mut storm = guest.spawn("exec stress-ng --fork 2 --futex 2 --cpu $(nproc) --quiet")?;
        let changes = change_modes_command(NR_MODE_CHANGES, Duration::ZERO);
        guest.check(&changes, STORM_LIMIT)?;
        with_user_seat(guest, |guest| guest.check(&changes, STORM_LIMIT).map(drop))?;
        ensure!(guest.ended(&mut storm).is_none(), "the storm was over before the modes had changed");
        guest.kill(&storm)?;
        call(guest, "SetMode", "s auto").map(drop)
    })
}

/// The engine is stopped and goes on, three times, while it applies the policy to tasks that come and go.
pub(super) fn stop_and_continue(guest: &mut Guest) -> Result<()> {
    undisturbed(guest, |guest| {
        with_user_seat(guest, |guest| {
            let storm = guest.spawn("exec stress-ng --fork 2 --futex 2 --cpu $(nproc) --quiet")?;
            for _ in 0..3 {
                guest.check(&format!("pkill -STOP -x {ENGINE}"), MOMENT)?;
                let degraded = wait_for_state(guest, "degraded", MOMENT);
                guest.check(&format!("pkill -CONT -x {ENGINE}"), MOMENT)?;
                degraded?;
                wait_for_state(guest, "running", MOMENT)?;
            }
            guest.kill(&storm)
        })
    })
}

/// At the end it is still the first load since the boot, or since the guest was replaced after a failure.
pub(super) fn loaded_once(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    let nr_loads = kernel(guest)?.enable_seq;
    ensure!(nr_loads == 1, "the scheduler was loaded {nr_loads} times");
    Ok(())
}

fn survives(guest: &mut Guest, storm: &str) -> Result<()> {
    undisturbed(guest, |guest| {
        let told = guest.check(&format!("stress-ng {storm} --timeout 10s --metrics-brief 2>&1"), STORM_LIMIT)?;
        ensure!(told.contains("successful run completed"), "the storm says: {told}");
        say(&format!("on parallel CPUs: {storm}"));
        Ok(())
    })
}

fn undisturbed(guest: &mut Guest, work: impl FnOnce(&mut Guest) -> Result<()>) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    work(guest)?;
    ensure_undisturbed_and_sound(guest, &loaded)
}

/// Programs start and end, the scheduler is the same, and no task is lost.
fn ensure_undisturbed_and_sound(guest: &mut Guest, loaded: &KernelState) -> Result<()> {
    guest
        .check("for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true & wait $!; done", MOMENT)
        .context("programs do not end")?;
    ensure_undisturbed(guest, loaded)?;
    survival::ensure_sound(guest)
}
