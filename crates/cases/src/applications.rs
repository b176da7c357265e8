//! Rules that tie a mode to an application, applied in a user session under the real systemd.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agreement::{ensure_agreement, service_report};
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{MOMENT, call, ensure_loaded, ensure_refused, ensure_undisturbed, property, wait_until};
use scherzo_rig::shell::Shell;

/// Creates the systemd units of a desktop session.
const DESKTOP: &str = include_str!("session.sh");
/// Runs a command as the session's user, outside the session's units.
const AS_USER: &str =
    "setpriv --reuid=person --regid=person --init-groups env HOME=/home/person XDG_RUNTIME_DIR=/run/user/1000";
/// The unit of the session, for the system's systemd.
const SESSION: &str = "rig-session.service";
/// The user unit that applies the rules.
const FOLLOWER: &str = "scherzo-applications.service";
/// The systemd of the user session, as `busctl` wants it.
const MANAGER: &str = "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager";
/// The application that has a rule, and the units in which GNOME and Plasma run it.
const APPLICATION: &str = "org.gnome.Builder";
const SCOPE: &str = "app-gnome-org.gnome.Builder-1234.scope";
const INSTANCE: &str = "app-org.gnome.Builder@5c1f.service";
/// Time limit for starting or ending a session.
const LIMIT: Duration = Duration::from_secs(30);

/// Once turned on in the way the app does it, rules apply immediately and after the next login, until they are turned
/// off.
pub(super) fn followed(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let before = service_report(guest)?;
    guest.check(DESKTOP, LIMIT)?;
    log_in(guest)?;
    ensure_unknown_units_have_their_own_error(guest)?;
    as_user(guest, &format!("scherzoctl applications set {APPLICATION} fifo --foreground"))?;
    ensure_follower_is(guest, "disabled", "inactive")?;
    set_following(guest, true)?;
    ensure_follower_is(guest, "enabled", "active")?;
    start_application(guest, SCOPE, "--scope")?;
    ensure_agreement(guest, "running", "fifo", "hold").with_context(|| session_log(guest))?;
    wait_for_front(guest, |front| front.ends_with(&format!("/app.slice/{SCOPE}")))?;
    end_application(guest, SCOPE, &before.mode)?;
    wait_for_front(guest, str::is_empty)?;
    start_application(guest, INSTANCE, "--service-type=exec")?;
    wait_for_mode(guest, "fifo")?;
    end_application(guest, INSTANCE, &before.mode)?;

    log_out(guest)?;
    log_in(guest)?;
    ensure_follower_is(guest, "enabled", "active")?;
    start_application(guest, SCOPE, "--scope")?;
    wait_for_mode(guest, "fifo")?;
    set_following(guest, false)?;
    ensure_agreement(guest, &before.state, &before.mode, &before.reason).with_context(|| session_log(guest))?;
    as_user(guest, "systemctl --user stop graphical-session.target")?;
    as_user(guest, "systemctl --user start desktop.target")?;
    ensure_follower_is(guest, "disabled", "inactive")?;
    as_user(guest, &format!("scherzoctl applications unset {APPLICATION}"))?;
    log_out(guest)?;
    ensure_undisturbed(guest, &loaded)
}

