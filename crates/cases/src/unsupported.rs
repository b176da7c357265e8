//! Kernels on which no scheduler can load: the service runs and reports why.

use anyhow::{Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::service::{MOMENT, ensure_refused, property, try_call};
use scherzo_rig::shell::Shell;

/// The system is up.
pub(super) fn boot(guest: &mut Guest) -> Result<()> {
    let system = guest.run("systemctl is-system-running", MOMENT)?;
    ensure!(system.stdout.trim() == "running", "systemd says {}", system.stdout.trim());
    Ok(())
}

/// The state is `unsupported`, and enabling is refused with an explanation, on the bus and on the command line.
pub(super) fn refusal(guest: &mut Guest) -> Result<()> {
    let refused = try_call(guest, "SetEnabled", "b true")?;
    ensure_refused(&refused, &["kernel"])?;
    let state = property(guest, "State")?;
    ensure!(state == "unsupported", "State is {state}");
    let through_ctl = guest.run("scherzoctl enable", MOMENT)?;
    ensure_refused(&through_ctl, &["kernel"])
}
