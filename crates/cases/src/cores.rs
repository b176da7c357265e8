//! Fast and slow cores. The cores of a guest are alike: files mounted over those of the kernel describe some as slower.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::{Guest, Job};
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, UNIT, call, end_load, ensure_loaded, ensure_responsive, ensure_undisturbed, journal, wait_for_calm,
};
use scherzo_rig::shell::Shell;

/// The capacity of the slow CPUs; that of the others is 1024.
const SLOW_CAPACITY: u32 = 400;
/// The share of the work that must run on the intended cores, of what could run there.
const MIN_PART: f64 = 0.8;
/// The engine's warning if the kernel refused the scheduler that distinguishes kinds of cores.
const ALIKE_WARNING: &str = "taken for alike";

/// The CPUs of a guest: the first half is fast.
struct Cores {
    nr_cpus: usize,
    /// Cores, not threads.
    nr_fast: usize,
}

/// Ticks that user space ran on the CPUs of each kind.
struct TicksByCore {
    fast: u64,
    slow: u64,
}

/// The kernel accepts a scheduler that distinguishes fast and slow cores; under load, tasks that compute run on fast
/// ones.
pub(super) fn recognised(guest: &mut Guest) -> Result<()> {
    let cores = describe(guest)?;
    let loaded = ensure_loaded(guest)?;
    ensure_recognised(guest)?;
    // A standby engine uses CPU time while it prepares.
    wait_for_calm(guest)?;
    guest.check("stress-ng --cpu 4 --fork 2 --pipe 2 --timeout 3s --quiet", Duration::from_mins(1))?;
    ensure_fast_first(guest, &cores)?;
    ensure_responsive(guest)?;
    ensure_undisturbed(guest, &loaded)?;
    forget(guest, &cores)
}

/// In each mode, work runs on the cores that the mode prefers.
pub(super) fn placement(guest: &mut Guest) -> Result<()> {
    let cores = describe(guest)?;
    let loaded = ensure_loaded(guest)?;
    ensure_recognised(guest)?;
    // A standby engine uses CPU time while it prepares.
    wait_for_calm(guest)?;
    for mode in ["interactive", "fifo"] {
        call(guest, "SetMode", &format!("s {mode}"))?;
        ensure_fast_first(guest, &cores).context(mode)?;
        ensure_freed_are_used(guest, &cores).context(mode)?;
    }
    call(guest, "SetMode", "s low-power")?;
    ensure_packed_on_slow(guest, &cores).context("low-power")?;
    call(guest, "SetMode", "s auto")?;
    ensure_undisturbed(guest, &loaded)?;
    forget(guest, &cores)
}

/// With a task for each fast core, that is where they run.
fn ensure_fast_first(guest: &mut Guest, cores: &Cores) -> Result<()> {
    let hogs = start_hogs(guest, cores.nr_fast, "")?;
    let work = watch(guest, cores)?;
    end_load(guest, &hogs)?;
    ensure_part(work.fast, work.total(), "a hog per fast core: on fast ones")
}

/// Tasks that find the fast CPUs taken compute on slow ones, and move when these are free.
fn ensure_freed_are_used(guest: &mut Guest, cores: &Cores) -> Result<()> {
    let nr_fast_cpus = cores.nr_cpus / 2;
    let holders = start_hogs(guest, nr_fast_cpus, &format!("taskset -c 0-{}", nr_fast_cpus - 1))?;
    let hogs = start_hogs(guest, cores.nr_fast, "")?;
    let work = watch(guest, cores)?;
    let free_part = work.total() * cores.nr_fast as u64 / (cores.nr_fast + nr_fast_cpus) as u64;
    ensure_part(work.slow, free_part, "hogs that find the fast CPUs taken: on slow ones")?;
    end_load(guest, &holders)?;
    let work = watch(guest, cores)?;
    end_load(guest, &hogs)?;
    ensure_part(work.fast, work.total(), "hogs whose fast CPUs became free: on fast ones")
}

/// As many tasks as low-power keeps CPUs awake run on slow ones.
fn ensure_packed_on_slow(guest: &mut Guest, cores: &Cores) -> Result<()> {
    let hogs = start_hogs(guest, cores.nr_cpus / 4, "")?;
    let work = watch(guest, cores)?;
    end_load(guest, &hogs)?;
    ensure_part(work.slow, work.total(), "background work that is packed: on slow ones")
}

