//! What the tools have said over all rounds, and how Scherzo compares with the others.

use super::contender::Contender;
use super::summary::Spread;
use super::table::{align, cell};
use super::tool::{FigureKind, Tool, ToolFigure, ToolSample};

/// Follows a comparison whose difference is no more than the rounds differ among themselves.
const WITHIN_SPREAD: &str = " ≈";

/// One figure of a tool, by its place among the tool's figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged<'a> {
    samples: &'a [ToolSample],
    tool: Tool,
    place: usize,
}

impl<'a> Judged<'a> {
    /// The figures of a tool, in order.
    pub(super) fn all_of(samples: &'a [ToolSample], tool: Tool) -> impl Iterator<Item = Self> {
        (0..tool.figures().len()).map(move |place| Self { samples, tool, place })
    }

    pub(super) const fn figure(&self) -> &'static ToolFigure {
        &self.tool.figures()[self.place]
    }

    /// The tool and the figure.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.tool, self.figure().name).trim().to_owned()
    }

    /// Over all rounds of a contender, if it was measured.
    pub(super) fn of(&self, contender: Contender) -> Option<Spread> {
        let of_these = self.samples.iter().filter(|sample| sample.contender == contender && sample.tool == self.tool);
        let values: Vec<_> = of_these.filter_map(|sample| sample.values.get(self.place).copied()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let spread = Spread::of(values)?;
        Some(match self.figure().kind {
            FigureKind::Amount => spread,
            FigureKind::Percentage => Spread { middle: mean, ..spread },
        })
    }

    /// The best of some contenders, as far as they were measured.
    pub(super) fn best(&self, among: impl Iterator<Item = Contender>) -> Option<(Contender, Spread)> {
        let measured = among.filter_map(|contender| Some((contender, self.of(contender)?)));
        best(measured, self.figure().lower_is_better)
    }

    /// Ours beside another's: a ratio, or for percentages the difference in points.
    fn compare(&self, ours: &Spread, theirs: &Spread) -> String {
        let mark = if ours.is_within(theirs) { WITHIN_SPREAD } else { "" };
        match self.figure().kind {
            FigureKind::Amount => format!("{:.2}{mark}", ours.middle / theirs.middle),
            FigureKind::Percentage => format!("{:+.1} points{mark}", ours.middle - theirs.middle),
        }
    }

    fn row(&self, contenders: &[Contender]) -> Vec<String> {
        let ToolFigure { unit, lower_is_better, .. } = self.figure();
        let mut row = vec![format!("{}, {unit} {}", self.name(), if *lower_is_better { "↓" } else { "↑" })];
        row.extend(contenders.iter().map(|contender| cell(self.of(*contender))));
        let ours = self.of(Contender::Scherzo);
        let default = ours.zip(self.of(Contender::Default));
        row.push(default.map(|(ours, default)| self.compare(&ours, &default)).unwrap_or_default());
        let best = ours.zip(self.best(rivals()));
        let tell =
            |(ours, (who, best)): (Spread, (Contender, Spread))| format!("{} {}", who.id(), self.compare(&ours, &best));
        row.push(best.map(tell).unwrap_or_default());
        row
    }
}

/// Who has the least, or the most if that is better.
pub(super) fn best(
    measured: impl Iterator<Item = (Contender, Spread)>,
    lower_is_better: bool,
) -> Option<(Contender, Spread)> {
    let compare = |(_, a): &(Contender, Spread), (_, b): &(Contender, Spread)| a.middle.total_cmp(&b.middle);
    if lower_is_better { measured.min_by(compare) } else { measured.max_by(compare) }
}

/// Everybody else who schedules ordinary tasks; not the floor.
pub(super) fn rivals() -> impl Iterator<Item = Contender> {
    Contender::ALL.into_iter().filter(|who| *who == Contender::Default || who.peer().is_some())
}

