//! The system bus ends while the scheduler runs, and with it every connection: the service ends with an error, which unloads the
//! scheduler, systemd starts it again on the next bus, and it loads. A choice is kept; holds end with their connections.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::agreement::{ensure_agreement, service_report};
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{
    MOMENT, UNIT, call, ensure_loaded, ensure_responsive, journal, kernel, property, wait_for_state, wait_until,
};
use scherzo_rig::shell::Shell;

/// The unit that systemd starts as the bus, whichever bus that is.
const BUS_UNIT: &str = "dbus.service";
const BROKER_UNIT: &str = "dbus-broker.service";
/// It ends with the bus, and nobody starts it again.
const PROFILES_UNIT: &str = "power-profiles-daemon.service";
/// From the end of the bus until the scheduler is loaded again.
const RECOVERY: Duration = Duration::from_secs(30);

pub(super) fn daemon_restarted(guest: &mut Guest) -> Result<()> {
    ensure_bus(guest, BUS_UNIT)?;
    restarted(guest)
}

pub(super) fn broker_restarted(guest: &mut Guest) -> Result<()> {
    boot_with_broker(guest)?;
    restarted(guest)
}

/// From the next boot on dbus-broker is the system bus.
pub(super) fn boot_with_broker(guest: &mut Guest) -> Result<()> {
    guest.check(&format!("systemctl enable {BROKER_UNIT} {UNIT}"), MOMENT)?;
    guest.reboot()?;
    ensure_bus(guest, BROKER_UNIT)
}

fn ensure_bus(guest: &mut Guest, wanted: &str) -> Result<()> {
    let unit = guest.check(&format!("systemctl show --value -p Id {BUS_UNIT}"), MOMENT)?;
    ensure!(unit == wanted, "the system bus is {unit}");
    Ok(())
}

fn restarted(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let without = service_report(guest)?;
    let holder = guest.spawn("exec scherzoctl hold -m low-power -r case")?;
    ensure_agreement(guest, "running", "low-power", "hold")?;
    restart(guest)?;
    ensure_agreement(guest, "running", &without.mode, &without.reason)?;
    let holds = property(guest, "Holds")?;
    ensure!(holds == "0", "there are holds of connections that have gone: {holds}");
    guest.kill(&holder)?;

    call(guest, "SetMode", "s fifo")?;
    restart(guest)?;
    ensure_agreement(guest, "running", "fifo", "choice")?;
    let stored = guest.check("grep -E '^(enabled|mode) = ' /var/lib/scherzo/state.toml", MOMENT)?;
    ensure!(stored == "enabled = true\nmode = \"fifo\"", "stored is {stored}");
    // Clients are served as before, and followers of other programs on the bus work again.
    call(guest, "SetMode", "s auto")?;
    ensure_agreement(guest, "running", &without.mode, &without.reason)?;
    ensure_responsive(guest)
}

/// Restarts the bus, and waits until another process of the service has loaded the scheduler.
fn restart(guest: &mut Guest) -> Result<()> {
    let (before, service) = (kernel(guest)?.enable_seq, main_pid(guest)?);
    guest.check(&format!("systemctl restart {BUS_UNIT}"), MOMENT * 3)?;
    wait_until(guest, "the service has been started again", RECOVERY, |shell| {
        let now = main_pid(shell)?;
        Ok(now != "0" && now != service)
    })?;
    wait_for_state(guest, "running", RECOVERY)?;
    // What it asks waits for those that the bus starts.
    guest.check(&format!("systemctl start {PROFILES_UNIT}"), MOMENT * 6)?;
    let nr_loads = kernel(guest)?.enable_seq - before;
    ensure!(nr_loads == 1, "the scheduler was loaded {nr_loads} times{}", journal(guest));
    Ok(())
}

fn main_pid(shell: &mut dyn Shell) -> Result<String> {
    shell.check(&format!("systemctl show --value -p MainPID {UNIT}"), MOMENT)
}
