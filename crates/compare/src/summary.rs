//! Medians over the rounds, with their spread; and what can only be said over all rounds together.

use super::contender::Contender;
use super::sample::{Measurement, Percentiles};
use super::workload::Workload;

/// Samples below which nothing is said about the 99.9th percentile: eight of them lie beyond it.
const MIN_SAMPLES_OF_P999: u64 = 8_000;

/// Latencies that differ by less than this share are within the noise of the method.
pub(super) const PERCENTILE_RESOLUTION: f64 = 0.15;
/// The same of throughputs, and of rare delays; beside the default, whose placement of hogs is chaotic, these have more noise.
const THROUGHPUT_RESOLUTION: f64 = 0.03;
const RARE_DELAY_RESOLUTION: f64 = 0.3;
const RARE_DELAY_RESOLUTION_BESIDE_DEFAULT: f64 = 0.4;

/// One of the figures of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Timer wake-up, median, µs.
    TimerP50,
    /// Timer wake-up, 99th percentile, µs.
    TimerP99,
    /// Timer wake-up, 99.9th percentile of all rounds together, µs.
    TimerP999,
    /// Timer wake-up, the longest, µs; means something only for a thread that must be punctual.
    TimerMax,
    /// Pipe wake-up, median, µs.
    PipeP50,
    /// Pipe wake-up, 99th percentile, µs.
    PipeP99,
    /// Pipe wake-up, 99.9th percentile of all rounds together, µs.
    PipeP999,
    /// From the timer to the work being done, 99th percentile, µs.
    DoneP99,
    /// The load's work per second.
    Throughput,
    /// Context switches per second.
    Switches,
    /// CPU time of the scheduler's process, percent of one CPU.
    CpuPercent,
    /// The same for each context switch of the machine to anything else, µs.
    CpuPerSwitch,
    /// Tasks that user space decided, of those that might have waited for it, percent.
    UserPercent,
    /// Times that a CPU went idle, per second.
    IdleEntries,
    /// Mean power of the machine's processors, W.
    Power,
}

impl Figure {
    /// Every figure, in the order of the tables.
    pub const ALL: [Self; 15] = [
        Self::TimerP50,
        Self::TimerP99,
        Self::TimerP999,
        Self::TimerMax,
        Self::PipeP50,
        Self::PipeP99,
        Self::PipeP999,
        Self::DoneP99,
        Self::Throughput,
        Self::Switches,
        Self::CpuPercent,
        Self::CpuPerSwitch,
        Self::UserPercent,
        Self::IdleEntries,
        Self::Power,
    ];

