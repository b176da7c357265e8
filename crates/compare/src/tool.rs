//! Tools that others wrote, and a game: what a person would judge a scheduler by, run as plain commands.

mod command;
mod output;
mod programs;
mod shares;

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::Measurable;
use super::contender::Contender;
use super::program::OtherProgram;
use super::table::number;
use scherzo_rig::measure::Meter;
use scherzo_rig::shell::Shell;
use shares::SHARE_SECONDS;

pub use shares::ShareCase;

/// Time limit of a tool that has an end of its own, for real hardware.
const LIMIT: Duration = Duration::from_mins(2);
/// How long stress-ng runs, in the guest's seconds.
const STRESS_SECONDS: u32 = 5;
/// About how long the build takes beside its game, in the guest's seconds.
const BUILD_SECONDS: u32 = 16;

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Tool {
    /// Groups of processes that send to each other through sockets.
    Hackbench,
    /// The same through pipes.
    HackbenchPipes,
    /// The same as perf does it.
    Messaging,
    /// Two processes that wake each other through a pipe.
    PerfPipe,
    /// One such pair per CPU.
    Switch,
    /// Programs started one after the other, beside two hogs per CPU.
    ProgramStart,
    /// The same with a pause before each.
    ProgramStartApart,
    /// Two threads that sleep for 5 ms, beside two hogs per CPU.
    Cyclictest,
    /// Workers that are woken for requests, more than the CPUs can serve at once.
    Requests,
    /// The same, one for each CPU, beside two hogs per CPU.
    RequestsBesideHogs,
    /// A game of 3 and 1 ms while eight compilers run.
    Build,
    /// PipeWire plays a tone beside a load.
    Audio(FrameLoad),
    /// Loads that must share.
    Shares(ShareCase),
    /// A game and its compositor beside a load.
    Frames(GameShape, FrameLoad),
}

/// The game whose frames are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GameShape {
    /// 60 frames a second, of 8 ms in the game and 1.5 ms in the compositor.
    Heavy,
    /// 60 frames a second, of 3 and 1 ms.
    Light,
    /// 144 frames a second, of 2 and 0.5 ms.
    Fast,
    /// 60 frames a second, of 12 ms on three threads, and 1 ms.
    Threaded,
}

/// What runs beside a game, or beside sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameLoad {
    /// One hog per CPU.
    Hog1,
    /// Two hogs per CPU.
    Hog2,
    /// Two hogs per CPU at nice 19.
    Niced,
    /// A storm of short processes.
    Fork,
    /// Two per CPU that compute for 4 ms and sleep for 100 µs.
    Nappers,
}

/// A figure of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolFigure {
    /// Follows the name of the tool; empty if the tool has only this one.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// How figures are put together and compared.
    pub kind: FigureKind,
    /// Whether it is a percentile of latencies, of which small differences are noise.
    pub is_percentile: bool,
}

/// How a figure is put together over the rounds, and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// The median; compared as a ratio.
    Amount,
    /// The mean, which is the share of all rounds together, for each has as many frames; compared as a difference, for it
    /// may be zero.
    Percentage,
}

/// What a tool has said once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSample {
    /// The contender.
    pub contender: Contender,
    /// The tool.
    pub tool: Tool,
    /// The round, from 0.
    pub round: u32,
    /// In the order of [`Tool::figures`].
    pub values: Vec<f64>,
}

const fn amount(name: &'static str, unit: &'static str) -> ToolFigure {
    ToolFigure { name, unit, lower_is_better: true, kind: FigureKind::Amount, is_percentile: false }
}

const fn rate(name: &'static str, unit: &'static str) -> ToolFigure {
    ToolFigure { lower_is_better: false, ..amount(name, unit) }
}

const fn percentile(name: &'static str) -> ToolFigure {
    ToolFigure { is_percentile: true, ..amount(name, "µs") }
}

const fn percentage(name: &'static str) -> ToolFigure {
    ToolFigure { kind: FigureKind::Percentage, ..amount(name, "%") }
}

const MISSED: ToolFigure = percentage("missed");
const OFF_ITS_SHARE: ToolFigure = percentage("off its share");

impl GameShape {
    /// Frames per second, work of the game and of the compositor.
    const fn id(self) -> &'static str {
        match self {
            Self::Heavy => "60x8+1.5",
            Self::Light => "60x3+1",
            Self::Fast => "144x2+0.5",
            Self::Threaded => "60x12/3+1",
        }
    }
}