/// Debian's GameMode in a session: while a game is registered its mode is held, `interactive` where no rule says otherwise.
pub(super) fn game_mode(guest: &mut Guest) -> Result<()> {
    const GAME_MODE: &str = "com.feralinteractive.GameMode";
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let before = service_report(guest)?;
    guest.check(DESKTOP, LIMIT)?;
    log_in(guest)?;
    set_following(guest, true)?;
    ensure_follower_is(guest, "enabled", "active")?;
    // It registers itself, and waits.
    let mut game = guest.spawn(&format!("exec {AS_USER} gamemoded -r"))?;
    ensure_agreement(guest, "running", "interactive", "hold").with_context(|| session_log(guest))?;
    as_user(guest, &format!("scherzoctl applications set {GAME_MODE} fifo"))?;
    ensure_agreement(guest, "running", "fifo", "hold").with_context(|| session_log(guest))?;
    ensure!(guest.ended(&mut game).is_none(), "the game has ended by itself{}", session_log(guest));
    guest.kill(&game)?;
    // GameMode looks for games that are gone every five seconds.
    ensure_agreement(guest, "running", &before.mode, &before.reason).with_context(|| session_log(guest))?;
    as_user(guest, &format!("scherzoctl applications unset {GAME_MODE}"))?;
    set_following(guest, false)?;
    log_out(guest)?;
    ensure_undisturbed(guest, &loaded)
}

/// Debian's tuned with the profile that the documentation shows: it holds a mode while it is active.
pub(super) fn tuned(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let before = service_report(guest)?;
    let (profile, script) = tuned_example().context("docs/configuration.md shows no profile of tuned")?;
    let directory = "/etc/tuned/profiles/build";
    let write = |file: &str, text: &str| format!("cat >{directory}/{file} <<'END'\n{text}END\n");
    let files = [write("tuned.conf", profile), write("mode.sh", script)].concat();
    guest.check(&format!("mkdir -p {directory}\n{files}chmod +x {directory}/mode.sh"), MOMENT)?;
    guest.check("systemctl start tuned && tuned-adm profile build", LIMIT)?;
    ensure_agreement(guest, "running", "fifo", "hold").with_context(|| tuned_log(guest))?;
    guest.check("tuned-adm profile balanced", LIMIT)?;
    let released =
        wait_until(guest, "the hold is released", LIMIT, |shell| Ok(property(shell, "Mode")? == before.mode));
    released.with_context(|| tuned_log(guest))?;
    guest.check("tuned-adm off; systemctl stop tuned; systemctl start power-profiles-daemon", LIMIT)?;
    ensure_undisturbed(guest, &loaded)
}

/// The profile in the documentation, and its script.
fn tuned_example() -> Option<(&'static str, &'static str)> {
    const PAGE: &str = include_str!("../../../docs/configuration.md");
    let (_, section) = PAGE.split_once("## A profile of tuned")?;
    let fenced = |kind: &str| Some(section.split_once(&format!("```{kind}\n"))?.1.split_once("```")?.0);
    Some((fenced("ini")?, fenced("sh")?))
}

fn tuned_log(shell: &mut dyn Shell) -> String {
    let log = shell.run("tail -n 30 /var/log/tuned/tuned.log", MOMENT);
    log.map_or_else(|error| format!("{error:#}"), |log| format!("\n--- tuned ---\n{}---", log.stdout))
}

/// Starts a session on the first console and waits for its desktop. The unit that applies the rules belongs to no
/// session; polkit goes by the user's active one.
fn log_in(guest: &mut Guest) -> Result<()> {
    let session = "systemctl --user start desktop.target && exec systemd-notify --ready --exec \\; sleep infinity";
    let as_a_login_does = "--uid=person -p PAMName=login -p TTYPath=/dev/tty1 -p StandardInput=tty-force";
    let start = "systemd-run --quiet --collect --service-type=notify";
    guest.check(&format!("{start} --unit={SESSION} {as_a_login_does} sh -c '{session}'"), LIMIT).map(drop)
}

/// Ends the user's systemd explicitly: by itself it would end some seconds later.
fn log_out(guest: &mut Guest) -> Result<()> {
    guest.check(&format!("systemctl stop {SESSION} user@1000.service"), LIMIT).map(drop)
}

/// Starts a long-running process in a unit of the application, which is a scope or a service.
fn start_application(guest: &mut Guest, unit: &str, kind: &str) -> Result<()> {
    // With --scope, systemd-run itself becomes the process in the unit.
    guest.spawn(&format!("exec {AS_USER} systemd-run --user --collect {kind} --unit={unit} sleep infinity")).map(drop)
}

