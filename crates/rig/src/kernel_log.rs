//! What a guest's kernel complains about: a warning, a stall or a task that hangs fails the case in which it came, even if
//! everything seemed to work.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::shell::Shell;

/// For reading the log.
const LIMIT: Duration = Duration::from_secs(10);

/// How complaints begin.
const BEGINNINGS: &[&str] = &["WARNING: ", "BUG: ", "Oops", "Kernel panic", "INFO: task "];
/// What only complaints contain.
const PARTS: &[&str] = &[
    "detected stall",
    "self-detected stall",
    "detected expedited stalls",
    "kthread starved for",
    "blocked for more than",
    "soft lockup",
    "hard LOCKUP",
    "workqueue lockup",
    "possible circular locking dependency",
    "suspicious RCU usage",
    "scheduling while atomic",
];

/// Fails if the kernel has complained, or if its log cannot be read.
pub fn ensure_quiet(shell: &mut dyn Shell) -> Result<()> {
    let log = shell.check("dmesg", LIMIT).context("the kernel's log cannot be read")?;
    let complaints: Vec<_> = complaints(&log).collect();
    ensure!(complaints.is_empty(), "the kernel complained:\n{}", complaints.join("\n"));
    Ok(())
}

/// The same of what has come to the console. It remembers what the log has lost: the kernel before a reboot, and lines for
/// which there was no room.
pub fn ensure_quiet_console(console: &str) -> Result<()> {
    let complaints: Vec<_> = complaints(console).collect();
    ensure!(complaints.is_empty(), "the kernel complained on the console:\n{}", complaints.join("\n"));
    Ok(())
}

/// The lines of a log that are complaints.
fn complaints(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| {
        let message = line.split_once("] ").map_or(*line, |(_, message)| message);
        BEGINNINGS.iter().any(|beginning| message.starts_with(beginning))
            || PARTS.iter().any(|part| message.contains(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_several_kernels_are_found() {
        for line in [
            "[   12.345678] WARNING: CPU: 1 PID: 99 at kernel/sched/ext.c:1234 scx_ops_enqueue+0x12/0x34",
            "[   12.345678] WARNING: kernel/sched/ext.c:1234 at scx_ops_enqueue+0x12/0x34, CPU#1: bash/99",
            "[   12.345678] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[   12.345678] rcu: INFO: rcu_preempt self-detected stall on CPU",
            "[   12.345678] rcu: rcu_preempt kthread starved for 5250 jiffies! g1 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=0",
            "[  242.000000] INFO: task kworker/0:1:12 blocked for more than 120 seconds.",
            "[  242.000000] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [hog:1]",
            "[  242.000000] BUG: scheduling while atomic: hog/1/0x00000002",
        ] {
            assert_eq!(complaints(line).count(), 1, "{line}");
            assert!(ensure_quiet_console(&format!("[    0.1] a\r\n{line}\r\n[    9.1] b")).is_err(), "{line}");
        }
    }

    #[test]
    fn what_every_guest_prints_is_no_complaint() {
        for line in [
            "[    0.100000] RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable to RETBleed attacks, data leaks possible!",
            "[    1.000000] rcu: Hierarchical RCU implementation.",
            "[    1.000000] sched_ext: BPF scheduler \"scherzo_0.2.0\" enabled",
            "[    9.000000] sched_ext: scherzo_0.2.0: hog[12] failed to run for 2.1s",
            "[    9.000000] clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable",
            "[    1.000000] systemd[1]: Mounting dev-hugepages.mount - Huge Pages File System...",
        ] {
            assert_eq!(complaints(line).count(), 0, "{line}");
        }
    }
}
