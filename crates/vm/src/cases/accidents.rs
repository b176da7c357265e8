//! What happens to a machine in its life: the engine and the daemon die, a package is upgraded, the machine restarts and
//! sleeps. Afterwards everybody tells the same story, and what a person had chosen still counts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::agreement::ensure_agreement;
use super::people;
use super::service::{MOMENT, UNIT, call, ensure_loaded, ensure_responsive, journal, kernel, property};
use crate::guest::Guest;
use crate::image::SCRIPTS_DIR;
use crate::progress::say;
use crate::shell::Shell;

/// From the kill of an engine until the next one's scheduler is loaded and the service says so.
const MAX_RECOVERY_MS: u64 = 1_000;
/// In the guest that measures, time leaps while all CPUs wait for the disk: the state is in memory there.
const STATE_DIRECTORY: &str = "/var/lib/scherzo";

/// The engine is killed a few times, at moments of chance.
pub(super) fn few_kills(guest: &mut Guest) -> Result<()> {
    kills(guest, 5)
}

/// The engine is killed two hundred times, at moments of chance.
pub(super) fn two_hundred_kills(guest: &mut Guest) -> Result<()> {
    kills(guest, 200)
}

fn kills(guest: &mut Guest, nr_kills: u32) -> Result<()> {
    let in_memory = format!("mount -t tmpfs tmpfs {STATE_DIRECTORY} && systemctl start {UNIT}");
    guest.check(&format!("systemctl stop {UNIT}; mkdir -p {STATE_DIRECTORY} && {in_memory}"), MOMENT * 3)?;
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let limit = Duration::from_secs(10 + u64::from(nr_kills));
    let times = guest.check(&format!("python3 {SCRIPTS_DIR}/kills.py {nr_kills} 1"), limit)?;
    say(&format!("{nr_kills} kills of the engine: back after {times} ms (median and longest)"));
    let longest_ms: u64 = times.split(' ').nth(1).context("no times were printed")?.parse()?;
    ensure!(longest_ms <= MAX_RECOVERY_MS, "back only after {longest_ms} ms{}", journal(guest));
    ensure_agreement(guest, "running", "fifo", "choice")?;
    let on_disk = format!("systemctl stop {UNIT} && umount {STATE_DIRECTORY} && systemctl start {UNIT}");
    guest.check(&on_disk, MOMENT * 3).map(drop)
}

/// The daemon is killed: the next one loads what was loaded.
pub(super) fn daemon_killed(guest: &mut Guest) -> Result<()> {
    let before = ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    guest.check(&format!("kill -9 $(systemctl show --value -p MainPID {UNIT})"), MOMENT)?;
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure!(kernel(guest)?.enable_seq > before.enable_seq, "the scheduler of a dead daemon is still loaded");
    ensure_responsive(guest)
}

/// A package is upgraded while the scheduler runs, the way its scripts do: files are replaced, units read anew, the service
/// started anew. Wish and choice stay.
pub(super) fn upgrade(guest: &mut Guest) -> Result<()> {
    let before = ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let daemon = main_pid(guest)?;
    let replace = "for file in /usr/libexec/scherzod /usr/libexec/scherzo-engine /usr/bin/scherzoctl \
                   /usr/lib/systemd/system/scherzod.service /usr/share/dbus-1/system.d/org.scherzo.Scheduler1.conf; do \
                   cp -p $file $file.new && mv $file.new $file || exit 1; done";
    guest.check(replace, MOMENT)?;
    // Its files are other files now: until it is started anew it goes on with the old ones.
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure!(kernel(guest)? == before, "replacing files has disturbed the scheduler{}", journal(guest));
    guest.check(&format!("systemctl daemon-reload && systemctl try-restart {UNIT}"), MOMENT * 3)?;
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure!(main_pid(guest)? != daemon, "the service was not started anew");
    let after = kernel(guest)?;
    ensure!(after.enable_seq == before.enable_seq + 1, "loaded {} times", after.enable_seq - before.enable_seq);
    Ok(())
}

/// After a start of the machine it waits until a person logs in; then wish and choice are as they were.
pub(super) fn reboot(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    // Longer than any start takes, so that it is the person who ends the wait.
    guest.check("scherzoctl config set boot_delay_s 600", MOMENT)?;
    guest.check(&format!("systemctl enable {UNIT}"), MOMENT)?;
    guest.reboot()?;
    ensure!(property(guest, "Enabled")? == "true", "the wish was forgotten");
    ensure_agreement(guest, "starting", "fifo", "boot-delay")?;
    let logged_in = people::at_the_machine(guest, "true")?;
    ensure!(logged_in.status == 0, "nobody can log in: {}{}", logged_in.stdout, logged_in.stderr);
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure_responsive(guest)
}

fn main_pid(guest: &mut Guest) -> Result<String> {
    guest.check(&format!("systemctl show --value -p MainPID {UNIT}"), MOMENT)
}
