//! The app on the installed service: as a person logged in at the machine uses it, so that nobody is asked for a password.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::service::{ensure_unloaded, kernel, property};
use crate::guest::Guest;
use crate::image::SCRIPTS_PATH;
use crate::progress::say;
use crate::shell::Shell;

/// A session at the machine's first terminal, without a display of its own.
const LOG_IN: &str = "systemd-run --quiet --wait --pipe --collect --property=User=person --property=PAMName=login \
                      --property=TTYPath=/dev/tty1 --setenv=XDG_SESSION_TYPE=x11 --setenv=HOME=/home/person";
const LIMIT: Duration = Duration::from_mins(2);

/// On, every mode and off, all by the app's own controls: the kernel runs what was chosen, and loads it once.
pub(super) fn app(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let before = kernel(guest)?;
    let told = guest.check(&format!("{LOG_IN} python3 -B {SCRIPTS_PATH}/guest_app.py"), LIMIT)?;
    told.lines().filter(|line| line.starts_with("NOTE")).for_each(say);
    let after = kernel(guest)?;
    ensure!(after.enable_seq == before.enable_seq + 1, "loaded {} times", after.enable_seq - before.enable_seq);
    ensure!(after.state == "disabled", "the kernel says {}", after.state);
    ensure!(property(guest, "Enabled")? == "false");
    Ok(())
}
