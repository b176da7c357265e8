//! The engine is slow, or gone.

use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};
use toml::Spanned;

use crate::{all_rules_hold, is_fair, scenario};

fn outcome(scenario: &Scenario, kernel_seat: bool) -> SimulationReport {
    let report = run(scenario, &SimulationOptions { kernel_seat, ..SimulationOptions::default() });
    all_rules_hold(&report);
    report
}

fn slow(factor: u64) -> Scenario {
    Scenario { engine_slowdown: Some(Spanned::new(0..0, factor)), ..scenario("engine-slow") }
}

fn counter(report: &SimulationReport, name: &str) -> u64 {
    report.counters.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, number)| *number)
}

/// It takes CPU time from others then, but not their turns, and what is prompt does not wait for it.
#[test]
fn a_slow_engine_costs_nothing_but_time() {
    let [usual, slowed] = [1, 200].map(|factor| outcome(&slow(factor), false));
    assert!(usual.engine_share < 5 && slowed.engine_share > 10 * usual.engine_share.max(1), "{usual}{slowed}");
    for report in [&usual, &slowed] {
        let [hogs, pointer] = ["hogs", "pointer"].map(|name| report.group(name).expect("a group"));
        assert!(hogs.task_share.1 - hogs.task_share.0 < 20 && hogs.longest_gap_ns < 20_000_000, "{report}");
        assert!(pointer.nr_missed == 0 && pointer.latency_ns[3] < 100_000, "{report}");
        assert!(counter(report, "nr_user") > 500 && counter(report, "nr_swept") == 0, "{report}");
    }
    let asked_for_nothing = outcome(&slow(200), true);
    assert!(asked_for_nothing.engine_share == 0 && is_fair(&asked_for_nothing, "hogs", 10), "{asked_for_nothing}");
}

/// With turns of 60 ms answers come too late: BPF decides alone, and nobody waits much longer than for its check.
#[test]
fn an_engine_that_is_too_slow_is_not_waited_for() {
    let report = outcome(&slow(20_000), false);
    assert!(counter(&report, "nr_swept") > 0 && counter(&report, "nr_kernel") > 100, "{report}");
    assert!(report.group("hogs").expect("a group").longest_gap_ns < 300_000_000, "{report}");
}

/// The kernel takes back what was with user space, and what waited in the scheduler's queues.
#[test]
fn an_engine_that_is_gone_leaves_no_task_behind() {
    let hangs_first = Scenario { engine_hangs_ms: Some(Spanned::new(0..0, 480)), ..scenario("engine-gone") };
    for (scenario, kernel_seat) in [(&scenario("engine-gone"), false), (&hangs_first, false), (&hangs_first, true)] {
        let report = outcome(scenario, kernel_seat);
        assert!(is_fair(&report, "hogs", 10) && report.groups[0].longest_gap_ns < 40_000_000, "{report}");
        // In most of the time nobody preempts a hog for the pointer any more.
        assert!(counter(&report, "nr_preempt") < 100 && report.groups[1].nr_done > 240, "{report}");
        assert!(kernel_seat || counter(&report, "nr_left") > 0, "{report}");
        assert_eq!(report.engine_share, 0, "{report}");
    }
}
