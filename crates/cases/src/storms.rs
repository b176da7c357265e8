//! Stress: many tasks, mode changes, loads and kills in quick succession.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::{faults, survival};
use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    call, change_modes_command, end_load, engine_pid, ensure_loaded, ensure_responsive, ensure_undisturbed,
    ensure_unloaded, journal, kernel, start_load, statistics,
};
use scherzo_rig::shell::Shell;

/// Modes change 1,000 times under two hogs per CPU; the engine and the loaded scheduler stay the same.
pub(super) fn thousand_mode_changes(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let pid = engine_pid(guest)?;
    let load = start_load(guest)?;
    let times = guest.check(&change_modes_command(1_000, Duration::ZERO), Duration::from_mins(2))?;
    say(&format!("1000 mode changes under load: median and longest in µs: {times}"));
    ensure_undisturbed(guest, &loaded)?;
    end_load(guest, &load)?;
    let pid_now = engine_pid(guest)?;
    ensure!(pid_now == pid, "the engine was replaced");
    call(guest, "SetMode", "s auto").map(drop)
}

/// Affinities change while tasks wait and run.
pub(super) fn affinity(guest: &mut Guest) -> Result<()> {
    survives(guest, "stress-ng --race-sched $(nproc) --timeout 10s --quiet", Duration::from_mins(1))
}

/// Tasks start and exit faster than the policy can learn about them.
pub(super) fn fork(guest: &mut Guest) -> Result<()> {
    survives(guest, "stress-ng --fork $((2 * $(nproc))) --timeout 10s --quiet", Duration::from_mins(1))
}

/// Everything at once for ten minutes.
pub(super) fn soak(guest: &mut Guest) -> Result<()> {
    let storm = "stress-ng --race-sched 2 --fork 2 --cpu 4 --futex 2 --pipe 2 --switch 2 --timeout 600s --quiet";
    survives(guest, storm, Duration::from_mins(15))
}

/// An hour of everything, in turns of a minute, while the mode changes every second.
pub(super) fn hour(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    // More changes than fit into the time: the command is killed at the end.
    let mut modes = guest.spawn(&change_modes_command(10 * NR_MINUTES * 60, Duration::from_secs(1)))?;
    for (minute, storm) in (1..=NR_MINUTES).zip(TURNS.iter().cycle()) {
        guest.check(&format!("stress-ng {storm} --timeout 60s --quiet"), Duration::from_mins(5))?;
        if let Some(output) = guest.ended(&mut modes) {
            bail!("the modes do not change any more: {}{}", output.stderr, journal(guest));
        }
        ensure_undisturbed(guest, &loaded)?;
        survival::ensure_sound(guest)?;
        say(&format!("minute {minute} of {NR_MINUTES}: {storm}"));
    }
    guest.kill(&modes)?;
    let [submitted, swept] = statistics(guest, ["nr_submitted", "nr_swept"])?;
    say(&format!("{submitted} tasks were submitted to user space; {swept} were reclaimed because it took too long"));
    call(guest, "SetMode", "s auto")?;
    call(guest, "SetPreemption", "b true").map(drop)
}

const NR_MINUTES: u32 = 60;

/// The storms that the hour alternates between, and that accidents happen in.
pub(super) const TURNS: &[&str] = &[
    "--cpu 4 --cpu-method int64",
    "--fork 2 --exec 2",
    "--pipe 2 --switch 2",
    "--futex 2 --affinity 4",
    "--race-sched 2",
    "--cpu 2 --cpu-load 40 --timer 1 --nanosleep 2",
];

fn survives(guest: &mut Guest, storm: &str, limit: Duration) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    guest.check(storm, limit)?;
    ensure_responsive(guest)?;
    ensure_undisturbed(guest, &loaded)
}

/// Loading and unloading leaves no trace, however often.
pub(super) fn hundred_loads(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let before = kernel(guest)?.enable_seq;
    for _ in 0..100 {
        ensure_loaded(guest)?;
        ensure_unloaded(guest)?;
    }
    let nr_loads = kernel(guest)?.enable_seq - before;
    ensure!(nr_loads == 100, "the kernel counts {nr_loads} loads");
    Ok(())
}

/// The service recovers from every kill. Turning it off and on resets the backoff.
pub(super) fn hundred_kills(guest: &mut Guest) -> Result<()> {
    for _ in 0..100 {
        faults::engine_killed(guest)?;
        ensure_unloaded(guest)?;
    }
    Ok(())
}
