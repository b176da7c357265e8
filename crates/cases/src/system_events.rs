//! Suspend, a package upgrade and a reboot. Afterwards service, kernel and BPF agree on the state, and the mode that
//! the user has chosen is still in effect.

use anyhow::{Result, ensure};

use crate::agreement::ensure_agreement;
use crate::{limits, people};
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{
    MOMENT, UNIT, call, end_load, ensure_loaded, ensure_refused, ensure_responsive, ensure_undisturbed, journal,
    kernel, property, start_load, try_call, wait_until,
};
use scherzo_rig::shell::Shell;

/// logind suspends a busy machine, which freezes its tasks and takes all CPUs but one offline, and resumes it. The
/// scheduler is not reloaded, and the chosen mode is still in effect.
///
/// A control group with a limit is held to it afterwards as before.
///
/// Only once per boot: on resume, QEMU's firmware leaves the power management registers without an address (PMBASE
/// reads 0), so that the next suspend would end at once.
pub(super) fn suspend(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    limits::within(guest, &[("half", "50000 100000")], |guest| {
        let load = start_load(guest)?;
        let hogs = limits::start_hogs(guest, "half")?;
        suspend_and_wake(guest)?;
        ensure_agreement(guest, "running", "fifo", "choice")?;
        ensure_responsive(guest)?;
        end_load(guest, &load)?;
        let held = limits::ensure_held(guest, "half", 0.5);
        limits::end_hogs(guest, "half", &hogs)?;
        held
    })?;
    call(guest, "SetMode", "s auto")?;
    ensure_undisturbed(guest, &loaded)
}

/// logind suspends the machine, which is woken.
pub(super) fn suspend_and_wake(guest: &mut Guest) -> Result<()> {
    let before = (nr_suspends(guest)?, nr_resumes_seen(guest)?);
    let asked = guest.spawn("systemctl suspend")?;
    guest.wake_up()?;
    let asked = guest.wait(asked, MOMENT, |_| {})?;
    ensure!(asked.status == 0, "logind does not suspend: {}", asked.stderr);
    wait_until(guest, "kernel and service have seen one suspend", MOMENT, |shell| {
        Ok((nr_suspends(shell)?, nr_resumes_seen(shell)?) == (before.0 + 1, before.1 + 1))
    })
}

/// How often the kernel has suspended and resumed the machine.
fn nr_suspends(shell: &mut dyn Shell) -> Result<u64> {
    Ok(shell.check("cat /sys/power/suspend_stats/success", MOMENT)?.parse()?)
}

/// How often the service has been told of a resume.
fn nr_resumes_seen(shell: &mut dyn Shell) -> Result<u64> {
    let count = format!("journalctl --no-pager -o cat -u {UNIT} | grep -c '^the system is awake again' || true");
    Ok(shell.check(&count, MOMENT)?.parse()?)
}

/// A package is upgraded while the scheduler runs, in the steps of its scripts: files are replaced, units are reloaded,
/// the service is restarted. Desired state and chosen mode are kept.
pub(super) fn upgrade(guest: &mut Guest) -> Result<()> {
    let before = ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let daemon = main_pid(guest)?;
    let replace = "for file in /usr/libexec/scherzod /usr/libexec/scherzo-engine /usr/bin/scherzoctl \
                   /usr/lib/systemd/system/scherzod.service /usr/share/dbus-1/system.d/org.scherzo.Scheduler1.conf; do \
                   cp -p $file $file.new && mv $file.new $file || exit 1; done";
    guest.check(replace, MOMENT)?;
    // Until the service restarts it runs from the deleted files.
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure!(kernel(guest)? == before, "replacing files has disturbed the scheduler{}", journal(guest));
    guest.check(&format!("systemctl daemon-reload && systemctl try-restart {UNIT}"), MOMENT * 3)?;
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure!(main_pid(guest)? != daemon, "the service was not restarted");
    let after = kernel(guest)?;
    ensure!(after.enable_seq == before.enable_seq + 1, "loaded {} times", after.enable_seq - before.enable_seq);
    call(guest, "SetMode", "s auto").map(drop)
}

/// A call starts the service as long as the unit is enabled, and not once it has been disabled.
pub(super) fn activation(guest: &mut Guest) -> Result<()> {
    guest.check(&format!("systemctl disable --now {UNIT}"), MOMENT * 3)?;
    let disabled = try_call(guest, "GetStats", "")?;
    ensure_refused(&disabled, &["not found"])?;
    guest.check(&format!("systemctl enable {UNIT}"), MOMENT)?;
    ensure!(property(guest, "Version").is_ok(), "a call does not start the service{}", journal(guest));
    let state = guest.check(&format!("systemctl is-active {UNIT}"), MOMENT)?;
    ensure!(state == "active", "systemd says {state}");
    Ok(())
}

/// After a reboot the service waits until a user logs in; desired state and chosen mode are restored.
pub(super) fn reboot(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    // Longer than any boot takes, so that the login ends the wait.
    guest.check("scherzoctl config set boot_delay_s 600", MOMENT)?;
    guest.check(&format!("systemctl enable {UNIT}"), MOMENT)?;
    guest.reboot()?;
    ensure!(property(guest, "Enabled")? == "true", "the desired state was lost");
    ensure_agreement(guest, "starting", "fifo", "boot-delay")?;
    let logged_in = people::in_active_session(guest, "true")?;
    ensure!(logged_in.status == 0, "a user cannot log in: {}{}", logged_in.stdout, logged_in.stderr);
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure_responsive(guest)
}

fn main_pid(guest: &mut Guest) -> Result<String> {
    guest.check(&format!("systemctl show --value -p MainPID {UNIT}"), MOMENT)
}
