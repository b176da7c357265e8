//! Scherzo beside the kernel's default scheduler, a peer, and real-time threads over the default: in one boot, in turns.
//!
//! A comparison is a number of rounds. In each, every *contender* is loaded once and measured under every load;
//! the order changes from round to round, so that each follows each other equally often. Figures of different boots are not
//! comparable, and single figures mean little: [`summary`] takes medians and tells the spread, [`promises`] holds
//! Scherzo's against the others', [`provenance`] says where all of it comes from, [`report`] prints it. What takes longer
//! than a boot should is a [`queue`] of parts.

pub mod contender;
pub mod peer;
pub mod promises;
pub mod provenance;
pub mod queue;
pub mod report;
pub mod sample;
pub mod summary;

use std::fmt;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use contender::Contender;
use sample::Measurement;
use scherzo_rig::measure::Meter;
use scherzo_rig::progress::say;
use scherzo_rig::shell::Shell;

/// The load on the machine during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        places(self.contenders.len(), round as usize).into_iter().map(|place| self.contenders[place])
    }
}

/// The order of `nr` in a round, by Williams' design: 0, n-1, 1, n-2 and so on, each moved on by the round. Of an even
/// number each follows each other once in as many rounds, and never twice before; of an odd number twice in twice as
/// many, of which the second half runs backwards.
fn places(nr: usize, round: usize) -> Vec<usize> {
    let zigzag = (0..nr).map(|step| if step % 2 == 0 { step / 2 } else { nr - 1 - step / 2 });
    let mut order: Vec<_> = zigzag.map(|place| (place + round) % nr).collect();
    if nr % 2 == 1 && round / nr % 2 == 1 {
        order.reverse();
    }
    order
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

    /// How often each follows each other within the first rounds.
    fn nr_successions(nr: usize, nr_rounds: usize) -> Vec<u32> {
        let mut count = vec![0; nr * nr];
        for round in 0..nr_rounds {
            places(nr, round).windows(2).for_each(|pair| count[pair[0] * nr + pair[1]] += 1);
        }
        (0..nr * nr).filter(|pair| pair / nr != pair % nr).map(|pair| count[pair]).collect()
    }

    #[test]
    fn each_follows_each_other_equally_often_to_within_one() {
        for nr in [2, 4, 6, 8] {
            for nr_rounds in 1..=2 * nr {
                let count = nr_successions(nr, nr_rounds);
                let (least, most) = (count.iter().min().unwrap(), count.iter().max().unwrap());
                assert!(most - least <= 1, "{nr} in {nr_rounds} rounds: {count:?}");
            }
        }
        for nr in [3, 5, 7] {
            assert!(nr_successions(nr, 2 * nr).iter().all(|&count| count == 2), "{nr}");
        }
        assert_eq!(places(1, 3), [0]);
        assert!(places(0, 0).is_empty());
    }

    #[test]
    fn the_orders_of_rounds_are_those_of_the_contenders() {
        let contenders = vec![Contender::Default, Contender::Floor];
        let plan = ComparisonPlan { loads: vec![Workload::Idle], contenders, nr_rounds: 3, seconds: 10 };
        let order = |round| plan.order(round).collect::<Vec<_>>();
        assert_eq!(order(0), [Contender::Default, Contender::Floor]);
        assert_eq!(order(1), [Contender::Floor, Contender::Default]);
        assert_eq!(plan.guest_seconds(), 6 * (10 + sample::WARMUP_SECONDS));
    }
}
