//! The cost of an idle service.

use std::collections::BTreeMap;
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
    let before = wakeups(guest, &pid)?;
    guest.check(&format!("sleep {WATCHED_S}"), Duration::from_mins(1))?;
    let after = wakeups(guest, &pid)?;
    let nr_wakeups: u64 = after.iter().map(|(thread, nr)| nr - before.get(thread).unwrap_or(&0)).sum();
    ensure!(nr_wakeups <= WATCHED_S, "it woke up {nr_wakeups} times in {WATCHED_S} s");
    let resident_kib = resident_kib(guest, &pid)?;
    say(&format!("an idle service: {nr_wakeups} wake-ups in {WATCHED_S} s, {resident_kib} KiB resident"));
    ensure!(resident_kib <= MAX_RESIDENT_KIB, "{resident_kib} KiB are resident");
    Ok(())
}

/// How often each thread of the process has woken up so far. Threads that write files come and go.
fn wakeups(guest: &mut Guest, pid: &str) -> Result<BTreeMap<u32, u64>> {
    let program = "/^Pid:/ { thread = $2 } /^voluntary_ctxt_switches:/ { print thread, $2 }";
    let text = guest.check(&format!("awk '{program}' /proc/{pid}/task/*/status"), MOMENT)?;
    let thread = |line: &str| {
        let (thread, nr) = line.split_once(' ').with_context(|| format!("a thread reads {line}"))?;
        Ok((thread.parse()?, nr.parse()?))
    };
    text.lines().map(thread).collect()
}

fn resident_kib(guest: &mut Guest, pid: &str) -> Result<u64> {
    let text = guest.check(&format!("awk '/^VmRSS:/ {{ print $2 }}' /proc/{pid}/status"), MOMENT)?;
    text.trim().parse().with_context(|| format!("VmRSS reads {text}"))
}
