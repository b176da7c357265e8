//! The schedulers that are compared: how each is loaded and unloaded, and its own cost.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::peer::{PEERS, Peer};
use scherzo_rig::service::{
    self, ENGINE, KernelState, MOMENT, call, ensure_loaded, ensure_undisturbed, ensure_unloaded, kernel, wait_for_calm,
    wait_until,
};
use scherzo_rig::shell::Shell;

/// Directory of the peers' programs on the system that is measured.
pub const PEER_DIRECTORY: &str = "/usr/lib/scherzo-rig";
/// Time limit for a peer to load or unload.
const PEER_LIMIT: Duration = Duration::from_secs(40);

const FEATURES: &str = "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
    cat /sys/kernel/debug/sched/features";
const HRTICK_OFF: &str = "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
    cd /sys/kernel/debug/sched && if grep -qw HRTICK features; then touch /run/had-hrtick && echo NO_HRTICK > features; fi";
const HRTICK_BACK: &str =
    "if [ -e /run/had-hrtick ]; then rm /run/had-hrtick && echo HRTICK > /sys/kernel/debug/sched/features; fi";

/// A scheduler that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Contender {
    /// The kernel's own scheduler.
    Default,
    /// Another scheduler as published, with its defaults.
    Peer(Peer),
    /// Scherzo in interactive mode with preemption.
    Scherzo,
    /// Scherzo in low-power mode with preemption; measured only where the machine is not busy.
    LowPower,
    /// The probe's threads as SCHED_FIFO over the kernel's own scheduler. No ordinary task overtakes them; yet where they
    /// wait is the kernel's choice, and a scheduler that places them better may have lower latencies.
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
    /// Context switches of the machine to anything but this process; the same count for every scheduler.
    pub nr_switches: u64,
    /// What only Scherzo counts.
    pub own: Option<Own>,
}

/// See [`Account::own`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    /// Enqueues that user space might have decided: of tasks that are not interactive and found no idle CPU, and of
    /// interactive ones that were submitted.
    pub nr_decidable: u64,
    /// Of these, dispatched by user space; what BPF reclaimed before is not among them.
    pub nr_decided: u64,
    /// Times that a CPU went idle.
    pub nr_idle_entries: u64,
}

impl Contender {
    /// All contenders, in the order of the tables.
    pub const ALL: [Self; 9] = [
        Self::Default,
        Self::Peer(PEERS[0]),
        Self::Peer(PEERS[1]),
        Self::Peer(PEERS[2]),
        Self::Peer(PEERS[3]),
        Self::Scherzo,
        Self::LowPower,
        Self::Floor,
        Self::PlainFloor,
    ];

    /// Names it in options and files.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Peer(peer) => peer.name,
            Self::Scherzo => "scherzo",
            Self::LowPower => "low-power",
            Self::Floor => "floor",
            Self::PlainFloor => "plain-floor",
        }
    }

    /// The peer that it is.
    #[must_use]
    pub const fn peer(self) -> Option<Peer> {
        match self {
            Self::Peer(peer) => Some(peer),
            _ => None,
        }
    }

    /// Why it cannot be measured on this system, whatever is installed; nothing if it can.
    pub fn find_fault(self, shell: &mut dyn Shell) -> Result<Option<String>> {
        if self != Self::PlainFloor || shell.run(FEATURES, MOMENT)?.status == 0 {
            return Ok(None);
        }
        Ok(Some("the kernel does not show the features of its own scheduler below /sys/kernel/debug/sched".to_owned()))
    }

    /// Whether the kernel's own scheduler is in charge.
    #[must_use]
    pub const fn is_of_kernel(self) -> bool {
        matches!(self, Self::Default | Self::Floor | Self::PlainFloor)
    }

    /// Loads the scheduler, if it is not the kernel's own; none may be loaded before.
    pub(super) fn take_charge(self, shell: &mut dyn Shell) -> Result<()> {
        match self {
            Self::Default | Self::Floor => Ok(()),
            Self::PlainFloor => shell.check(HRTICK_OFF, MOMENT).map(drop),
            Self::Peer(peer) => load(shell, peer),
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
            Self::Peer(peer) => unload(shell, peer),
            Self::Scherzo | Self::LowPower => ensure_unloaded(shell),
        }
    }

    /// The kernel's view, which must be the same after a measurement.
    pub(super) fn charge(self, shell: &mut dyn Shell) -> Result<KernelState> {
        let now = kernel(shell)?;
        let ops = match self {
            Self::Default | Self::Floor | Self::PlainFloor => "",
            Self::Peer(peer) => peer.name,
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
        let now = kernel(shell)?;
        if let (Some(peer), true) = (self.peer(), now != *before) {
            bail!("the kernel has unloaded it: {}", last_words(shell, peer)?);
        }
        ensure!(now == *before, "the kernel's view changed from {before:?} to {now:?}");
        Ok(())
    }

    /// Whether what is measured runs as SCHED_FIFO.
    pub(super) const fn is_floor(self) -> bool {
        matches!(self, Self::Floor | Self::PlainFloor)
    }

    /// Its cost so far; `None` for the kernel's own scheduler, whose cost cannot be measured separately.
    pub(super) fn account(self, shell: &mut dyn Shell) -> Result<Option<Account>> {
        match self {
            Self::Default | Self::Floor | Self::PlainFloor => Ok(None),
            Self::Peer(peer) => account(shell, &peer.program()).map(Some),
            Self::Scherzo | Self::LowPower => {
                let keys = ["nr_contended_batch", "nr_submitted", "nr_submitted_batch", "nr_user", "nr_idle_entries"];
                let [contended, submitted, submitted_batch, nr_decided, nr_idle_entries] =
                    service::statistics(shell, keys)?;
                let nr_decidable = contended + submitted.saturating_sub(submitted_batch);
                let own = Some(Own { nr_decidable, nr_decided, nr_idle_entries });
                account(shell, ENGINE).map(|account| Some(Account { own, ..account }))
            }
        }
    }
}

