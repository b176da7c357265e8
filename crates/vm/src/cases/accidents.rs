//! What happens to a machine in its life: the engine dies again and again, a package is upgraded, the machine restarts.
//! Afterwards everybody tells the same story, and what a person had chosen still counts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::agreement::ensure_agreement;
use super::people;
use super::service::{MOMENT, UNIT, call, ensure_loaded, ensure_responsive, journal, kernel, property, statistic};
use crate::guest::Guest;
use crate::image::SCRIPTS_DIR;
use crate::progress::say;
use crate::shell::Shell;

/// From the kill of an engine until the service says that the next one's scheduler runs, beyond the time that loading
/// takes by itself: a fraction of a second on hardware, but some seconds where the checks of the kernel are emulated.
const MAX_ADDED_MS: u64 = 1_000;
const NR_KILLS: u32 = 200;
/// While all CPUs wait for the disk, virtual time leaps: the state is in memory while recoveries are timed.
const STATE_DIRECTORY: &str = "/var/lib/scherzo";

/// The engine is killed two hundred times, at moments of chance.
pub(super) fn two_hundred_kills(guest: &mut Guest) -> Result<()> {
    let in_memory = format!("mount -t tmpfs tmpfs {STATE_DIRECTORY} && systemctl start {UNIT}");
    guest.check(&format!("systemctl stop {UNIT}; mkdir -p {STATE_DIRECTORY} && {in_memory}"), MOMENT * 3)?;
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let limit = Duration::from_secs(30 + 4 * u64::from(NR_KILLS));
    let figures = guest.check(&format!("python3 {SCRIPTS_DIR}/kills.py {NR_KILLS} 1"), limit)?;
    let [nr_kills, median_ms, longest_ms] = parse(&figures).with_context(|| format!("the figures read {figures}"))?;
    let load_ms = statistic(guest, "load_us")? / 1_000;
    say(&format!(
        "{nr_kills} kills of the engine: back after {median_ms} ms (median), {longest_ms} ms at most; \
         loading alone takes {load_ms} ms"
    ));
    ensure!(longest_ms <= load_ms + MAX_ADDED_MS, "back only after {longest_ms} ms{}", journal(guest));
    ensure_agreement(guest, "running", "fifo", "choice")?;
    call(guest, "SetMode", "s auto")?;
    let on_disk = format!("systemctl stop {UNIT} && umount {STATE_DIRECTORY} && systemctl start {UNIT}");
    guest.check(&on_disk, MOMENT * 3).map(drop)
}

fn parse<const N: usize>(figures: &str) -> Option<[u64; N]> {
    let numbers: Result<Vec<_>, _> = figures.split(' ').map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}

/// A package is upgraded while the scheduler runs, the way its scripts do it: files are replaced, units read anew, the
/// service started anew. Wish and choice stay.
pub(super) fn upgrade(guest: &mut Guest) -> Result<()> {
    let before = ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let daemon = main_pid(guest)?;
    let replace = "for file in /usr/libexec/scherzod /usr/libexec/scherzo-engine /usr/bin/scherzoctl \
                   /usr/lib/systemd/system/scherzod.service /usr/share/dbus-1/system.d/org.scherzo.Scheduler1.conf; do \
                   cp -p $file $file.new && mv $file.new $file || exit 1; done";
    guest.check(replace, MOMENT)?;
    // Its files are other files now: until it is started anew it goes on with the old ones.
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure!(kernel(guest)? == before, "replacing files has disturbed the scheduler{}", journal(guest));
    guest.check(&format!("systemctl daemon-reload && systemctl try-restart {UNIT}"), MOMENT * 3)?;
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure!(main_pid(guest)? != daemon, "the service was not started anew");
    let after = kernel(guest)?;
    ensure!(after.enable_seq == before.enable_seq + 1, "loaded {} times", after.enable_seq - before.enable_seq);
    call(guest, "SetMode", "s auto").map(drop)
}

/// After a start of the machine it waits until a person logs in; then wish and choice are as they were.
pub(super) fn reboot(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    // Longer than any start takes, so that it is the person who ends the wait.
    guest.check("scherzoctl config set boot_delay_s 600", MOMENT)?;
    guest.check(&format!("systemctl enable {UNIT}"), MOMENT)?;
    guest.reboot()?;
    ensure!(property(guest, "Enabled")? == "true", "the wish was forgotten");
    ensure_agreement(guest, "starting", "fifo", "boot-delay")?;
    let logged_in = people::at_the_machine(guest, "true")?;
    ensure!(logged_in.status == 0, "nobody can log in: {}{}", logged_in.stdout, logged_in.stderr);
    ensure_agreement(guest, "running", "fifo", "choice")?;
    ensure_responsive(guest)
}

fn main_pid(guest: &mut Guest) -> Result<String> {
    guest.check(&format!("systemctl show --value -p MainPID {UNIT}"), MOMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_many_as_expected() {
        assert_eq!(parse("200 310 840"), Some([200, 310, 840]));
        assert_eq!(parse::<3>("200 310"), None);
        assert_eq!(parse::<1>("late"), None);
    }
}