/// A line for each figure of each tool, a column for each contender, and Scherzo beside the default and beside the best of the
/// others.
pub(super) fn table(samples: &[ToolSample], tools: &[Tool], contenders: &[Contender]) -> String {
    let mut head = vec![String::new()];
    head.extend(contenders.iter().map(ToString::to_string));
    head.extend(["to the default".to_owned(), "to the best".to_owned()]);
    let figures = tools.iter().flat_map(|tool| Judged::all_of(samples, *tool));
    let rows: Vec<_> = std::iter::once(head).chain(figures.map(|figure| figure.row(contenders))).collect();
    align(&rows)
}

#[cfg(test)]
mod tests {
    use super::super::peer::{BPFLAND, RUSTLAND};
    use super::super::tool::tests::tool_sample;
    use super::super::tool::{FrameLoad, GameShape};
    use super::*;

    const FRAMES: Tool = Tool::Frames(GameShape::Heavy, FrameLoad::Hog2);

    fn only(samples: &[ToolSample], tool: Tool) -> Judged<'_> {
        Judged::all_of(samples, tool).next().unwrap()
    }

    #[test]
    fn times_have_a_median_and_missed_frames_a_mean() {
        let rounds = |tool| [0.0, 0.0, 3.0].map(|value| tool_sample(Contender::Scherzo, tool, 0, value));
        let ours = |tool| only(&rounds(tool), tool).of(Contender::Scherzo);
        assert_eq!(ours(Tool::Hackbench), Some(Spread { middle: 0.0, min: 0.0, max: 3.0 }));
        assert_eq!(ours(FRAMES), Some(Spread { middle: 1.0, min: 0.0, max: 3.0 }));
        assert_eq!(only(&rounds(FRAMES), FRAMES).of(Contender::Default), None);
    }

    #[test]
    fn the_best_is_the_quickest_or_the_one_with_most() {
        let of = |tool| {
            [
                tool_sample(Contender::Default, tool, 0, 2.0),
                tool_sample(Contender::Peer(RUSTLAND), tool, 0, 1.0),
                tool_sample(Contender::Peer(BPFLAND), tool, 0, 3.0),
                tool_sample(Contender::Floor, tool, 0, 0.1),
                tool_sample(Contender::Scherzo, tool, 0, 1.5),
            ]
        };
        let best = |tool| only(&of(tool), tool).best(rivals()).map(|(who, spread)| (who, spread.middle));
        assert_eq!(best(Tool::Hackbench), Some((Contender::Peer(RUSTLAND), 1.0)));
        assert_eq!(best(Tool::PerfPipe), Some((Contender::Peer(BPFLAND), 3.0)));
        assert_eq!(only(&of(FRAMES), FRAMES).best([Contender::LowPower].into_iter()), None);
    }

    #[test]
    fn the_table_has_ratios_and_marks_what_is_within_the_spread() {
        let mut samples = vec![
            tool_sample(Contender::Default, Tool::Hackbench, 0, 1.0),
            tool_sample(Contender::Default, Tool::Hackbench, 1, 1.2),
            tool_sample(Contender::Peer(RUSTLAND), Tool::Hackbench, 0, 0.5),
            tool_sample(Contender::Scherzo, Tool::Hackbench, 0, 1.05),
        ];
        samples.extend([Contender::Default, Contender::Scherzo].map(|who| tool_sample(who, FRAMES, 0, 2.0)));
        let contenders = [Contender::Default, Contender::Peer(RUSTLAND), Contender::Scherzo];
        let text = table(&samples, &[Tool::Hackbench, FRAMES], &contenders);
        let cells = |row: usize| text.lines().nth(row).unwrap().split('|').map(str::trim).collect::<Vec<_>>();
        assert_eq!(
            cells(0),
            ["", "", "kernel default", "scx_rustland", "Scherzo", "to the default", "to the best", ""]
        );
        assert_eq!(cells(2), ["", "hackbench, s ↓", "1.10 ±0.10", "0.50", "1.05", "0.95 ≈", "rustland 2.10", ""]);
        let frames = "frames-60x8+1.5-hog2 missed, % ↓";
        assert_eq!(cells(3), ["", frames, "2.00", "", "2.00", "+0.0 points ≈", "default +0.0 points ≈", ""]);
        assert_eq!(text.lines().count(), 6);
    }
}
