//! `scherzo-bench frames`: a game and its compositor beside a load.
//!
//! Each period a timer wakes the game, which computes and then hands the frame through a pipe to the compositor, another
//! process, which computes as well. A frame that is not done one period after the timer is missed. A game that is late
//! begins the next frame at once, and skips those whose whole period has passed; they are missed too.

use std::fmt;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::background::{self, Background, LoadKind};
use crate::clock::{MeasuredTime, SECOND_NS};
use crate::game::{Done, Game, periods};
use crate::groups::{GRAMMAR, LoadGroup};
use crate::helper::Helper;
use crate::probe::become_prompt;
use crate::report::{LatenessPercentiles, rounded, show};
use crate::shares::{GroupShare, HEADING, Loads};
use crate::solver::{Claimant, nice_weight};
use crate::work::Calibration;

/// Version of the JSON object; fields may be added without changing it.
const SCHEMA: u32 = 1;
/// For the solver: real-time tasks have what they want.
const RT_WEIGHT: f64 = 1e9;

#[derive(Args)]
#[command(after_long_help = GRAMMAR)]
pub(crate) struct Frames {
    /// Frames per second
    #[arg(long, default_value_t = 60, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rate: u64,
    /// CPU time of the game for each frame
    #[arg(long, default_value_t = 8.0, value_name = "MS", value_parser = milliseconds)]
    game_ms: f64,
    /// CPU time of the compositor for each frame
    #[arg(long, default_value_t = 1.5, value_name = "MS", value_parser = milliseconds)]
    compositor_ms: f64,
    /// Threads that the game's work is divided among
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// How long to measure
    #[arg(long, default_value_t = 15, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How long to let everything settle before measuring
    #[arg(long, default_value_t = 1, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: u64,
    /// A group of loads beside the game; may be given several times. See the end of --help
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<LoadGroup>,
    /// A load beside the game, as of "probe"
    #[arg(long, value_enum, default_value_t = LoadKind::Idle)]
    load: LoadKind,
    /// Run game and compositor as SCHED_FIFO: the least that any scheduler can miss
    #[arg(long)]
    rt: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn milliseconds(text: &str) -> Result<f64> {
    let ms = text.parse()?;
    ensure!((0.0..=1_000.0).contains(&ms), "0 to 1000");
    Ok(ms)
}

pub(crate) fn run(options: &Frames) -> Result<()> {
    show(&measure(options)?, options.json)
}

fn measure(options: &Frames) -> Result<FramesReport> {
    let calibration = Calibration::measure();
    let mut loads = Loads::start(&options.groups, calibration)?;
    let background =
        Background::start(&background::LoadOptions { load: options.load, hogs_per_cpu: 1, calibration, seed: 1 })?;
    // Game and compositor inherit both from here; the loads, already started, have neither.
    become_prompt(options.rt)?;
    let mut compositor = start_compositor(options, calibration)?;
    let window = MeasuredTime::start(options.warmup, options.seconds);
    loads.announce(window)?;
    let wake_ups = options.game(calibration, window).play(compositor.input())?;
    let done: Vec<Done> = serde_json::from_str(&compositor.stop()?)?;
    let groups = loads.finish(window, &options.tasks())?;
    background.stop()?;
    let nr_frames = periods(wake_ups.first_ns, options.period_ns(), window).count();
    Ok(FramesReport::new(options, nr_frames, wake_ups.delays_ns, &in_window(&done, window), groups))
}

impl Frames {
    const fn period_ns(&self) -> u64 {
        SECOND_NS / self.rate
    }

    fn game(&self, calibration: Calibration, window: MeasuredTime) -> Game {
        let (period_ns, work_ns) = (self.period_ns(), ns(self.game_ms));
        Game { period_ns, work_ns, nr_threads: self.threads, calibration, window }
    }

