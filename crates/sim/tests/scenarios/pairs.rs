//! Pairs whose tasks wake each other, and work for longer than to pass a message takes.

use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};
use toml::Spanned;

use super::{all_rules_hold, scenario};

/// With pairs that work for so long each time, and so many of them.
fn with_pairs(mut scenario: Scenario, compute_us: u64, count: usize) -> SimulationReport {
    let pairs = scenario.group[1].get_mut();
    pairs.compute_us = Some(Spanned::new(0..0, compute_us));
    pairs.count = Spanned::new(0..0, count);
    let report = run(&scenario, &SimulationOptions::default());
    all_rules_hold(&report);
    report
}

/// Each task of a pair sleeps while the other runs, so it uses less than others would on average, but together they have every CPU. The hog
/// had nothing at all for five seconds where each of them works for 200 us or more.
#[test]
fn a_hog_keeps_half_of_its_share_beside_pairs_on_every_cpu() {
    for compute_us in [40, 200, 300, 1_000, 3_000] {
        for count in [4, 8] {
            let report = with_pairs(scenario("hog-beside-busy-pairs"), compute_us, count);
            let hog = report.group("hog").expect("a group");
            assert!(2 * hog.share >= hog.fair_share && hog.longest_gap_ns < 60_000_000, "{report}");
        }
    }
}

/// The game had 1 % of a CPU beside pairs that work for 200 to 600 us: each of them interrupted it as soon as it had one, as it had run for
/// longer than they do before. EEVDF misses none.
#[test]
fn a_game_has_its_share_beside_pairs_on_every_cpu() {
    for compute_us in [40, 200, 300, 600, 2_000] {
        let report = with_pairs(scenario("frames-beside-busy-pairs"), compute_us, 4);
        let frames = report.group("frames").expect("a group");
        assert!(frames.share + 2 >= frames.fair_share && frames.nr_missed == 0, "{report}");
    }
}
