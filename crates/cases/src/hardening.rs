//! The restrictions of the systemd unit: they are strict, and the scheduler loads, runs and unloads under them.

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, UNIT, call, engine_pid, ensure_loaded, ensure_undisturbed, standby_pid, statistics, wait_for_calm,
    wait_for_state, wait_until,
};
use scherzo_rig::shell::Shell;

/// What `systemd-analyze security` may find at most, times ten.
const MAX_EXPOSURE: u32 = 25;

/// Where the guest has it.
const ENGINE_PATH: &str = "/usr/libexec/scherzo-engine";
/// The number of that error, as the engine prints it.
const EPERM: &str = "1";
const SIGTERM: i32 = 15;

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

/// Filters of system calls: the standby engine has one more than the service, the engine two, and each stage denies what it
/// should, whoever asks. The ends of a process that are not in other cases work under them.
pub(super) fn filters(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let daemon = guest.check(&format!("systemctl show --value -p MainPID {UNIT}"), MOMENT)?.trim().parse()?;
    let (engine, standby) = (engine_pid(guest)?, standby_pid(guest)?);
    wait_until(guest, "the standby engine is prepared", MOMENT, |shell| {
        Ok(nr_filters(shell, standby)? > nr_filters(shell, daemon)?)
    })?;
    let [daemon, standby, engine] =
        [nr_filters(guest, daemon)?, nr_filters(guest, standby)?, nr_filters(guest, engine)?];
    let numbers = [standby.saturating_sub(daemon), engine.saturating_sub(daemon)];
    ensure!(numbers == [1, 2], "filters more than the service's {daemon}: {numbers:?}");
    let tried = guest.check(&format!("{ENGINE_PATH} --try-filters"), MOMENT)?;
    let wrong: Vec<_> = tried.lines().filter(|line| !is_as_expected(line)).collect();
    ensure!(wrong.is_empty() && tried.lines().count() >= 50, "{wrong:?} of {tried}");
    let panicked = guest.run(&format!("{ENGINE_PATH} --try-filters panic 2>&1 >/dev/null"), MOMENT)?;
    ensure!(panicked.status == 101 && panicked.stdout.contains("as asked"), "a panic: {panicked:?}");
    let signalled = guest.run(&format!("{ENGINE_PATH} --try-filters signal >/dev/null"), MOMENT)?;
    ensure!(signalled.status == 128 + SIGTERM, "an end by a signal: {signalled:?}");
    ensure_undisturbed(guest, &loaded)
}

/// More tasks than the kernel counts otherwise with that little memory, and how many there are: as many as the engine has slots for.
/// The memory that the scheduler has of each is the unit's.
const MANY_TASKS: &str = "sysctl -q kernel.threads-max=100000; exec python3 -c '
import os, _thread
os.fork(), os.fork()
_thread.stack_size(65536)
held = _thread.allocate_lock()
held.acquire()
for _ in range(8192): _thread.start_new_thread(held.acquire, ())
held.acquire()'";
const NR_MANY_TASKS: u64 = 32_768;

/// With as many possible CPUs as are supported, and with many tasks, service and engines take half of what the unit allows them,
/// also while one engine replaces another.
pub(super) fn memory(guest: &mut Guest) -> Result<()> {
    let possible = guest.check("cat /sys/devices/system/cpu/possible", MOMENT)?;
    ensure!(possible == "0-1023", "possible CPUs are {possible}");
    ensure_loaded(guest)?;
    wait_for_calm(guest)?;
    let tasks = guest.spawn(MANY_TASKS)?;
    wait_until(guest, "there are many tasks", MOMENT * 6, |shell| {
        Ok(shell.check("cut -d/ -f2 /proc/loadavg | cut -d' ' -f1", MOMENT)?.parse::<u64>()? >= NR_MANY_TASKS)
    })?;
    let engine = engine_pid(guest)?;
    guest.check(&format!("kill -9 {engine}"), MOMENT)?;
    wait_until(guest, "another engine", MOMENT * 3, |shell| Ok(engine_pid(shell).is_ok_and(|pid| pid != engine)))?;
    wait_for_state(guest, "running", MOMENT * 3)?;
    wait_for_calm(guest)?;
    let peak_kib = unit_kib(guest, "MemoryPeak")?;
    say(&format!("with 1,024 possible CPUs and {NR_MANY_TASKS} tasks the unit took {peak_kib} KiB at most"));
    let max_kib = unit_kib(guest, "MemoryMax")?;
    ensure!(peak_kib > 0 && peak_kib * 2 <= max_kib, "{peak_kib} KiB is more than half of {max_kib} KiB");
    guest.kill(&tasks)
}

fn unit_kib(shell: &mut dyn Shell, property: &str) -> Result<u64> {
    let bytes = shell.check(&format!("systemctl show --value -p {property} {UNIT}"), MOMENT)?;
    Ok(bytes.parse::<u64>().with_context(|| format!("{property} is {bytes}"))? >> 10)
}

fn nr_filters(shell: &mut dyn Shell, pid: u32) -> Result<u32> {
    let number = shell.check(&format!("sed -n 's/^Seccomp_filters:\t//p' /proc/{pid}/status"), MOMENT)?;
    number.trim().parse().with_context(|| format!("process {pid} has \"{number}\" filters"))
}

/// What the engine prints of a call: what it returned without a filter, once prepared and once attached, and what is expected.
fn is_as_expected(line: &str) -> bool {
    let words: Vec<_> = line.splitn(5, ' ').collect();
    let [before, prepared, attached, expected, _name] = words[..] else { return false };
    let denied = [before, prepared, attached].map(|outcome| outcome == EPERM);
    match expected {
        "Denied" => denied == [false, true, true],
        "UntilAttached" => denied == [false, false, true],
        "Allowed" => denied == [false; 3],
        _ => false,
    }
}

fn process_status(guest: &mut Guest, pid: &str) -> Result<String> {
    guest.check(&format!("cat /proc/{pid}/status"), MOMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_a_filter_forgets_is_noticed() {
        assert!(is_as_expected("0 1 1 Denied bpf PROG_LOAD") && is_as_expected("9 9 1 UntilAttached prctl"));
        for line in
            ["0 0 1 Denied openat", "1 1 1 Denied openat", "0 0 0 UntilAttached prctl", "0 0 1 Allowed read", ""]
        {
            assert!(!is_as_expected(line), "{line}");
        }
    }
}
