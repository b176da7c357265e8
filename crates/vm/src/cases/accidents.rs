//! What happens to a machine in its life. Afterwards everybody tells the same story, and what a person had chosen still
//! counts.

use anyhow::{Result, ensure};

use super::agreement::ensure_agreement;
use super::people;
use super::service::{MOMENT, UNIT, call, ensure_loaded, ensure_responsive, journal, kernel, property};
use crate::guest::Guest;
use crate::shell::Shell;

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