impl FrameLoad {
    const ALL: [Self; 5] = [Self::Hog1, Self::Hog2, Self::Niced, Self::Fork, Self::Nappers];

    const fn id(self) -> &'static str {
        match self {
            Self::Hog1 => "hog1",
            Self::Hog2 => "hog2",
            Self::Niced => "niced",
            Self::Fork => "fork",
            Self::Nappers => "nappers",
        }
    }
}

impl Tool {
    /// What it says, in the order of its samples.
    #[must_use]
    pub const fn figures(self) -> &'static [ToolFigure] {
        match self {
            Self::Hackbench | Self::HackbenchPipes | Self::Messaging => &const { [amount("", "s")] },
            Self::PerfPipe => &const { [rate("", "operations/s")] },
            Self::Switch => &const { [rate("", "bogo ops/s")] },
            Self::ProgramStart | Self::ProgramStartApart => &const { [amount("", "ms")] },
            Self::Cyclictest => &const { [amount("avg", "µs"), amount("max", "µs")] },
            Self::Requests | Self::RequestsBesideHogs => {
                &const { [rate("served", "requests/s"), percentile("wake p99"), percentile("done p99")] }
            }
            Self::Build => &const { [MISSED, percentile("wake p99"), amount("time", "s")] },
            Self::Audio(_) => &const { [MISSED] },
            Self::Shares(ShareCase::ShortNappers) => &const { [OFF_ITS_SHARE, amount("gap", "ms")] },
            Self::Shares(_) => &const { [OFF_ITS_SHARE] },
            Self::Frames(..) => &const { [MISSED, percentile("wake p95"), percentile("wake p99")] },
        }
    }

    /// What its percentages are of.
    pub(super) const fn counted(self) -> &'static str {
        match self {
            Self::Audio(_) => "cycles of sound",
            Self::Shares(_) => "CPU time",
            _ => "frames",
        }
    }

    fn values(self, output: &str) -> Result<Vec<f64>> {
        match self {
            Self::Hackbench | Self::HackbenchPipes => output::hackbench(output),
            Self::Messaging => output::perf_time(output),
            Self::PerfPipe => output::perf_rate(output),
            Self::Switch => output::stress_rate(output, "switch"),
            Self::ProgramStart => output::starts(output, command::NR_STARTS),
            Self::ProgramStartApart => output::starts(output, command::NR_STARTS_APART),
            Self::Cyclictest => output::cyclictest(output),
            Self::Requests | Self::RequestsBesideHogs => output::requests(output),
            Self::Build => output::build(output),
            Self::Audio(_) => output::audio(output),
            Self::Shares(ShareCase::ShortNappers) => Ok(shares::values(output)?.to_vec()),
            Self::Shares(_) => Ok(shares::values(output)?[..1].to_vec()),
            Self::Frames(..) => output::frames(output),
        }
    }
}

impl Measurable for Tool {
    type Sample = ToolSample;

    fn all() -> Vec<Self> {
        let mut all = vec![
            Self::Hackbench,
            Self::HackbenchPipes,
            Self::Messaging,
            Self::PerfPipe,
            Self::Switch,
            Self::ProgramStart,
            Self::ProgramStartApart,
            Self::Cyclictest,
            Self::Requests,
            Self::RequestsBesideHogs,
            Self::Build,
        ];
        all.extend([FrameLoad::Hog2, FrameLoad::Nappers].map(Self::Audio));
        all.extend(ShareCase::ALL.map(Self::Shares));
        all.extend(FrameLoad::ALL.map(|load| Self::Frames(GameShape::Heavy, load)));
        all.extend([
            Self::Frames(GameShape::Light, FrameLoad::Hog2),
            Self::Frames(GameShape::Fast, FrameLoad::Nappers),
            Self::Frames(GameShape::Threaded, FrameLoad::Hog2),
        ]);
        all
    }

    fn guest_seconds(self, seconds: u32) -> u32 {
        match self {
            Self::Hackbench | Self::HackbenchPipes | Self::PerfPipe => 2,
            Self::Messaging => 5,
            Self::Switch => STRESS_SECONDS + 1,
            Self::ProgramStart | Self::ProgramStartApart | Self::Cyclictest => 10,
            Self::Shares(_) => SHARE_SECONDS + 2,
            Self::Build => BUILD_SECONDS,
            // Until everybody is connected, and the load runs.
            Self::Audio(_) => seconds + 6,
            // It settles for a second, and measures before how much work takes a µs.
            Self::Requests | Self::RequestsBesideHogs | Self::Frames(..) => seconds + 3,
        }
    }

