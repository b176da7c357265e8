//! The schedulers that are compared: how each is loaded and unloaded, and its own cost.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use super::Workload;
use crate::peer::RUSTLAND;
use scherzo_rig::service::{
    self, ENGINE, KernelState, MOMENT, call, ensure_loaded, ensure_undisturbed, ensure_unloaded, kernel, wait_for_calm,
    wait_until,
};
use scherzo_rig::shell::Shell;

/// Path of the peer's program in the guest.
pub const PEER_PATH: &str = "/usr/lib/scherzo-rig/scx_rustland";
const PEER_UNIT: &str = "peer.service";
/// Time limit for the peer to load or unload.
const PEER_LIMIT: Duration = Duration::from_secs(40);

/// Name of the file that records that the peer was loaded.
const HRTICK_OFF: &str = "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
    cd /sys/kernel/debug/sched && if grep -qw HRTICK features; then touch /run/had-hrtick && echo NO_HRTICK > features; fi";
const HRTICK_BACK: &str =
    "if [ -e /run/had-hrtick ]; then rm /run/had-hrtick && echo HRTICK > /sys/kernel/debug/sched/features; fi";

/// A scheduler that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Contender {
    /// The kernel's own scheduler.
    Default,
    /// scx_rustland as published, with its defaults.
    Rustland,
    /// Scherzo in interactive mode with preemption.
    Scherzo,
    /// Scherzo in low-power mode with preemption; measured only where the machine is not busy.
    LowPower,
    /// The probe's threads as SCHED_FIFO over the kernel's own scheduler: no scheduler has lower latency.
    Floor,
    /// The same without the timers that the kernel's own scheduler sets for the ends of slices (HRTICK, on from Linux
    /// 7.2). On an emulated CPU each of them ends a turn, which makes all latencies look lower than they are: see
    /// docs/benchmarks.md.
    PlainFloor,
}

/// What a scheduler has cost and done since it was loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Account {
    /// The guest's clock.
    pub at_ns: u64,
    /// CPU time of its process.
    pub cpu_ns: u64,
    /// Tasks that went through user space.
    pub nr_user: u64,
    /// What only Scherzo counts.
    pub own: Option<Own>,
}

/// See [`Account::own`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    /// Enqueues of tasks that are not interactive and found no idle CPU.
    pub nr_contended: u64,
    /// Of these, submitted to user space.
    pub nr_submitted: u64,
    /// Times that a CPU went idle.
    pub nr_idle_entries: u64,
}

impl Contender {
    /// All contenders, in the order of the tables.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::Rustland, Self::Scherzo, Self::LowPower, Self::Floor, Self::PlainFloor];

    /// Whether it is measured under this load.
    #[must_use]
    pub fn takes_part(self, load: Workload) -> bool {
        match self {
            Self::LowPower => matches!(load, Workload::Idle | Workload::Half),
            // Where several tasks share a CPU.
            Self::PlainFloor => matches!(load, Workload::Hog2 | Workload::Fork),
            _ => true,
        }
    }

    /// Loads the scheduler, if it is not the kernel's own.
    pub(super) fn take_charge(self, shell: &mut dyn Shell) -> Result<()> {
        ensure_unloaded(shell)?;
        match self {
            Self::Default | Self::Floor => Ok(()),
            Self::PlainFloor => shell.check(HRTICK_OFF, MOMENT).map(drop),
            Self::Rustland => {
                shell.check(&format!("systemd-run --quiet --collect --unit={PEER_UNIT} {PEER_PATH}"), MOMENT)?;
                wait_until(shell, "scx_rustland is loaded", PEER_LIMIT, |shell| Ok(kernel(shell)?.state == "enabled"))
            }
            Self::Scherzo | Self::LowPower => {
                ensure_loaded(shell)?;
                wait_for_calm(shell)?;
                let mode = if self == Self::LowPower { "low-power" } else { "interactive" };
                call(shell, "SetMode", &format!("s {mode}"))?;
                call(shell, "SetPreemption", "b true").map(drop)
            }
        }
    }

    /// Unloads what [`Self::take_charge`] loaded.
    pub(super) fn leave(self, shell: &mut dyn Shell) -> Result<()> {
        match self {
            Self::Default | Self::Floor => Ok(()),
            Self::PlainFloor => shell.check(HRTICK_BACK, MOMENT).map(drop),
            Self::Rustland => {
                shell.check(&format!("systemctl stop {PEER_UNIT}"), PEER_LIMIT)?;
                wait_until(
                    shell,
                    "scx_rustland is unloaded",
                    PEER_LIMIT,
                    |shell| Ok(kernel(shell)?.state == "disabled"),
                )
            }
            Self::Scherzo | Self::LowPower => ensure_unloaded(shell),
        }
    }

