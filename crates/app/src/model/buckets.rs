//! A log2 histogram of waits as bars on a common scale.

use scherzo_api::histogram::{Histogram, bounds_us};
use scherzo_i18n::{fill, gettext, ngettext};
use scherzo_wire::layout::NR_WAIT_BUCKETS;

use super::format::{duration_us, percent};

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    /// Part of all waits, 0 to 1.
    pub(crate) share: f64,
    /// Range, number and share in words.
    pub(crate) text: String,
}

/// A percentile, marked on the axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// Where on the axis, 0 to 1.
    pub(crate) place: f64,
    /// What it is called: `p50`.
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// What the axis says at a place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Where on the axis, 0 to 1.
    pub(crate) place: f64,
    pub(crate) text: String,
}

/// A histogram ready to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) nr_waits: u64,
    pub(crate) bars: Vec<Bar>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) ticks: Vec<Tick>,
    /// The share that a bar as high as the chart has.
    pub(crate) top: f64,
}

/// Which buckets are shown: those in use, and enough for charts of little data not to jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: usize,
    end: usize,
}

/// From below 1 µs to 8 ms.
const NR_BUCKETS_AT_LEAST: usize = 14;

impl Range {
    /// The buckets that any of these use.
    pub(crate) fn of<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let last = |histogram: &Histogram| histogram.counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        let end = histograms.into_iter().map(|histogram| last(histogram) + 1).max().unwrap_or(0);
        Self { first: 0, end: end.clamp(NR_BUCKETS_AT_LEAST, NR_WAIT_BUCKETS) }
    }

    fn nr_buckets(self) -> usize {
        self.end - self.first
    }

    /// Where a wait lies on the axis: buckets are equally wide.
    fn place(self, us: u64) -> f64 {
        let bucket = (us as f64).max(0.5).log2() + 1.0;
        ((bucket - self.first as f64) / self.nr_buckets() as f64).clamp(0.0, 1.0)
    }
}

impl Chart {
    /// The bars of a histogram, drawn over these buckets.
    pub(crate) fn new(title: String, histogram: &Histogram, range: Range) -> Self {
        let nr_waits = histogram.nr_total();
        let share = |count: u64| if nr_waits == 0 { 0.0 } else { count as f64 / nr_waits as f64 };
        let bars: Vec<_> = (range.first..range.end)
            .map(|bucket| {
                let count = histogram.counts[bucket];
                Bar { share: share(count), text: describe(bucket, count, share(count)) }
            })
            .collect();
        let mark = |(name, per_mille)| {
            let us = histogram.percentile_us(per_mille);
            Mark { place: range.place(us), name, value: duration_us(us) }
        };
        let marks = if nr_waits == 0 { Vec::new() } else { [("p50", 500), ("p99", 990)].map(mark).into() };
        let top = bars.iter().map(|bar| bar.share).fold(0.0, f64::max);
        Self { title, nr_waits, bars, marks, ticks: ticks(range), top }
    }

    /// A description for screen readers.
    pub(crate) fn summary(&self) -> String {
        let [median, slowest] = self.marks.as_slice() else { return gettext("Nothing has waited.") };
        let template = ngettext(
            "{number} wait; half of all waits are at most {p50}, 99 % are at most {p99}.",
            "{number} waits; half of all waits are at most {p50}, 99 % are at most {p99}.",
            self.nr_waits.min(u32::MAX.into()) as u32,
        );
        fill(&template, &[("number", &self.nr_waits), ("p50", &median.value), ("p99", &slowest.value)])
    }
}

fn describe(bucket: usize, count: u64, share: f64) -> String {
    let (low, high) = bounds_us(bucket);
    let range = match high {
        Some(high) if low == 0 => fill(&gettext("Below {high}"), &[("high", &duration_us(high))]),
        Some(high) => fill(&gettext("{low} to {high}"), &[("low", &duration_us(low)), ("high", &duration_us(high))]),
        None => fill(&gettext("{low} or longer"), &[("low", &duration_us(low))]),
    };
    let waits = ngettext("{number} wait", "{number} waits", count.min(u32::MAX.into()) as u32);
    format!("{range}: {} ({})", fill(&waits, &[("number", &count)]), percent(share))
}

/// Ticks are at powers of ten, which are not bounds of buckets.
fn ticks(range: Range) -> Vec<Tick> {
    let decades = (0..8).map(|power| 10u64.pow(power)).filter(|us| (0.02..0.98).contains(&range.place(*us)));
    decades.map(|us| Tick { place: range.place(us), text: duration_us(us) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(pairs: &[(usize, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        for (bucket, count) in pairs {
            histogram.counts[*bucket] = *count;
        }
        histogram
    }

    #[test]
    fn bars_are_shares_and_marks_lie_among_them() {
        let waits = histogram(&[(3, 75), (7, 25)]);
        let chart = Chart::new("Interactive".into(), &waits, Range::of([&waits]));
        assert_eq!(chart.bars.len(), NR_BUCKETS_AT_LEAST);
        assert_eq!((chart.bars[3].share, chart.bars[7].share, chart.top), (0.75, 0.25, 0.75));
        assert_eq!(chart.bars[3].text, "4 µs to 8 µs: 75 waits (75 %)");
        // The median lies within bucket 3, the 99th percentile within bucket 7.
        let places: Vec<_> = chart.marks.iter().map(|mark| mark.place * NR_BUCKETS_AT_LEAST as f64).collect();
        assert!((3.0..=4.0).contains(&places[0]) && (7.0..=8.0).contains(&places[1]), "{places:?}");
    }

    #[test]
    fn edges_are_named() {
        assert_eq!(describe(0, 1, 0.5), "Below 1 µs: 1 wait (50 %)");
        assert!(describe(NR_WAIT_BUCKETS - 1, 0, 0.0).contains("or longer"));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let chart = Chart::new("Batch".into(), &Histogram::default(), Range::of([]));
        assert_eq!((chart.marks.len(), chart.top), (0, 0.0));
        assert_eq!(chart.summary(), "Nothing has waited.");
    }

    #[test]
    fn long_waits_widen_the_axis_for_all() {
        let range = Range::of([&histogram(&[(2, 1)]), &histogram(&[(20, 1)])]);
        assert_eq!(range.nr_buckets(), 21);
        assert!(ticks(range).iter().any(|tick| tick.text == "1 ms"));
    }
}
