//! Power cuts while the scheduler runs, on file systems that keep changes in memory for long: the service that starts for the
//! third time knows of both, and loads nothing.

use std::time::Duration;

use anyhow::{Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::image::NO_DIRECTORY_SYNC_PATH;
use scherzo_rig::progress::say;
use scherzo_rig::service::{MOMENT, UNIT, ensure_loaded, journal, property, wait_for_state, wait_until};
use scherzo_rig::shell::Shell;

/// Most time from the start of the system to a loaded scheduler, or to the decision not to load.
const LOADED_LIMIT: Duration = Duration::from_mins(1);

const FILE_SYSTEMS: [&str; 2] = [BTRFS, XFS];
const BTRFS: &str = "btrfs";
const XFS: &str = "xfs";
/// State and reason of a service that knows of both.
const GUARDED: &str = "fallback unclean-boots";

pub(super) fn btrfs(guest: &mut Guest) -> Result<()> {
    ensure_guarded(guest, BTRFS)
}

pub(super) fn xfs(guest: &mut Guest) -> Result<()> {
    ensure_guarded(guest, XFS)
}

fn ensure_guarded(guest: &mut Guest, file_system: &str) -> Result<()> {
    let said = after_two_power_cuts(guest, file_system, "")?;
    ensure!(said == GUARDED, "after two power cuts it says {said}{}", journal(guest));
    Ok(())
}

/// Without synchronising the directory what was renamed is lost on one of them at least: so the cases above can fail.
pub(super) fn without_directory_sync(guest: &mut Guest) -> Result<()> {
    let preload = format!("Environment=LD_PRELOAD={NO_DIRECTORY_SYNC_PATH}");
    let mut nr_guarded = 0;
    for file_system in FILE_SYSTEMS {
        let said = after_two_power_cuts(guest, file_system, &preload)?;
        say(&format!("{file_system} without synchronising the directory: after two power cuts it says {said}"));
        nr_guarded += usize::from(said == GUARDED);
    }
    ensure!(nr_guarded < FILE_SYSTEMS.len(), "no file system has lost what was renamed last");
    Ok(())
}

/// State and reason after two power cuts, each two seconds after the scheduler was loaded. The service's unit has `line` besides.
fn after_two_power_cuts(guest: &mut Guest, file_system: &str, line: &str) -> Result<String> {
    prepare(guest, file_system, line)?;
    for _ in 0..2 {
        wait_for_state(guest, "running", LOADED_LIMIT)?;
        guest.check("sleep 2", MOMENT)?;
        guest.cut_off()?;
    }
    wait_until(guest, "the service has decided", LOADED_LIMIT, |shell| {
        Ok(property(shell, "State").is_ok_and(|state| state != "starting"))
    })?;
    Ok(format!("{} {}", property(guest, "State")?, property(guest, "Reason")?))
}

/// Puts what the service keeps on a new file system, and starts the service with the scheduler turned on. All but what it does
/// then is on the disks.
fn prepare(guest: &mut Guest, file_system: &str, line: &str) -> Result<()> {
    let mount = format!(
        "systemctl stop {UNIT}; umount -q /var/lib/scherzo
        modprobe {file_system} && mkfs.{file_system} -f -q /dev/vdc && mkdir -p /var/lib/scherzo || exit 1
        echo '/dev/vdc /var/lib/scherzo {file_system} defaults 0 0' >/etc/fstab
        mkdir -p /etc/systemd/system/{UNIT}.d
        printf '[Service]\n%s\n' '{line}' >/etc/systemd/system/{UNIT}.d/power-cut.conf
        systemctl daemon-reload && mount /var/lib/scherzo && systemctl enable {UNIT} && systemctl start {UNIT}"
    );
    guest.check(&mount, MOMENT * 3)?;
    guest.check("scherzoctl config set boot_delay_s 1", MOMENT)?;
    ensure_loaded(guest)?;
    guest.check(&format!("systemctl stop {UNIT}; sync; systemctl start {UNIT}"), MOMENT * 3).map(drop)
}
