//! What the kernel counts for the whole machine, from /proc/stat.

use std::fs;

use anyhow::{Context, Result};

use crate::clock::{SECOND_NS, now_ns};

/// Of the line "cpu": user, nice, system, idle, iowait, irq, softirq, steal. What follows is contained in these.
const NR_TIME_FIELDS: usize = 8;

/// Counters since the kernel started, and when they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    at_ns: u64,
    nr_switches: u64,
    nr_interrupts: u64,
    idle_ticks: u64,
    all_ticks: u64,
}

impl Counters {
    pub(crate) fn read() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
        let counters = Self::parse(&text).context("/proc/stat lacks cpu, intr or ctxt")?;
        Ok(Self { at_ns: now_ns(), ..counters })
    }

    fn parse(text: &str) -> Option<Self> {
        let ticks = numbers(text, "cpu ")?.take(NR_TIME_FIELDS).collect::<Option<Vec<u64>>>()?;
        Some(Self {
            at_ns: 0,
            nr_switches: numbers(text, "ctxt ")?.next()??,
            nr_interrupts: numbers(text, "intr ")?.next()??,
            idle_ticks: ticks.get(3)? + ticks.get(4)?,
            all_ticks: ticks.iter().sum(),
        })
    }

    /// What happened in between.
    pub(crate) const fn since(&self, before: &Self) -> Self {
        Self {
            at_ns: self.at_ns.saturating_sub(before.at_ns),
            nr_switches: self.nr_switches.saturating_sub(before.nr_switches),
            nr_interrupts: self.nr_interrupts.saturating_sub(before.nr_interrupts),
            idle_ticks: self.idle_ticks.saturating_sub(before.idle_ticks),
            all_ticks: self.all_ticks.saturating_sub(before.all_ticks),
        }
    }

    pub(crate) fn switches_per_s(&self) -> f64 {
        self.per_s(self.nr_switches)
    }

    pub(crate) fn interrupts_per_s(&self) -> f64 {
        self.per_s(self.nr_interrupts)
    }

    /// Part of all CPUs' time, 0 to 1.
    pub(crate) fn idle_share(&self) -> f64 {
        self.idle_ticks as f64 / self.all_ticks.max(1) as f64
    }

    fn per_s(&self, count: u64) -> f64 {
        count as f64 * SECOND_NS as f64 / self.at_ns.max(1) as f64
    }
}

/// The numbers on the line that begins so.
fn numbers<'a>(text: &'a str, name: &str) -> Option<impl Iterator<Item = Option<u64>> + use<'a>> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_ascii_whitespace().map(|number| number.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cpu  1 2 3 400 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 77 1 2\nctxt 99\n";

    #[test]
    fn counters_are_found() {
        let expected = Counters { at_ns: 0, nr_switches: 99, nr_interrupts: 77, idle_ticks: 405, all_ticks: 432 };
        assert_eq!(Counters::parse(TEXT), Some(expected));
        assert_eq!(Counters::parse(&TEXT.replace("ctxt", "switches")), None);
        assert_eq!(Counters::parse(&TEXT.replace("400", "many")), None);
    }

    #[test]
    fn rates_are_per_second() {
        let before = Counters { at_ns: 1, nr_switches: 10, nr_interrupts: 5, idle_ticks: 100, all_ticks: 400 };
        let after =
            Counters { at_ns: 1 + 2 * SECOND_NS, nr_switches: 30, nr_interrupts: 6, idle_ticks: 125, all_ticks: 500 };
        let passed = after.since(&before);
        let rates = [passed.switches_per_s(), passed.interrupts_per_s(), passed.idle_share()];
        assert_eq!(rates.map(|rate| (rate * 100.0).round() as u64), [1000, 50, 25]);
    }

    #[test]
    fn this_kernel_is_understood() {
        assert!(Counters::read().unwrap().nr_switches > 0);
    }
}
