//! What has thrown other schedulers out, each for a while: the scheduler stays loaded, its engine takes no page fault, and
//! no task is lost.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::report::skipped;
use scherzo_rig::service::{
    ENGINE, MOMENT, call, end_load, ensure_loaded, ensure_responsive, ensure_undisturbed, ensure_unloaded, journal,
    property, rcu_policy, start_load, statistics, wait_for_state, wait_until, with_user_seat,
};
use scherzo_rig::shell::Shell;

/// On slow hosts much longer by the clock of the host.
const LIMIT: Duration = Duration::from_mins(2);
/// Above the hogs of [`real_time`], so that they can be ended.
const ABOVE_HOGS: u32 = 90;

pub(super) fn race_sched(guest: &mut Guest) -> Result<()> {
    survives(guest, "stress-ng --race-sched $(nproc) --timeout 15s --quiet")
}

pub(super) fn affinity(guest: &mut Guest) -> Result<()> {
    survives(guest, "stress-ng --affinity $((4 * $(nproc))) --affinity-rand --timeout 15s --quiet")
}

pub(super) fn fork_and_exec(guest: &mut Guest) -> Result<()> {
    survives(guest, "stress-ng --fork $(nproc) --exec $(nproc) --timeout 15s --quiet")
}

pub(super) fn futex(guest: &mut Guest) -> Result<()> {
    survives(guest, "stress-ng --futex $((2 * $(nproc))) --timeout 15s --quiet")
}

pub(super) fn pipe(guest: &mut Guest) -> Result<()> {
    survives(guest, "stress-ng --pipe $((2 * $(nproc))) --timeout 15s --quiet")
}

/// Every five seconds, as often as ananicy looks, all processes of a load get another nice level, policy and class of I/O; the
/// load also starts new ones all the time.
pub(super) fn ananicy(guest: &mut Guest) -> Result<()> {
    let background = "renice -n 19 -p $pid; chrt --idle --pid 0 $pid; ionice -c 3 -p $pid";
    let foreground = "chrt --other --pid 0 $pid; renice -n -5 -p $pid; ionice -c 2 -n 0 -p $pid";
    // Some have ended before it is their turn.
    let all = |change: &str| format!("for pid in $(pgrep stress-ng); do {change}; done >/dev/null 2>&1; sleep 5");
    let turns = [background, foreground, background].map(all).join("; ");
    survives(guest, &format!("stress-ng --cpu 4 --fork 2 --pipe 2 --timeout 16s --quiet & {turns}; wait $!"))
}

/// More memory is wanted than there is. Those that want it may be killed for it.
pub(super) fn memory(guest: &mut Guest) -> Result<()> {
    let unit = "systemd-run --quiet --wait --collect -p OOMPolicy=continue";
    survives(guest, &format!("{unit} stress-ng --vm $(nproc) --vm-bytes 110% --timeout 15s --quiet || true"))
}

/// A CPU goes and comes every 0.3 s, under two hogs per CPU.
pub(super) fn hotplug(guest: &mut Guest) -> Result<()> {
    let load = start_load(guest)?;
    let cpu = "/sys/devices/system/cpu/cpu1/online";
    let turn = format!("echo 0 >{cpu}; sleep 0.3; echo 1 >{cpu}; sleep 0.3");
    let outcome = survives(guest, &format!("for turn in $(seq 25); do {turn}; done"));
    end_load(guest, &load)?;
    outcome
}

/// User space is stopped under two hogs per CPU while it applies the policy; BPF schedules alone until it is back.
pub(super) fn stopped_engine(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    with_user_seat(guest, |guest| {
        let load = start_load(guest)?;
        guest.check(&format!("pkill -STOP -x {ENGINE}"), MOMENT)?;
        let degraded = wait_for_state(guest, "degraded", Duration::from_secs(5))
            .and_then(|()| guest.check("sleep 15", LIMIT).map(drop))
            .and_then(|()| ensure_responsive(guest));
        guest.check(&format!("pkill -CONT -x {ENGINE}"), MOMENT)?;
        degraded?;
        wait_for_state(guest, "running", MOMENT)?;
        end_load(guest, &load)
    })?;
    ensure_undisturbed(guest, &loaded)
}

/// Real-time hogs hold every CPU for 25 s, or 60 s where the kernel serves us meanwhile; that is nobody's stall.
///
/// The kernel's watchdog looks every 15 s from loading on, and as an ordinary task cannot while it is starved: it allows
/// 30 s from its last look, which is 15 s after the hogs' start at the least. Here they start right after a look.
pub(super) fn real_time(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let loaded = ensure_loaded(guest)?;
    let seconds = if has_deadline_server(guest)? { 60 } else { 25 };
    guest.check("sleep 16", MOMENT * 3)?;
    hog_in_real_time(guest, seconds)?;
    ensure_responsive(guest)?;
    ensure_undisturbed(guest, &loaded)
}

/// Longer than the kernel's watchdog allows: that ends the scheduler under a name of its own, and it returns by itself.
pub(super) fn too_much_real_time(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    if has_deadline_server(guest)? {
        return Err(skipped("this kernel serves ordinary tasks beside real-time programs"));
    }
    hog_in_real_time(guest, 45)?;
    wait_until(guest, "the scheduler is loaded again", Duration::from_mins(1), |shell| {
        let now = scherzo_rig::service::kernel(shell)?;
        Ok(now.state == "enabled" && now.enable_seq > loaded.enable_seq)
    })?;
    wait_for_state(guest, "running", MOMENT)?;
    let history = guest.check("scherzoctl --json history", MOMENT)?;
    ensure!(history.contains("rt-starvation"), "the history does not name the cause: {history}");
    let error = property(guest, "LastError")?;
    ensure!(error.contains("Real-time programs held"), "it does not count as their doing: {error}");
    guest.forgive_kernel()
}

