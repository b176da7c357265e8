//! The main job: load, change modes, tell, unload.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::survival::ensure_accounted;
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{
    COMPACTION, MOMENT, call, end_load, engine_pid, ensure_loaded, ensure_responsive, ensure_responsive_in,
    ensure_undisturbed, ensure_unloaded, journal, kernel, property, start_load, statistic, with_user_seat,
};
use scherzo_rig::shell::Shell;

/// What DESIGN allows the engine to keep in memory.
const MAX_RESIDENT_KIB: u64 = 32 << 10;

/// The guest is a real system: systemd is up, the system bus answers, the kernel has sched_ext and runs its own scheduler.
pub(super) fn boot(guest: &mut Guest) -> Result<()> {
    let system = guest.run("systemctl is-system-running", MOMENT)?;
    let failed = guest.check("systemctl list-units --failed --no-legend", MOMENT)?;
    ensure!(system.stdout.trim() == "running", "systemd says {}; failed: {failed}", system.stdout.trim());
    guest.check("busctl --system call org.freedesktop.DBus / org.freedesktop.DBus GetId", MOMENT)?;
    guest.check("test -r /boot/config-$(uname -r)", MOMENT)?;
    ensure!(kernel(guest)?.state == "disabled");
    Ok(())
}

/// The service loads the scheduler, says so, and the kernel agrees.
pub(super) fn load(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let before = kernel(guest)?;
    let after = ensure_loaded(guest)?;
    ensure!(after.enable_seq == before.enable_seq + 1, "loaded {} times", after.enable_seq - before.enable_seq);
    let ops = property(guest, "KernelOps")?;
    ensure!(ops == after.ops, "KernelOps is {ops}, the kernel says {}", after.ops);
    ensure!(property(guest, "Enabled")? == "true");
    let status = guest.check("scherzoctl status", MOMENT)?;
    ensure!(status.contains("running"), "scherzoctl status says: {status}");
    ensure_responsive(guest)
}

/// Neither the service nor the engine needs the kernel's configuration, which some systems do not install.
pub(super) fn load_without_configuration(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let config = "/boot/config-$(uname -r)";
    let hide = format!("test ! -e /proc/config.gz && mv {config} /root/ && systemctl restart scherzod.service");
    let show = "mv /root/config-$(uname -r) /boot/ && systemctl restart scherzod.service";
    guest.check(&hide, MOMENT * 3)?;
    let loaded = ensure_loaded(guest).and_then(|_| guest.check("scherzoctl doctor", MOMENT));
    ensure_unloaded(guest)?;
    guest.check(show, MOMENT * 3)?;
    loaded.map(drop)
}

/// Every mode, with and without preemption, under two hogs per CPU; the scheduler stays the same one.
pub(super) fn every_mode_under_load(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let load = start_load(guest)?;
    for mode in ["interactive", "fifo", "low-power"] {
        for preemption in ["true", "false"] {
            call(guest, "SetMode", &format!("s {mode}"))?;
            call(guest, "SetPreemption", &format!("b {preemption}"))?;
            ensure!(property(guest, "Mode")? == mode);
            ensure!(property(guest, "Preemption")? == preemption);
            ensure_responsive_in(guest, mode).with_context(|| format!("{mode}, preemption {preemption}"))?;
            ensure_undisturbed(guest, &loaded)?;
        }
    }
    call(guest, "SetMode", "s auto")?;
    ensure!(property(guest, "RequestedMode")? == "auto");
    end_load(guest, &load)
}

/// Under load the engine takes no page fault, and it stays small.
pub(super) fn no_page_faults(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    let pid = engine_pid(guest)?;
    let faults = format!("awk '{{print $10 + $12}}' /proc/{pid}/stat");
    let before = guest.check(&faults, MOMENT)?;
    guest.check("stress-ng --fork 4 --cpu 4 --timeout 8s --quiet", Duration::from_mins(1))?;
    let after = guest.check(&faults, MOMENT)?;
    ensure!(before == after, "page faults went from {before} to {after}");
    let counted = statistic(guest, "nr_page_faults")?;
    ensure!(counted == 0, "the engine counts {counted} page faults");
    let resident: u64 = guest.check(&format!("awk '/^VmRSS/ {{print $2}}' /proc/{pid}/status"), MOMENT)?.parse()?;
    ensure!(resident <= MAX_RESIDENT_KIB, "the engine keeps {resident} KiB in memory");
    Ok(())
}

/// Statistics move, the policy is not bypassed, and nothing was malformed.
pub(super) fn statistics_move(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    ensure_moves(guest, "nr_kernel")?;
    with_user_seat(guest, |guest| ensure_moves(guest, "nr_dispatched"))?;
    call(guest, "GetWaitHistogram", "")?;
    ensure_accounted(guest)
}

/// Under load the number grows, and nothing malformed is counted.
fn ensure_moves(guest: &mut Guest, key: &str) -> Result<()> {
    let before = statistic(guest, key)?;
    let load = start_load(guest)?;
    guest.check("sleep 5", Duration::from_secs(20))?;
    let under_load = statistic(guest, key)?;
    let bad = statistic(guest, "nr_bad_records")? + statistic(guest, "nr_failed")?;
    end_load(guest, &load)?;
    ensure!(under_load > before, "{key} did not move under load");
    ensure!(bad == 0, "{bad} malformed records or decisions");
    Ok(())
}

/// Unloading leaves the kernel as it was found.
pub(super) fn unload(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let found = guest.check(&format!("cat {COMPACTION}"), MOMENT)?;
    ensure_loaded(guest)?;
    let loaded = guest.check(&format!("cat {COMPACTION}"), MOMENT)?;
    ensure!(loaded == "0", "compaction of locked memory is {loaded} while loaded");
    ensure_unloaded(guest)?;
    let left = guest.check(&format!("cat {COMPACTION}"), MOMENT)?;
    ensure!(left == found, "compaction of locked memory was {found} and is {left}");
    ensure!(property(guest, "State")? == "stopped");
    ensure!(engine_pid(guest).is_err(), "an engine is left");
    Ok(())
}

/// In all that happened since boot, neither the kernel nor BPF threw the scheduler out, and nothing panicked.
pub(super) fn no_ejections(guest: &mut Guest) -> Result<()> {
    let log = guest.check("dmesg", MOMENT)?;
    let ejected: Vec<_> = log.lines().filter(|line| is_ejection(line)).collect();
    ensure!(ejected.is_empty(), "ejected: {}{}", ejected.join("\n"), journal(guest));
    let log = guest.check("journalctl --no-pager -o cat -b", MOMENT)?;
    let panicked: Vec<_> = log.lines().filter(|line| line.contains("panicked at")).collect();
    ensure!(!log.is_empty() && panicked.is_empty(), "{}", panicked.join("\n"));
    Ok(())
}

/// Whether the kernel says that it threw a scheduler out, not that one was unloaded.
fn is_ejection(line: &str) -> bool {
    let Some((_, message)) = line.split_once("sched_ext: ") else { return false };
    (message.contains(" disabled (") || message.contains("stall"))
        && !message.contains("unregistered")
        && !message.contains("sysrq")
}