    /// Game and compositor as the solver knows them.
    fn tasks(&self) -> Vec<Claimant> {
        let weight = if self.rt { RT_WEIGHT } else { nice_weight(0) };
        let task = |ms: f64| Claimant { weight, demand: ms * self.rate as f64 / 1e3, pin: None };
        let game = vec![task(self.game_ms / f64::from(self.threads)); self.threads as usize];
        [game, vec![task(self.compositor_ms)]].concat()
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

fn start_compositor(options: &Frames, calibration: Calibration) -> Result<Helper> {
    let work_ns = ns(options.compositor_ms).to_string();
    let arguments = ["compositor", "--work-ns", &work_ns, "--calibration", &calibration.to_string()];
    Helper::start("the compositor", &arguments.map(str::to_owned))
}

/// How long each frame of the window took.
fn in_window(done: &[Done], window: MeasuredTime) -> Vec<u64> {
    let of_window = done.iter().filter(|(due_ns, _)| (window.begin_ns..window.end_ns).contains(due_ns));
    of_window.map(|(due_ns, done_ns)| done_ns - due_ns).collect()
}

#[derive(Debug, Serialize)]
struct FramesReport {
    schema: u32,
    rate: u64,
    game_ms: f64,
    compositor_ms: f64,
    threads: u32,
    seconds: u64,
    rt: bool,
    nr_frames: usize,
    nr_missed: usize,
    missed_percent: f64,
    /// From the timer to the game running.
    wake_us: LatenessPercentiles,
    /// From the timer to the frame being done.
    done_us: LatenessPercentiles,
    groups: Vec<GroupShare>,
}

impl FramesReport {
    fn new(options: &Frames, nr_frames: usize, wake_ns: Vec<u64>, done_ns: &[u64], groups: Vec<GroupShare>) -> Self {
        let nr_in_time = done_ns.iter().filter(|done_ns| **done_ns <= options.period_ns()).count();
        let nr_missed = nr_frames - nr_in_time;
        Self {
            schema: SCHEMA,
            rate: options.rate,
            game_ms: options.game_ms,
            compositor_ms: options.compositor_ms,
            threads: options.threads,
            seconds: options.seconds,
            rt: options.rt,
            nr_frames,
            nr_missed,
            missed_percent: rounded(100.0 * nr_missed as f64 / nr_frames.max(1) as f64, 100.0),
            wake_us: LatenessPercentiles::of(wake_ns),
            done_us: LatenessPercentiles::of(done_ns.to_vec()),
            groups,
        }
    }
}

impl fmt::Display for FramesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nr_frames, nr_missed, missed_percent, .. } = self;
        writeln!(f, "{nr_missed} of {nr_frames} frames missed ({missed_percent} %)\n")?;
        writeln!(f, "{}", LatenessPercentiles::HEADING)?;
        writeln!(f, "{:<12} {}", "wake-up", self.wake_us)?;
        writeln!(f, "{:<12} {}", "frame done", self.done_us)?;
        if !self.groups.is_empty() {
            writeln!(f, "\n{HEADING}")?;
        }
        self.groups.iter().try_for_each(|group| writeln!(f, "{group}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        frames: Frames,
    }

    fn options(arguments: &[&str]) -> Frames {
        Cli::try_parse_from([&["frames"], arguments].concat()).unwrap_or_else(|error| panic!("{error}")).frames
    }

    #[test]
    fn skipped_and_late_frames_are_missed() {
        let options = options(&["--rate", "100"]);
        let report =
            FramesReport::new(&options, 4, vec![1_000, 3_000], &[9_000_000, 10_000_000, 10_000_001], Vec::new());
        assert_eq!((report.nr_frames, report.nr_missed, report.missed_percent), (4, 2, 50.0));
        assert_eq!((report.wake_us.p50, report.wake_us.max), (1.0, 3.0));
        assert!(report.to_string().starts_with("2 of 4 frames missed (50 %)"), "{report}");
    }

    #[test]
    fn only_frames_of_the_window_count() {
        let window = MeasuredTime { begin_ns: 100, end_ns: 200 };
        assert_eq!(in_window(&[(90, 95), (100, 130), (190, 210), (200, 201)], window), [30, 20]);
    }

    #[test]
    fn the_work_is_divided_among_the_threads() {
        let tasks = options(&["--rate", "50", "--game-ms", "12", "--threads", "3", "--compositor-ms", "1"]).tasks();
        let demands: Vec<_> = tasks.iter().map(|task| (task.demand * 100.0).round()).collect();
        assert_eq!(demands, [20.0, 20.0, 20.0, 5.0]);
        assert!(Cli::try_parse_from(["frames", "--game-ms", "-1"]).is_err());
    }
}