fn end_application(guest: &mut Guest, unit: &str, mode_before: &str) -> Result<()> {
    as_user(guest, &format!("systemctl --user stop {unit}"))?;
    wait_for_mode(guest, mode_before)
}

/// Waits for the mode only: the full agreement has been checked before in the same situation.
fn wait_for_mode(guest: &mut Guest, mode: &str) -> Result<()> {
    let followed = wait_until(guest, &format!("Mode {mode}"), LIMIT, |shell| Ok(property(shell, "Mode")? == mode));
    followed.with_context(|| session_log(guest))
}

fn wait_for_front(guest: &mut Guest, is_it: impl Fn(&str) -> bool) -> Result<()> {
    let seen = wait_until(guest, "another group in front", LIMIT, |shell| Ok(is_it(&property(shell, "Foreground")?)));
    seen.with_context(|| session_log(guest))
}

/// Sends the same requests as the switch in the app, in the same order (`follow` in `rules_group.rs`).
fn set_following(guest: &mut Guest, on: bool) -> Result<()> {
    let (files, unit) = if on {
        (format!("EnableUnitFiles asbb 1 {FOLLOWER} false false"), "StartUnit")
    } else {
        (format!("DisableUnitFiles asb 1 {FOLLOWER} false"), "StopUnit")
    };
    for request in [files, "Reload".to_owned(), format!("{unit} ss {FOLLOWER} replace")] {
        as_user(guest, &format!("busctl --user call {MANAGER} {request}"))?;
    }
    Ok(())
}

/// Checks the state of the unit with the same requests as the app, once systemd has no job left.
fn ensure_follower_is(guest: &mut Guest, file_state: &str, active_state: &str) -> Result<()> {
    let path = as_user(guest, &format!("busctl --user call {MANAGER} LoadUnit s {FOLLOWER}"))?;
    let path = path.split('"').nth(1).with_context(|| format!("no path: {path}"))?;
    let get = format!("busctl --user get-property org.freedesktop.systemd1 {path} org.freedesktop.systemd1.Unit");
    let mut states = String::new();
    wait_until(guest, "no job is left", MOMENT, |shell| {
        states = as_user(shell, &format!("{get} Job ActiveState"))?;
        Ok(states.starts_with("(uo) 0 "))
    })?;
    let file = as_user(guest, &format!("busctl --user call {MANAGER} GetUnitFileState s {FOLLOWER}"))?;
    let is_so = file == format!("s \"{file_state}\"") && states.ends_with(&format!("s \"{active_state}\""));
    ensure!(is_so, "{FOLLOWER} is {file}, {states}{}", session_log(guest));
    Ok(())
}

/// From this error name the app concludes that the command line tool is not installed.
fn ensure_unknown_units_have_their_own_error(guest: &mut Guest) -> Result<()> {
    let target = "--dest=org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager";
    let ask = format!("dbus-send --session --print-reply {target}.GetUnitFileState string:nobody-installed.service");
    ensure_refused(&guest.run(&format!("{AS_USER} {ask}"), LIMIT)?, &["org.freedesktop.DBus.Error.FileNotFound"])
}

/// Runs a command that must succeed.
fn as_user(shell: &mut dyn Shell, command: &str) -> Result<String> {
    shell.check(&format!("{AS_USER} {command}"), LIMIT)
}

/// The log of the user's programs, for error messages.
fn session_log(shell: &mut dyn Shell) -> String {
    let log = shell.run("journalctl --no-pager -o cat -n 15 _UID=1000", MOMENT);
    log.map_or_else(|error| format!("{error:#}"), |log| format!("\n--- the session ---\n{}---", log.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_shows_a_profile_of_tuned() {
        let (profile, script) = tuned_example().unwrap();
        assert!(profile.starts_with("[main]") && script.starts_with("#!/bin/sh"));
    }
}
