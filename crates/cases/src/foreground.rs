//! The application in front weighs more, also where its control group has no cpu controller.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{call, property};
use scherzo_rig::shell::Shell;

use crate::frames::FrameFigures;
use crate::shares::{ShareFigures, TOLERANCE, bench, bench_beside_interactive, say_groups};

/// Of the CPU time of both scopes, by the default of `foreground_percent`.
const PART_IN_FRONT: f64 = 0.8;
/// Of all frames, that may be missed beyond those that a real-time game misses.
const MAX_MORE_MISSED_PERCENT: f64 = 1.0;
/// Most of a CPU: it sleeps too little to be prompt for that. The time that is left is several times what two wake-ups take here: with
/// frames of 12 of 16.7 ms even the real-time game missed between none and an eighth.
const GAME: &str = "frames --rate 30 --game-ms 24 --compositor-ms 1.5 --seconds 16";
const IN_FRONT: &str = "foreground ";
const FRONT: &str = "apps/front.scope";
const BEHIND: &str = "apps/behind.scope";
const LIMIT: Duration = Duration::from_mins(1);

/// Two scopes in a group that has the controller, with hogs in each.
pub(super) fn two_scopes(guest: &mut Guest) -> Result<()> {
    with_scopes(guest, |guest| front_while_it_lasts(guest, IN_FRONT))
}

/// The same where a hold names the group.
pub(super) fn held(guest: &mut Guest) -> Result<()> {
    with_scopes(guest, |guest| {
        front_while_it_lasts(guest, "hold --mode interactive --reason 'a game' --foreground=")?;
        let refused = guest.run("scherzoctl hold -m fifo -r gone --foreground=/apps/gone.scope sleep 60", LIMIT)?;
        ensure!(refused.status == 2 && refused.stderr.contains("no control group"), "{refused:?}");
        ensure!(property(guest, "Mode")? == "interactive", "a hold that was refused is in effect");
        Ok(())
    })
}

/// What is in front has its part while this command of `scherzoctl` runs, and no longer.
fn front_while_it_lasts(guest: &mut Guest, command: &str) -> Result<()> {
    // Holds decide nothing beside a choice, and end with a new one.
    call(guest, "SetMode", "s auto")?;
    put_in_front(guest, command)?;
    ensure_parts(guest, PART_IN_FRONT)?;
    guest.check("systemctl stop in-front", LIMIT)?;
    ensure_parts(guest, 0.5)
}

/// A game of long frames, beside two hogs per CPU in another scope.
pub(super) fn frames(guest: &mut Guest) -> Result<()> {
    with_scopes(guest, |guest| {
        let floor = missed_percent(guest, "--rt")?;
        put_in_front(guest, IN_FRONT)?;
        let missed = missed_percent(guest, "")?;
        guest.check("systemctl stop in-front", LIMIT)?;
        ensure!(missed <= floor + MAX_MORE_MISSED_PERCENT, "{missed} % of frames missed, {floor} % in real time");
        Ok(())
    })
}

/// Makes two control groups without the cpu controller, within one that has it, and removes them.
fn with_scopes(guest: &mut Guest, work: impl FnOnce(&mut Guest) -> Result<()>) -> Result<()> {
    let make = format!("echo +cpu >cgroup.subtree_control; mkdir -p {FRONT} {BEHIND}; test ! -e {FRONT}/cpu.weight");
    guest.check(&format!("cd /sys/fs/cgroup; {make}"), LIMIT)?;
    let outcome = work(guest);
    guest.check(&format!("cd /sys/fs/cgroup; rmdir {FRONT} {BEHIND} apps"), LIMIT)?;
    outcome
}

/// Until the unit `in-front` is stopped, by a command of `scherzoctl` that the path follows.
fn put_in_front(guest: &mut Guest, command: &str) -> Result<()> {
    guest.check(&format!("systemd-run -q --unit=in-front scherzoctl {command}/{FRONT}"), LIMIT)?;
    let read = "busctl get-property org.scherzo.Scheduler1 /org/scherzo/Scheduler1 org.scherzo.Scheduler1 Foreground";
    guest.check(&format!("until {read} | grep -q /{FRONT}; do sleep 0.1; done"), LIMIT)?;
    Ok(())
}

/// Hogs of the first scope get this part of what those of both get, and no group beside them is deprived of anything.
fn ensure_parts(guest: &mut Guest, part: f64) -> Result<()> {
    let groups = [format!("name=front,count=1/cpu,cgroup={FRONT}"), format!("name=behind,count=1/cpu,cgroup={BEHIND}")];
    let mut figures: ShareFigures = bench(guest, "scherzo-bench shares --seconds 4", &groups)?;
    let [front, behind] = figures.groups.as_mut_slice() else { bail!("not two groups: {figures:?}") };
    let used = front.cpus + behind.cpus;
    (front.share, behind.share) = (part * used, (1.0 - part) * used);
    say_groups(&figures.groups);
    figures.groups.iter().try_for_each(|group| group.ensure_share(TOLERANCE))
}

fn missed_percent(guest: &mut Guest, options: &str) -> Result<f64> {
    let game = format!("cd /sys/fs/cgroup/{FRONT}; echo $$ >cgroup.procs; exec scherzo-bench {GAME} {options}");
    let hogs = format!("name=hogs,count=2/cpu,cgroup={BEHIND}");
    let figures: FrameFigures = bench_beside_interactive(guest, &game, &[hogs])?;
    say(&format!("{options} {figures}"));
    say_groups(&figures.groups);
    Ok(figures.missed_percent)
}
