//! The engine is killed repeatedly at random moments; each time the scheduler is back within a second.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agreement::ensure_agreement;
use scherzo_rig::guest::Guest;
use scherzo_rig::image::SCRIPTS_DIR;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, call, engine_pid, ensure_loaded, ensure_responsive, ensure_unloaded, journal, keep_state_in_memory,
    property, standby_pid, standby_pids, statistic, wait_for_state, wait_until,
};
use scherzo_rig::shell::Shell;

const NR_KILLS: u32 = 200;
/// The moments are the same ones in every run.
const SEED: u32 = 1;
/// From a kill until the service says that the next engine's scheduler runs, loading included: the standby engine has
/// done the slow part beforehand. If it is killed while it starts there is no standby engine, and a full load is
/// allowed for on top: a fraction of a second on hardware, some seconds where the kernel's verifier is emulated.
const MAX_BACK_MS: u64 = 1_000;
/// For a kill, its recovery and the pause before the next one; on real hardware.
const KILL_LIMIT: Duration = Duration::from_secs(8);

/// The engine is killed two hundred times. Between a recovery and the next kill are 2 to 6 seconds, in which a standby
/// engine gets ready; one time in ten the next engine is killed as well, while it starts.
pub(super) fn two_hundred(guest: &mut Guest) -> Result<()> {
    keep_state_in_memory(guest)?;
    let full_load_ms = load_without_standby(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let lines = guest.check(&format!("python3 {SCRIPTS_DIR}/kills.py {NR_KILLS} {SEED}"), KILL_LIMIT * NR_KILLS)?;
    let recoveries = parse(&lines).with_context(|| format!("the recoveries read {lines}"))?;
    say(&summary(&recoveries, full_load_ms));
    let late: Vec<_> =
        recoveries.iter().filter(|recovery| recovery.took_ms > recovery.limit_ms(full_load_ms)).collect();
    ensure!(late.is_empty(), "back late: {late:?}{}", journal(guest));
    ensure_agreement(guest, "running", "fifo", "choice")?;
    call(guest, "SetMode", "s auto").map(drop)
}

/// How long a standby engine may take until it is prepared.
const PREPARATION: Duration = Duration::from_secs(20);
/// Most memory of a standby engine and its BPF objects. They take 9 MiB: what preparing took is given back.
const MAX_STANDBY_KIB: u64 = 14 << 10;

/// After one kill the standby engine, which takes little memory, takes over and another one is started. None is left
/// when the scheduler is turned off.
pub(super) fn one(guest: &mut Guest) -> Result<()> {
    keep_state_in_memory(guest)?;
    ensure_loaded(guest)?;
    let standby = standby_pid(guest)?;
    ensure_frugal(guest, standby)?;
    let line = guest.check(&format!("python3 {SCRIPTS_DIR}/kills.py 1 {SEED}"), KILL_LIMIT * 2)?;
    let recovery = parse(&line).and_then(|all| all.first().copied()).with_context(|| format!("it reads {line}"))?;
    say(&format!("back after {} ms, of which loading {}", recovery.took_ms, recovery.load_ms));
    ensure!(engine_pid(guest)? == standby, "the standby engine {standby} did not take over");
    ensure!(recovery.took_ms <= MAX_BACK_MS, "back only after {recovery:?}{}", journal(guest));
    ensure!(standby_pid(guest)? != standby, "no other standby engine was started");
    ensure_unloaded(guest)?;
    wait_until(guest, "no standby engine is left", MOMENT, |shell| Ok(standby_pids(shell)?.is_empty()))
}

/// CPUs go offline and return while the standby engine waits: the kernel refuses what it has prepared. It can load nothing any
/// more, so that another engine takes its place; nothing went wrong, and nothing is recorded but the kill.
pub(super) fn one_after_hotplug(guest: &mut Guest) -> Result<()> {
    const CPU: &str = "/sys/devices/system/cpu/cpu1/online";
    ensure_loaded(guest)?;
    let (engine, standby) = (engine_pid(guest)?, standby_pid(guest)?);
    guest.check(&format!("sleep 5; echo 0 >{CPU}; echo 1 >{CPU}; kill -9 {engine}"), MOMENT)?;
    wait_until(guest, "a third engine takes over", MOMENT, |shell| {
        Ok(engine_pid(shell).is_ok_and(|pid| ![engine, standby].contains(&pid)))
    })?;
    wait_for_state(guest, "running", MOMENT)?;
    ensure!(standby_pid(guest)? != standby, "the outdated engine is still there{}", journal(guest));
    let error = property(guest, "LastError")?;
    ensure!(error.contains("killed"), "LastError is not about the kill: {error}");
    ensure_responsive(guest)
}

fn ensure_frugal(guest: &mut Guest, standby: u32) -> Result<()> {
    // It is named standby from the beginning, and still prepares: what that takes is given back at the end.
    guest.check("sleep 5", MOMENT)?;
    let sum = "awk '{ s += $2 } END { print s + 0 }'";
    wait_until(guest, "a standby engine takes little memory", PREPARATION, |shell| {
        let own_kib: u64 = shell.check(&format!("grep ^Pss: /proc/{standby}/smaps_rollup | {sum}"), MOMENT)?.parse()?;
        let bpf: u64 =
            shell.check(&format!("cat /proc/{standby}/fdinfo/* | grep ^memlock: | {sum}"), MOMENT)?.parse()?;
        let bpf_kib = bpf >> 10;
        say(&format!("a standby engine: {own_kib} KiB of its own, {bpf_kib} KiB of BPF objects"));
        Ok(bpf_kib > 0 && own_kib + bpf_kib <= MAX_STANDBY_KIB)
    })
}

/// How long loading takes from the beginning, when all files have been read before.
fn load_without_standby(guest: &mut Guest) -> Result<u64> {
    ensure_loaded(guest)?;
    ensure_unloaded(guest)?;
    ensure_loaded(guest)?;
    Ok(statistic(guest, "load_us")? / 1_000)
}

/// What `kills.py` prints of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recovery {
    nr_kills: u64,
    took_ms: u64,
    load_ms: u64,
}