    /// Heads a column and names the figure in sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimerP50 => "timer p50",
            Self::TimerP99 => "timer p99",
            Self::TimerP999 => "timer p99.9",
            Self::TimerMax => "timer max",
            Self::PipeP50 => "pipe p50",
            Self::PipeP99 => "pipe p99",
            Self::PipeP999 => "pipe p99.9",
            Self::DoneP99 => "done p99",
            Self::Throughput => "throughput",
            Self::Switches => "switches/s",
            Self::CpuPercent => "CPU %",
            Self::CpuPerSwitch => "CPU µs/switch",
            Self::UserPercent => "user %",
            Self::IdleEntries => "idle entries/s",
            Self::Power => "power, W",
        }
    }

    /// Whether less is better; `None` of what only explains the others, such as switches and the cost of a process.
    pub(super) const fn lower_is_better(self) -> Option<bool> {
        match self {
            Self::Throughput => Some(false),
            Self::Switches
            | Self::CpuPercent
            | Self::CpuPerSwitch
            | Self::UserPercent
            | Self::IdleEntries
            | Self::Power => None,
            _ => Some(true),
        }
    }

    /// The share of another contender's figure past which the method resolves a difference to it.
    pub(super) fn resolution(self, other: Contender) -> f64 {
        match self {
            Self::Throughput => THROUGHPUT_RESOLUTION,
            Self::TimerP999 | Self::TimerMax | Self::PipeP999 if other == Contender::Default => {
                RARE_DELAY_RESOLUTION_BESIDE_DEFAULT
            }
            Self::TimerP999 | Self::TimerMax | Self::PipeP999 => RARE_DELAY_RESOLUTION,
            _ => PERCENTILE_RESOLUTION,
        }
    }

    /// Its value in a sample; `None` where it means nothing, or only over all rounds.
    #[must_use]
    pub fn of(self, sample: &Measurement) -> Option<f64> {
        let Measurement { timer_wake_us, pipe_wake_us, work_done_us, cost, .. } = sample;
        let is_audio = sample.load == Workload::Audio;
        match self {
            Self::TimerP50 => Some(timer_wake_us.p50),
            Self::TimerP99 => Some(timer_wake_us.p99),
            Self::TimerP999 | Self::PipeP999 => None,
            Self::TimerMax => is_audio.then(|| timer_wake_us.longest.first().copied()).flatten(),
            Self::PipeP50 => (!is_audio).then_some(pipe_wake_us.p50),
            Self::PipeP99 => (!is_audio).then_some(pipe_wake_us.p99),
            Self::DoneP99 => Some(work_done_us.p99),
            Self::Throughput => (sample.load != Workload::Idle).then_some(sample.throughput),
            Self::Switches => Some(sample.switches_per_s),
            Self::CpuPercent => cost.map(|cost| 100.0 * cost.cpu_share),
            Self::CpuPerSwitch => cost.and_then(|cost| cost.us_per_switch),
            Self::UserPercent => cost.and_then(|cost| cost.user_share).map(|share| 100.0 * share),
            Self::IdleEntries => cost.and_then(|cost| cost.idle_entries_per_s),
            Self::Power => sample.power_w,
        }
    }
}

/// A figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// What is told: the median, which of an even number is the mean of the two in the middle; of shares the mean.
    pub middle: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let upper = values.len() / 2;
        let lower = (values.len() - 1) / 2;
        Some(Self { middle: f64::midpoint(values[lower], values[upper]), min, max })
    }

    /// Whether the difference to another is no more than the rounds of both differ among themselves.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        (self.middle - other.middle).abs() <= self.half() + other.half()
    }

    /// The same of values that an increasing function has changed.
    pub(super) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        let Self { middle, min, max } = self;
        Self { middle: change(middle), min: change(min), max: change(max) }
    }

    /// Half the distance from the least to the most.
    #[must_use]
    pub fn half(&self) -> f64 {
        (self.max - self.min) / 2.0
    }
}

/// A figure of a contender under a load, if it was measured.
#[must_use]
pub fn spread(samples: &[Measurement], contender: Contender, load: Workload, figure: Figure) -> Option<Spread> {
    let of_these = samples.iter().filter(|sample| sample.contender == contender && sample.load == load);
    match figure {
        Figure::TimerP999 => p999(&of_these.map(|sample| &sample.timer_wake_us).collect::<Vec<_>>()),
        Figure::PipeP999 => p999(&of_these.map(|sample| &sample.pipe_wake_us).collect::<Vec<_>>()),
        _ => Spread::of(of_these.filter_map(|sample| figure.of(sample)).collect()),
    }
}

