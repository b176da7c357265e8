//! Figures from inside a system, taken by `scherzo-bench`.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::Shell;

/// Beyond what it measures for.
const PROBE_LIMIT: Duration = Duration::from_mins(1);

/// Latency of a mostly sleeping thread and throughput of the background load that competes with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// From the timer to running, median, µs.
    pub wake_p50_us: f64,
    /// The same, 99th percentile, µs.
    pub wake_p99_us: f64,
    /// Work that the background did; compare inside one boot only.
    pub throughput: f64,
    /// Part of the CPUs' time spent idle, 0 to 1.
    pub idle_share: f64,
}

impl Figures {
    /// Each figure's median over rounds.
    pub fn median(rounds: &[Self]) -> Result<Self> {
        let of = |figure: fn(&Self) -> f64| {
            let mut values: Vec<_> = rounds.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().context("nothing was measured")
        };
        Ok(Self {
            wake_p50_us: of(|round| round.wake_p50_us)?,
            wake_p99_us: of(|round| round.wake_p99_us)?,
            throughput: of(|round| round.throughput)?,
            idle_share: of(|round| round.idle_share)?,
        })
    }
}

/// Takes figures that can be compared with each other.
#[derive(Debug)]
pub struct Meter {
    iterations_per_us: u64,
    seconds: u32,
}

impl Meter {
    /// Finds out how much work takes a µs. The first probe of a boot is unreliable, because emulators translate code
    /// when it first runs: its figures are dropped, and so are those of the second, which only calibrates.
    pub fn calibrate(shell: &mut dyn Shell, seconds: u32) -> Result<Self> {
        probe(shell, "--load idle --seconds 1 --warmup 0", PROBE_LIMIT)?;
        let value = probe(shell, "--load idle --seconds 1 --warmup 0", PROBE_LIMIT)?;
        Ok(Self { iterations_per_us: number(&value, "/iterations_per_us")? as u64, seconds })
    }

    /// How long it measures.
    #[must_use]
    pub const fn seconds(&self) -> u32 {
        self.seconds
    }

    /// Measures under two hogs per CPU.
    pub fn measure(&self, shell: &mut dyn Shell) -> Result<Figures> {
        figures(&self.probe(shell, "--load hogs --hogs-per-cpu 2 --warmup 1")?)
    }

    /// Measures with further options of `scherzo-bench probe`; all that it says.
    pub fn probe(&self, shell: &mut dyn Shell, options: &str) -> Result<Value> {
        let Self { iterations_per_us, seconds } = self;
        let limit = PROBE_LIMIT + Duration::from_secs((*seconds).into());
        probe(shell, &format!("{options} --seconds {seconds} --calibration {iterations_per_us}"), limit)
    }
}

fn probe(shell: &mut dyn Shell, options: &str, limit: Duration) -> Result<Value> {
    let text = shell.check(&format!("scherzo-bench probe --json {options}"), limit)?;
    serde_json::from_str(&text).with_context(|| format!("scherzo-bench printed: {text}"))
}

fn figures(value: &Value) -> Result<Figures> {
    Ok(Figures {
        wake_p50_us: number(value, "/timer_wake_us/p50")?,
        wake_p99_us: number(value, "/timer_wake_us/p99")?,
        throughput: number(value, "/throughput")?,
        idle_share: number(value, "/idle_share")?,
    })
}

/// The number at a JSON pointer into what `scherzo-bench` has printed.
pub fn number(value: &Value, path: &str) -> Result<f64> {
    value.pointer(path).and_then(Value::as_f64).with_context(|| format!("scherzo-bench says no number at {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_figure_has_a_median_of_its_own() {
        let round = |p99, throughput| Figures { wake_p50_us: 1.0, wake_p99_us: p99, throughput, idle_share: 0.0 };
        let median = Figures::median(&[round(9.0, 100.0), round(5.0, 300.0), round(7.0, 200.0)]).unwrap();
        assert_eq!((median.wake_p99_us, median.throughput), (7.0, 200.0));
        assert!(Figures::median(&[]).is_err());
    }

    #[test]
    fn figures_are_read_and_missing_ones_are_named() {
        let value = json!({"timer_wake_us": {"p50": 10, "p99": 20.5}, "throughput": 1000, "idle_share": 0.25});
        let expected = Figures { wake_p50_us: 10.0, wake_p99_us: 20.5, throughput: 1000.0, idle_share: 0.25 };
        assert_eq!(figures(&value).unwrap(), expected);
        assert!(figures(&json!({"throughput": 1})).unwrap_err().to_string().contains("timer_wake_us"));
    }
}