/// Starts a peer and waits until the kernel has it; if it gives up instead, its own last words are the error.
fn load(shell: &mut dyn Shell, peer: Peer) -> Result<()> {
    let program = peer.program();
    let unit = unit_of(peer);
    shell.check(&format!("systemd-run --quiet --collect --unit={unit} {PEER_DIRECTORY}/{program}"), MOMENT)?;
    let mut is_loaded = false;
    wait_until(shell, &format!("{program} is loaded"), PEER_LIMIT, |shell| {
        is_loaded = kernel(shell)?.state == "enabled";
        Ok(is_loaded || shell.run(&format!("systemctl is-active --quiet {unit}"), MOMENT)?.status != 0)
    })?;
    ensure!(is_loaded, "{}", last_words(shell, peer)?);
    Ok(())
}

/// Stops a peer, if it still runs, and waits until the kernel is without it.
fn unload(shell: &mut dyn Shell, peer: Peer) -> Result<()> {
    let unit = unit_of(peer);
    shell.check(&format!("if systemctl is-active --quiet {unit}; then systemctl stop {unit}; fi"), PEER_LIMIT)?;
    let what = format!("{} is unloaded", peer.program());
    wait_until(shell, &what, PEER_LIMIT, |shell| Ok(kernel(shell)?.state == "disabled"))
}

/// What a peer has said last, on one line.
fn last_words(shell: &mut dyn Shell, peer: Peer) -> Result<String> {
    let unit = unit_of(peer);
    let words = shell.check(&format!("journalctl --quiet --output=cat --lines=3 _SYSTEMD_UNIT={unit}"), MOMENT)?;
    Ok(if words.is_empty() {
        "it ended and said nothing".to_owned()
    } else {
        words.lines().collect::<Vec<_>>().join(" ")
    })
}

fn unit_of(peer: Peer) -> String {
    format!("{}.service", peer.program())
}

/// The clock, the CPU time of all threads of a program, and the machine's context switches to anything else.
fn account(shell: &mut dyn Shell, program: &str) -> Result<Account> {
    let sums = "awk '{ ns += $1; turns += $3 } END { printf \"%.0f %.0f\", ns, turns }'";
    let text = shell.check(
        &format!(
            "pid=$(pgrep -xo {program}) && echo $(date +%s%N) $(cat /proc/$pid/task/*/schedstat | {sums}) \
             $(awk '/^ctxt / {{ print $2 }}' /proc/stat)"
        ),
        MOMENT,
    )?;
    parse_account(&text).with_context(|| format!("no times of {program}: {text}"))
}

/// From the clock, CPU time and turns of the process, and context switches of the machine.
fn parse_account(text: &str) -> Option<Account> {
    let numbers = text.split_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let &[at_ns, cpu_ns, nr_turns, nr_all_switches] = &numbers[..] else { return None };
    Some(Account { at_ns, cpu_ns, nr_switches: nr_all_switches.saturating_sub(nr_turns), own: None })
}

impl From<Contender> for String {
    fn from(contender: Contender) -> Self {
        contender.id().to_owned()
    }
}

impl TryFrom<String> for Contender {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        id.parse()
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(id: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|contender| contender.id() == id);
        found.ok_or_else(|| format!("one of {}", Self::ALL.map(Self::id).join(", ")))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "kernel default",
            Self::Peer(peer) => return write!(f, "{}", peer.program()),
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

    #[test]
    fn every_contender_is_found_by_its_name() {
        for contender in Contender::ALL {
            assert_eq!(contender.id().parse(), Ok(contender));
            let text = serde_json::to_string(&contender).unwrap();
            assert_eq!((serde_json::from_str(&text).ok(), text), (Some(contender), format!("\"{}\"", contender.id())));
        }
        assert!("rust".parse::<Contender>().unwrap_err().contains("rustland, bpfland, lavd, cosmos, scherzo"));
    }

    #[test]
    fn switches_to_the_scheduler_itself_do_not_count() {
        let account = parse_account("5000 700 40 1040").unwrap();
        assert_eq!((account.at_ns, account.cpu_ns, account.nr_switches), (5_000, 700, 1_000));
        assert!(parse_account("5000 700 40").is_none());
        assert!(parse_account("5000 700 x 1040").is_none());
    }
}
