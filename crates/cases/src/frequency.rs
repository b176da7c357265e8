//! CPUs whose frequency is what the scheduler asks for. Those of a guest have none: a copy of the kernel's files, mounted over them,
//! says that the governor schedutil can be had.

use anyhow::{Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::service::{MOMENT, UNIT, end_load, ensure_loaded, ensure_responsive, ensure_undisturbed, start_load};
use scherzo_rig::shell::Shell;

/// Where the kernel describes its CPUs.
const CPUS: &str = "/sys/devices/system/cpu";
const COPY: &str = "/run/cpus-with-frequencies";
/// Asks the kernel for a frequency.
const REQUEST: &str = "scx_bpf_cpuperf_set";

/// Nothing is asked for where nobody listens. Where schedutil can be had the kernel accepts a scheduler that asks, and it works.
pub(super) fn asked_for(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    ensure!(!asks(guest)?, "frequencies are asked for, although no CPU has any");
    let files = format!("cp -r {CPUS} {COPY} 2>/dev/null; cd {COPY}/cpu0 && mkdir cpufreq");
    let governors = "echo performance schedutil >cpufreq/scaling_available_governors";
    guest.check(&format!("({files} && {governors}) && mount --bind {COPY} {CPUS}"), MOMENT)?;
    let outcome = ensure_asked(guest);
    guest.check(&format!("umount {CPUS} && rm -r {COPY} && systemctl restart {UNIT}"), MOMENT * 3)?;
    outcome
}

fn ensure_asked(guest: &mut Guest) -> Result<()> {
    guest.check(&format!("systemctl restart {UNIT}"), MOMENT * 3)?;
    let loaded = ensure_loaded(guest)?;
    ensure!(asks(guest)?, "no frequency is asked for");
    let load = start_load(guest)?;
    ensure_responsive(guest)?;
    end_load(guest, &load)?;
    ensure_undisturbed(guest, &loaded)
}

/// The program that runs when a task starts, as the verifier left it.
fn asks(guest: &mut Guest) -> Result<bool> {
    let programs = guest.check("bpftool prog dump xlated name scherzo_running", MOMENT)?;
    ensure!(programs.contains("exit"), "bpftool says {programs:?}");
    Ok(programs.contains(REQUEST))
}
