//! What a comparison comes to, in five sentences: what is better with Scherzo, what is equal, and what is worse.

use super::contender::Contender;
use super::report::Publication;
use super::standing::{FigureSource, Standing, StandingVerdict, Versus};
use super::summary::Figure;
use super::table::number;
use super::tool::FigureKind;

/// Five sentences in Markdown, from the figures alone: Scherzo beside the kernel's default and beside the best peers, then
/// where it is furthest ahead, what is equal, and where it is furthest behind.
#[must_use]
pub fn sentences(publication: &Publication) -> [String; 5] {
    let standings = Standing::all_of(publication);
    let default: Vec<_> = standings.iter().filter_map(Standing::beside_default).collect();
    let peers: Vec<_> = standings.iter().filter_map(Standing::beside_best_peer).collect();
    [
        beside_default(&default),
        beside_peers(&peers, &peers_of(&standings)),
        furthest_ahead(&default),
        equal(&default),
        furthest_behind(&default, &peers),
    ]
}

/// The part of a kernel's release that people know it by.
pub(super) fn version(release: &str) -> &str {
    release.split(['-', '+']).next().unwrap_or(release)
}

fn beside_default(versus: &[Versus<'_>]) -> String {
    if versus.is_empty() {
        return "Nothing was measured with both Scherzo and the kernel's default.".to_owned();
    }
    let [better, equal, worse] = counts(versus);
    format!(
        "Of {} beside the kernel's default, {better} better with Scherzo, {equal} equal (no further apart than the rounds are \
         among themselves, or than the method resolves), and {worse} worse.",
        figures(versus.len())
    )
}

fn beside_peers(versus: &[Versus<'_>], peers: &[Contender]) -> String {
    if versus.is_empty() {
        return "Nothing was measured with both Scherzo and a peer.".to_owned();
    }
    let [better, equal, worse] = counts(versus);
    let names: Vec<_> = peers.iter().map(ToString::to_string).collect();
    let whom = match &names[..] {
        [only] => only.clone(),
        [others @ .., last] => {
            format!("whichever peer is best in each, out of {} and {last}", others.join(", "))
        }
        [] => unreachable!("a figure is compared with a peer"),
    };
    format!(
        "Of {} beside {whom}, {better} better with Scherzo, {equal} equal, and {worse} worse.",
        figures(versus.len())
    )
}

/// The peers that were measured in anything, in the order of the tables.
fn peers_of(standings: &[Standing<'_>]) -> Vec<Contender> {
    let is_in = |who: &Contender| standings.iter().any(|one| one.rivals.iter().any(|(rival, _)| rival == who));
    Contender::ALL.into_iter().filter(|who| who.peer().is_some() && is_in(who)).collect()
}

fn furthest_ahead(versus: &[Versus<'_>]) -> String {
    if versus.is_empty() {
        return "Where Scherzo is ahead of the kernel's default was not measured.".to_owned();
    }
    match furthest(versus, StandingVerdict::Better) {
        Some(told) => format!("Scherzo is furthest ahead of the kernel's default {told}."),
        None => "Nothing that was measured is better with Scherzo than with the kernel's default.".to_owned(),
    }
}

/// Of the default and of the best peers each, as far as they were measured.
fn furthest_behind(default: &[Versus<'_>], peers: &[Versus<'_>]) -> String {
    let (mut behind, mut nowhere) = (Vec::new(), Vec::new());
    for (versus, whom) in [(default, "the kernel's default"), (peers, "the best peer")] {
        match furthest(versus, StandingVerdict::Worse) {
            Some(told) => behind.push(format!("behind {whom} {told}")),
            None if versus.is_empty() => {}
            None => nowhere.push(whom),
        }
    }
    let told = behind.join("; and ");
    let others = nowhere.join(" or ");
    match (behind.is_empty(), nowhere.is_empty()) {
        (true, true) => "Where Scherzo is behind was not measured.".to_owned(),
        (true, false) => format!("Nothing that was measured is worse with Scherzo than with {others}."),
        (false, true) => format!("Scherzo is furthest {told}."),
        (false, false) => format!("Scherzo is furthest {told}; it is nowhere behind {others}."),
    }
}

/// Throughput tells most, for there the price of being prompt shows; of tools alone, the first that is equal.
fn equal(versus: &[Versus<'_>]) -> String {
    if let Some(told) = throughput(versus) {
        return told;
    }
    match versus.iter().find(|one| one.verdict() == StandingVerdict::Equal) {
        Some(one) => format!("What is equal to the kernel's default includes {} ({}).", place(one.standing), both(one)),
        None if versus.is_empty() => "What is equal to the kernel's default was not measured.".to_owned(),
        None => "Nothing that was measured is equal to the kernel's default.".to_owned(),
    }
}

/// Of every load together, if any was measured.
fn throughput(versus: &[Versus<'_>]) -> Option<String> {
    let of_load = |one: &Versus<'_>| match one.standing.source {
        FigureSource::Probe(load, Figure::Throughput) => {
            let told = format!("{:.2} (`{load}`, Linux {})", one.ratio(), version(one.standing.kernel));
            Some((one.ratio(), one.verdict(), told))
        }
        _ => None,
    };
    let loads: Vec<_> = versus.iter().filter_map(of_load).collect();
    let (_, _, least) = loads.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (_, _, most) = loads.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let nr_equal = match loads.iter().filter(|(_, class, _)| *class == StandingVerdict::Equal).count() {
        0 => "none".to_owned(),
        nr => nr.to_string(),
    };
    let all = plural(loads.len(), "measurement");
    Some(format!(
        "Throughput is equal to the kernel's default in {nr_equal} of {all}: of what the default does, it is {least} at the \
         least and {most} at the most."
    ))
}

/// Of those of a class, the furthest by a factor and the furthest in points: one does not measure the other.
fn furthest(versus: &[Versus<'_>], class: StandingVerdict) -> Option<String> {
    let of = |kind| {
        let of_these = versus.iter().filter(|one| one.verdict() == class && one.standing.source.kind() == kind);
        // Nothing is a multiple of zero.
        let known = of_these.filter(|one| one.distance().is_finite());
        known.reduce(|furthest, one| if one.distance() > furthest.distance() { one } else { furthest })
    };
    let tell = |one: &Versus<'_>| {
        let distance = match one.standing.source.kind() {
            FigureKind::Amount => format!("by a factor of {}", number(one.distance())),
            FigureKind::Percentage => format!("by {} points", number(one.distance())),
        };
        format!("{distance} for {} ({})", place(one.standing), both(one))
    };
    let told: Vec<_> = [FigureKind::Amount, FigureKind::Percentage].into_iter().filter_map(of).map(tell).collect();
    (!told.is_empty()).then(|| told.join(", and "))
}

/// Which figure, and on which kernel.
fn place(standing: &Standing<'_>) -> String {
    format!("{} on Linux {}", standing.source.name(), version(standing.kernel))
}

fn both(versus: &Versus<'_>) -> String {
    let Versus { standing, who, theirs } = versus;
    format!("{}, {who} {}", standing.value(&standing.ours), standing.value(theirs))
}

/// How many are better, equal and worse, each with its verb.
fn counts(versus: &[Versus<'_>]) -> [String; 3] {
    [StandingVerdict::Better, StandingVerdict::Equal, StandingVerdict::Worse].map(|class| {
        match versus.iter().filter(|one| one.verdict() == class).count() {
            0 => "none is".to_owned(),
            1 => "1 is".to_owned(),
            nr => format!("{nr} are"),
        }
    })
}

fn figures(nr: usize) -> String {
    plural(nr, "figure")
}

fn plural(nr: usize, what: &str) -> String {
    format!("{nr} {what}{}", if nr == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::super::peer::{BPFLAND, PEERS, RUSTLAND};
    use super::super::report::Comparison;
    use super::super::report::tests::{comparison, publication_of};
    use super::super::sample::Measurement;
    use super::super::set::BenchmarkSet;
    use super::super::summary::tests::sample;
    use super::super::tool::tests::tool_sample;
    use super::super::tool::{FrameLoad, GameShape, Tool, ToolSample};
    use super::super::workload::Workload;
    use super::*;

    const FRAMES: Tool = Tool::Frames(GameShape::Heavy, FrameLoad::Hog2);
    const OURS: Contender = Contender::Scherzo;
    const DEFAULT: Contender = Contender::Default;

    fn of_tools(kernel: &str, figures: &[(Contender, Tool, &[f64])]) -> Comparison<Tool> {
        let one = |&(who, tool, values): &(Contender, Tool, &[f64])| ToolSample {
            values: values.to_vec(),
            ..tool_sample(who, tool, 0, 0.0)
        };
        let mut tools: Vec<_> = figures.iter().map(|(_, tool, _)| *tool).collect();
        tools.dedup();
        let samples = figures.iter().map(one).collect();
        comparison(kernel, BenchmarkSet::Tools, &tools, BenchmarkSet::Tools.contenders(), samples)
    }

    fn only_tools(figures: &[(Contender, Tool, &[f64])]) -> [String; 5] {
        sentences(&publication_of(Vec::new(), Vec::new(), vec![of_tools("7.3", figures)]))
    }

    /// Under two loads: latencies of ours and throughputs of all.
    fn probed(kernel: &str, ours_us: f64, hogs: [f64; 2], pipe: [f64; 2]) -> Comparison<Workload> {
        let pair = |load, us: [f64; 2], work: [f64; 2]| {
            [(DEFAULT, us[0], work[0]), (OURS, us[1], work[1])].map(|(who, us, work)| sample(who, load, 0, us, work))
        };
        let under_hogs = pair(Workload::Hog1, [1_000.0, ours_us], hogs);
        let samples: Vec<Measurement> = [under_hogs, pair(Workload::Pipe, [100.0; 2], pipe)].concat();
        let loads = [Workload::Hog1, Workload::Pipe];
        comparison(kernel, BenchmarkSet::Core, &loads, BenchmarkSet::Core.contenders(), samples)
    }

    #[test]
    fn the_sentences_tell_what_is_better_equal_and_worse() {
        let core = vec![
            probed("6.18.15+deb13-cloud-amd64", 400.0, [100.0, 98.0], [1_000.0, 820.0]),
            probed("7.2.13-generic", 250.0, [100.0, 104.0], [1_000.0, 990.0]),
        ];
        let tools = of_tools(
            "7.2.13-generic",
            &[
                (DEFAULT, FRAMES, &[60.0, 10.0, 10.0]),
                (Contender::Peer(RUSTLAND), FRAMES, &[0.5, 30.0, 30.0]),
                (Contender::Peer(PEERS[2]), FRAMES, &[4.0, 9.0, 20.0]),
                (OURS, FRAMES, &[1.5, 10.0, 10.0]),
            ],
        );
        let expected = [
            "Of 27 figures beside the kernel's default, 12 are better with Scherzo, 14 are equal (no further apart than the \
             rounds are among themselves, or than the method resolves), and 1 is worse.",
            "Of 3 figures beside whichever peer is best in each, out of scx_rustland and scx_lavd, 1 is better with Scherzo, \
             1 is equal, and 1 is worse.",
            "Scherzo is furthest ahead of the kernel's default by a factor of 4.00 for timer p50 under `hog1` on Linux 7.2.13 \
             (250 µs, kernel default 1000 µs), and by 58.5 points for frames missed in `frames-60x8+1.5-hog2` on Linux 7.2.13 \
             (1.50 %, kernel default 60.0 %).",
            "Throughput is equal to the kernel's default in 2 of 4 measurements: of what the default does, it is 0.82 (`pipe`, \
             Linux 6.18.15) at the least and 1.04 (`hog1`, Linux 7.2.13) at the most.",
            "Scherzo is furthest behind the kernel's default by a factor of 1.22 for throughput under `pipe` on Linux 6.18.15 \
             (820 round trips/s, kernel default 1000 round trips/s); and behind the best peer by 1.00 points for frames missed \
             in `frames-60x8+1.5-hog2` on Linux 7.2.13 (1.50 %, scx_rustland 0.50 %).",
        ];
        assert_eq!(sentences(&publication_of(core, Vec::new(), vec![tools])), expected);
    }

    #[test]
    fn of_tools_alone_something_else_is_equal() {
        let told = only_tools(&[
            (DEFAULT, Tool::Hackbench, &[1.0]),
            (Contender::Peer(BPFLAND), Tool::Hackbench, &[2.0]),
            (OURS, Tool::Hackbench, &[1.0]),
        ]);
        let expected = [
            "Of 1 figure beside the kernel's default, none is better with Scherzo, 1 is equal (no further apart than the rounds \
             are among themselves, or than the method resolves), and none is worse.",
            "Of 1 figure beside scx_bpfland, 1 is better with Scherzo, none is equal, and none is worse.",
            "Nothing that was measured is better with Scherzo than with the kernel's default.",
            "What is equal to the kernel's default includes `hackbench` on Linux 7.3 (1.00 s, kernel default 1.00 s).",
            "Nothing that was measured is worse with Scherzo than with the kernel's default or the best peer.",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn more_may_be_better_and_less_worse() {
        let [_, _, ahead, equal, behind] = only_tools(&[
            (DEFAULT, Tool::Switch, &[100.0]),
            (OURS, Tool::Switch, &[150.0]),
            (DEFAULT, Tool::PerfPipe, &[100.0]),
            (OURS, Tool::PerfPipe, &[50.0]),
        ]);
        let told = "by a factor of 1.50 for `switch` on Linux 7.3 (150 bogo ops/s, kernel default 100 bogo ops/s).";
        assert!(ahead.ends_with(told), "{ahead}");
        assert_eq!(equal, "Nothing that was measured is equal to the kernel's default.");
        let told = "Scherzo is furthest behind the kernel's default by a factor of 2.00 for `perf-pipe` on Linux 7.3";
        assert!(behind.starts_with(told), "{behind}");
    }

    #[test]
    fn whom_scherzo_is_nowhere_behind_is_said_too() {
        let [.., behind] = only_tools(&[
            (DEFAULT, Tool::Hackbench, &[2.0]),
            (Contender::Peer(BPFLAND), Tool::Hackbench, &[0.5]),
            (OURS, Tool::Hackbench, &[1.0]),
        ]);
        let expected = "Scherzo is furthest behind the best peer by a factor of 2.00 for `hackbench` on Linux 7.3 \
                        (1.00 s, scx_bpfland 0.50 s); it is nowhere behind the kernel's default.";
        assert_eq!(behind, expected);
    }

    #[test]
    fn a_multiple_of_nothing_is_not_told() {
        let [.., ahead, _, _] = only_tools(&[(DEFAULT, Tool::Hackbench, &[1.0]), (OURS, Tool::Hackbench, &[0.0])]);
        assert_eq!(ahead, "Nothing that was measured is better with Scherzo than with the kernel's default.");
    }

    #[test]
    fn what_was_not_measured_is_said_to_be_so() {
        let nothing = [
            "Nothing was measured with both Scherzo and the kernel's default.",
            "Nothing was measured with both Scherzo and a peer.",
            "Where Scherzo is ahead of the kernel's default was not measured.",
            "What is equal to the kernel's default was not measured.",
            "Where Scherzo is behind was not measured.",
        ];
        assert_eq!(sentences(&publication_of(Vec::new(), Vec::new(), Vec::new())), nothing);
        assert_eq!(only_tools(&[(OURS, Tool::Hackbench, &[1.0])]), nothing);
        assert_eq!(only_tools(&[(DEFAULT, Tool::Hackbench, &[1.0])]), nothing);
        let beside_peer =
            only_tools(&[(Contender::Peer(PEERS[2]), FRAMES, &[1.0, 1.0, 1.0]), (OURS, FRAMES, &[2.0, 1.0, 1.0])]);
        assert_eq!(beside_peer[0], nothing[0]);
        assert_eq!(
            beside_peer[4],
            "Scherzo is furthest behind the best peer by 1.00 points for frames missed in `frames-60x8+1.5-hog2` on Linux 7.3 \
             (2.00 %, scx_lavd 1.00 %)."
        );
    }

    #[test]
    fn kernels_are_called_by_what_people_know() {
        assert_eq!(["6.18.15+deb13-cloud-amd64", "7.3-rc1", "7.3"].map(version), ["6.18.15", "7.3", "7.3"]);
    }
}
