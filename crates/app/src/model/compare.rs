//! With and without: rounds that alternate, and what may be concluded from them.

use scherzo_api::histogram::Histogram;
use scherzo_i18n::{fill, gettext};

use super::format::duration_us;

/// Which scheduler a round measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Kernel,
    Scherzo,
}

/// How a comparison goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Rounds of each side.
    pub(crate) nr_rounds: usize,
    /// Length of a round, in seconds.
    pub(crate) round_s: u32,
}

impl Plan {
    /// What people choose from. Five rounds each: with less, chance alone separates the sides too often.
    pub(crate) const CHOICES: [Self; 3] =
        [Self { nr_rounds: 5, round_s: 6 }, Self { nr_rounds: 5, round_s: 12 }, Self { nr_rounds: 5, round_s: 30 }];

    /// How long it takes, in seconds.
    pub(crate) fn duration_s(self) -> u32 {
        2 * self.nr_rounds as u32 * self.round_s
    }

    /// Which side each round measures. Pairs change their order (AB BA AB …), so that a load that grows or shrinks
    /// meanwhile favours neither.
    pub(crate) fn sides(self) -> Vec<Side> {
        let pair = |nth: usize| {
            if nth.is_multiple_of(2) { [Side::Kernel, Side::Scherzo] } else { [Side::Scherzo, Side::Kernel] }
        };
        (0..self.nr_rounds).flat_map(pair).collect()
    }
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ComparisonOutcome {
    kernel: Vec<Histogram>,
    scherzo: Vec<Histogram>,
}

/// What may be concluded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Difference {
    /// Too little was measured.
    Unknown,
    /// Chance explains what differs.
    Same,
    /// This side woke programs sooner, by this factor.
    Better(Side, f64),
}

/// Chance may separate the sides as far as this at most: 5 % of the time.
const SIGNIFICANCE: f64 = 0.05;
/// A smaller difference is not noticeable.
const FACTOR_AT_LEAST: f64 = 1.1;
const NR_ROUNDS_AT_LEAST: usize = 4;

impl ComparisonOutcome {
    /// Adds a round.
    pub(crate) fn add(&mut self, side: Side, round: Histogram) {
        self.rounds_mut(side).push(round);
    }

    /// All that was measured on one side.
    pub(crate) fn total(&self, side: Side) -> Histogram {
        self.rounds(side).iter().fold(Histogram::default(), |sum, round| sum.plus(round))
    }

    /// The delay that one in a hundred of all wake-ups exceeds, in µs: what the chart of the side marks.
    fn p99_us(&self, side: Side) -> u64 {
        self.total(side).percentile_us(990)
    }

    /// What may be concluded. Rounds and total must agree: one round of many wake-ups decides nothing.
    pub(crate) fn difference(&self) -> Difference {
        let (kernel, scherzo) = (self.p99s_us(Side::Kernel), self.p99s_us(Side::Scherzo));
        if kernel.len().min(scherzo.len()) < NR_ROUNDS_AT_LEAST {
            return Difference::Unknown;
        }
        let (slow, fast, side) = match (self.p99_us(Side::Kernel), self.p99_us(Side::Scherzo)) {
            (kernel, scherzo) if kernel > scherzo => (kernel, scherzo, Side::Scherzo),
            (kernel, scherzo) => (scherzo, kernel, Side::Kernel),
        };
        let factor = slow as f64 / fast.max(1) as f64;
        let is_real = chance(&kernel, &scherzo) <= SIGNIFICANCE && factor >= FACTOR_AT_LEAST;
        let rounds_agree = (median(&scherzo) < median(&kernel)) == (side == Side::Scherzo);
        if is_real && rounds_agree { Difference::Better(side, factor) } else { Difference::Same }
    }

    /// The conclusion in words: a headline and a sentence.
    pub(crate) fn in_words(&self) -> (String, String) {
        let (kernel, scherzo) = (duration_us(self.p99_us(Side::Kernel)), duration_us(self.p99_us(Side::Scherzo)));
        let figures: [(&str, &dyn std::fmt::Display); 2] = [("kernel", &kernel), ("scherzo", &scherzo)];
        let (title, text) = match self.difference() {
            Difference::Unknown => {
                (gettext("Too Little Was Measured"), gettext("Nothing can be said from so few rounds."))
            }
            Difference::Same => (
                gettext("No Difference"),
                gettext(
                    "With the load of these minutes it made no difference: 99 of 100 wake-ups came within {scherzo} \
                     with Scherzo and within {kernel} without, and the rounds vary more than that.",
                ),
            ),
            Difference::Better(Side::Scherzo, _) => (
                gettext("Scherzo Helps"),
                gettext("99 of 100 wake-ups came within {scherzo} with Scherzo, and within {kernel} without."),
            ),
            Difference::Better(Side::Kernel, _) => (
                gettext("The Kernel's Scheduler Does Better"),
                gettext("99 of 100 wake-ups came within {scherzo} with Scherzo, and within {kernel} without."),
            ),
        };
        (title, fill(&text, &figures))
    }

    fn p99s_us(&self, side: Side) -> Vec<u64> {
        self.rounds(side).iter().filter(|round| round.nr_total() > 0).map(|round| round.percentile_us(990)).collect()
    }

    fn rounds(&self, side: Side) -> &[Histogram] {
        match side {
            Side::Kernel => &self.kernel,
            Side::Scherzo => &self.scherzo,
        }
    }

