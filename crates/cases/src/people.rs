//! Authorisation: users with and without rights, and programs that hold a mode and are killed.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::agreement::{ensure_agreement, service_report};
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{MOMENT, TARGET, call, call_command, ensure_loaded, ensure_refused, ensure_undisturbed};
use scherzo_rig::shell::{CommandOutput, Shell};

/// Time limit for requests that polkit decides.
const LIMIT: Duration = Duration::from_secs(30);

/// A user with an active local session may choose a mode; a user without a session is refused with a named error.
pub(super) fn allowed_and_refused(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let before = service_report(guest)?;
    let target = "--dest=org.scherzo.Scheduler1 /org/scherzo/Scheduler1 org.scherzo.Scheduler1";
    for request in ["SetMode string:fifo", "SetEnabled boolean:false", "SetPreemption boolean:false"] {
        let call = format!("runuser -u person -- dbus-send --system --print-reply {target}.{request}");
        ensure_refused(&guest.run(&call, LIMIT)?, &["org.freedesktop.DBus.Error."])?;
        ensure_agreement(guest, &before.state, &before.mode, &before.reason)?;
    }
    let allowed = in_active_session(guest, &call_command("SetMode", "s fifo"))?;
    ensure!(allowed.status == 0, "a user with an active session is refused: {}{}", allowed.stdout, allowed.stderr);
    ensure_agreement(guest, "running", "fifo", "choice")?;
    // Settings concern all users of the machine: they need an administrator even with an active session.
    let settings = call_command("Configure", "'a{sv}' 1 base_slice_us u 4000");
    ensure_refused(&in_active_session(guest, &settings)?, &[])?;
    call(guest, "SetMode", "s auto")?;
    ensure_agreement(guest, &before.state, &before.mode, &before.reason)?;
    ensure_undisturbed(guest, &loaded)
}

/// A hold ends with the program that asked for it, even if that is killed.
pub(super) fn hold_of_a_killed_program(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let before = service_report(guest)?;
    let holder = guest.spawn("exec scherzoctl hold -m low-power -r case")?;
    ensure_agreement(guest, "running", "low-power", "hold")?;
    ensure_private(guest)?;
    guest.kill(&holder)?;
    ensure_agreement(guest, &before.state, &before.mode, &before.reason)?;
    ensure_undisturbed(guest, &loaded)
}

/// Which application of root's holds the mode, and why, is told to root and to nobody else.
fn ensure_private(guest: &mut Guest) -> Result<()> {
    let holds = format!("busctl --system get-property {TARGET} Holds ReasonArgs");
    let history = call_command("GetHistory", "u 1");
    for question in [holds, history] {
        let told = guest.check(&question, MOMENT)?;
        ensure!(told.contains("\"scherzoctl\""), "root is not told whose hold it is: {told}");
        let told = guest.check(&format!("runuser -u person -- {question}"), MOMENT)?;
        ensure!(told.contains("\"hold\"") || told.contains("\"cookie\""), "nothing is told about the hold: {told}");
        ensure!(!told.contains("scherzoctl") && !told.contains("\"case\""), "another user is told: {told}");
    }
    let inspect = format!("runuser -u person -- {}", call_command("InspectHolds", ""));
    ensure_refused(&guest.run(&inspect, LIMIT)?, &[])
}

/// Runs a command in an active session on the first console, set up as by a login.
pub(super) fn in_active_session(guest: &mut Guest, command: &str) -> Result<CommandOutput> {
    let output = "/run/active-session";
    guest.check(&format!("rm -f {output}"), MOMENT)?;
    let session = format!(
        "systemd-run --quiet --wait --collect --uid=person -p PAMName=login -p TTYPath=/dev/tty1 -p StandardInput=tty-force \
         -p StandardOutput=file:{output} -p StandardError=file:{output} sh -c \"{command}\""
    );
    let mut ended = guest.run(&session, LIMIT)?;
    ended.stderr.push_str(&guest.run(&format!("cat {output}"), MOMENT)?.stdout);
    Ok(ended)
}
