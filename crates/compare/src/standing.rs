//! Where Scherzo stands in each figure that says who is better, beside the kernel's default and the best of the peers.

use super::contender::Contender;
use super::judgement::{Judged, best, rivals};
use super::report::Publication;
use super::summary::{Figure, PERCENTILE_RESOLUTION, Spread, spread};
use super::table::number;
use super::tool::{FigureKind, Tool};
use super::workload::Workload;

/// Percent of what all got past which a difference to a share is one that anybody would notice.
const SHARE_RESOLUTION_POINTS: f64 = 0.5;

/// What a figure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FigureSource {
    /// Our own probe under a load.
    Probe(Workload, Figure),
    /// A tool, by the place among its figures.
    Tool(Tool, usize),
}

impl FigureSource {
    /// Names it in a sentence.
    pub(super) fn name(self) -> String {
        match self {
            Self::Probe(load, figure) => format!("{} under `{load}`", figure.name()),
            Self::Tool(tool, place) => {
                let figure = &tool.figures()[place];
                match (figure.kind, figure.name) {
                    (FigureKind::Percentage, name) => format!("{} {name} in `{tool}`", tool.counted()),
                    (FigureKind::Amount, "") => format!("`{tool}`"),
                    (FigureKind::Amount, name) => format!("{name} in `{tool}`"),
                }
            }
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Probe(load, Figure::Throughput) => load.unit().unwrap_or_default(),
            Self::Probe(..) => "µs",
            Self::Tool(tool, place) => tool.figures()[place].unit,
        }
    }

    /// `None` if nobody is better for having more of it, or less.
    pub(super) const fn lower_is_better(self) -> Option<bool> {
        match self {
            Self::Probe(_, figure) => figure.lower_is_better(),
            Self::Tool(tool, place) => Some(tool.figures()[place].lower_is_better),
        }
    }

    pub(super) const fn kind(self) -> FigureKind {
        match self {
            Self::Probe(..) => FigureKind::Amount,
            Self::Tool(tool, place) => tool.figures()[place].kind,
        }
    }

    /// The share of another contender's figure past which the method resolves a difference to it.
    fn resolution(self, other: Contender) -> f64 {
        match self {
            Self::Probe(_, figure) => figure.resolution(other),
            Self::Tool(tool, place) if tool.figures()[place].is_percentile => PERCENTILE_RESOLUTION,
            Self::Tool(..) => 0.0,
        }
    }

    /// The same of percentages, in points.
    const fn resolution_points(self) -> f64 {
        if matches!(self, Self::Tool(Tool::Shares(_), _)) { SHARE_RESOLUTION_POINTS } else { 0.0 }
    }

    fn resolves(self, ours: &Spread, other: Contender, theirs: &Spread) -> bool {
        let limit = match self.kind() {
            FigureKind::Amount => self.resolution(other) * theirs.middle,
            FigureKind::Percentage => self.resolution_points(),
        };
        (ours.middle - theirs.middle).abs() > limit
    }
}

/// A figure of Scherzo on a kernel, with those of the default and of the peers as far as they were measured.
#[derive(Debug, Clone)]
pub(super) struct Standing<'a> {
    pub(super) source: FigureSource,
    pub(super) kernel: &'a str,
    pub(super) ours: Spread,
    pub(super) rivals: Vec<(Contender, Spread)>,
    pub(super) lower_is_better: bool,
}

impl<'a> Standing<'a> {
    /// Every figure once: the probe's that two sets have in common are those of the set with all peers.
    pub(super) fn all_of(publication: &'a Publication) -> Vec<Self> {
        let mut found = Vec::new();
        for (comparison, load) in publication.probed() {
            let samples = &comparison.measured.samples;
            found.extend(Figure::ALL.into_iter().filter_map(|figure| {
                let of = |who| spread(samples, who, load, figure);
                Self::new(FigureSource::Probe(load, figure), &comparison.kernel, of)
            }));
        }
        for comparison in &publication.tools {
            for &tool in &comparison.plan.loads {
                let figures = Judged::all_of(&comparison.measured.samples, tool).enumerate();
                found.extend(figures.filter_map(|(place, figure)| {
                    Self::new(FigureSource::Tool(tool, place), &comparison.kernel, |who| figure.of(who))
                }));
            }
        }
        found
    }