/// A task whose name is not UTF-8 and would steer a terminal runs while the kernel ends the scheduler, and is named in its
/// report: what happened is told all the same, under its own name, and neither engine nor standby engine dies of it.
///
/// The kernel's watchdog is set to 2 s, which real-time hogs outlast.
pub(super) fn name_that_is_not_text(guest: &mut Guest) -> Result<()> {
    guest.check("scherzoctl config set watchdog_s 2", MOMENT)?;
    let loaded = ensure_loaded(guest)?;
    let name = r"b'\xd0\xbf\xd0\xbb\x1b[31m\xd1'";
    let hog = format!("import ctypes\nctypes.CDLL(None).prctl(15, {name}, 0, 0, 0)\nwhile True: pass");
    let hog = guest.check(&format!("python3 -c \"{hog}\" >/dev/null 2>&1 & echo $!"), MOMENT)?;
    wait_until(guest, "the task has its name", MOMENT, |shell| {
        Ok(shell.check(&format!("cat /proc/{}/comm", hog.trim()), MOMENT)?.contains("[31m"))
    })?;
    hog_in_real_time(guest, 8)?;
    wait_until(guest, "the scheduler is loaded again", Duration::from_mins(1), |shell| {
        let now = scherzo_rig::service::kernel(shell)?;
        Ok(now.state == "enabled" && now.enable_seq > loaded.enable_seq)
    })?;
    wait_for_state(guest, "running", MOMENT)?;
    guest.check(&format!("kill {}", hog.trim()), MOMENT)?;
    guest.check("scherzoctl config set watchdog_s 30", MOMENT)?;
    let history = guest.check("scherzoctl --json history", MOMENT)?;
    ensure!(history.contains("rt-starvation"), "the history does not name the cause: {history}");
    let journal = guest.check("journalctl --no-pager -o cat -b -u scherzod --all", MOMENT)?;
    ensure!(journal.contains("пл\u{fffd}[31m\u{fffd}"), "the report does not name the task: {journal}");
    ensure!(!journal.contains("panicked at"), "{journal}");
    Ok(())
}

/// Where real-time programs could starve RCU, its thread goes before them while the scheduler is loaded, also after the
/// engine was killed; elsewhere, and afterwards, it is as it was found.
pub(super) fn rcu_thread(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let found = rcu_policy(guest)?;
    ensure!(found == "TS -", "without the scheduler RCU's thread is {found}");
    let expected = if has_deadline_server(guest)? { "TS -" } else { "FF 99" };
    let loaded = ensure_loaded(guest)?;
    ensure_rcu_policy(guest, expected, "loaded")?;
    guest.check(&format!("pkill -KILL -x {ENGINE}"), MOMENT)?;
    wait_until(guest, "another engine has loaded", MOMENT * 3, |shell| {
        Ok(scherzo_rig::service::kernel(shell)?.enable_seq > loaded.enable_seq)
    })?;
    wait_for_state(guest, "running", MOMENT)?;
    ensure_rcu_policy(guest, expected, "loaded again")?;
    ensure_unloaded(guest)?;
    ensure_rcu_policy(guest, &found, "unloaded")
}

fn ensure_rcu_policy(guest: &mut Guest, expected: &str, when: &str) -> Result<()> {
    let policy = rcu_policy(guest)?;
    ensure!(policy == expected, "{when}, RCU's thread is {policy}, not {expected}{}", journal(guest));
    Ok(())
}

/// Kernels from 7.0 give tasks of sched_ext a share of each CPU, whatever real-time tasks do.
pub(super) fn has_deadline_server(guest: &mut Guest) -> Result<bool> {
    Ok(guest.run("test -d /sys/kernel/debug/sched/ext_server", MOMENT)?.status == 0)
}

fn hog_in_real_time(guest: &mut Guest, seconds: u32) -> Result<()> {
    let hogs = "for cpu in $(seq $(nproc)); do while :; do :; done & done; wait";
    let command = format!("chrt -f {ABOVE_HOGS} timeout {seconds} chrt -f 50 sh -c '{hogs}'");
    let output = guest.run(&command, LIMIT * 2)?;
    ensure!(output.status == 124, "the hogs ended with {}: {}", output.status, output.stderr);
    Ok(())
}

/// The scheduler survives a storm: the same load, no page fault, nothing lost, nothing malformed.
fn survives(guest: &mut Guest, storm: &str) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    guest.check(storm, LIMIT)?;
    ensure_responsive(guest)?;
    ensure_undisturbed(guest, &loaded)?;
    ensure_sound(guest)
}

/// What must hold at any time: nothing that should stay at zero has moved, and every hand-over is accounted for.
pub(super) fn ensure_sound(guest: &mut Guest) -> Result<()> {
    let zeroes = ["nr_page_faults", "nr_heap_ops", "nr_failed", "nr_bad_records"];
    let counted = statistics(guest, zeroes)?;
    ensure!(counted == [0; 4], "{zeroes:?} are {counted:?}");
    ensure_accounted(guest).context("a task was lost")
}

/// Every task that was handed to user space came back in one way or another. Counters move while they are read: between
/// two moments of a quiet machine they agree.
pub(super) fn ensure_accounted(guest: &mut Guest) -> Result<()> {
    wait_until(guest, "every task that was handed over is accounted for", MOMENT, |shell| {
        let keys = ["nr_submitted", "nr_user", "nr_reclaimed", "nr_swept", "nr_left", "nr_in_flight"];
        let [handed, accounted @ ..] = statistics(shell, keys)?;
        Ok(accounted.iter().sum::<u64>() == handed)
    })
}