fn ensure_part(ticks: u64, of: u64, what: &str) -> Result<()> {
    let part = ticks as f64 / of as f64;
    say(&format!("{what} {:.0} %", 100.0 * part));
    ensure!(part >= MIN_PART, "{what} {:.0} % of the work", 100.0 * part);
    Ok(())
}

/// Says that the second half of the CPUs is slow, and restarts the service, which reads it when it loads.
fn describe(guest: &mut Guest) -> Result<Cores> {
    const FILE: &str = "/run/slow-capacity";
    let nr_cpus: usize = guest.check("nproc", MOMENT)?.parse()?;
    let siblings = for_each_cpu(0..nr_cpus / 2, "cat topology/thread_siblings_list");
    let nr_fast = guest.check(&format!("({siblings}) | sort -u | wc -l"), MOMENT)?.parse()?;
    guest.check(&format!("echo {SLOW_CAPACITY} >{FILE}"), MOMENT)?;
    guest.check(&for_each_cpu(nr_cpus / 2..nr_cpus, &format!("mount --bind {FILE} cpu_capacity")), MOMENT)?;
    restart(guest)?;
    Ok(Cores { nr_cpus, nr_fast })
}

/// The cores are alike again.
fn forget(guest: &mut Guest, cores: &Cores) -> Result<()> {
    guest.check(&for_each_cpu(cores.nr_cpus / 2..cores.nr_cpus, "umount cpu_capacity"), MOMENT)?;
    restart(guest)?;
    ensure_loaded(guest).map(drop)
}

/// Runs a command in the directory of each CPU.
fn for_each_cpu(cpus: Range<usize>, command: &str) -> String {
    let cpus: Vec<_> = cpus.map(|cpu| cpu.to_string()).collect();
    format!("set -e; for cpu in {}; do cd /sys/devices/system/cpu/cpu$cpu; {command}; done", cpus.join(" "))
}

fn restart(guest: &mut Guest) -> Result<()> {
    guest.check(&format!("systemctl restart {UNIT}"), MOMENT * 6).map(drop)
}

/// Where the kernel refuses the distinction, the engine treats all cores as alike, and the rest of the case would prove
/// less.
fn ensure_recognised(guest: &mut Guest) -> Result<()> {
    let invocation = guest.check(&format!("systemctl show --value -p InvocationID {UNIT}"), MOMENT)?;
    let log = guest.check(&format!("journalctl --no-pager -o cat _SYSTEMD_INVOCATION_ID={invocation}"), MOMENT)?;
    ensure!(!log.contains(ALIKE_WARNING), "the cores are not told apart{}", journal(guest));
    Ok(())
}

/// Tasks that compute until [`end_load`], started by way of `through`.
fn start_hogs(guest: &mut Guest, nr_hogs: usize, through: &str) -> Result<Job> {
    let hogs = guest.spawn(&format!("exec {through} stress-ng --cpu {nr_hogs} --cpu-method int64 --quiet"))?;
    guest.check("sleep 2", MOMENT)?;
    Ok(hogs)
}

/// The work of a few seconds, after a moment for tasks that have just started or ended.
fn watch(guest: &mut Guest, cores: &Cores) -> Result<TicksByCore> {
    let stat = guest.check("sleep 1; cat /proc/stat; sleep 4; cat /proc/stat", MOMENT)?;
    TicksByCore::between(&stat, cores.nr_cpus).with_context(|| format!("/proc/stat reads {stat}"))
}

impl TicksByCore {
    /// From two times the content of `/proc/stat`.
    fn between(stats: &str, nr_cpus: usize) -> Option<Self> {
        let of_cpus = stats.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        let user =
            of_cpus.map(|line| line.split_ascii_whitespace().nth(1)?.parse().ok()).collect::<Option<Vec<u64>>>()?;
        if user.len() != 2 * nr_cpus {
            return None;
        }
        let (before, after) = user.split_at(nr_cpus);
        let ticks: Vec<_> = before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before)).collect();
        let (fast, slow) = ticks.split_at(nr_cpus / 2);
        Some(Self { fast: fast.iter().sum(), slow: slow.iter().sum() })
    }

    fn total(&self) -> u64 {
        self.fast + self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_was_done_between() {
        let stat = |fast, slow| format!("cpu  9 9\ncpu0 {fast} 5 1\ncpu1 {slow} 5 1\nintr 7\n");
        let work = TicksByCore::between(&(stat(100, 40) + &stat(400, 140)), 2).unwrap();
        assert_eq!((work.fast, work.slow, work.total()), (300, 100, 400));
        assert!(TicksByCore::between(&stat(1, 1), 2).is_none());
    }
}
