//! The service for ten minutes of the guest's clock: what happens to it, in an order that a seed decides. After each step state,
//! mode, reason, what is stored and the kernel agree.
//!
//! `SCHERZO_SOAK_MINUTES` and `SCHERZO_SOAK_SEED` say otherwise.

use std::env;

use anyhow::{Context, Result, ensure};

use crate::agreement::{ensure_agreement, service_report};
use scherzo_rig::guest::Guest;
use scherzo_rig::image::SCRIPTS_DIR;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, UNIT, call, engine_pid, ensure_loaded, ensure_unloaded, journal, property, wait_until,
};
use scherzo_rig::shell::Shell;

use crate::{survival, system_events};

const DEFAULT_MINUTES: u64 = 10;
const STATE_FILE: &str = "/var/lib/scherzo/state.toml";
/// In `LastError`.
const NOT_STORED: &str = "cannot write its files";
/// The system is suspended once: see [`system_events::suspend`].
const SUSPENDED_AT: usize = 5;

/// What a person wants, which is to be so after each step.
struct Wish {
    mode: &'static str,
    /// Mode and reason if nobody has chosen.
    automatic: (String, String),
}

impl Wish {
    fn decision(&self) -> (&str, &str) {
        if self.mode == "auto" { (&self.automatic.0, &self.automatic.1) } else { (self.mode, "choice") }
    }
}

type Accident = fn(&mut Guest, &mut Wish, &mut Chance) -> Result<()>;

const STEPS: &[(&str, Accident)] = &[
    ("a mode is chosen", choose),
    ("it is turned off and on", turn_off_and_on),
    ("the engine is killed", kill_engine),
    ("the service is killed", kill_service),
    ("the configuration is read again", reload),
    ("a flood", flood),
    ("the disk is full", fill_disk),
];

pub(super) fn service(guest: &mut Guest) -> Result<()> {
    let minutes = from_environment("SCHERZO_SOAK_MINUTES").unwrap_or(DEFAULT_MINUTES);
    let seed = from_environment("SCHERZO_SOAK_SEED").unwrap_or(u64::from(std::process::id()));
    say(&format!("{minutes} minutes with SCHERZO_SOAK_SEED={seed}"));
    let (mut chance, mut wish) = (Chance(seed), prepare(guest)?);
    let end_s = uptime_s(guest)? + minutes * 60;
    let mut nr_steps = 0;
    while uptime_s(guest)? < end_s {
        let (name, step) = STEPS[chance.below(STEPS.len())];
        step(guest, &mut wish, &mut chance)
            .and_then(|()| ensure_all_agree(guest, &wish))
            .with_context(|| format!("step {nr_steps}, {name}{}", journal(guest)))?;
        nr_steps += 1;
        if nr_steps == SUSPENDED_AT {
            // It ends with nothing chosen.
            wish.mode = "auto";
            system_events::suspend(guest)
                .and_then(|()| ensure_all_agree(guest, &wish))
                .context("suspend and resume")?;
        }
    }
    say(&format!("{nr_steps} steps in {minutes} minutes of the guest's clock"));
    call(guest, "SetMode", "s auto").map(drop)
}

fn ensure_all_agree(guest: &mut Guest, wish: &Wish) -> Result<()> {
    let (mode, reason) = wish.decision();
    ensure_agreement(guest, "running", mode, reason)?;
    ensure_stored(guest, wish)?;
    survival::ensure_sound(guest)
}

/// A small disk of its own for what is kept, and the scheduler turned on.
fn prepare(guest: &mut Guest) -> Result<Wish> {
    let mount = "mkdir -p /var/lib/scherzo && mount -t tmpfs -o size=2M tmpfs /var/lib/scherzo";
    guest.check(&format!("systemctl stop {UNIT}; {mount} && systemctl start {UNIT}"), MOMENT * 6)?;
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    let report = service_report(guest)?;
    Ok(Wish { mode: "auto", automatic: (report.mode, report.reason) })
}

