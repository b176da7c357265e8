//! The cost of an idle service.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{MOMENT, UNIT, ensure_loaded};
use scherzo_rig::shell::Shell;

const WATCHED_S: u64 = 20;
const MAX_RESIDENT_KIB: u64 = 12 * 1024;

/// At most one wake-up per second, and little memory, while the scheduler is loaded.
pub(super) fn service(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    // Loading causes some activity, which ends within a few seconds.
    guest.check("sleep 5", MOMENT)?;
    let pid = guest.check(&format!("systemctl show --value -p MainPID {UNIT}"), MOMENT)?;
    let before = sum(guest, &pid, "voluntary_ctxt_switches")?;
    guest.check(&format!("sleep {WATCHED_S}"), Duration::from_mins(1))?;
    let nr_wakeups = sum(guest, &pid, "voluntary_ctxt_switches")? - before;
    ensure!(nr_wakeups <= WATCHED_S, "it woke up {nr_wakeups} times in {WATCHED_S} s");
    let resident_kib = sum(guest, &pid, "VmRSS")?;
    say(&format!("an idle service: {nr_wakeups} wake-ups in {WATCHED_S} s, {resident_kib} KiB resident"));
    ensure!(resident_kib <= MAX_RESIDENT_KIB, "{resident_kib} KiB are resident");
    Ok(())
}

/// A number of the process's status, over its threads where they differ.
fn sum(guest: &mut Guest, pid: &str, field: &str) -> Result<u64> {
    let files = if field.starts_with("Vm") { "status" } else { "task/*/status" };
    let text =
        guest.check(&format!("awk '/^{field}:/ {{ s += $2 }} END {{ print s }}' /proc/{pid}/{files}"), MOMENT)?;
    text.trim().parse().with_context(|| format!("{field} reads {text}"))
}