    fn new(source: FigureSource, kernel: &'a str, of: impl Fn(Contender) -> Option<Spread>) -> Option<Self> {
        let lower_is_better = source.lower_is_better()?;
        let ours = of(Contender::Scherzo)?;
        let rivals = rivals().filter_map(|who| Some((who, of(who)?))).collect();
        Some(Self { source, kernel, ours, rivals, lower_is_better })
    }

    /// Beside the kernel's default.
    pub(super) fn beside_default(&self) -> Option<Versus<'_>> {
        let found = self.rivals.iter().find(|(who, _)| *who == Contender::Default);
        found.map(|&(who, theirs)| Versus { standing: self, who, theirs })
    }

    /// Beside the peer that is best in this figure.
    pub(super) fn beside_best_peer(&self) -> Option<Versus<'_>> {
        let peers = self.rivals.iter().copied().filter(|(who, _)| who.peer().is_some());
        best(peers, self.lower_is_better).map(|(who, theirs)| Versus { standing: self, who, theirs })
    }

    /// A value with its unit.
    pub(super) fn value(&self, spread: &Spread) -> String {
        format!("{} {}", number(spread.middle), self.source.unit())
    }
}

/// What comes of comparing two figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandingVerdict {
    Better,
    /// No further apart than the rounds of both are among themselves, or than the method resolves.
    Equal,
    Worse,
}

/// A figure of Scherzo beside that of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Versus<'a> {
    pub(super) standing: &'a Standing<'a>,
    pub(super) who: Contender,
    pub(super) theirs: Spread,
}

