//! What happens to a machine in its life: it sleeps, it is upgraded, it starts anew. Afterwards everybody tells the same
//! story, and what a person had chosen still counts.

use anyhow::{Result, ensure};

use crate::agreement::ensure_agreement;
use crate::people;
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{
    MOMENT, UNIT, call, end_load, ensure_loaded, ensure_responsive, ensure_undisturbed, journal, kernel, property,
    start_load, wait_until,
};
use scherzo_rig::shell::Shell;

/// A busy machine is put to sleep by logind, its tasks frozen and all CPUs but one taken down, and wakes up again. The
/// scheduler is the same one as before, not loaded anew, and a choice still counts.
///
/// Once in a boot: while it wakes up, QEMU's firmware leaves the registers of power management without an address (PMBASE
/// reads 0), so that the next sleep would end at once.
pub(super) fn sleep(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let load = start_load(guest)?;
    let before = (nr_sleeps(guest)?, nr_heard(guest)?);
    let asked = guest.spawn("systemctl suspend")?;
    guest.wake_up()?;
    let asked = guest.wait(asked, MOMENT, |_| {})?;
    ensure!(asked.status == 0, "logind does not suspend: {}", asked.stderr);
    wait_until(guest, "kernel and service have seen one sleep", MOMENT, |shell| {
        Ok((nr_sleeps(shell)?, nr_heard(shell)?) == (before.0 + 1, before.1 + 1))
    })?;
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure_responsive(guest)?;
    end_load(guest, &load)?;
    call(guest, "SetMode", "s auto")?;
    ensure_undisturbed(guest, &loaded)
}

/// How often the kernel has suspended the machine and woken it again.
fn nr_sleeps(shell: &mut dyn Shell) -> Result<u64> {
    Ok(shell.check("cat /sys/power/suspend_stats/success", MOMENT)?.parse()?)
}

/// How often the service has been told of a waking up.
fn nr_heard(shell: &mut dyn Shell) -> Result<u64> {
    let count = format!("journalctl --no-pager -o cat -u {UNIT} | grep -c '^the system is awake again' || true");
    Ok(shell.check(&count, MOMENT)?.parse()?)
}

/// A package is upgraded while the scheduler runs, the way its scripts do it: files are replaced, units read anew, the
/// service started anew. Wish and choice stay.
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
    call(guest, "SetMode", "s auto").map(drop)
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
