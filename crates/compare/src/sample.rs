//! One measurement: a contender under a load.

use std::fmt;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Measurable;
use super::contender::{Account, Contender, Own};
use super::workload::Workload;
use scherzo_rig::measure::{Meter, number};
use scherzo_rig::shell::Shell;

/// Time for a load to settle before the measurement.
const WARMUP_SECONDS: u32 = 2;

/// What is known of the samples of a latency, in µs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 99th.
    pub p99: f64,
    /// How many samples there are.
    pub nr_samples: u64,
    /// The longest of them, longest first.
    pub longest: Vec<f64>,
}

/// What a scheduler cost while it was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulerCost {
    /// CPU time of its process, part of one CPU: 0 to the number of CPUs.
    pub cpu_share: f64,
    /// CPU time of its process for each context switch of the machine to anything else, in µs.
    pub us_per_switch: Option<f64>,
    /// Of the tasks that might have waited for user space, the part that it decided, 0 to 1.
    pub user_share: Option<f64>,
    /// Times that a CPU went idle; Scherzo's only.
    pub idle_entries_per_s: Option<f64>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The contender.
    pub contender: Contender,
    /// The load.
    pub load: Workload,
    /// The round, from 0.
    pub round: u32,
    /// From the timer to running.
    pub timer_wake_us: Percentiles,
    /// From the write into a pipe to its reader running.
    pub pipe_wake_us: Percentiles,
    /// From the timer to 200 µs of work being done.
    pub work_done_us: Percentiles,
    /// The load's work per second; what it counts depends on the load.
    pub throughput: f64,
    /// Context switches of the whole machine.
    pub switches_per_s: f64,
    /// Mean power of the machine's processors, in W, where they tell: not in guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// The cost, for schedulers with a process.
    pub cost: Option<SchedulerCost>,
}

impl Measurable for Workload {
    type Sample = Measurement;

    fn all() -> Vec<Self> {
        Self::ALL.to_vec()
    }

    fn guest_seconds(self, seconds: u32) -> u32 {
        seconds + WARMUP_SECONDS
    }

    fn has(self, contender: Contender) -> bool {
        match contender {
            Contender::LowPower => matches!(self, Workload::Idle | Workload::Half),
            // Where several tasks share a CPU.
            Contender::PlainFloor => matches!(self, Workload::Hog2 | Workload::Fork),
            _ => true,
        }
    }

    fn prepare(_: &mut dyn Shell, _: &[Self]) -> Result<()> {
        Ok(())
    }

    fn measure(self, shell: &mut dyn Shell, meter: &Meter, contender: Contender, round: u32) -> Result<Measurement> {
        take(shell, meter, contender, self, round)
    }
}

/// Measures once.
fn take(shell: &mut dyn Shell, meter: &Meter, contender: Contender, load: Workload, round: u32) -> Result<Measurement> {
    let before = contender.account(shell)?;
    let rt = if contender.is_floor() { "--rt" } else { "" };
    let options = format!("{} {rt} --warmup {WARMUP_SECONDS} --seed {}", load.options(), round + 1);
    let probe = meter.probe(shell, &options)?;
    let after = contender.account(shell)?;
    Ok(Measurement {
        contender,
        load,
        round,
        timer_wake_us: percentiles(&probe, "timer_wake_us")?,
        pipe_wake_us: percentiles(&probe, "pipe_wake_us")?,
        work_done_us: percentiles(&probe, "work_done_us")?,
        throughput: number(&probe, "/throughput")?,
        switches_per_s: number(&probe, "/nr_switches_per_s")?,
        power_w: probe["power_w"].as_f64(),
        cost: before.zip(after).map(|(before, after)| cost(&before, &after)),
    })
}

fn percentiles(probe: &Value, name: &str) -> Result<Percentiles> {
    let distribution = probe.get(name).with_context(|| format!("scherzo-bench says no {name}"))?;
    Ok(Percentiles {
        p50: number(distribution, "/p50")?,
        p99: number(distribution, "/p99")?,
        nr_samples: number(distribution, "/n")? as u64,
        longest: serde_json::from_value(distribution["longest"].clone()).context("scherzo-bench says no longest")?,
    })
}

fn cost(before: &Account, after: &Account) -> SchedulerCost {
    let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns) as f64;
    let passed_ns = after.at_ns.saturating_sub(before.at_ns);
    let own = before.own.zip(after.own).map(|(before, after)| Own {
        nr_decidable: after.nr_decidable.saturating_sub(before.nr_decidable),
        nr_decided: after.nr_decided.saturating_sub(before.nr_decided),
        nr_idle_entries: after.nr_idle_entries.saturating_sub(before.nr_idle_entries),
    });
    SchedulerCost {
        cpu_share: ratio(cpu_ns, passed_ns).unwrap_or(0.0),
        us_per_switch: ratio(cpu_ns / 1e3, after.nr_switches.saturating_sub(before.nr_switches)),
        user_share: own.and_then(|own| ratio(own.nr_decided as f64, own.nr_decidable)),
        idle_entries_per_s: own.and_then(|own| ratio(own.nr_idle_entries as f64 * 1e9, passed_ns)),
    }
}

fn ratio(part: f64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part / whole as f64)
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contender, load, timer_wake_us, throughput, .. } = self;
        let Percentiles { p50, p99, .. } = timer_wake_us;
        write!(f, "{contender} under {load}: timer {p50:.0}/{p99:.0} µs, throughput {throughput:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_what_came_in_between() {
        let account = |at_ns, cpu_ns, nr_switches, nr_decidable, nr_decided| Account {
            at_ns,
            cpu_ns,
            nr_switches,
            own: Some(Own { nr_decidable, nr_decided, nr_idle_entries: nr_switches }),
        };
        let cost = cost(&account(1_000_000, 50_000, 10, 100, 90), &account(3_000_000, 150_000, 60, 200, 185));
        let expected = SchedulerCost {
            cpu_share: 0.05,
            us_per_switch: Some(2.0),
            user_share: Some(0.95),
            idle_entries_per_s: Some(25_000.0),
        };
        assert_eq!(cost, expected);
    }

    #[test]
    fn nothing_done_has_no_price() {
        let account = Account { at_ns: 5, cpu_ns: 7, ..Account::default() };
        assert_eq!(super::cost(&account, &account), SchedulerCost::default());
    }
}
