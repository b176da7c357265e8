//! Scherzo beside the kernel's default scheduler, a peer, and the best that any scheduler can do: in one boot, in
//! turns.
//!
//! A comparison is a number of rounds. In each, every *contender* is loaded once and measured under every load;
//! the order rotates from round to round, so that none is always first. Figures of different boots are not
//! comparable, and single figures mean little: [`summary`] takes medians and tells the spread, [`promises`] holds
//! Scherzo's against the others', [`report`] prints both.

pub mod contender;
pub mod peer;
pub mod promises;
pub mod report;
pub mod sample;
pub mod summary;

use std::fmt;

use anyhow::{Context, Result};
use serde::Serialize;

use contender::Contender;
use sample::Measurement;
use scherzo_rig::measure::Meter;
use scherzo_rig::progress::say;
use scherzo_rig::shell::Shell;

/// The load on the machine during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Nothing.
    Idle,
    /// One CPU hog per CPU.
    Hog1,
    /// Two CPU hogs per CPU.
    Hog2,
    /// A storm of short processes.
    Fork,
    /// Bytes passed back and forth through pipes.
    Pipe,
    /// Two CPU hogs per CPU, and instead of the usual probe one thread that works 1 ms every 5 ms.
    Audio,
    /// As much work as half of the CPUs can do.
    Half,
}

impl Workload {
    /// Every load, in the order in which they are measured.
    pub const ALL: [Self; 7] = [Self::Idle, Self::Hog1, Self::Hog2, Self::Fork, Self::Pipe, Self::Audio, Self::Half];

    /// Options of `scherzo-bench probe`.
    const fn options(self) -> &'static str {
        match self {
            Self::Idle => "--load idle",
            Self::Hog1 => "--load hogs --hogs-per-cpu 1",
            Self::Hog2 => "--load hogs --hogs-per-cpu 2",
            Self::Fork => "--load fork",
            Self::Pipe => "--load pipe",
            Self::Audio => "--load hogs --hogs-per-cpu 2 --audio",
            Self::Half => "--load half",
        }
    }

    /// What its throughput counts, per second.
    #[must_use]
    pub const fn unit(self) -> Option<&'static str> {
        match self {
            Self::Idle => None,
            Self::Hog1 | Self::Hog2 | Self::Audio | Self::Half => Some("units of work/s"),
            Self::Fork => Some("processes/s"),
            Self::Pipe => Some("round trips/s"),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Hog1 => "hog1",
            Self::Hog2 => "hog2",
            Self::Fork => "fork",
            Self::Pipe => "pipe",
            Self::Audio => "audio",
            Self::Half => "half",
        })
    }
}

/// What is measured, and how often.
#[derive(Debug, Clone, Serialize)]
pub struct ComparisonPlan {
    /// The loads.
    pub loads: Vec<Workload>,
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// Rounds.
    pub nr_rounds: u32,
    /// Seconds per measurement.
    pub seconds: u32,
}

impl ComparisonPlan {
    /// Seconds of the guest's time that the measurements take.
    #[must_use]
    pub fn guest_seconds(&self) -> u32 {
        let of = |contender: &Contender| self.loads.iter().filter(|load| contender.takes_part(**load)).count();
        let nr_samples = self.nr_rounds * self.contenders.iter().map(of).sum::<usize>() as u32;
        nr_samples * (self.seconds + sample::WARMUP_SECONDS)
    }

    /// The contenders of a round, in order.
    fn order(&self, round: u32) -> impl Iterator<Item = Contender> {
        let nr_contenders = self.contenders.len();
        let first = round as usize % nr_contenders.max(1);
        self.contenders.iter().cycle().skip(first).take(nr_contenders).copied()
    }
}

/// Measures everything planned. `name` says in the progress which comparison this is.
pub fn run(shell: &mut dyn Shell, plan: &ComparisonPlan, name: &str) -> Result<Vec<Measurement>> {
    let meter = Meter::calibrate(shell, plan.seconds)?;
    let mut samples = Vec::new();
    for round in 0..plan.nr_rounds {
        for contender in plan.order(round) {
            contender.take_charge(shell).with_context(|| format!("{contender} cannot take charge"))?;
            for &load in plan.loads.iter().filter(|load| contender.takes_part(**load)) {
                let sample = sample::take(shell, &meter, contender, load, round)
                    .with_context(|| format!("measuring {contender} under {load}"))?;
                say(&format!("{name}, round {} of {}: {sample}", round + 1, plan.nr_rounds));
                samples.push(sample);
            }
            contender.leave(shell).with_context(|| format!("{contender} does not leave"))?;
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_first_in_turn() {
        let contenders = vec![Contender::Default, Contender::Scherzo, Contender::Floor];
        let plan = ComparisonPlan { loads: vec![Workload::Idle], contenders, nr_rounds: 3, seconds: 10 };
        let order = |round| plan.order(round).collect::<Vec<_>>();
        assert_eq!(order(0), [Contender::Default, Contender::Scherzo, Contender::Floor]);
        assert_eq!(order(1), [Contender::Scherzo, Contender::Floor, Contender::Default]);
        assert_eq!(order(3), order(0));
        assert_eq!(plan.guest_seconds(), 9 * (10 + sample::WARMUP_SECONDS));
    }
}