impl Recovery {
    /// The engine that should have come back was killed as well.
    fn is_second(&self) -> bool {
        self.nr_kills > 1
    }

    fn limit_ms(&self, full_load_ms: u64) -> u64 {
        MAX_BACK_MS + if self.is_second() { full_load_ms } else { 0 }
    }
}

fn parse(lines: &str) -> Option<Vec<Recovery>> {
    let recovery = |line: &str| {
        let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        let [nr_kills, took_ms, load_ms] = numbers.ok()?.try_into().ok()?;
        Some(Recovery { nr_kills, took_ms, load_ms })
    };
    lines.lines().map(recovery).collect()
}

fn summary(recoveries: &[Recovery], full_load_ms: u64) -> String {
    let (second, first): (Vec<_>, Vec<_>) = recoveries.iter().partition(|recovery| recovery.is_second());
    let took = |some: &[Recovery]| spread(some.iter().map(|one| one.took_ms));
    format!(
        "{} kills of the engine; back after a pause, {} times: median/p99/longest {} ms, of which loading {}; after another \
         kill at once, {} times: {} ms; without a standby engine loading takes {full_load_ms} ms",
        recoveries.iter().map(|one| one.nr_kills).sum::<u64>(),
        first.len(),
        took(&first),
        spread(first.iter().map(|one| one.load_ms)),
        second.len(),
        took(&second),
    )
}

/// Median, 99th percentile and maximum.
fn spread(values: impl Iterator<Item = u64>) -> String {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    let at = |percent: usize| values.get(last * percent / 100).copied().unwrap_or_default();
    format!("{}/{}/{}", at(50), at(99), at(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recoveries_are_read_line_by_line() {
        let recoveries = [
            Recovery { nr_kills: 1, took_ms: 310, load_ms: 210 },
            Recovery { nr_kills: 2, took_ms: 690, load_ms: 290 },
        ];
        assert_eq!(parse("1 310 210\n2 690 290").unwrap(), recoveries);
        assert_eq!(parse("1 310 210\n2 690"), None);
        let said = "3 kills of the engine; back after a pause, 1 times: median/p99/longest 310/310/310 ms, of which loading \
                    210/210/210; after another kill at once, 1 times: 690/690/690 ms; without a standby engine loading takes \
                    1300 ms";
        assert_eq!(summary(&recoveries, 1_300), said);
    }

    #[test]
    fn only_after_a_second_kill_loading_from_the_beginning_is_allowed_for() {
        let of = |nr_kills| Recovery { nr_kills, took_ms: 0, load_ms: 0 }.limit_ms(1_300);
        assert_eq!((of(1), of(2)), (1_000, 2_300));
    }

    #[test]
    fn spreads_are_of_sorted_values() {
        assert_eq!(spread((0..=100).rev()), "50/99/100");
        assert_eq!(spread(std::iter::empty()), "0/0/0");
    }
}
