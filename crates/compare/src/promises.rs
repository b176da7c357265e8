//! What Scherzo promises in comparison with others, and whether a comparison shows it: here by our own probe, in [`tools`] by
//! what others wrote.

pub mod tools;

use std::fmt;

use super::contender::Contender;
use super::peer::RUSTLAND;
use super::sample::Measurement;
use super::summary::{Figure, PERCENTILE_RESOLUTION, Spread, spread};
use super::table::number;
use super::workload::Workload;

/// A promise: a figure of Scherzo under some loads, as a multiple of another contender's.
#[derive(Debug, Clone, Copy)]
struct Promise {
    /// In which mode.
    of: Contender,
    figure: Figure,
    loads: &'static [Workload],
    limit: Limit,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    /// Times the other's figure, at most.
    AtMost(f64, Contender),
    /// Times the other's figure, at least.
    AtLeast(f64, Contender),
    /// No more than the kernel default's beyond the spread of both, or what the method resolves if that is more.
    NoWorse,
    /// At most this value, independent of the others.
    AtMostItself(f64),
}

const OURS: Contender = Contender::Scherzo;
const BUSY: &[Workload] = &[Workload::Hog1, Workload::Hog2, Workload::Fork];
const ALL_BUSY: &[Workload] = &[Workload::Hog1, Workload::Hog2, Workload::Fork, Workload::Pipe];
const IDLE: &[Workload] = &[Workload::Idle];
const HALF: &[Workload] = &[Workload::Half];
const AS_PROMPT: Limit = Limit::AtMost(1.15, Contender::Floor);
const A_THIRD: Limit = Limit::AtMost(1.0 / 3.0, Contender::Peer(RUSTLAND));

const PROMISES: &[Promise] = &[
    Promise { of: OURS, figure: Figure::TimerP50, loads: BUSY, limit: AS_PROMPT },
    Promise { of: OURS, figure: Figure::TimerP99, loads: BUSY, limit: AS_PROMPT },
    Promise { of: OURS, figure: Figure::PipeP99, loads: BUSY, limit: AS_PROMPT },
    Promise { of: OURS, figure: Figure::DoneP99, loads: BUSY, limit: Limit::AtMost(1.25, Contender::Floor) },
    Promise { of: OURS, figure: Figure::TimerP50, loads: IDLE, limit: Limit::NoWorse },
    Promise { of: OURS, figure: Figure::TimerP99, loads: IDLE, limit: Limit::NoWorse },
    Promise { of: OURS, figure: Figure::Throughput, loads: BUSY, limit: Limit::AtLeast(0.97, Contender::Default) },
    Promise {
        of: OURS,
        figure: Figure::Throughput,
        loads: &[Workload::Pipe],
        limit: Limit::AtLeast(2.0, Contender::Peer(RUSTLAND)),
    },
    Promise { of: OURS, figure: Figure::CpuPercent, loads: ALL_BUSY, limit: A_THIRD },
    Promise { of: OURS, figure: Figure::TimerMax, loads: &[Workload::Audio], limit: Limit::AtMostItself(2_000.0) },
    Promise { of: Contender::LowPower, figure: Figure::IdleEntries, loads: HALF, limit: Limit::AtMost(0.6, OURS) },
    Promise { of: Contender::LowPower, figure: Figure::TimerP99, loads: HALF, limit: Limit::AtMost(2.0, OURS) },
];

/// Whether the figures show a promise to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct PromiseResult {
    /// Whether it is kept.
    pub is_met: bool,
    /// With the figures.
    pub text: String,
}

impl fmt::Display for PromiseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.is_met { "met" } else { "NOT MET" }, self.text)
    }
}

/// Checks every promise that the measurements cover.
#[must_use]
pub fn results(samples: &[Measurement]) -> Vec<PromiseResult> {
    let pairs = PROMISES.iter().flat_map(|promise| promise.loads.iter().map(move |&load| (promise, load)));
    pairs.filter_map(|(promise, load)| check(samples, promise, load)).collect()
}

