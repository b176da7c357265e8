//! The few figures that matter to a person, for the picture and for README.

use super::contender::Contender;
use super::headline::version;
use super::report::Publication;
use super::standing::{FigureSource, Standing};
use super::summary::{Figure, Spread};
use super::tool::{FrameLoad, GameShape, ShareCase, Tool};
use super::workload::Workload;

/// One of these figures.
#[derive(Debug)]
struct Measure {
    title: &'static str,
    /// What exactly is measured.
    about: &'static str,
    source: FigureSource,
}

/// In the order of the picture; README tells the first [`NR_TOLD`] that were measured.
const MEASURES: [Measure; 6] = [
    Measure {
        title: "Frames a game misses beside two hogs per CPU",
        about: "60 frames a second, 8 + 1.5 ms a frame",
        source: FigureSource::Tool(Tool::Frames(GameShape::Heavy, FrameLoad::Hog2), 0),
    },
    Measure {
        title: "Delay of a wake-up beside two hogs per CPU",
        about: "99th percentile",
        source: FigureSource::Probe(Workload::Hog2, Figure::TimerP99),
    },
    Measure {
        title: "Starting a program beside two hogs per CPU",
        about: "a shell with two commands",
        source: FigureSource::Tool(Tool::ProgramStart, 0),
    },
    Measure {
        title: "Containers: CPU time off its share",
        about: "two of equal weight, 8 hogs and 2",
        source: FigureSource::Tool(Tool::Shares(ShareCase::Groups), 0),
    },
    Measure {
        title: "Passing messages: hackbench",
        about: "time for all of them",
        source: FigureSource::Tool(Tool::Hackbench, 0),
    },
    Measure {
        title: "Throughput of two hogs per CPU",
        about: "what they compute beside light tasks",
        source: FigureSource::Probe(Workload::Hog2, Figure::Throughput),
    },
];

const NR_TOLD: usize = 3;

/// Such a figure as it was measured, on the newest kernel.
#[derive(Debug)]
pub(super) struct Panel<'a> {
    measure: &'static Measure,
    standing: Standing<'a>,
}

impl<'a> Panel<'a> {
    /// Those that were measured.
    pub(super) fn all_of(publication: &'a Publication) -> Vec<Self> {
        let standings = Standing::all_of(publication);
        let Some(newest) = standings.iter().map(|one| one.kernel).max_by_key(|kernel| numbers(kernel)) else {
            return Vec::new();
        };
        let of = |measure: &'static Measure| {
            let is_it = |one: &&Standing<'_>| one.source == measure.source && one.kernel == newest;
            let standing = standings.iter().find(is_it)?.clone();
            Some(Self { measure, standing })
        };
        MEASURES.iter().filter_map(of).collect()
    }

    pub(super) const fn title(&self) -> &'static str {
        self.measure.title
    }

    /// What is measured, and which way is better.
    pub(super) fn note(&self) -> String {
        let better = if self.standing.lower_is_better { "less is better" } else { "more is better" };
        format!("{}; {better}", self.measure.about)
    }

    /// As people know it.
    pub(super) fn kernel(&self) -> &'a str {
        version(self.standing.kernel)
    }

    /// Scherzo first, then the others in the order of the tables.
    pub(super) fn bars(&self) -> impl Iterator<Item = (Contender, Spread)> {
        std::iter::once((Contender::Scherzo, self.standing.ours)).chain(self.standing.rivals.iter().copied())
    }

    /// With its unit.
    pub(super) fn value(&self, spread: &Spread) -> String {
        self.standing.value(spread)
    }
}

/// The first figures beside the kernel's default, as a list in Markdown.
pub(super) fn list(panels: &[Panel<'_>]) -> String {
    let tell = |panel: &Panel<'_>| {
        let bars = panel.bars().filter(|(who, _)| matches!(who, Contender::Scherzo | Contender::Default));
        let told: Vec<_> = bars.map(|(who, spread)| format!("{who} {}", panel.value(&spread))).collect();
        format!("- {}: {}\n", panel.title(), told.join(", "))
    };
    panels.iter().take(NR_TOLD).map(tell).collect()
}

