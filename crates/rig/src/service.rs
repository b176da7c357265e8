//! Talking to the service in a guest with `busctl`, and reading the kernel's own files.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::guest::{Guest, Job};
use crate::image::AGENT_PATH;
use crate::shell::{CommandOutput, Shell};

/// The unit that runs the daemon.
pub const UNIT: &str = "scherzod.service";
/// The engine's process: the one that schedules or loads.
pub const ENGINE: &str = "scherzo-engine";
/// The process of the standby engine.
const STANDBY: &str = "scherzo-standby";
/// The setting that loading turns off and unloading restores.
pub const COMPACTION: &str = "/proc/sys/vm/compact_unevictable_allowed";

/// Bus name, object and interface, as `busctl` wants them.
pub const TARGET: &str = "org.scherzo.Scheduler1 /org/scherzo/Scheduler1 org.scherzo.Scheduler1";
/// What the service remembers.
pub const STATE_DIRECTORY: &str = "/var/lib/scherzo";
/// Time limit for whatever takes no noticeable time.
pub const MOMENT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(200);

/// The state of a sched_ext that the kernel does not have.
pub const ABSENT: &str = "absent";

/// What the kernel says about sched_ext.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelState {
    /// `enabled`, `disabled` and what lies between; [`ABSENT`] if the kernel has no sched_ext.
    pub state: String,
    /// The scheduler's name; empty if none is loaded.
    pub ops: String,
    /// Counts loads since boot.
    pub enable_seq: u64,
}

/// Reads what the kernel says.
pub fn kernel(shell: &mut dyn Shell) -> Result<KernelState> {
    let read = "cat state; cat root/ops 2>/dev/null || echo; cat enable_seq";
    let files = format!("if cd /sys/kernel/sched_ext 2>/dev/null; then {read}; else printf '{ABSENT}\\n\\n0'; fi");
    let text = shell.check(&files, MOMENT)?;
    let mut lines = text.lines().map(str::to_owned);
    let mut next = || lines.next().context("sched_ext's files are incomplete");
    Ok(KernelState { state: next()?, ops: next()?, enable_seq: next()?.parse()? })
}

/// A `busctl call` of a member; `arguments` are the signature and the values.
///
/// The time limit is that of the shell: `busctl` gives up after 25 s of the guest's clock, which jumps while the host's disk
/// is busy.
#[must_use]
pub fn call_command(member: &str, arguments: &str) -> String {
    format!("busctl --system --timeout=300 call {TARGET} {member} {arguments}")
}

/// Calls a member, whatever comes of it.
pub fn try_call(shell: &mut dyn Shell, member: &str, arguments: &str) -> Result<CommandOutput> {
    shell.run(&call_command(member, arguments), Duration::from_mins(1))
}

/// Calls a member; it must succeed.
pub fn call(shell: &mut dyn Shell, member: &str, arguments: &str) -> Result<String> {
    shell.check(&call_command(member, arguments), Duration::from_mins(1))
}

/// Makes many mode changes over one connection, with a pause after each; prints the median and the longest time of one,
/// in µs.
#[must_use]
pub fn change_modes_command(nr_changes: u32, pause: Duration) -> String {
    format!("{AGENT_PATH} change-modes {nr_changes} {}", pause.as_millis())
}

/// The same of the policy's seat; prints the time that 99 in 100 changes keep, and the longest, in µs.
#[must_use]
pub fn change_seats_command(nr_changes: u32, pause: Duration) -> String {
    format!("{AGENT_PATH} change-seats {nr_changes} {}", pause.as_millis())
}

/// A property's value without its type: `s "running"` gives `running`.
pub fn property(shell: &mut dyn Shell, name: &str) -> Result<String> {
    let text = shell.check(&format!("busctl --system get-property {TARGET} {name}"), MOMENT)?;
    Ok(bare(&text).to_owned())
}