fn check(samples: &[Measurement], promise: &Promise, load: Workload) -> Option<PromiseResult> {
    let of = |contender| spread(samples, contender, load, promise.figure);
    let ours = of(promise.of)?;
    let figure = promise.figure.name();
    let compare = |other: Contender| {
        let theirs = of(other)?;
        Some((ours.middle / theirs.middle, theirs))
    };
    let tell = |is_met, ratio: f64, theirs: &Spread, other: Contender, bound: &str| {
        let Spread { middle, .. } = ours;
        let text = format!(
            "{load}: {figure} {} is {ratio:.2} of {}, that of {other}; {bound}",
            number(middle),
            number(theirs.middle)
        );
        PromiseResult { is_met, text }
    };
    match promise.limit {
        Limit::AtMost(limit, other) => {
            let (ratio, theirs) = compare(other)?;
            Some(tell(ratio <= limit, ratio, &theirs, other, &format!("at most {limit:.2}")))
        }
        Limit::AtLeast(limit, other) => {
            let (ratio, theirs) = compare(other)?;
            Some(tell(ratio >= limit, ratio, &theirs, other, &format!("at least {limit:.2}")))
        }
        Limit::NoWorse => {
            let (ratio, theirs) = compare(Contender::Default)?;
            let slack = (ours.half() + theirs.half()).max(PERCENTILE_RESOLUTION * theirs.middle);
            let bound = format!("at most {} more", number(slack));
            Some(tell(ours.middle <= theirs.middle + slack, ratio, &theirs, Contender::Default, &bound))
        }
        Limit::AtMostItself(limit) => Some(PromiseResult {
            is_met: ours.max <= limit,
            text: format!("{load}: {figure} is {} at the most; at most {limit:.0}", number(ours.max)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::sample;
    use super::*;

    fn result(samples: &[Measurement], part: &str) -> PromiseResult {
        let mut found = results(samples).into_iter().filter(|result| result.text.contains(part));
        found.next().unwrap_or_else(|| panic!("nothing is said about {part}"))
    }

    #[test]
    fn prompt_is_within_fifteen_percent_of_the_floor() {
        let samples = |ours| {
            [
                sample(Contender::Floor, Workload::Hog1, 0, 1_000.0, 1.0),
                sample(Contender::Scherzo, Workload::Hog1, 0, ours, 1.0),
            ]
        };
        assert!(result(&samples(1_140.0), "hog1: timer p99 ").is_met);
        let missed = result(&samples(1_160.0), "hog1: timer p99 ");
        assert_eq!(
            missed.to_string(),
            "NOT MET: hog1: timer p99 1160 is 1.16 of 1000, that of floor (real time); at most 1.15"
        );
        assert!(result(&samples(1_160.0), "hog1: done p99").is_met);
    }

    #[test]
    fn throughput_is_held_against_the_default_and_the_peer() {
        let samples = [
            sample(Contender::Default, Workload::Fork, 0, 1.0, 100.0),
            sample(Contender::Scherzo, Workload::Fork, 0, 1.0, 96.0),
            sample(Contender::Peer(RUSTLAND), Workload::Pipe, 0, 3.0, 10.0),
            sample(Contender::Scherzo, Workload::Pipe, 0, 1.0, 21.0),
        ];
        assert!(!result(&samples, "fork: throughput").is_met);
        assert!(result(&samples, "pipe: throughput").is_met);
        assert!(result(&samples, "pipe: CPU %").is_met);
    }

    #[test]
    fn an_idle_machine_may_differ_by_the_spread() {
        let idle = |contender, round, us| sample(contender, Workload::Idle, round, us, 0.0);
        let mut samples = vec![
            idle(Contender::Default, 0, 90.0),
            idle(Contender::Default, 1, 110.0),
            idle(Contender::Scherzo, 0, 114.0),
        ];
        assert!(result(&samples, "idle: timer p50").is_met);
        samples[2] = idle(Contender::Scherzo, 0, 116.0);
        assert!(!result(&samples, "idle: timer p50").is_met);
    }

    #[test]
    fn low_power_is_held_against_interactive() {
        let half = |contender, idle_entries| sample(contender, Workload::Half, 0, 100.0, idle_entries);
        let samples = [half(Contender::Scherzo, 1_000.0), half(Contender::LowPower, 590.0)];
        assert!(result(&samples, "half: idle entries/s").is_met);
        let samples = [half(Contender::Scherzo, 1_000.0), half(Contender::LowPower, 610.0)];
        assert!(!result(&samples, "half: idle entries/s").is_met);
    }

    #[test]
    fn what_was_not_measured_is_not_checked() {
        assert_eq!(results(&[sample(Contender::Default, Workload::Hog1, 0, 1.0, 1.0)]), []);
    }
}
