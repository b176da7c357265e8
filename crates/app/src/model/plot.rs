//! The geometry of line charts, in units of the chart itself: 0 to 1 from left to right and from bottom to top.

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// How long ago, in seconds.
    pub(crate) age_s: f64,
    /// In the unit of the plot.
    pub(crate) value: f64,
}

/// How a line is drawn, so that lines are told apart without their colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    Solid,
    Dashed,
    Dotted,
}

/// Which colour of the palette a series has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hue {
    Blue,
    Orange,
    Purple,
    Green,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) hue: Hue,
    pub(crate) stroke: Stroke,
    /// The oldest first.
    pub(crate) points: Vec<Point>,
}

/// Lines over one span of time.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) series: Vec<Series>,
    pub(crate) span_s: f64,
    /// What the top edge stands for.
    pub(crate) top: f64,
    /// How a value is written.
    pub(crate) format: fn(f64) -> String,
}

/// Points further apart than this are not joined: nothing was measured in between.
const GAP_S: f64 = 3.5;

impl Series {
    /// The points in pieces that are drawn without lifting the pen.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[Point]> {
        self.points.chunk_by(|earlier, later| earlier.age_s - later.age_s <= GAP_S)
    }
}

impl Plot {
    /// A plot whose top is the next round number above all values, at least `top`.
    pub(crate) fn new(title: String, span_s: f64, top: f64, format: fn(f64) -> String, series: Vec<Series>) -> Self {
        let highest = series.iter().flat_map(|series| &series.points).map(|point| point.value).fold(top, f64::max);
        let top = if highest > top { round_up(highest) } else { top };
        Self { title, series, span_s, top, format }
    }

    /// Where a point lies.
    pub(crate) fn place(&self, point: Point) -> (f64, f64) {
        (1.0 - point.age_s / self.span_s, (point.value / self.top).clamp(0.0, 1.0))
    }

    /// The moments for which there are values, the oldest first.
    pub(crate) fn nr_moments(&self) -> usize {
        self.series.first().map_or(0, |series| series.points.len())
    }

    /// What the lines say at one moment.
    pub(crate) fn describe(&self, moment: usize) -> String {
        let values = self.series.iter().filter_map(|series| {
            let value = (self.format)(series.points.get(moment)?.value);
            Some(if self.series.len() == 1 { value } else { format!("{}: {value}", series.name) })
        });
        values.collect::<Vec<_>>().join(" · ")
    }

    /// The moment nearest to a place from left to right.
    pub(crate) fn nearest(&self, x: f64) -> Option<usize> {
        let points = &self.series.first()?.points;
        let distance = |point: &Point| (self.place(*point).0 - x).abs();
        (0..points.len()).min_by(|a, b| distance(&points[*a]).total_cmp(&distance(&points[*b])))
    }
}

/// The next of 1, 2, 5, 10, 20, 50 …
pub(crate) fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: &[(f64, f64)]) -> Plot {
        let points = values.iter().map(|(age_s, value)| Point { age_s: *age_s, value: *value }).collect();
        let series = Series { name: "CPU".into(), hue: Hue::Blue, stroke: Stroke::Solid, points };
        Plot::new("CPU".into(), 300.0, 1.0, |value| format!("{value}"), vec![series])
    }

    #[test]
    fn now_is_right_and_the_top_is_round() {
        let plot = plot(&[(300.0, 0.0), (150.0, 3.0), (0.0, 5.0)]);
        assert!((plot.top - 5.0).abs() < 1e-9);
        assert_eq!(plot.place(plot.series[0].points[0]), (0.0, 0.0));
        assert_eq!(plot.place(plot.series[0].points[1]), (0.5, 0.6));
        assert_eq!(plot.place(plot.series[0].points[2]), (1.0, 1.0));
    }

    #[test]
    fn a_pause_lifts_the_pen() {
        let plot = plot(&[(60.0, 1.0), (59.0, 1.0), (30.0, 1.0), (29.0, 1.0), (28.0, 1.0)]);
        let lengths: Vec<_> = plot.series[0].pieces().map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 3]);
    }

    #[test]
    fn a_pointer_finds_the_nearest_moment() {
        let plot = plot(&[(300.0, 0.1), (150.0, 0.2), (0.0, 0.3)]);
        assert_eq!([0.0, 0.6, 0.9].map(|x| plot.nearest(x)), [Some(0), Some(1), Some(2)]);
        assert_eq!(plot.describe(1), "0.2");
        assert_eq!(super::tests::plot(&[]).nearest(0.5), None);
    }

    #[test]
    fn tops_are_one_two_or_five() {
        for (value, top) in [(0.3, 0.5), (1.0, 1.0), (1.1, 2.0), (4.0, 5.0), (70.0, 100.0), (101.0, 200.0)] {
            assert!((round_up(value) / top - 1.0).abs() < 1e-9, "{value}");
        }
    }
}