/// The 99.9th percentile of all samples of all rounds, if there are enough of them and if the rounds tell enough of
/// their longest.
fn p999(rounds: &[&Percentiles]) -> Option<Spread> {
    let nr_samples: u64 = rounds.iter().map(|round| round.nr_samples).sum();
    // By nearest rank, counted from the longest.
    let rank = usize::try_from(nr_samples - (nr_samples * 999).div_ceil(1_000)).ok()?;
    let tells_enough =
        |round: &&Percentiles| round.longest.len() as u64 == round.nr_samples || round.longest.len() > rank;
    if nr_samples < MIN_SAMPLES_OF_P999 || !rounds.iter().all(tells_enough) {
        return None;
    }
    let mut longest: Vec<_> = rounds.iter().flat_map(|round| &round.longest).copied().collect();
    longest.sort_by(|a, b| b.total_cmp(a));
    Spread::of(vec![*longest.get(rank)?])
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::sample::{Percentiles, SchedulerCost};
    use super::*;

    /// A sample in which every latency is `us`, a thousand times.
    pub(in super::super) fn sample(
        contender: Contender,
        load: Workload,
        round: u32,
        us: f64,
        throughput: f64,
    ) -> Measurement {
        let percentiles = Percentiles { p50: us, p99: us, nr_samples: 1_000, longest: vec![us; 64] };
        let has_process = !matches!(contender, Contender::Default | Contender::Floor | Contender::PlainFloor);
        let cost = SchedulerCost {
            cpu_share: us / 100_000.0,
            us_per_switch: Some(us / 100.0),
            user_share: Some(0.95),
            idle_entries_per_s: Some(throughput),
        };
        Measurement {
            contender,
            load,
            round,
            timer_wake_us: percentiles.clone(),
            pipe_wake_us: percentiles.clone(),
            work_done_us: percentiles,
            throughput,
            switches_per_s: 1_000.0,
            power_w: None,
            cost: has_process.then_some(cost),
        }
    }

    #[test]
    fn medians_and_spreads() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { middle: 2.0, min: 1.0, max: 3.0 });
        assert!((spread.half() - 1.0).abs() < 1e-9);
        assert!((Spread::of(vec![1.0, 2.0]).unwrap().middle - 1.5).abs() < 1e-9);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn the_thousandth_longest_is_found_over_all_rounds_but_not_out_of_few_samples() {
        let round = |nr_samples, longest| Percentiles { p50: 1.0, p99: 2.0, nr_samples, longest };
        let quick = round(4_000, (1..=64).rev().map(f64::from).collect());
        let slow = round(4_000, (101..=164).rev().map(f64::from).collect());
        // Of 8,000 samples 8 are longer, which all are of the slow round.
        assert_eq!(p999(&[&quick, &slow]), Spread::of(vec![156.0]));
        assert_eq!(p999(&[&quick, &round(3_999, slow.longest.clone())]), None);
        assert_eq!(p999(&[&round(64_000, slow.longest.clone())]), None, "64 of the longest are too few");
        assert_eq!(p999(&[]), None);
    }

    #[test]
    fn only_matching_samples_count() {
        let samples = [
            sample(Contender::Default, Workload::Hog1, 0, 10.0, 1.0),
            sample(Contender::Default, Workload::Hog1, 1, 30.0, 1.0),
            sample(Contender::Scherzo, Workload::Hog1, 0, 50.0, 1.0),
            sample(Contender::Default, Workload::Fork, 0, 70.0, 1.0),
        ];
        let of = |contender, load, figure| spread(&samples, contender, load, figure).map(|spread| spread.middle);
        assert_eq!(of(Contender::Default, Workload::Hog1, Figure::TimerP99), Some(20.0));
        assert_eq!(of(Contender::Default, Workload::Hog1, Figure::CpuPercent), None);
        assert_eq!(of(Contender::Floor, Workload::Hog1, Figure::TimerP99), None);
    }

    #[test]
    fn power_is_told_where_the_machine_tells_it() {
        let mut samples = [0, 1].map(|round| sample(Contender::Scherzo, Workload::Half, round, 10.0, 1.0));
        let power = |samples: &[Measurement]| spread(samples, Contender::Scherzo, Workload::Half, Figure::Power);
        assert_eq!(power(&samples), None);
        for (sample, power_w) in samples.iter_mut().zip([5.0, 7.0]) {
            sample.power_w = Some(power_w);
        }
        assert!((power(&samples).unwrap().middle - 6.0).abs() < 1e-9);
    }
}
