//! How long slices last.

use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, SliceTimer, run};
use toml::Spanned;

use crate::{all_rules_hold, is_fair, outcome, scenario};

fn outcome_with(name: &str, slice_timer: SliceTimer) -> SimulationReport {
    let report = run(&scenario(name), &SimulationOptions { slice_timer, ..SimulationOptions::default() });
    all_rules_hold(&report);
    report
}

/// What the scheduler counted under that name.
fn counted(report: &SimulationReport, name: &str) -> u64 {
    report.counters.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, number)| *number)
}

fn gap_ns(report: &SimulationReport) -> u64 {
    report.group("hogs").expect("a group").longest_gap_ns
}

/// Twenty hogs on four CPUs have slices of 1 ms, and ticks are 4 ms apart.
#[test]
fn slices_end_when_they_are_over() {
    let [on, auto, off] =
        [SliceTimer::On, SliceTimer::Auto, SliceTimer::Off].map(|choice| outcome_with("many-hogs", choice));
    for report in [&on, &auto, &off] {
        assert!(is_fair(report, "hogs", 2) && is_fair(report, "batch", 1), "{report}");
    }
    assert!(gap_ns(&on) < 6_000_000, "{on}");
    for report in [&auto, &off] {
        assert!(gap_ns(report) >= 16_000_000 && counted(report, "nr_slice_timers") == 0, "{report}");
    }
}

#[test]
fn at_100_hz_they_do_so_by_default() {
    let coarse = |slice_timer| {
        let mut scenario = scenario("many-hogs");
        scenario.machine.hz = Some(Spanned::new(0..0, 100));
        run(&scenario, &SimulationOptions { slice_timer, ..SimulationOptions::default() })
    };
    let [auto, off] = [SliceTimer::Auto, SliceTimer::Off].map(coarse);
    assert!(gap_ns(&auto) < 6_000_000 && gap_ns(&off) >= 40_000_000, "{auto}{off}");
}

#[test]
fn a_lightly_loaded_machine_sets_no_timers() {
    let text = "about = \"\"\nduration_ms = 2000\n[machine]\ncpus = 4\n[[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = 3\n\
                [[group]]\nname = \"brief\"\nkind = \"periodic\"\nperiod_us = 10000\ncompute_us = 500\n";
    let scenario = Scenario::parse("light.toml", text).expect("a good scenario");
    let report = run(&scenario, &SimulationOptions { slice_timer: SliceTimer::On, ..SimulationOptions::default() });
    all_rules_hold(&report);
    assert!(counted(&report, "nr_slice_timers") == 0, "{report}");
}

/// Without one, a turn against the weight lasts until the next tick.
#[test]
fn a_turn_against_the_weight_needs_its_timer() {
    let report = outcome_with("low-weight", SliceTimer::Off);
    assert!(counted(&report, "nr_slice_timers") > 0 && is_fair(&report, "nice-19", 20), "{report}");
}

/// Four hogs for each CPU that want 20 ms wait for three others, and would wait for 3 of 1 ms otherwise.
#[test]
fn a_slice_that_was_asked_for_is_as_long() {
    let report = outcome("custom-slices");
    all_rules_hold(&report);
    assert!(is_fair(&report, "hogs", 2) && (55_000_000..85_000_000).contains(&gap_ns(&report)), "{report}");
}