impl Versus<'_> {
    pub(super) fn verdict(&self) -> StandingVerdict {
        let Self { standing: Standing { source, ours, lower_is_better, .. }, who, theirs } = self;
        if ours.is_within(theirs) || !source.resolves(ours, *who, theirs) {
            StandingVerdict::Equal
        } else if (ours.middle < theirs.middle) == *lower_is_better {
            StandingVerdict::Better
        } else {
            StandingVerdict::Worse
        }
    }

    /// Ours as a multiple of theirs.
    pub(super) fn ratio(&self) -> f64 {
        self.standing.ours.middle / self.theirs.middle
    }

    /// How far both are apart: by what factor, or by how many points. The larger is the further; but only within a kind.
    pub(super) fn distance(&self) -> f64 {
        match self.standing.source.kind() {
            FigureKind::Amount => self.ratio().max(self.ratio().recip()),
            FigureKind::Percentage => (self.standing.ours.middle - self.theirs.middle).abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::{BPFLAND, RUSTLAND};
    use super::super::report::tests::{comparison, publication_of};
    use super::super::sample::Measurement;
    use super::super::set::BenchmarkSet;
    use super::super::summary::tests::sample;
    use super::super::tool::tests::tool_sample;
    use super::super::tool::{FrameLoad, GameShape, ShareCase};
    use super::*;

    const FRAMES: Tool = Tool::Frames(GameShape::Heavy, FrameLoad::Hog2);

    fn spread_of(values: &[f64]) -> Spread {
        Spread::of(values.to_vec()).unwrap()
    }

    fn class(source: FigureSource, who: Contender, ours: &[f64], theirs: &[f64]) -> StandingVerdict {
        let values = |contender| match contender {
            Contender::Scherzo => Some(spread_of(ours)),
            _ => (contender == who).then(|| spread_of(theirs)),
        };
        let standing = Standing::new(source, "7.3", values).unwrap();
        let versus = if who == Contender::Default { standing.beside_default() } else { standing.beside_best_peer() };
        versus.unwrap().verdict()
    }

    #[test]
    fn what_the_method_does_not_resolve_is_equal() {
        use StandingVerdict::{Better, Equal, Worse};
        let beside = |source, who| move |ours| class(source, who, &[ours], &[100.0]);
        let default = Contender::Default;
        let throughput = beside(FigureSource::Probe(Workload::Hog1, Figure::Throughput), default);
        assert_eq!([96.9, 97.1, 102.9, 103.1].map(throughput), [Worse, Equal, Equal, Better]);
        let latency = beside(FigureSource::Probe(Workload::Hog1, Figure::TimerP99), default);
        assert_eq!([84.9, 85.1, 114.9, 115.1].map(latency), [Better, Equal, Equal, Worse]);
        let rare = |who| beside(FigureSource::Probe(Workload::Hog1, Figure::PipeP999), who);
        assert_eq!([59.9, 60.1, 139.9, 140.1].map(rare(default)), [Better, Equal, Equal, Worse]);
        assert_eq!([69.9, 70.1, 129.9, 130.1].map(rare(Contender::Peer(RUSTLAND))), [Better, Equal, Equal, Worse]);
        assert_eq!([84.9, 85.1, 115.1].map(beside(FigureSource::Tool(FRAMES, 1), default)), [Better, Equal, Worse]);
        let hackbench = beside(FigureSource::Tool(Tool::Hackbench, 0), default);
        assert_eq!([99.9, 100.0, 100.1].map(hackbench), [Better, Equal, Worse]);
        let off_share = |ours| class(FigureSource::Tool(Tool::Shares(ShareCase::Nice), 0), default, &[ours], &[1.0]);
        assert_eq!([0.4, 0.6, 1.4, 1.6].map(off_share), [Better, Equal, Equal, Worse]);
        let switch = beside(FigureSource::Tool(Tool::Switch, 0), default);
        assert_eq!([99.9, 100.1].map(switch), [Worse, Better]);
    }

    #[test]
    fn what_the_rounds_differ_by_is_equal() {
        let hackbench = FigureSource::Tool(Tool::Hackbench, 0);
        let of = |ours: &[f64]| class(hackbench, Contender::Default, ours, &[1.0, 1.2]);
        assert_eq!(
            (of(&[0.9, 0.9]), of(&[1.0, 1.05]), of(&[1.1, 1.5])),
            (StandingVerdict::Better, StandingVerdict::Equal, StandingVerdict::Equal)
        );
        // Of zero, any part would be nothing.
        let missed = |ours: &[f64]| class(FigureSource::Tool(FRAMES, 0), Contender::Default, ours, &[0.0]);
        assert_eq!(
            (missed(&[0.0]), missed(&[0.1]), missed(&[0.0, 0.2])),
            (StandingVerdict::Equal, StandingVerdict::Worse, StandingVerdict::Equal)
        );
    }

    #[test]
    fn figures_of_two_sets_count_once_and_those_that_judge_nobody_never() {
        let of = |us| {
            [Contender::Default, Contender::Scherzo, Contender::Floor]
                .map(|who| sample(who, Workload::Hog1, 0, us, 100.0))
                .to_vec()
        };
        let set = |set, kernel, samples: Vec<Measurement>| {
            comparison(kernel, set, &[Workload::Hog1], set.contenders(), samples)
        };
        let core = vec![set(BenchmarkSet::Core, "6.18", of(1.0)), set(BenchmarkSet::Core, "7.3", of(2.0))];
        let peers = vec![set(BenchmarkSet::Peers, "7.3", of(3.0))];
        let publication = publication_of(core, peers, Vec::new());
        let found = Standing::all_of(&publication);
        let judged: Vec<_> = found.iter().map(|one| (one.kernel, one.source.name())).collect();
        let names = ["timer p50", "timer p99", "pipe p50", "pipe p99", "done p99", "throughput"]
            .map(|f| format!("{f} under `hog1`"));
        let expected: Vec<_> = ["7.3", "6.18"].iter().flat_map(|k| names.iter().map(|n| (*k, n.clone()))).collect();
        assert_eq!(judged, expected);
        let p50 = found.iter().filter(|one| one.source == FigureSource::Probe(Workload::Hog1, Figure::TimerP50));
        assert_eq!(p50.map(|one| one.ours.middle).collect::<Vec<_>>(), [3.0, 1.0]);
        assert!(found.iter().all(|one| one.rivals.len() == 1), "a floor is no rival");
    }

    #[test]
    fn the_best_peer_is_that_of_the_figure() {
        let of = |tool, value: [f64; 4]| {
            let who = [Contender::Default, Contender::Peer(RUSTLAND), Contender::Peer(BPFLAND), Contender::Scherzo];
            std::iter::zip(who, value).map(move |(who, value)| tool_sample(who, tool, 0, value))
        };
        let samples = of(Tool::Hackbench, [0.5, 1.0, 2.0, 1.0]).chain(of(Tool::Switch, [5.0, 1.0, 2.0, 1.0])).collect();
        let loads = [Tool::Hackbench, Tool::Switch];
        let tools = comparison("7.3", BenchmarkSet::Tools, &loads, BenchmarkSet::Tools.contenders(), samples);
        let publication = publication_of(Vec::new(), Vec::new(), vec![tools]);
        let best: Vec<_> =
            Standing::all_of(&publication).iter().map(|one| one.beside_best_peer().map(|best| best.who)).collect();
        assert_eq!(best, [Some(Contender::Peer(RUSTLAND)), Some(Contender::Peer(BPFLAND))]);
    }
}
