//! Scherzo beside the kernel's default scheduler, its peers, and real-time threads over the default: in one boot, in turns.
//!
//! A comparison is a number of rounds. In each, every *contender* is loaded once and measured under every load, or with every
//! tool; the order changes from round to round, so that each follows each other equally often. Figures of different boots are
//! not comparable, and single figures mean little: [`summary`] and [`judgement`] take medians and tell the spread, [`promises`]
//! holds Scherzo's against the others', [`headline`] says in five sentences what all of it comes to and [`picture`] draws what
//! matters to a person, [`provenance`] says where it comes from, [`report`] prints it. What takes longer than a boot should is a
//! [`queue`] of parts.
//!
//! There are three [sets](set::BenchmarkSet): our own probe beside loads against real-time threads and one peer, the same
//! against all peers, and [tools](tool) that others wrote.

pub mod contender;
pub mod headline;
pub mod judgement;
mod panel;
pub mod peer;
pub mod picture;
pub mod program;
pub mod promises;
pub mod provenance;
pub mod queue;
pub mod report;
pub mod sample;
pub mod set;
mod standing;
pub mod summary;
mod table;
pub mod tool;
pub mod workload;

use std::fmt;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use contender::Contender;
use program::OtherProgram;
use scherzo_rig::measure::Meter;
use scherzo_rig::progress::say;
use scherzo_rig::service::{MOMENT, ensure_unloaded};
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

    /// Programs of others that it needs.
    fn programs(self) -> &'static [OtherProgram] {
        &[]
    }

    /// Done once in a boot, before the first of these is measured.
    fn prepare(shell: &mut dyn Shell, loads: &[Self]) -> Result<()>;

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

    /// Whether any scheduler is loaded, so that Scherzo must be installed, and the kernel have sched_ext.
    fn needs_product(&self) -> bool {
        !self.contenders.iter().all(|contender| contender.is_of_kernel())
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
pub struct Findings<M: Measurable> {
    /// Every measurement.
    pub samples: Vec<M::Sample>,
    /// The peers that have none.
    pub left_out: Vec<LeftOut>,
}

/// The order of `nr` in a round, by Williams' design: 0, n-1, 1, n-2 and so on, each moved on by the round. Of an even
/// number each follows each other once in as many rounds, and never twice before. Of an odd number each order is followed by
/// the same backwards, and each follows each other twice in twice as many rounds.
fn places(nr: usize, round: usize) -> Vec<usize> {
    let is_odd = nr % 2 == 1;
    let shift = if is_odd { round / 2 } else { round };
    let zigzag = (0..nr).map(|step| if step % 2 == 0 { step / 2 } else { nr - 1 - step / 2 });
    let mut order: Vec<_> = zigzag.map(|place| (place + shift) % nr).collect();
    if is_odd && round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Measures everything planned. `name` says in the progress which comparison this is. A peer that does not load, or does not
/// last, is left out; it does not end the run.
pub fn run<M: Measurable>(shell: &mut dyn Shell, plan: &ComparisonPlan<M>, name: &str) -> Result<Findings<M>> {
    let meter = Meter::calibrate(shell, plan.seconds)?;
    M::prepare(shell, &plan.loads)?;
    let mut samples = Vec::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
    for round in 0..plan.nr_rounds {
        let name = format!("{name}, round {} of {}", round + 1, plan.nr_rounds);
        for contender in plan.order(round) {
            if left_out.iter().any(|known| known.contender == contender) {
                continue;
            }
            let turn = take_turn(shell, &meter, plan, contender, round, &name);
            // Also after an error: the system may be one that somebody goes on to use.
            let left = contender.leave(shell).with_context(|| format!("{contender} does not leave"));
            match turn {
                Ok(turn) => samples.extend(turn.into_iter().map(|sample| (contender, sample))),
                Err(error) if contender.peer().is_some() => {
                    let why = format!("{error:#}");
                    say(&format!("{name}: {contender} is left out: {why}"));
                    left_out.push(LeftOut { contender, loads: plan.names(), why });
                }
                Err(error) => return Err(error),
            }
            left?;
        }
    }
    let is_in = |contender| left_out.iter().all(|known| known.contender != contender);
    let samples = samples.into_iter().filter_map(|(who, sample)| is_in(who).then_some(sample)).collect();
    Ok(Findings { samples, left_out })
}

/// Has every contender leave, wherever a run has ended, and ends the loads; the first error counts.
pub fn leave_all(shell: &mut dyn Shell, contenders: &[Contender]) -> Result<()> {
    let hogs = shell.check("pkill -x scherzo-bench || true", MOMENT).map(drop);
    let left: Vec<_> = contenders.iter().map(|contender| contender.leave(shell)).collect();
    left.into_iter().chain([hogs]).collect()
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
    if plan.needs_product() {
        ensure_unloaded(shell)?;
    }
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
    use std::time::Duration;

    use scherzo_rig::shell::CommandOutput;

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
        // Seven are those with all peers; their five rounds, or three, are fewer than these.
        let most_rounds = [2, 4, 6, 8].map(|nr| (nr, 2 * nr)).into_iter().chain([(7, 6)]);
        for (nr, nr_rounds) in most_rounds.flat_map(|(nr, most)| (1..=most).map(move |nr_rounds| (nr, nr_rounds))) {
            let count = nr_successions(nr, nr_rounds);
            let (least, most) = (count.iter().min().unwrap(), count.iter().max().unwrap());
            assert!(most - least <= 1, "{nr} in {nr_rounds} rounds: {count:?}");
        }
        for nr in [3, 5, 7] {
            assert!(nr_successions(nr, 2 * nr).iter().all(|&count| count == 2), "{nr}");
        }
        assert_eq!(places(1, 3), [0]);
        assert!(places(0, 0).is_empty());
    }

    /// A system that has neither Scherzo nor sched_ext, and on which the second measurement fails.
    #[derive(Default)]
    struct Plain {
        commands: Vec<String>,
    }

    impl Shell for Plain {
        fn run(&mut self, command: &str, _: Duration) -> Result<CommandOutput> {
            self.commands.push(command.to_owned());
            let nr_probes = self.commands.iter().filter(|command| *command == "scherzo-bench once").count();
            let is_missing = command.contains("busctl") || (command == "scherzo-bench once" && nr_probes > 1);
            let stdout = match command {
                _ if command.contains("cat state") => "absent\n\n0\n",
                _ if command.contains("scherzo-bench probe") => "{\"iterations_per_us\": 1}",
                _ => "",
            };
            Ok(CommandOutput { status: is_missing.into(), stdout: stdout.into(), stderr: String::new() })
        }

        fn patience(&self) -> u32 {
            1
        }
    }

    #[test]
    fn the_kernel_s_own_scheduler_needs_no_service_and_gets_back_its_features_after_an_error() {
        let contenders = vec![Contender::Default, Contender::PlainFloor];
        let plan = ComparisonPlan { loads: vec![Once], contenders: contenders.clone(), nr_rounds: 1, seconds: 1 };
        assert!(!plan.needs_product());
        let mut shell = Plain::default();
        let error = format!("{:#}", run(&mut shell, &plan, "a test").unwrap_err());
        assert!(error.starts_with("measuring floor, no HRTICK under once"), "{error}");
        assert!(shell.commands.last().unwrap().contains("echo HRTICK"), "{:?}", shell.commands);
        let with_scherzo = ComparisonPlan { contenders: vec![Contender::Default, Contender::Scherzo], ..plan };
        assert!(with_scherzo.needs_product() && run(&mut shell, &with_scherzo, "a test").is_err());
        let mut left = Plain::default();
        leave_all(&mut left, &contenders).unwrap();
        assert!(left.commands.len() == 2 && left.commands[1].contains("echo HRTICK"), "{:?}", left.commands);
    }

    /// A system where one peer gives up, another is unloaded by the kernel while it is measured, and a third stays.
    #[derive(Default)]
    struct Troubled {
        running: Option<String>,
        nr_probes: u32,
    }

    impl Troubled {
        fn answer(&mut self, command: &str) -> Option<String> {
            let Some((_, program)) = command.split_once("systemd-run").and_then(|(_, run)| run.rsplit_once("/scx_"))
            else {
                return self.answer_of_running(command);
            };
            self.running = (program != "lavd").then(|| program.to_owned());
            Some(String::new())
        }

        fn answer_of_running(&mut self, command: &str) -> Option<String> {
            match command {
                "scherzo-bench once" => {
                    self.nr_probes += 1;
                    self.running.take_if(|program| program == "cosmos");
                }
                _ if command.contains("cat state") => {
                    let state = if self.running.is_some() { "enabled" } else { "disabled" };
                    return Some(format!("{state}\n{}\n1\n", self.running.as_deref().unwrap_or_default()));
                }
                _ if command.contains("scherzo-bench probe") => return Some("{\"iterations_per_us\": 1}".into()),
                _ if command.contains("journalctl") && command.contains("lavd") => {
                    return Some("Error: too new\n".into());
                }
                _ if command.contains("journalctl") => return Some("EXIT: runnable task stall\n".into()),
                _ if command.contains("systemctl stop") => self.running = None,
                _ if command.contains("is-active") && self.running.is_none() => return None,
                _ => {}
            }
            Some(String::new())
        }
    }

    impl Shell for Troubled {
        fn run(&mut self, command: &str, _: Duration) -> Result<CommandOutput> {
            let answer = self.answer(command);
            let status = if answer.is_some() { 0 } else { 3 };
            Ok(CommandOutput { status, stdout: answer.unwrap_or_default(), stderr: String::new() })
        }

        fn patience(&self) -> u32 {
            1
        }
    }

    /// Measures nothing but that it was measured.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    struct Once;

    impl fmt::Display for Once {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("once")
        }
    }

    impl Measurable for Once {
        type Sample = String;

        fn all() -> Vec<Self> {
            vec![Self]
        }

        fn guest_seconds(self, seconds: u32) -> u32 {
            seconds
        }

        fn has(self, _: Contender) -> bool {
            true
        }

        fn prepare(_: &mut dyn Shell, _: &[Self]) -> Result<()> {
            Ok(())
        }

        fn measure(self, shell: &mut dyn Shell, _: &Meter, contender: Contender, round: u32) -> Result<String> {
            shell.check("scherzo-bench once", Duration::from_secs(1))?;
            Ok(format!("{} {round}", contender.id()))
        }
    }

    #[test]
    fn a_peer_that_does_not_load_or_last_is_left_out_with_its_words_and_the_others_are_measured() {
        let contenders = ["default", "bpfland", "lavd", "cosmos"].map(|id| id.parse().unwrap());
        let plan = ComparisonPlan { loads: vec![Once], contenders: contenders.to_vec(), nr_rounds: 2, seconds: 1 };
        let mut shell = Troubled::default();
        let found = run(&mut shell, &plan, "a test").unwrap();
        let [.., lavd, cosmos] = contenders;
        let left_out = |contender, why: &str| LeftOut { contender, loads: "once".into(), why: why.into() };
        let mut expected = [
            left_out(lavd, "scx_lavd cannot take charge: Error: too new"),
            left_out(cosmos, "the kernel has unloaded it: EXIT: runnable task stall"),
        ];
        let mut told = found.left_out.clone();
        told.sort_by_key(|one| one.contender.id());
        expected.sort_by_key(|one| one.contender.id());
        assert_eq!(told, expected);
        assert_eq!(found.samples, ["default 0", "bpfland 0", "bpfland 1", "default 1"]);
        assert_eq!((shell.running, shell.nr_probes), (None, 5));
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
