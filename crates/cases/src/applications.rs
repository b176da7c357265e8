//! Rules for applications, followed in a session that the real systemd runs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agreement::{ensure_agreement, story};
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{MOMENT, call, ensure_loaded, ensure_refused, ensure_undisturbed, property, wait_until};
use scherzo_rig::shell::Shell;

/// Makes the units of a desktop.
const DESKTOP: &str = include_str!("session.sh");
/// What the person runs beside what the session has started.
const AS_PERSON: &str =
    "setpriv --reuid=person --regid=person --init-groups env HOME=/home/person XDG_RUNTIME_DIR=/run/user/1000";
/// Names the session at the machine to the system's systemd.
const SESSION: &str = "rig-session.service";
/// What follows the rules.
const FOLLOWER: &str = "scherzo-applications.service";
/// The session's systemd, as `busctl` wants it.
const MANAGER: &str = "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager";
/// The application that has a rule, and how GNOME and Plasma name what they run it in.
const APPLICATION: &str = "org.gnome.Builder";
const SCOPE: &str = "app-gnome-org.gnome.Builder-1234.scope";
const INSTANCE: &str = "app-org.gnome.Builder@5c1f.service";
/// For a session that begins or ends.
const LIMIT: Duration = Duration::from_secs(30);

/// Turned on as the app does it, rules count at once and after the next login, until it is turned off the same way.
pub(super) fn followed(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let before = story(guest)?;
    guest.check(DESKTOP, LIMIT)?;
    log_in(guest)?;
    ensure_unknown_units_are_told_apart(guest)?;
    as_person(guest, &format!("scherzoctl applications set {APPLICATION} fifo"))?;
    ensure_follower_is(guest, "disabled", "inactive")?;
    set_following(guest, true)?;
    ensure_follower_is(guest, "enabled", "active")?;
    start_application(guest, SCOPE, "--scope")?;
    ensure_agreement(guest, "running", "fifo", "hold").with_context(|| told(guest))?;
    end_application(guest, SCOPE, &before.mode)?;
    start_application(guest, INSTANCE, "--service-type=exec")?;
    wait_for_mode(guest, "fifo")?;
    end_application(guest, INSTANCE, &before.mode)?;

    log_out(guest)?;
    log_in(guest)?;
    ensure_follower_is(guest, "enabled", "active")?;
    start_application(guest, SCOPE, "--scope")?;
    wait_for_mode(guest, "fifo")?;
    set_following(guest, false)?;
    ensure_agreement(guest, &before.state, &before.mode, &before.reason).with_context(|| told(guest))?;
    as_person(guest, "systemctl --user stop graphical-session.target")?;
    as_person(guest, "systemctl --user start desktop.target")?;
    ensure_follower_is(guest, "disabled", "inactive")?;
    as_person(guest, &format!("scherzoctl applications unset {APPLICATION}"))?;
    log_out(guest)?;
    ensure_undisturbed(guest, &loaded)
}

/// A session on the first console, until its desktop is up. The follower is in no session: polkit goes by the person's.
fn log_in(guest: &mut Guest) -> Result<()> {
    let session = "systemctl --user start desktop.target && exec systemd-notify --ready --exec \\; sleep infinity";
    let as_a_login_does = "--uid=person -p PAMName=login -p TTYPath=/dev/tty1 -p StandardInput=tty-force";
    let start = "systemd-run --quiet --collect --service-type=notify";
    guest.check(&format!("{start} --unit={SESSION} {as_a_login_does} sh -c '{session}'"), LIMIT).map(drop)
}

/// The session's systemd would end by itself, some seconds later.
fn log_out(guest: &mut Guest) -> Result<()> {
    guest.check(&format!("systemctl stop {SESSION} user@1000.service"), LIMIT).map(drop)
}

/// Starts something that goes on for the application, as a scope or as a service.
fn start_application(guest: &mut Guest, unit: &str, kind: &str) -> Result<()> {
    // Whoever starts a scope becomes what runs in it.
    guest.spawn(&format!("exec {AS_PERSON} systemd-run --user --collect {kind} --unit={unit} sleep infinity")).map(drop)
}

fn end_application(guest: &mut Guest, unit: &str, mode_before: &str) -> Result<()> {
    as_person(guest, &format!("systemctl --user stop {unit}"))?;
    wait_for_mode(guest, mode_before)
}

/// A part of an agreement, for where that would repeat what was seen.
fn wait_for_mode(guest: &mut Guest, mode: &str) -> Result<()> {
    let followed = wait_until(guest, &format!("Mode {mode}"), LIMIT, |shell| Ok(property(shell, "Mode")? == mode));
    followed.with_context(|| told(guest))
}

/// What the app's switch asks for, in its order (`follow` in `rules_group.rs`).
fn set_following(guest: &mut Guest, on: bool) -> Result<()> {
    let (files, unit) = if on {
        (format!("EnableUnitFiles asbb 1 {FOLLOWER} false false"), "StartUnit")
    } else {
        (format!("DisableUnitFiles asb 1 {FOLLOWER} false"), "StopUnit")
    };
    for request in [files, "Reload".to_owned(), format!("{unit} ss {FOLLOWER} replace")] {
        as_person(guest, &format!("busctl --user call {MANAGER} {request}"))?;
    }
    Ok(())
}

/// What the app finds out, by the same questions, once systemd has done what was asked for.
fn ensure_follower_is(guest: &mut Guest, file_state: &str, active_state: &str) -> Result<()> {
    let path = as_person(guest, &format!("busctl --user call {MANAGER} LoadUnit s {FOLLOWER}"))?;
    let path = path.split('"').nth(1).with_context(|| format!("no path: {path}"))?;
    let get = format!("busctl --user get-property org.freedesktop.systemd1 {path} org.freedesktop.systemd1.Unit");
    let mut states = String::new();
    wait_until(guest, "no job is left", MOMENT, |shell| {
        states = as_person(shell, &format!("{get} Job ActiveState"))?;
        Ok(states.starts_with("(uo) 0 "))
    })?;
    let file = as_person(guest, &format!("busctl --user call {MANAGER} GetUnitFileState s {FOLLOWER}"))?;
    let is_so = file == format!("s \"{file_state}\"") && states.ends_with(&format!("s \"{active_state}\""));
    ensure!(is_so, "{FOLLOWER} is {file}, {states}{}", told(guest));
    Ok(())
}

/// The app takes this error, by its name, for a command line tool that is not installed.
fn ensure_unknown_units_are_told_apart(guest: &mut Guest) -> Result<()> {
    let target = "--dest=org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager";
    let ask = format!("dbus-send --session --print-reply {target}.GetUnitFileState string:nobody-installed.service");
    ensure_refused(&guest.run(&format!("{AS_PERSON} {ask}"), LIMIT)?, &["org.freedesktop.DBus.Error.FileNotFound"])
}

/// Runs a command that must succeed.
fn as_person(shell: &mut dyn Shell, command: &str) -> Result<String> {
    shell.check(&format!("{AS_PERSON} {command}"), LIMIT)
}

/// What the person's programs have said, for error messages.
fn told(shell: &mut dyn Shell) -> String {
    let log = shell.run("journalctl --no-pager -o cat -n 15 _UID=1000", MOMENT);
    log.map_or_else(|error| format!("{error:#}"), |log| format!("\n--- the session ---\n{}---", log.stdout))
}
