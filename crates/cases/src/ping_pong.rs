//! Real-time tasks that hand a byte to and fro on one CPU, while others wait there.
//!
//! Each switch between the two is a switch to a higher class. A scheduler that empties the CPU's local DSQ at each of them
//! re-enqueues the same tasks thousands of times a second, which Linux 7.3 ends (`SCX_EXIT_ERROR_REENQ`).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scherzo_rig::guest::Guest;
use scherzo_rig::image::SCRIPTS_DIR;
use scherzo_rig::service::{MOMENT, ensure_loaded, ensure_undisturbed};
use scherzo_rig::shell::Shell;

use crate::survival::has_deadline_server;

/// More than the kernel allows of one task that does not run, in each round.
const MIN_SWITCHES: u64 = 5_000;
/// How soon a waiting task runs once the CPU is free.
const RESUME_LIMIT_MS: u64 = 100;
const LIMIT: Duration = Duration::from_mins(3);

/// A minute: the fault showed within milliseconds.
pub(super) fn for_a_minute(guest: &mut Guest) -> Result<()> {
    survives(guest, 60)
}

/// What everyday runs have time for: the same, shorter.
pub(super) fn for_ten_seconds(guest: &mut Guest) -> Result<()> {
    survives(guest, 10)
}

/// So long on the last CPU, which is the only one or one of several: nothing is ejected, and whatever waited there runs soon
/// after the CPU is free.
///
/// Where the kernel has no deadline server for sched_ext nothing of ours runs meanwhile, and its watchdog allows at most 30 s
/// of that: there the time has pauses.
fn survives(guest: &mut Guest, seconds: u32) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let rounds = if has_deadline_server(guest)? { 1 } else { seconds.div_ceil(10) };
    let seconds = seconds / rounds;
    let command = format!("python3 {SCRIPTS_DIR}/ping_pong.py $(($(nproc) - 1)) {rounds} {seconds} 1");
    let printed = guest.check(&command, LIMIT)?;
    let found: serde_json::Value = serde_json::from_str(&printed).with_context(|| printed.clone())?;
    let found = |key: &str| found[key].as_u64().with_context(|| format!("no {key} in {printed}"));
    ensure!(found("nr_switches")? >= MIN_SWITCHES, "too few switches to show anything: {printed}");
    ensure_undisturbed(guest, &loaded)?;
    for key in ["worst_resume_ms", "worst_answer_ms"] {
        ensure!(found(key)? <= RESUME_LIMIT_MS, "{key} is over {RESUME_LIMIT_MS}: {printed}");
    }
    guest.check("scherzoctl status", MOMENT).map(drop)
}
