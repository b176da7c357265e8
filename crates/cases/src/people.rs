//! Who may do what: people with and without rights, and programs that ask for a mode and die.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::agreement::{ensure_agreement, story};
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{MOMENT, call, call_command, ensure_loaded, ensure_refused, ensure_undisturbed};
use scherzo_rig::shell::{Output, Shell};

/// For what polkit is asked about.
const LIMIT: Duration = Duration::from_secs(30);

/// Somebody who sits at the machine chooses a mode; somebody who only has an account there is refused, by name.
pub(super) fn allowed_and_refused(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let before = story(guest)?;
    let target = "--dest=org.scherzo.Scheduler1 /org/scherzo/Scheduler1 org.scherzo.Scheduler1";
    for request in ["SetMode string:fifo", "SetEnabled boolean:false", "SetPreemption boolean:false"] {
        let call = format!("runuser -u person -- dbus-send --system --print-reply {target}.{request}");
        ensure_refused(&guest.run(&call, LIMIT)?, &["org.freedesktop.DBus.Error."])?;
        ensure_agreement(guest, &before.state, &before.mode, &before.reason)?;
    }
    let allowed = at_the_machine(guest, &call_command("SetMode", "s fifo"))?;
    ensure!(allowed.status == 0, "whoever sits at the machine is refused: {}{}", allowed.stdout, allowed.stderr);
    ensure_agreement(guest, "running", "fifo", "choice")?;
    // What concerns everybody who uses the machine takes an administrator also there.
    let settings = call_command("Configure", "'a{sv}' 1 base_slice_us u 4000");
    ensure_refused(&at_the_machine(guest, &settings)?, &[])?;
    call(guest, "SetMode", "s auto")?;
    ensure_agreement(guest, &before.state, &before.mode, &before.reason)?;
    ensure_undisturbed(guest, &loaded)
}

/// A hold ends with the program that asked for it, however that ends.
pub(super) fn hold_of_a_killed_program(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let before = story(guest)?;
    let holder = guest.spawn("exec scherzoctl hold -m low-power -r case")?;
    ensure_agreement(guest, "running", "low-power", "hold")?;
    guest.kill(&holder)?;
    ensure_agreement(guest, &before.state, &before.mode, &before.reason)?;
    ensure_undisturbed(guest, &loaded)
}

/// Runs a command in an active session on the first console, as a login there gives it.
pub(super) fn at_the_machine(guest: &mut Guest, command: &str) -> Result<Output> {
    let output = "/run/at-the-machine";
    guest.check(&format!("rm -f {output}"), MOMENT)?;
    let session = format!(
        "systemd-run --quiet --wait --collect --uid=person -p PAMName=login -p TTYPath=/dev/tty1 -p StandardInput=tty-force \
         -p StandardOutput=file:{output} -p StandardError=file:{output} sh -c \"{command}\""
    );
    let mut ended = guest.run(&session, LIMIT)?;
    ended.stderr.push_str(&guest.run(&format!("cat {output}"), MOMENT)?.stdout);
    Ok(ended)
}