    /// The kernel's view, which must be the same after a measurement.
    pub(super) fn charge(self, shell: &mut dyn Shell) -> Result<KernelState> {
        let now = kernel(shell)?;
        let ops = match self {
            Self::Default | Self::Floor | Self::PlainFloor => "",
            Self::Rustland => "rustland",
            Self::Scherzo | Self::LowPower => "scherzo",
        };
        ensure!(now.ops.starts_with(ops) && (now.ops.is_empty() == ops.is_empty()), "the kernel runs {:?}", now.ops);
        Ok(now)
    }

    /// Fails unless it was loaded for the whole measurement.
    pub(super) fn ensure_in_charge(self, shell: &mut dyn Shell, before: &KernelState) -> Result<()> {
        if matches!(self, Self::Scherzo | Self::LowPower) {
            return ensure_undisturbed(shell, before);
        }
        let now = self.charge(shell)?;
        ensure!(now == *before, "the kernel's view changed from {before:?} to {now:?}");
        Ok(())
    }

    /// Options of `scherzo-bench probe`.
    pub(super) const fn options(self) -> &'static str {
        match self {
            Self::Floor | Self::PlainFloor => "--rt",
            _ => "",
        }
    }

    /// Its cost so far; `None` for the kernel's own scheduler, whose cost cannot be measured separately.
    pub(super) fn account(self, shell: &mut dyn Shell) -> Result<Option<Account>> {
        match self {
            Self::Default | Self::Floor | Self::PlainFloor => Ok(None),
            Self::Rustland => {
                let nr_user = rustland_dispatches(shell)?;
                account(shell, RUSTLAND).map(|account| Some(Account { nr_user, ..account }))
            }
            Self::Scherzo | Self::LowPower => {
                let keys = ["nr_submitted", "nr_contended_batch", "nr_submitted_batch", "nr_idle_entries"];
                let [nr_user, nr_contended, nr_submitted, nr_idle_entries] = service::statistics(shell, keys)?;
                let own = Some(Own { nr_contended, nr_submitted, nr_idle_entries });
                account(shell, ENGINE).map(|account| Some(Account { nr_user, own, ..account }))
            }
        }
    }
}

/// The clock, and the CPU time of all threads of a program.
fn account(shell: &mut dyn Shell, program: &str) -> Result<Account> {
    let sum = "awk '{ ns += $1 } END { printf \"%.0f\", ns }'";
    let text = shell.check(
        &format!("pid=$(pgrep -xo {program}) && echo $(date +%s%N) $(cat /proc/$pid/task/*/schedstat | {sum})"),
        MOMENT,
    )?;
    let (at_ns, cpu_ns) = text.split_once(' ').with_context(|| format!("no times of {program}: {text}"))?;
    Ok(Account { at_ns: at_ns.parse()?, cpu_ns: cpu_ns.parse()?, ..Account::default() })
}

/// The peer's own counter, which lies in the global variables of its BPF object.
fn rustland_dispatches(shell: &mut dyn Shell) -> Result<u64> {
    let text = shell.check("bpftool --json map dump name bpf_bpf.bss", MOMENT)?;
    let value: Value = serde_json::from_str(&text).context("bpftool printed no JSON")?;
    find_number(&value, "nr_user_dispatches").context("scx_rustland does not count its dispatches")
}

/// The first number of that name, however deep.
fn find_number(value: &Value, name: &str) -> Option<u64> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .and_then(Value::as_u64)
            .or_else(|| fields.values().find_map(|value| find_number(value, name))),
        Value::Array(values) => values.iter().find_map(|value| find_number(value, name)),
        _ => None,
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "kernel default",
            Self::Rustland => "scx_rustland",
            Self::Scherzo => "Scherzo",
            Self::LowPower => "Scherzo, low-power",
            Self::Floor => "floor (real time)",
            Self::PlainFloor => "floor, no HRTICK",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_found_at_any_depth() {
        let value = json!([{"formatted": {"value": {".bss": [{"a": 1}, {"nr_user_dispatches": 42}]}}}]);
        assert_eq!(find_number(&value, "nr_user_dispatches"), Some(42));
        assert_eq!(find_number(&value, "nr_kernel_dispatches"), None);
    }
}
