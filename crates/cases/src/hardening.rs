//! The restrictions of the systemd unit: they are strict, and the scheduler loads, runs and unloads under them.

use anyhow::{Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::service::{
    MOMENT, UNIT, call, engine_pid, ensure_loaded, ensure_undisturbed, standby_pid, statistics,
};
use scherzo_rig::shell::Shell;

/// What `systemd-analyze security` may find at most, times ten.
const MAX_EXPOSURE: u32 = 25;

/// The installed unit has a good rating, and the processes really run under it.
pub(super) fn unit(guest: &mut Guest) -> Result<()> {
    // The overall rating is the last line.
    let rate = format!("systemd-analyze security --no-pager --threshold={MAX_EXPOSURE} {UNIT} >/run/exposure");
    let rated = guest.run(&format!("{rate}; status=$?; tail -n 1 /run/exposure; exit $status"), MOMENT * 3)?;
    ensure!(rated.status == 0, "the unit is too open: {}{}", rated.stdout, rated.stderr);
    let loaded = ensure_loaded(guest)?;
    let daemon = guest.check(&format!("systemctl show --value -p MainPID {UNIT}"), MOMENT)?;
    for pid in [daemon, engine_pid(guest)?.to_string(), standby_pid(guest)?.to_string()] {
        let status = process_status(guest, &pid)?;
        let confined = status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2");
        ensure!(confined, "process {pid} is not confined: {status}");
    }
    ensure_undisturbed(guest, &loaded)
}

/// After loading, the engine has no capability left and still carries out every request.
pub(super) fn engine(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let pid = engine_pid(guest)?.to_string();
    let status = process_status(guest, &pid)?;
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        ensure!(status.contains(&format!("{set}:\t0000000000000000")), "the engine keeps rights: {status}");
    }
    for mode in ["fifo", "low-power", "auto"] {
        call(guest, "SetMode", &format!("s {mode}"))?;
    }
    let [faults, loops] = statistics(guest, ["nr_page_faults", "nr_loops"])?;
    ensure!(faults == 0 && loops > 0, "{faults} page faults, {loops} turns of the engine");
    ensure_undisturbed(guest, &loaded)
}

fn process_status(guest: &mut Guest, pid: &str) -> Result<String> {
    guest.check(&format!("cat /proc/{pid}/status"), MOMENT)
}