fn bare(text: &str) -> &str {
    let value = text.split_once(' ').map_or(text, |(_, value)| value).trim();
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// One whole number out of `GetStats`.
pub fn statistic(shell: &mut dyn Shell, key: &str) -> Result<u64> {
    statistics(shell, [key]).map(|[value]| value)
}

/// Whole numbers out of one call of `GetStats`.
pub fn statistics<const N: usize>(shell: &mut dyn Shell, keys: [&str; N]) -> Result<[u64; N]> {
    let text = call(shell, "GetStats", "")?;
    let mut values = [0; N];
    for (value, key) in values.iter_mut().zip(keys) {
        *value = find_statistic(&text, key).with_context(|| format!("GetStats has no {key}: {text}"))?;
    }
    Ok(values)
}

/// `a{sv} 2 "one" t 1 "two" t 2`.
fn find_statistic(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("\"{key}\" "))?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Asks again and again until `done` says yes. `limit` is in seconds of real hardware.
pub fn wait_until(
    shell: &mut dyn Shell,
    what: &str,
    limit: Duration,
    mut done: impl FnMut(&mut dyn Shell) -> Result<bool>,
) -> Result<()> {
    let limit = limit * shell.patience();
    let started = Instant::now();
    while !done(shell)? {
        ensure!(started.elapsed() < limit, "{what}: not within {} s{}", limit.as_secs(), journal(shell));
        thread::sleep(POLL);
    }
    Ok(())
}

/// Waits for the service's `State`.
pub fn wait_for_state(shell: &mut dyn Shell, wanted: &str, limit: Duration) -> Result<()> {
    let mut last = String::new();
    let outcome = wait_until(shell, &format!("State \"{wanted}\""), limit, |shell| {
        // The service may be on its way back, as after a kill.
        last = property(shell, "State").unwrap_or_else(|error| error.to_string());
        Ok(last == wanted)
    });
    outcome.with_context(|| format!("State is \"{last}\""))
}

/// Loads the scheduler if it is not, and checks with the kernel.
pub fn ensure_loaded(shell: &mut dyn Shell) -> Result<KernelState> {
    call(shell, "SetEnabled", "b true").with_context(|| format!("cannot load{}", journal(shell)))?;
    wait_for_state(shell, "running", Duration::from_secs(20))?;
    let kernel = kernel(shell)?;
    ensure!(kernel.state == "enabled" && kernel.ops.starts_with("scherzo"), "the kernel disagrees: {kernel:?}");
    Ok(kernel)
}

/// Unloads the scheduler if it is loaded, and checks with the kernel.
pub fn ensure_unloaded(shell: &mut dyn Shell) -> Result<()> {
    call(shell, "SetEnabled", "b false")?;
    let kernel = kernel(shell)?;
    ensure!(kernel.state == "disabled", "the kernel disagrees: {kernel:?}");
    Ok(())
}

/// Does something while the engine in user space applies the policy, instead of the kernel side.
pub fn with_user_seat<S: Shell>(shell: &mut S, work: impl FnOnce(&mut S) -> Result<()>) -> Result<()> {
    shell.check("scherzoctl config set kernel_seat false", MOMENT)?;
    let outcome = work(shell);
    shell.check("scherzoctl config set kernel_seat true", MOMENT)?;
    outcome
}

/// The same scheduler must still be loaded, without having been loaded again.
pub fn ensure_undisturbed(shell: &mut dyn Shell, before: &KernelState) -> Result<()> {
    let now = kernel(shell)?;
    ensure!(now == *before, "the kernel's view changed from {before:?} to {now:?}{}", journal(shell));
    wait_for_state(shell, "running", MOMENT)
}

/// Restarts the service with an empty state directory in memory: virtual time jumps ahead while all CPUs wait for a
/// disk.
pub fn keep_state_in_memory(shell: &mut dyn Shell) -> Result<()> {
    let mount = format!("mkdir -p {STATE_DIRECTORY} && mount -t tmpfs tmpfs {STATE_DIRECTORY}");
    shell.check(&format!("systemctl stop {UNIT}; {mount} && systemctl start {UNIT}"), MOMENT * 6).map(drop)
}

/// The process id of the engine that schedules: the oldest of that name. A standby engine has another name, except
/// for the moment in which it is started.
pub fn engine_pid(shell: &mut dyn Shell) -> Result<u32> {
    let text = shell.check(&format!("pgrep -xo {ENGINE}"), MOMENT).context("the engine does not run")?;
    text.parse().with_context(|| format!("not one engine: {text}"))
}

/// The process id of the standby engine, which is started some time after the one that schedules.
pub fn standby_pid(shell: &mut dyn Shell) -> Result<u32> {
    let mut text = String::new();
    wait_until(shell, "a standby engine", MOMENT, |shell| {
        text = standby_pids(shell)?;
        Ok(!text.is_empty())
    })?;
    text.parse().with_context(|| format!("not one standby engine: {text}"))
}

/// Waits until the standby engine, if there is one, is prepared: that takes as much CPU time as loading, once after
/// each load, and is not part of the scheduler's running cost.
pub fn wait_for_calm(shell: &mut dyn Shell) -> Result<()> {
    let spent = "cut -d' ' -f1 /proc/$pid/schedstat";
    let unchanged =
        format!("pid=$(pgrep -x {STANDBY}) || exit 0; before=$({spent}); sleep 1; [ $before = $({spent}) ]");
    shell.check("sleep 1", MOMENT)?;
    wait_until(shell, "the standby engine is prepared", MOMENT, |shell| Ok(shell.run(&unchanged, MOMENT)?.status == 0))
}

/// The process ids of all standby engines.
pub fn standby_pids(shell: &mut dyn Shell) -> Result<String> {
    Ok(shell.run(&format!("pgrep -x {STANDBY}"), MOMENT)?.stdout.trim().to_owned())
}

/// Two CPU hogs per CPU, until the guest ends or [`end_load`].
pub fn start_load(guest: &mut Guest) -> Result<Job> {
    guest.spawn("exec stress-ng --cpu $((2 * $(nproc))) --cpu-method int64 --quiet")
}

/// Ends a load.
pub fn end_load(guest: &mut Guest, load: &Job) -> Result<()> {
    guest.kill(load)
}

/// How the kernel schedules RCU's grace-period thread: class and real-time priority, with one space between.
pub fn rcu_policy(shell: &mut dyn Shell) -> Result<String> {
    let columns = shell.check("ps -o cls=,rtprio= -p $(pgrep -x -P 2 'rcu_preempt|rcu_sched')", MOMENT)?;
    Ok(columns.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// By the system's own clock; 40 to 1,170 ms are seen, the latter beside two hogs per CPU, where the kernel's default takes
/// 910 to 1,380.
const MAX_TEN_PROGRAMS_MS: u64 = 1_250;
/// In low-power, where work in the background shares a quarter of the CPUs: beside two hogs per CPU on eight, one of 17 tasks
/// on two has an eighth of a CPU, with which ten programs of 12 ms take a second. 150 to 1,970 ms are seen.
const MAX_TEN_PROGRAMS_PACKED_MS: u64 = 2_500;
/// On an emulated ARM machine: twice the most that the kernel's default takes there beside two hogs per CPU, which is 1,351 ms;
/// Scherzo takes as much. All CPUs share one thread of the emulator, and an instruction that invalidates the address translations
/// of every CPU, which emulated x86 does not have, ends the turn of the CPU that executes it. To map, write and unmap a page takes
/// 1.8 ms of CPU time beside hogs, and 0.07 ms without; a loop takes four times as long beside them.
const MAX_TEN_PROGRAMS_ARM_MS: u64 = 2_700;

/// Many short programs must finish one after the other, soon: ordinary tasks are scheduled.
pub fn ensure_responsive(shell: &mut dyn Shell) -> Result<()> {
    ensure_ten_programs(shell, MAX_TEN_PROGRAMS_MS)
}

/// As [`ensure_responsive`], in a mode that may be low-power.
pub fn ensure_responsive_in(shell: &mut dyn Shell, mode: &str) -> Result<()> {
    let max_ms = if mode == "low-power" { MAX_TEN_PROGRAMS_PACKED_MS } else { MAX_TEN_PROGRAMS_MS };
    ensure_ten_programs(shell, max_ms)
}

fn ensure_ten_programs(shell: &mut dyn Shell, max_ms: u64) -> Result<()> {
    let programs = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true & wait $!; done";
    let timed = format!("start=$(date +%s%N); {programs}; echo $((($(date +%s%N) - start) / 1000000)) $(uname -m)");
    let printed = shell.check(&timed, Duration::from_secs(20))?;
    let (took_ms, processor) = printed.split_once(' ').with_context(|| format!("no time in: {printed}"))?;
    let took_ms: u64 = took_ms.parse().with_context(|| format!("no time in: {printed}"))?;
    let max_ms = if processor == "aarch64" { MAX_TEN_PROGRAMS_ARM_MS } else { max_ms };
    ensure!(took_ms <= max_ms, "ten short programs took {took_ms} ms, of {max_ms} allowed{}", journal(shell));
    Ok(())
}

/// The last lines of the service's and the kernel's log, for error messages.
pub fn journal(shell: &mut dyn Shell) -> String {
    let command =
        format!("journalctl --no-pager -o cat -n 15 -u {UNIT}; journalctl --no-pager -o cat -n 15 -k -g sched_ext");
    match shell.run(&command, MOMENT) {
        Ok(output) => format!("\n--- journal ---\n{}---", output.stdout),
        Err(error) => format!("\n(the journal cannot be read: {error:#})"),
    }
}

/// Fails unless an output is a failure that contains all of `parts`.
pub fn ensure_refused(output: &CommandOutput, parts: &[&str]) -> Result<()> {
    let text = format!("{}{}", output.stdout, output.stderr);
    ensure!(output.status != 0, "accepted: {text}");
    match parts.iter().find(|part| !text.contains(*part)) {
        Some(part) => bail!("\"{part}\" is not said in: {text}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_lose_type_and_quotes() {
        assert_eq!(bare("s \"running\""), "running");
        assert_eq!(bare("b true"), "true");
        assert_eq!(bare("s \"\""), "");
    }

    #[test]
    fn statistics_are_found_by_key() {
        let text = "a{sv} 3 \"nr_a\" t 1 \"nr_b\" t 22 \"user_share\" d 0.5";
        assert_eq!(find_statistic(text, "nr_b"), Some(22));
        assert_eq!(find_statistic(text, "nr_c"), None);
    }
}
