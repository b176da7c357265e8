//! The engine dies again and again, at moments of chance, and is back in no time each time.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::agreement::ensure_agreement;
use super::service::{call, ensure_loaded, journal, keep_state_in_memory};
use crate::guest::Guest;
use crate::image::SCRIPTS_DIR;
use crate::progress::say;
use crate::shell::Shell;

const NR_KILLS: u32 = 200;
/// The moments are the same ones in every run.
const SEED: u32 = 1;
/// From a kill until the service says that the next engine's scheduler runs, without what that engine has spent on loading:
/// a fraction of a second on hardware, but some seconds where the kernel's checks are emulated.
const MAX_ADDED_MS: u64 = 1_000;
/// For a kill, its recovery and the pause before the next one; on real hardware.
const KILL_LIMIT: Duration = Duration::from_secs(4);

/// The engine is killed two hundred times, some of them while it starts.
pub(super) fn two_hundred(guest: &mut Guest) -> Result<()> {
    keep_state_in_memory(guest)?;
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let lines = guest.check(&format!("python3 {SCRIPTS_DIR}/kills.py {NR_KILLS} {SEED}"), KILL_LIMIT * NR_KILLS)?;
    let recoveries = parse(&lines).with_context(|| format!("the recoveries read {lines}"))?;
    say(&summary(&recoveries));
    let slowest = recoveries.iter().max_by_key(|recovery| recovery.added_ms());
    let added_ms = slowest.map_or(0, Recovery::added_ms);
    ensure!(
        added_ms <= MAX_ADDED_MS,
        "back only {added_ms} ms after what loading takes: {slowest:?}{}",
        journal(guest)
    );
    ensure_agreement(guest, "running", "fifo", "choice")?;
    call(guest, "SetMode", "s auto").map(drop)
}

/// What `kills.py` prints of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recovery {
    nr_kills: u64,
    took_ms: u64,
    load_ms: u64,
}

impl Recovery {
    /// What was not the engine's loading.
    fn added_ms(&self) -> u64 {
        self.took_ms.saturating_sub(self.load_ms)
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

fn summary(recoveries: &[Recovery]) -> String {
    let sum = |of: fn(&Recovery) -> u64| recoveries.iter().map(of).sum::<u64>();
    let (nr_kills, load_ms, took_ms) = (sum(|one| one.nr_kills), sum(|one| one.load_ms), sum(|one| one.took_ms));
    let took = spread(recoveries.iter().map(|one| one.took_ms));
    let added = spread(recoveries.iter().map(Recovery::added_ms));
    let share = 100 * load_ms / took_ms.max(1);
    format!(
        "{nr_kills} kills of the engine, {} recoveries: median/p99/longest {took} ms, of which loading {share} %; without \
         loading {added} ms",
        recoveries.len()
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
        let said = "3 kills of the engine, 2 recoveries: median/p99/longest 310/310/690 ms, of which loading 50 %; without \
                    loading 100/100/400 ms";
        assert_eq!(summary(&recoveries), said);
    }

    #[test]
    fn spreads_are_of_sorted_values() {
        assert_eq!(spread((0..=100).rev()), "50/99/100");
        assert_eq!(spread(std::iter::empty()), "0/0/0");
    }
}
