//! The promises that tools can judge. "The best" is the best of the others who were measured; a floor is none of them.

use super::super::contender::Contender;
use super::super::judgement::{Judged, rivals};
use super::super::peer::{BPFLAND, RUSTLAND};
use super::super::summary::Spread;
use super::super::table::number;
use super::super::tool::{Tool, ToolSample};
use super::PromiseResult;

/// For who passes many messages, the ones to be as quick as.
const MESSENGERS: [Contender; 3] = [Contender::Default, Contender::Peer(BPFLAND), Contender::Peer(RUSTLAND)];
/// Percent of frames that may be missed, and points more than the best misses.
const MAX_MISSED: f64 = 1.0;
const MAX_MISSED_ABOVE_BEST: f64 = 0.5;
/// Percent of what all groups got by which one may be away from its share.
const MAX_OFF_SHARE: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum ToolLimit {
    /// Times the best of the messengers, at most.
    OfMessengers(f64),
    /// Times the best, at most.
    OfBest(f64),
    /// Times the default's, at least.
    OfDefault(f64),
    /// Percent, and points above the best.
    Missed,
    /// Percent.
    OffShare,
}

/// What is promised for the first figure of a tool. cyclictest has too few wake-ups here for what is promised of it, and nothing is of
/// requests.
const fn limit(tool: Tool) -> Option<ToolLimit> {
    match tool {
        Tool::Hackbench | Tool::HackbenchPipes | Tool::Messaging => Some(ToolLimit::OfMessengers(1.03)),
        Tool::PerfPipe | Tool::Switch => Some(ToolLimit::OfDefault(0.92)),
        Tool::ProgramStart | Tool::ProgramStartApart => Some(ToolLimit::OfBest(1.05)),
        Tool::Cyclictest | Tool::Requests | Tool::RequestsBesideHogs => None,
        Tool::Shares(_) => Some(ToolLimit::OffShare),
        Tool::Build | Tool::Audio(_) | Tool::Frames(..) => Some(ToolLimit::Missed),
    }
}

/// Checks every promise that the tools' figures cover.
#[must_use]
pub fn results(samples: &[ToolSample], tools: &[Tool]) -> Vec<PromiseResult> {
    let of = |tool: &Tool| check(&Judged::all_of(samples, *tool).next()?, limit(*tool)?);
    tools.iter().filter_map(of).collect()
}

fn check(figure: &Judged<'_>, limit: ToolLimit) -> Option<PromiseResult> {
    let default = || Some((Contender::Default, figure.of(Contender::Default)?));
    match limit {
        ToolLimit::OfMessengers(limit) => ratio(figure, figure.best(MESSENGERS.into_iter())?, limit),
        ToolLimit::OfBest(limit) => ratio(figure, figure.best(rivals())?, limit),
        ToolLimit::OfDefault(limit) => ratio(figure, default()?, limit),
        ToolLimit::Missed => missed(figure),
        ToolLimit::OffShare => off_share(figure),
    }
}

/// At most so many times the other's, or at least if more is better.
fn ratio(figure: &Judged<'_>, other: (Contender, Spread), limit: f64) -> Option<PromiseResult> {
    let ours = figure.of(Contender::Scherzo)?;
    let (who, theirs) = other;
    let ratio = ours.middle / theirs.middle;
    let (is_met, bound) =
        if figure.figure().lower_is_better { (ratio <= limit, "at most") } else { (ratio >= limit, "at least") };
    let (name, unit) = (figure.name(), figure.figure().unit);
    let [own, other] = [ours, theirs].map(|spread| number(spread.middle));
    let mark = mark(&ours, &theirs.map(|value| value * limit));
    let text = format!("{name}: {own} {unit} is {ratio:.3} of {other}, that of {who}; {bound} {limit:.2}{mark}");
    Some(PromiseResult { is_met, text })
}

/// Says that another run may judge otherwise: the rounds differ among themselves by more than is between ours and the bound.
fn mark(ours: &Spread, bound: &Spread) -> &'static str {
    let has_rounds = ours.half() + bound.half() > 0.0;
    if has_rounds && ours.is_within(bound) { " (within spread)" } else { "" }
}

fn missed(figure: &Judged<'_>) -> Option<PromiseResult> {
    let ours = figure.of(Contender::Scherzo)?;
    let (who, best) = figure.best(rivals())?;
    let bound = best.map(|value| MAX_MISSED.min(value + MAX_MISSED_ABOVE_BEST));
    let [own, least, limit] = [ours, best, bound].map(|spread| number(spread.middle));
    let mark = mark(&ours, &bound);
    let text = format!("{}: {own} %, {who} has {least}; at most {limit}{mark}", figure.name());
    Some(PromiseResult { is_met: ours.middle <= bound.middle, text })
}

/// Whatever others do: shares are promised, and not to be better than anybody.
fn off_share(figure: &Judged<'_>) -> Option<PromiseResult> {
    let ours = figure.of(Contender::Scherzo)?;
    let bound = ours.map(|_| MAX_OFF_SHARE);
    let mark = mark(&ours, &bound);
    let text = format!("{}: {} %; at most {}{mark}", figure.name(), number(ours.middle), number(MAX_OFF_SHARE));
    Some(PromiseResult { is_met: ours.middle <= MAX_OFF_SHARE, text })
}

#[cfg(test)]
mod tests {
    use super::super::super::Measurable;
    use super::super::super::tool::tests::tool_sample;
    use super::super::super::tool::{FrameLoad, GameShape, ShareCase};
    use super::*;