/// What orders releases of kernels.
fn numbers(release: &str) -> Vec<u32> {
    release.split(|char: char| !char.is_ascii_digit()).map_while(|number| number.parse().ok()).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Measurable;
    use super::super::report::Comparison;
    use super::super::report::tests::{comparison, publication_of};
    use super::super::set::BenchmarkSet;
    use super::super::summary::tests::sample;
    use super::super::tool::tests::tool_sample;
    use super::*;

    /// One value for each of the default, the peers, and Scherzo, in two rounds that differ by a tenth.
    fn rounds<S>(values: [f64; 6], of: impl Fn(Contender, u32, f64) -> S) -> Vec<S> {
        let contenders = &Contender::ALL[..6];
        let one = |round| std::iter::zip(contenders, values).map(move |(who, value)| (*who, round, value));
        let change = |round, value: f64| value * (0.95 + 0.1 * f64::from(round));
        one(0).chain(one(1)).map(|(who, round, value)| of(who, round, change(round, value))).collect()
    }

    fn of_set<M: Measurable>(set: BenchmarkSet, kernel: &str, loads: &[M], samples: Vec<M::Sample>) -> Comparison<M> {
        comparison(kernel, set, loads, set.contenders(), samples)
    }

    fn probed(set: BenchmarkSet, kernel: &str, us: [f64; 6]) -> Comparison<Workload> {
        let load = Workload::Hog2;
        of_set(set, kernel, &[load], rounds(us, |who, round, us| sample(who, load, round, us, 4_000.0 + us / 100.0)))
    }

    fn of_tools(kernel: &str) -> Comparison<Tool> {
        let measured = [
            (MEASURES[0].source, [61.3, 1.4, 0.9, 3.2, 12.5, 0.14]),
            (MEASURES[2].source, [249.0, 310.0, 140.0, 133.0, 201.0, 128.0]),
            (MEASURES[3].source, [0.0, 2.4, 0.1, 1.2, 0.5, 0.0]),
            (MEASURES[4].source, [1.02, 2.91, 1.08, 1.3, 0.99, 1.01]),
        ];
        let values = measured.iter().filter_map(|(source, values)| match source {
            FigureSource::Tool(tool, _) => Some((*tool, *values)),
            FigureSource::Probe(..) => None,
        });
        let (tools, values): (Vec<_>, Vec<_>) = values.unzip();
        let samples = std::iter::zip(&tools, values)
            .flat_map(|(tool, values)| rounds(values, |who, round, value| tool_sample(who, *tool, round, value)));
        of_set(BenchmarkSet::Tools, kernel, &tools, samples.collect())
    }

    /// Everything that the picture shows, on two kernels.
    pub(in super::super) fn publication() -> Publication {
        let us = [6_019.0, 3_764.0, 2_100.0, 1_950.0, 4_310.0, 1_238.0];
        let on_both = |set| vec![probed(set, "6.18.15+deb13-cloud-amd64", us), probed(set, "7.2.13-generic", us)];
        let tools = vec![of_tools("6.18.15+deb13-cloud-amd64"), of_tools("7.2.13-generic")];
        publication_of(on_both(BenchmarkSet::Core), on_both(BenchmarkSet::Peers), tools)
    }

    fn titles(publication: &Publication) -> Vec<&'static str> {
        Panel::all_of(publication).iter().map(Panel::title).collect()
    }

    #[test]
    fn what_was_not_measured_has_no_panel() {
        let all = MEASURES.each_ref().map(|measure| measure.title);
        assert_eq!(titles(&publication()), all);
        assert_eq!(titles(&Publication { tools: Vec::new(), ..publication() }), [all[1], all[5]]);
        assert_eq!(titles(&Publication { peers: Vec::new(), ..publication() }), all, "the core set has its loads");
        let only_tools = Publication { core: Vec::new(), peers: Vec::new(), ..publication() };
        assert_eq!(titles(&only_tools), [all[0], all[2], all[3], all[4]]);
        assert!(titles(&publication_of(Vec::new(), Vec::new(), Vec::new())).is_empty());
    }

    #[test]
    fn figures_are_of_the_newest_kernel_with_scherzo_first() {
        let mut publication = publication();
        publication.tools[1].kernel = "6.9".to_owned();
        assert_eq!(titles(&publication).len(), 2, "7.2.13 is the newest, and has no tools any more");
        publication.tools[1].kernel = "7.10-rc1".to_owned();
        let panels = Panel::all_of(&publication);
        assert_eq!((panels.len(), panels[0].kernel()), (4, "7.10"));
        let told: Vec<_> = panels[0].bars().map(|(who, spread)| (who.id(), panels[0].value(&spread))).collect();
        let expected = [
            ("scherzo", "0.14 %"),
            ("default", "61.3 %"),
            ("rustland", "1.40 %"),
            ("bpfland", "0.90 %"),
            ("lavd", "3.20 %"),
            ("cosmos", "12.5 %"),
        ];
        assert_eq!(told, expected.map(|(who, value)| (who, value.to_owned())));
        assert_eq!(panels[0].note(), "60 frames a second, 8 + 1.5 ms a frame; less is better");
    }

    #[test]
    fn the_list_has_three_figures_beside_the_default() {
        let expected = "- Frames a game misses beside two hogs per CPU: Scherzo 0.14 %, kernel default 61.3 %\n\
                        - Delay of a wake-up beside two hogs per CPU: Scherzo 1238 µs, kernel default 6019 µs\n\
                        - Starting a program beside two hogs per CPU: Scherzo 128 ms, kernel default 249 ms\n";
        assert_eq!(list(&Panel::all_of(&publication())), expected);
    }
}
