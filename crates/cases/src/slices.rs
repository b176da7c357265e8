//! Slices that tasks ask for, as the kernel's own scheduler gives them from Linux 6.12 on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{call, ensure_loaded, ensure_undisturbed};
use scherzo_rig::shell::Shell;

/// The longest slice that there is.
const ASKED: &str = "--sched-runtime 20000000";
/// Three for each CPU: what has not asked takes turns at every tick.
const NR_HOGS: u32 = 12;
const SECONDS: u64 = 5;
/// By how much those that have asked are interrupted less often. Five times as seldom is what ticks 4 ms apart leave.
const MIN_RATIO: f64 = 2.5;

/// Tasks that compute, and have asked for long slices, are interrupted as seldom as they want.
pub(super) fn asked_for(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    let [without, with] = ["", ASKED].map(|option| nr_interruptions(guest, option));
    let (without, with) = (without?, with?);
    say(&format!("interruptions of {NR_HOGS} hogs in {SECONDS} s: {without}; if they ask for slices of 20 ms: {with}"));
    ensure!(
        without as f64 >= with as f64 * MIN_RATIO,
        "{without} interruptions, and {with} with slices that they asked for"
    );
    call(guest, "SetMode", "s auto")?;
    ensure_undisturbed(guest, &loaded)
}

/// Of all hogs together.
fn nr_interruptions(guest: &mut Guest, option: &str) -> Result<u64> {
    let start = format!(
        "pids=; for n in $(seq {NR_HOGS}); do chrt {option} --other 0 sh -c 'while :; do :; done' & pids=\"$pids $!\"; done"
    );
    let count =
        "for pid in $pids; do cat /proc/$pid/status; done | awk '/^nonvoluntary/ { sum += $2 } END { print sum }'";
    let run = format!(
        "{start}; sleep 1; before=$({count}); sleep {SECONDS}; after=$({count}); kill $pids; echo $((after - before))"
    );
    guest.check(&run, Duration::from_mins(1))?.parse().context("no number of interruptions")
}
