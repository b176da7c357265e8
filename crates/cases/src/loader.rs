//! How long a change takes with scx_loader, which ends one scheduler and starts another, and how long with Scherzo.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, change_modes_command, ensure_loaded, ensure_unloaded, keep_state_in_memory, wait_for_calm, wait_until,
};
use scherzo_rig::shell::Shell;

/// The group, whose guests have the programs of [`PROGRAM_DIRECTORY`] beside the product.
pub const LOADER_GROUP: &str = "beside scx_loader";
/// Where scx_loader and the scheduler that it starts are in those guests.
pub const PROGRAM_DIRECTORY: &str = "/usr/lib/scherzo-rig";
/// That scheduler.
const LOADED_SCHEDULER: &str = "scx_bpfland";

const LOADER: &str = "org.scx.Loader /org/scx/Loader org.scx.Loader";
/// Its modes of gaming and of saving power; 0 is the usual one.
const LOADER_MODES: [u32; 3] = [1, 2, 1];
const NR_CHANGES: u32 = 20;
/// How many times as long as the longest change of ours scx_loader takes at least; 570 is seen.
const MIN_RATIO: f64 = 250.0;
const LIMIT: Duration = Duration::from_mins(2);

/// What its packages install: it may have its name on the bus, and anybody may ask it, as polkit says.
const INSTALL: &str = r#"cat >/etc/dbus-1/system.d/org.scx.Loader.conf <<'END'
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <policy user="root"><allow own="org.scx.Loader"/></policy>
  <policy context="default"><allow send_destination="org.scx.Loader"/></policy>
</busconfig>
END
cat >/usr/share/polkit-1/actions/org.scx.Loader.policy <<'END'
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE policyconfig PUBLIC "-//freedesktop//DTD PolicyKit Policy Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/PolicyKit/1/policyconfig.dtd">
<policyconfig>
  <action id="org.scx.loader.manage-schedulers">
    <description>Choose a scheduler</description>
    <message>Choose a scheduler</message>
    <defaults><allow_any>yes</allow_any><allow_inactive>yes</allow_inactive><allow_active>yes</allow_active></defaults>
  </action>
</policyconfig>
END
busctl --system call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig"#;

/// The longest change of Scherzo's mode, beside the shortest of a scheduler's by scx_loader.
pub(super) fn change_of_mode(guest: &mut Guest) -> Result<()> {
    keep_state_in_memory(guest)?;
    ensure_unloaded(guest)?;
    guest.check(INSTALL, MOMENT)?;
    let loader = guest.spawn(&format!("PATH={PROGRAM_DIRECTORY}:$PATH exec scx_loader"))?;
    let theirs = times_of_loader(guest);
    guest.kill(&loader)?;
    let theirs = theirs?;
    ensure_loaded(guest)?;
    wait_for_calm(guest)?;
    guest.check(&change_modes_command(NR_CHANGES, Duration::ZERO), LIMIT)?;
    let printed = guest.check(&change_modes_command(NR_CHANGES, Duration::ZERO), LIMIT)?;
    let longest_us: f64 = printed.split(' ').nth(1).context("no times were printed")?.parse()?;
    compare(&theirs, longest_us / 1e3)
}

fn compare(theirs_ms: &[f64], ours_ms: f64) -> Result<()> {
    say(&format!("a change of mode takes {ours_ms:.0} ms at most; scx_loader took {theirs_ms:.0?} ms"));
    let shortest_ms = theirs_ms.iter().copied().fold(f64::INFINITY, f64::min);
    ensure!(
        shortest_ms >= MIN_RATIO * ours_ms,
        "a change of mode takes {ours_ms:.1} ms: scx_loader's {shortest_ms:.0} is not {MIN_RATIO} times as much"
    );
    Ok(())
}

/// Milliseconds from the call until the scheduler is loaded anew, of each change.
fn times_of_loader(guest: &mut Guest) -> Result<Vec<f64>> {
    let is_there =
        |shell: &mut dyn Shell| Ok(shell.run(&format!("busctl --system introspect {LOADER}"), MOMENT)?.status == 0);
    wait_until(guest, "scx_loader is on the bus", MOMENT, is_there)?;
    // Not counted: it reads the scheduler from the disk.
    change_ms(guest, "StartScheduler", 0)?;
    let times = LOADER_MODES.iter().map(|mode| change_ms(guest, "SwitchScheduler", *mode)).collect();
    guest.check(&format!("busctl --system call {LOADER} StopScheduler"), MOMENT)?;
    wait_until(guest, "scx_loader has stopped the scheduler", LIMIT, |shell| {
        Ok(shell.check("cat /sys/kernel/sched_ext/state", MOMENT)? == "disabled")
    })?;
    times
}

fn change_ms(guest: &mut Guest, member: &str, mode: u32) -> Result<f64> {
    // After a second, in which the last change comes to rest.
    let timed = format!(
        "cd /sys/kernel/sched_ext && sleep 1 && before=$(cat enable_seq) && start=$(date +%s%N) && \
         busctl --system call {LOADER} {member} su {LOADED_SCHEDULER} {mode} && \
         while [ $(cat enable_seq) = $before ] || [ $(cat state) != enabled ]; do sleep 0.01; done && \
         echo $((($(date +%s%N) - start) / 1000))"
    );
    Ok(guest.check(&timed, LIMIT)?.trim().parse::<f64>().context("no time was printed")? / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_theirs_counts() {
        compare(&[2_400.0, 1_260.0], 5.0).unwrap();
        let refusal = compare(&[2_400.0, 1_240.0], 5.0).unwrap_err().to_string();
        assert_eq!(refusal, "a change of mode takes 5.0 ms: scx_loader's 1240 is not 250 times as much");
    }
}