fn ensure_stored(guest: &mut Guest, wish: &Wish) -> Result<()> {
    let wanted = [format!("mode = \"{}\"", wish.mode), "enabled = true".to_owned()];
    wait_until(guest, "what was chosen is stored", MOMENT, |shell| {
        let stored = shell.run(&format!("cat {STATE_FILE}"), MOMENT)?.stdout;
        Ok(wanted.iter().all(|line| stored.contains(line)))
    })
}

fn choose(guest: &mut Guest, wish: &mut Wish, chance: &mut Chance) -> Result<()> {
    const MODES: [&str; 4] = ["auto", "interactive", "fifo", "low-power"];
    wish.mode = MODES[chance.below(MODES.len())];
    call(guest, "SetMode", &format!("s {}", wish.mode)).map(drop)
}

fn turn_off_and_on(guest: &mut Guest, wish: &mut Wish, _: &mut Chance) -> Result<()> {
    ensure_unloaded(guest)?;
    let report = service_report(guest)?;
    ensure!(report.state == "stopped", "turned off it says {report}");
    let (mode, _) = wish.decision();
    ensure!(report.mode == mode, "turned off it says {report}");
    ensure_loaded(guest).map(drop)
}

fn kill_engine(guest: &mut Guest, _: &mut Wish, _: &mut Chance) -> Result<()> {
    let engine = engine_pid(guest)?;
    guest.check(&format!("kill -9 {engine}"), MOMENT)?;
    wait_until(guest, "another engine", MOMENT * 2, |shell| Ok(engine_pid(shell).is_ok_and(|pid| pid != engine)))
}

fn kill_service(guest: &mut Guest, _: &mut Wish, _: &mut Chance) -> Result<()> {
    let main_pid = format!("systemctl show --value -p MainPID {UNIT}");
    let before = guest.check(&main_pid, MOMENT)?;
    guest.check(&format!("kill -9 {before}"), MOMENT)?;
    wait_until(guest, "another service", MOMENT * 2, |shell| {
        let now = shell.check(&main_pid, MOMENT)?;
        Ok(now != before && now != "0")
    })
}

fn reload(guest: &mut Guest, _: &mut Wish, _: &mut Chance) -> Result<()> {
    guest.check(&format!("systemctl reload {UNIT}"), MOMENT * 3).map(drop)
}

fn flood(guest: &mut Guest, _: &mut Wish, _: &mut Chance) -> Result<()> {
    guest.check(&format!("python3 {SCRIPTS_DIR}/floods.py --for 2"), MOMENT * 3).map(drop)
}

/// What is chosen while the disk is full is in effect, told not to last, and stored when there is room again.
fn fill_disk(guest: &mut Guest, wish: &mut Wish, chance: &mut Chance) -> Result<()> {
    const FILLING: &str = "/var/lib/scherzo/filling";
    guest.check(&format!("dd if=/dev/zero of={FILLING} bs=4k 2>/dev/null; true"), MOMENT)?;
    let before = wish.mode;
    while wish.mode == before {
        choose(guest, wish, chance)?;
    }
    let (mode, reason) = wish.decision();
    ensure_agreement(guest, "running", mode, reason)?;
    let error = property(guest, "LastError")?;
    ensure!(error.contains(NOT_STORED), "the disk is full, and LastError says \"{error}\"");
    guest.check(&format!("rm {FILLING}"), MOMENT)?;
    wait_until(guest, "all is stored", MOMENT * 2, |shell| Ok(!property(shell, "LastError")?.contains(NOT_STORED)))
}

fn uptime_s(guest: &mut Guest) -> Result<u64> {
    Ok(guest.check("cut -d. -f1 /proc/uptime", MOMENT)?.parse()?)
}

fn from_environment(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Numbers that look random, the same ones for a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_order_and_every_step_has_its_turn() {
        let order = |seed| {
            let mut chance = Chance(seed);
            (0..100).map(|_| chance.below(STEPS.len())).collect::<Vec<_>>()
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        assert!((0..STEPS.len()).all(|step| order(7).contains(&step)));
    }
}
