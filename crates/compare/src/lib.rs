//! Scherzo beside the kernel's default scheduler, its peers, and real-time threads over the default: in one boot, in turns.
//!
//! A comparison is a number of rounds. In each, every *contender* is loaded once and measured under every load, or with every
//! tool; the order changes from round to round, so that each follows each other equally often. Figures of different boots are
//! not comparable, and single figures mean little: [`summary`] and [`judgement`] take medians and tell the spread, [`promises`]
//! holds Scherzo's against the others', [`provenance`] says where all of it comes from, [`report`] prints it. What takes longer
//! than a boot should is a [`queue`] of parts.
//!
//! There are three [sets](set::BenchmarkSet): our own probe beside loads against real-time threads and one peer, the same
//! against all peers, and [tools](tool) that others wrote.

pub mod contender;
pub mod judgement;
pub mod peer;
pub mod promises;
pub mod provenance;
pub mod queue;
pub mod report;
pub mod sample;
pub mod set;
pub mod summary;
mod table;
pub mod tool;
pub mod workload;

use std::fmt;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use contender::Contender;
use scherzo_rig::measure::Meter;
use scherzo_rig::progress::say;
use scherzo_rig::shell::Shell;

/// A load or a tool: what contenders are measured with.
pub trait Measurable:
    fmt::Debug + fmt::Display + Copy + PartialEq + Serialize + DeserializeOwned + Send + Sync
{
    /// What one measurement says.
    type Sample: fmt::Debug + fmt::Display + Clone + PartialEq + Serialize + DeserializeOwned + Send;

    /// All of them, in the order in which they are measured.
    fn all() -> Vec<Self>;

    /// About how long a measurement takes by the guest's clock, if what has no end of its own lasts for `seconds`.
    fn guest_seconds(self, seconds: u32) -> u32;

    /// Whether this contender is measured with it.
    fn has(self, contender: Contender) -> bool;

    /// Done once in a boot, before the first is measured.
    fn prepare(shell: &mut dyn Shell) -> Result<()>;

    /// Measures once.
    fn measure(self, shell: &mut dyn Shell, meter: &Meter, contender: Contender, round: u32) -> Result<Self::Sample>;
}

/// What is measured, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ComparisonPlan<M: Measurable> {
    /// The loads or tools.
    pub loads: Vec<M>,
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// Rounds.
    pub nr_rounds: u32,
    /// Seconds per measurement, where it has no end of its own.
    pub seconds: u32,
}

impl<M: Measurable> ComparisonPlan<M> {
    /// Seconds of the guest's time that the measurements take.
    #[must_use]
    pub fn guest_seconds(&self) -> u32 {
        let of = |load: &M| {
            let nr_contenders = self.contenders.iter().filter(|contender| load.has(**contender)).count();
            load.guest_seconds(self.seconds) * nr_contenders as u32
        };
        self.nr_rounds * self.loads.iter().map(of).sum::<u32>()
    }

    /// The loads or tools, on one line.
    fn names(&self) -> String {
        self.loads.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
    }

    /// The contenders of a round, in order.
    fn order(&self, round: u32) -> impl Iterator<Item = Contender> {
        places(self.contenders.len(), round as usize).into_iter().map(|place| self.contenders[place])
    }
}

/// A peer that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The peer.
    pub contender: Contender,
    /// Of which loads or tools.
    pub loads: String,
    /// Why, in its own words where it has said any.
    pub why: String,
}

/// What came of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Measured<M: Measurable> {
    /// Every measurement.
    pub samples: Vec<M::Sample>,
    /// The peers that have none.
    pub left_out: Vec<LeftOut>,
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

/// Measures everything planned. `name` says in the progress which comparison this is. A peer that does not load, or does not
/// last, is left out; it does not end the run.
pub fn run<M: Measurable>(shell: &mut dyn Shell, plan: &ComparisonPlan<M>, name: &str) -> Result<Measured<M>> {
    let meter = Meter::calibrate(shell, plan.seconds)?;
    M::prepare(shell)?;
    let mut samples = Vec::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
    for round in 0..plan.nr_rounds {
        let name = format!("{name}, round {} of {}", round + 1, plan.nr_rounds);
        for contender in plan.order(round) {
            if left_out.iter().any(|known| known.contender == contender) {
                continue;
            }
            let turn = take_turn(shell, &meter, plan, contender, round, &name);
            match turn {
                Ok(turn) => samples.extend(turn.into_iter().map(|sample| (contender, sample))),
                Err(error) if contender.peer().is_some() => {
                    let why = format!("{error:#}");
                    say(&format!("{name}: {contender} is left out: {why}"));
                    left_out.push(LeftOut { contender, loads: plan.names(), why });
                }
                Err(error) => return Err(error),
            }
            contender.leave(shell).with_context(|| format!("{contender} does not leave"))?;
        }
    }
    let is_in = |contender| left_out.iter().all(|known| known.contender != contender);
    let samples = samples.into_iter().filter_map(|(who, sample)| is_in(who).then_some(sample)).collect();
    Ok(Measured { samples, left_out })
}

/// Loads a contender and measures it with everything; it stays loaded.
fn take_turn<M: Measurable>(
    shell: &mut dyn Shell,
    meter: &Meter,
    plan: &ComparisonPlan<M>,
    contender: Contender,
    round: u32,
    name: &str,
) -> Result<Vec<M::Sample>> {
    contender.take_charge(shell).with_context(|| format!("{contender} cannot take charge"))?;
    let measure = |load: &M| {
        let charge = contender.charge(shell)?;
        let sample = load.measure(shell, meter, contender, round);
        contender.ensure_in_charge(shell, &charge)?;
        let sample = sample.with_context(|| format!("measuring {contender} under {load}"))?;
        say(&format!("{name}: {sample}"));
        Ok(sample)
    };
    plan.loads.iter().filter(|load| load.has(contender)).map(measure).collect()
}

#[cfg(test)]
mod tests {
    use super::workload::Workload;
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
        assert_eq!(plan.guest_seconds(), 6 * Workload::Idle.guest_seconds(10));
    }
}
