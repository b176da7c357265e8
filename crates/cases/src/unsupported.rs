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

/// The doctor names the missing option, and what to do.
pub(super) fn doctor_without_sched_ext(guest: &mut Guest) -> Result<()> {
    ensure_doctor_says(guest, &["no sched_ext", "Start one built with CONFIG_SCHED_CLASS_EXT"])
}

/// The doctor names the malformed type information, and what to do.
pub(super) fn doctor_with_malformed_btf(guest: &mut Guest) -> Result<()> {
    ensure_doctor_says(guest, &["pahole", "scx_bpf_", "Start another build"])
}

fn ensure_doctor_says(guest: &mut Guest, parts: &[&str]) -> Result<()> {
    let release = guest.check("uname -r", MOMENT)?;
    let doctor = guest.run("scherzoctl doctor", MOMENT)?;
    ensure!(doctor.status != 0, "the doctor finds nothing wrong");
    for part in parts {
        ensure!(doctor.stdout.contains(part), "the doctor does not say \"{part}\":\n{}", doctor.stdout);
    }
    println!("on {release} the doctor says:\n{}", doctor.stdout.trim());
    Ok(())
}
