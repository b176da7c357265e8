//! Wrong input from users and programs: each mistake gets a named error and a message, and what was running keeps
//! running.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::image::FOREIGN_SCHEDULER_PATH;
use scherzo_rig::service::{
    MOMENT, call_command, ensure_loaded, ensure_refused, ensure_undisturbed, ensure_unloaded, kernel, try_call,
    wait_for_state, wait_until,
};
use scherzo_rig::shell::Shell;

/// Errors have the names that the interface promises.
pub(super) fn refused_with_a_name(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let unknown_mode = try_call(guest, "SetMode", "s turbo")?;
    ensure_refused(&unknown_mode, &["turbo"]).context("unknown mode")?;
    let wrong_signature = try_call(guest, "SetMode", "b true")?;
    ensure_refused(&wrong_signature, &[]).context("wrong signature")?;
    let as_user = format!("runuser -u person -- {}", call_command("SetMode", "s fifo"));
    let no_rights = guest.run(&as_user, Duration::from_secs(30))?;
    ensure_refused(&no_rights, &[]).context("a caller without rights")?;
    // busctl shows the sentence, dbus-send the name.
    let target = "--dest=org.scherzo.Scheduler1 /org/scherzo/Scheduler1 org.scherzo.Scheduler1.SetMode";
    let named =
        guest.run(&format!("dbus-send --system --print-reply {target} string:turbo"), Duration::from_secs(30))?;
    ensure_refused(&named, &["org.scherzo.Scheduler1.Error.InvalidMode"])?;
    let through_ctl = guest.run("scherzoctl mode turbo", Duration::from_secs(30))?;
    ensure_refused(&through_ctl, &["turbo"]).context("scherzoctl")?;
    let reading = guest.run("runuser -u person -- scherzoctl status", Duration::from_secs(30))?;
    ensure!(reading.status == 0, "reading is not free: {}", reading.stderr);
    ensure_undisturbed(guest, &loaded)
}

/// A second daemon reports that one is running already, and exits without disturbing it.
pub(super) fn second_daemon(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let daemon = guest.run("timeout 30 /usr/libexec/scherzod", Duration::from_mins(1))?;
    ensure!(daemon.status != 124, "a second daemon runs beside the first");
    ensure_refused(&daemon, &["org.scherzo.Scheduler1"])?;
    ensure_undisturbed(guest, &loaded)
}

/// A scheduler of another project that is loaded is left alone, and the service names it.
pub(super) fn foreign_scheduler(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    guest.check(&format!("bpftool struct_ops register {FOREIGN_SCHEDULER_PATH} /sys/fs/bpf"), MOMENT)?;
    let foreign = kernel(guest)?;
    ensure!(foreign.ops == "foreign" && foreign.state == "enabled", "the kernel says {foreign:?}");
    wait_for_state(guest, "foreign", MOMENT)?;
    let refused = try_call(guest, "SetEnabled", "b true")?;
    ensure_refused(&refused, &["foreign"])?;
    let now = kernel(guest)?;
    ensure!(now == foreign, "the kernel's view changed from {foreign:?} to {now:?}");
    guest.check("rm /sys/fs/bpf/foreign", MOMENT)?;
    wait_until(guest, "the foreign scheduler is gone", MOMENT, |shell| Ok(kernel(shell)?.state == "disabled"))?;
    ensure_loaded(guest).map(drop)
}
