//! Figures from inside a guest, taken by `scherzo-bench`.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::guest::Guest;

/// What a mostly sleeping thread and the background got while both wanted the CPUs.
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

/// The command that measures under two hogs per CPU.
#[must_use]
pub fn command(seconds: u32) -> String {
    format!("scherzo-bench probe --load hogs --hogs-per-cpu 2 --seconds {seconds} --json")
}

/// Measures for so many seconds of the guest's time.
pub fn probe(guest: &mut Guest, seconds: u32) -> Result<Figures> {
    let text = guest.check(&command(seconds), Duration::from_secs(u64::from(seconds) + 30))?;
    parse(&text).with_context(|| format!("scherzo-bench printed: {text}"))
}

/// Reads the one JSON object that `scherzo-bench` prints.
pub fn parse(text: &str) -> Result<Figures> {
    let value: Value = serde_json::from_str(text)?;
    let number =
        |path: &str| value.pointer(path).and_then(Value::as_f64).with_context(|| format!("no number at {path}"));
    Ok(Figures {
        wake_p50_us: number("/timer_wake_us/p50")?,
        wake_p99_us: number("/timer_wake_us/p99")?,
        throughput: number("/throughput")?,
        idle_share: number("/idle_share")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_missing_ones_are_named() {
        let text = r#"{"timer_wake_us":{"p50":10,"p99":20.5,"p999":30},"throughput":1000,"idle_share":0.25,"more":[]}"#;
        let expected = Figures { wake_p50_us: 10.0, wake_p99_us: 20.5, throughput: 1000.0, idle_share: 0.25 };
        assert_eq!(parse(text).unwrap(), expected);
        assert!(parse(r#"{"throughput":1}"#).unwrap_err().to_string().contains("timer_wake_us"));
    }
}