    fn rounds_mut(&mut self, side: Side) -> &mut Vec<Histogram> {
        match side {
            Side::Kernel => &mut self.kernel,
            Side::Scherzo => &mut self.scherzo,
        }
    }
}

/// The middle of an odd number of values.
fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// How often chance alone separates two groups at least as far as these: the exact rank-sum test of Mann and Whitney,
/// two-sided. Ties count half.
fn chance(a: &[u64], b: &[u64]) -> f64 {
    let twice_wins = |a: &[u64], b: &[u64]| -> u64 {
        a.iter().flat_map(|x| b.iter().map(move |y| 1 + u64::from(x > y) - u64::from(x < y))).sum()
    };
    let middle = (a.len() * b.len()) as u64;
    let distance = twice_wins(a, b).abs_diff(middle);
    let all: Vec<u64> = a.iter().chain(b).copied().collect();
    let (mut nr_as_far, mut nr_all) = (0u32, 0u32);
    for choice in 0..1u32 << all.len() {
        if choice.count_ones() as usize != a.len() {
            continue;
        }
        let pick = |chosen: bool| -> Vec<u64> {
            all.iter()
                .enumerate()
                .filter(|(nth, _)| (choice >> nth & 1 == 1) == chosen)
                .map(|(_, value)| *value)
                .collect()
        };
        nr_all += 1;
        nr_as_far += u32::from(twice_wins(&pick(true), &pick(false)).abs_diff(middle) >= distance);
    }
    f64::from(nr_as_far) / f64::from(nr_all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::buckets::{Chart, Range};

    fn round(bucket: usize) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.counts[bucket] = 100;
        histogram
    }

    fn outcome(kernel: &[usize], scherzo: &[usize]) -> ComparisonOutcome {
        let mut outcome = ComparisonOutcome::default();
        for bucket in kernel {
            outcome.add(Side::Kernel, round(*bucket));
        }
        for bucket in scherzo {
            outcome.add(Side::Scherzo, round(*bucket));
        }
        outcome
    }

    #[test]
    fn sides_alternate_and_neither_comes_first_more_often_by_two() {
        let sides = Plan { nr_rounds: 4, round_s: 1 }.sides();
        assert_eq!(sides.iter().filter(|side| **side == Side::Kernel).count(), 4);
        assert_eq!(sides[..4], [Side::Kernel, Side::Scherzo, Side::Scherzo, Side::Kernel]);
    }

    #[test]
    fn a_clear_difference_is_told_either_way() {
        assert!(
            matches!(outcome(&[12; 5], &[6; 5]).difference(), Difference::Better(Side::Scherzo, factor) if factor > 10.0)
        );
        assert!(matches!(outcome(&[6; 5], &[12; 5]).difference(), Difference::Better(Side::Kernel, _)));
    }

    #[test]
    fn what_chance_explains_is_no_difference() {
        assert_eq!(outcome(&[6, 9, 7, 8, 6], &[7, 6, 9, 6, 8]).difference(), Difference::Same);
        assert_eq!(outcome(&[8; 5], &[8; 5]).difference(), Difference::Same);
        assert_eq!(outcome(&[8; 5], &[8; 5]).in_words().0, "No Difference");
    }

    #[test]
    fn little_says_little() {
        assert_eq!(outcome(&[12; 3], &[6; 3]).difference(), Difference::Unknown);
        assert_eq!(ComparisonOutcome::default().difference(), Difference::Unknown);
    }

    #[test]
    fn chance_is_the_exact_test() {
        // Of the 252 ways to choose 5 of 10, two separate fully; of the 20 to choose 3 of 6 likewise.
        assert!((chance(&[1, 2, 3, 4, 5], &[6, 7, 8, 9, 10]) - 2.0 / 252.0).abs() < 1e-12);
        assert!((chance(&[1, 2, 3], &[4, 5, 6]) - 0.1).abs() < 1e-12);
        assert!((chance(&[5, 5], &[5, 5]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_sentence_says_what_the_charts_mark() {
        for (kernel, scherzo) in [([12, 12, 12, 12, 11], [6, 6, 7, 6, 6]), ([8, 9, 8, 9, 10], [9, 8, 8, 10, 9])] {
            let outcome = outcome(&kernel, &scherzo);
            let (_, text) = outcome.in_words();
            for side in [Side::Kernel, Side::Scherzo] {
                let total = outcome.total(side);
                let chart = Chart::new(String::new(), &total, Range::of([&total]));
                assert!(text.contains(&chart.marks[1].value), "{text}: {:?}", chart.marks);
            }
        }
    }

    #[test]
    fn rounds_of_many_wake_ups_decide_nothing_alone() {
        let busy = |bucket| Histogram { counts: round(bucket).counts.map(|count| count * 10_000) };
        let mut outcome = outcome(&[13; 3], &[6; 4]);
        for round in [busy(8), busy(8)] {
            outcome.add(Side::Kernel, round);
        }
        outcome.add(Side::Scherzo, busy(12));
        assert!(outcome.p99_us(Side::Scherzo) > outcome.p99_us(Side::Kernel));
        assert!(chance(&outcome.p99s_us(Side::Kernel), &outcome.p99s_us(Side::Scherzo)) <= SIGNIFICANCE);
        assert_eq!(outcome.difference(), Difference::Same);
    }
}