    /// A floor is the tool as SCHED_FIFO beside a load, so only where there is one.
    fn has(self, contender: Contender) -> bool {
        let has_load = matches!(
            self,
            Self::ProgramStart
                | Self::ProgramStartApart
                | Self::Cyclictest
                | Self::RequestsBesideHogs
                | Self::Build
                | Self::Audio(_)
                | Self::Frames(..)
        );
        !contender.is_floor() || has_load
    }

    fn programs(self) -> &'static [OtherProgram] {
        self.other_programs()
    }

    fn prepare(shell: &mut dyn Shell, tools: &[Self]) -> Result<()> {
        shell.check(&programs::warm_up(tools), LIMIT).map(drop)
    }

    fn measure(self, shell: &mut dyn Shell, meter: &Meter, contender: Contender, round: u32) -> Result<ToolSample> {
        let limit = LIMIT + Duration::from_secs(meter.seconds().into());
        let output = shell.check(&self.command(meter.seconds(), contender.is_floor()), limit)?;
        let values = self.values(&output).with_context(|| format!("it printed: {output}"))?;
        ensure!(values.len() == self.figures().len(), "it has {} figures: {output}", values.len());
        Ok(ToolSample { contender, tool: self, round, values })
    }
}

impl fmt::Display for ToolSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.contender, self.tool)?;
        for (figure, value) in self.tool.figures().iter().zip(&self.values) {
            let ToolFigure { name, unit, .. } = figure;
            write!(f, " {name}{}{} {unit}", if name.is_empty() { "" } else { " " }, number(*value))?;
        }
        Ok(())
    }
}

/// Names it in options, files and tables.
impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hackbench => "hackbench",
            Self::HackbenchPipes => "hackbench-pipes",
            Self::Messaging => "messaging",
            Self::PerfPipe => "perf-pipe",
            Self::Switch => "switch",
            Self::ProgramStart => "start",
            Self::ProgramStartApart => "start-apart",
            Self::Cyclictest => "cyclictest",
            Self::Requests => "requests",
            Self::RequestsBesideHogs => "requests-hog2",
            Self::Build => "build",
            Self::Audio(load) => return write!(f, "audio-{}", load.id()),
            Self::Shares(case) => return write!(f, "shares-{}", case.id()),
            Self::Frames(game, load) => return write!(f, "frames-{}-{}", game.id(), load.id()),
        })
    }
}

impl From<Tool> for String {
    fn from(tool: Tool) -> Self {
        tool.to_string()
    }
}

impl TryFrom<String> for Tool {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        Self::all().into_iter().find(|tool| tool.to_string() == id).ok_or_else(|| format!("no tool is called {id}"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a tool says in a round, the same for all of its figures.
    pub(in super::super) fn tool_sample(contender: Contender, tool: Tool, round: u32, value: f64) -> ToolSample {
        ToolSample { contender, tool, round, values: vec![value; tool.figures().len()] }
    }

    #[test]
    fn every_tool_is_found_by_its_name() {
        assert_eq!(Tool::all().len(), 11 + 2 + 6 + 8);
        for tool in Tool::all() {
            assert_eq!(Tool::try_from(tool.to_string()), Ok(tool));
        }
        assert!(Tool::try_from("frames".to_owned()).is_err());
    }

    #[test]
    fn a_floor_is_measured_beside_a_load_only() {
        let with_floor: Vec<_> = Tool::all().into_iter().filter(|tool| tool.has(Contender::Floor)).collect();
        assert_eq!(with_floor.len(), 5 + 2 + 8);
        assert!(!with_floor.contains(&Tool::Hackbench));
        assert!(Tool::all().into_iter().all(|tool| tool.has(Contender::Default)));
    }

    #[test]
    fn a_sample_is_told_with_its_units() {
        let sample = ToolSample {
            contender: Contender::Default,
            tool: Tool::Cyclictest,
            round: 0,
            values: vec![315.04, 4436.0],
        };
        assert_eq!(sample.to_string(), "kernel default: cyclictest avg 315 µs max 4436 µs");
        assert_eq!(
            tool_sample(Contender::Default, Tool::Hackbench, 0, 1.5).to_string(),
            "kernel default: hackbench 1.50 s"
        );
    }
}