    /// The only result, from figures of the default, two peers and Scherzo.
    fn judge(tool: Tool, default: f64, bpfland: f64, cosmos: f64, ours: f64) -> PromiseResult {
        let cosmos_is = "cosmos".parse().unwrap();
        let by = [
            (Contender::Default, default),
            (Contender::Peer(BPFLAND), bpfland),
            (cosmos_is, cosmos),
            (Contender::Floor, 0.0),
            (Contender::Scherzo, ours),
        ];
        let samples = by.map(|(who, value)| tool_sample(who, tool, 0, value));
        let [result] = &results(&samples, &[tool])[..] else { panic!("not one result of {tool}") };
        result.clone()
    }

    #[test]
    fn messages_are_passed_as_quickly_as_by_the_best_of_three() {
        for tool in [Tool::Hackbench, Tool::HackbenchPipes, Tool::Messaging] {
            assert!(judge(tool, 2.0, 1.0, 0.5, 1.029).is_met, "{tool}");
            assert!(!judge(tool, 2.0, 1.0, 0.5, 1.031).is_met, "{tool}");
            assert!(!judge(tool, 1.0, 2.0, 0.5, 1.031).is_met, "{tool}");
        }
        let missed = judge(Tool::Hackbench, 2.0, 1.0, 0.5, 1.1).to_string();
        assert_eq!(missed, "NOT MET: hackbench: 1.10 s is 1.100 of 1.00, that of scx_bpfland; at most 1.03");
    }

    #[test]
    fn switches_are_nearly_as_many_as_the_default_has() {
        for tool in [Tool::PerfPipe, Tool::Switch] {
            assert!(judge(tool, 100.0, 200.0, 200.0, 92.1).is_met, "{tool}");
            assert!(!judge(tool, 100.0, 50.0, 50.0, 91.9).is_met, "{tool}");
        }
    }

    #[test]
    fn programs_start_as_quickly_as_with_the_best() {
        assert!(judge(Tool::ProgramStart, 249.0, 150.0, 100.0, 104.9).is_met);
        assert!(!judge(Tool::ProgramStart, 249.0, 150.0, 100.0, 105.1).is_met);
        assert!(!judge(Tool::ProgramStart, 100.0, 150.0, 200.0, 105.1).is_met);
    }

    #[test]
    fn hardly_a_frame_is_missed_and_hardly_more_than_with_the_best() {
        for tool in Tool::all().into_iter().filter(|tool| matches!(tool, Tool::Frames(..))) {
            assert!(judge(tool, 50.0, 2.0, 3.0, 0.99).is_met, "{tool}");
            assert!(!judge(tool, 50.0, 2.0, 3.0, 1.01).is_met, "{tool}");
            assert!(judge(tool, 50.0, 0.1, 3.0, 0.59).is_met, "{tool}");
            assert!(!judge(tool, 50.0, 0.1, 3.0, 0.61).is_met, "{tool}");
        }
        let frames = Tool::Frames(GameShape::Fast, FrameLoad::Fork);
        let text = "NOT MET: frames-144x2+0.5-fork missed: 0.70 %, scx_bpfland has 0.10; at most 0.60";
        assert_eq!(judge(frames, 50.0, 0.1, 3.0, 0.7).to_string(), text);
    }

    #[test]
    fn each_has_nearly_its_share_whatever_others_give() {
        let result = judge(Tool::Shares(ShareCase::Nice), 50.0, 50.0, 50.0, 2.1);
        assert_eq!(result.to_string(), "NOT MET: shares-nice off its share: 2.10 %; at most 2.00");
        assert!(judge(Tool::Shares(ShareCase::Limit), 0.0, 0.0, 0.0, 1.9).is_met);
    }

    #[test]
    fn what_another_run_may_judge_otherwise_is_marked() {
        let judge = |ours: [f64; 2]| {
            let mut samples = vec![tool_sample(Contender::Default, Tool::Hackbench, 0, 1.0)];
            samples.extend(ours.map(|value| tool_sample(Contender::Scherzo, Tool::Hackbench, 0, value)));
            let [result] = &results(&samples, &[Tool::Hackbench])[..] else { panic!("not one result") };
            (result.is_met, result.text.ends_with("at most 1.03 (within spread)"))
        };
        assert_eq!(
            [judge([1.0, 1.05]), judge([1.03, 1.05]), judge([1.1, 1.2]), judge([0.8, 0.9])],
            [(true, true), (false, true), (false, false), (true, false),]
        );
        let frames = Tool::Frames(GameShape::Heavy, FrameLoad::Hog2);
        let ours = [0.0, 3.0].map(|value| tool_sample(Contender::Scherzo, frames, 0, value));
        let samples = [&[tool_sample(Contender::Default, frames, 0, 0.6)], &ours[..]].concat();
        let told = results(&samples, &[frames])[0].to_string();
        let name = "frames-60x8+1.5-hog2 missed";
        assert_eq!(told, format!("NOT MET: {name}: 1.50 %, kernel default has 0.60; at most 1.00 (within spread)"));
    }

    #[test]
    fn nothing_is_said_without_figures_of_ours_or_theirs() {
        let ours = [tool_sample(Contender::Scherzo, Tool::Hackbench, 0, 1.0)];
        assert_eq!(results(&ours, &Tool::all()), []);
        let theirs = [tool_sample(Contender::Default, Tool::Hackbench, 0, 1.0)];
        assert_eq!(results(&theirs, &Tool::all()), []);
    }
}
