//! Limits of control groups.

use std::path::Path;

use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};

use super::{all_rules_hold, everywhere, is_fair, outcome, scenario};

/// CPUs that the group got, within so many thousandths of what it should have got.
#[track_caller]
fn got_cpus(report: &SimulationReport, scenario: &Scenario, group: &str, cpus: f64, tolerance: u32) {
    let measured_ns = (scenario.duration_ms.get_ref() * 1_000_000) as f64;
    let got = report.group(group).expect("a group").ran_ns as f64 / measured_ns;
    assert!((got - cpus).abs() * 1000.0 <= f64::from(tolerance) * cpus, "{group} got {got} CPUs, not {cpus}\n{report}");
}

#[test]
fn a_limit_holds_in_every_mode() {
    for options in everywhere() {
        for (name, cpus) in [("limit-half", 0.5), ("limit-two-percent", 0.02)] {
            let scenario = scenario(name);
            let report = run(&scenario, &options);
            all_rules_hold(&report);
            got_cpus(&report, &scenario, "boxed", cpus, 30);
        }
    }
}

#[test]
fn limits_hold_at_every_level() {
    for options in everywhere() {
        let scenario = scenario("limits-nested");
        let report = run(&scenario, &options);
        all_rules_hold(&report);
        got_cpus(&report, &scenario, "inner", 0.2, 30);
        got_cpus(&report, &scenario, "outer", 0.6, 30);
    }
}

/// Weights and limits of the first 16 levels count; what lies deeper is part of the group there.
#[test]
fn deep_groups_count_as_part_of_the_one_around_them() {
    for kernel_seat in [true, false] {
        let scenario = scenario("deep-groups");
        let report = run(&scenario, &SimulationOptions { kernel_seat, ..SimulationOptions::default() });
        all_rules_hold(&report);
        for (group, cpus) in [("deep", 1.4), ("beside", 1.4), ("other", 1.2)] {
            got_cpus(&report, &scenario, group, cpus, 30);
        }
    }
}

#[test]
fn a_limit_takes_nothing_from_the_group_nor_from_others() {
    let scenario = scenario("limit-beside-hogs");
    let report = run(&scenario, &SimulationOptions::default());
    all_rules_hold(&report);
    got_cpus(&report, &scenario, "boxed", 0.5, 30);
    got_cpus(&report, &scenario, "hogs", 1.5, 30);
}

/// A group is read together with those within it; whether its own tasks are limited is found out all the same.
#[test]
fn a_limit_holds_for_tasks_beside_a_group_within() {
    let report = outcome("limit-above");
    all_rules_hold(&report);
    assert!(is_fair(&report, "outer", 20), "{report}");
}

/// What a limited group has is divided among those in it, however they nap, and tasks outside it are not held up.
#[test]
fn who_naps_takes_no_more_of_a_limit() {
    let scenario = scenario("limit-nappers");
    let report = run(&scenario, &SimulationOptions::default());
    all_rules_hold(&report);
    let cpus = |group: &str| report.group(group).unwrap().ran_ns as f64 / 5e9;
    assert!((cpus("boxed") + cpus("pinned") - 0.3).abs() < 0.009 && cpus("pinned") > 0.03, "{report}");
    let frames = report.group("frames").unwrap();
    assert!(frames.nr_missed == 0 && frames.nr_done > 200, "{report}");
}

#[test]
fn what_was_saved_up_is_used_at_once() {
    let report = outcome("limit-burst");
    all_rules_hold(&report);
    let median_ns = |group: &str| report.group(group).unwrap().response_ns[0];
    assert!(median_ns("burst") < 37_000_000 && median_ns("strict") > 250_000_000, "{report}");
}

/// A thousand tasks come to more than 1 % of a CPU by the moment that each gets every 10 s, and no more.
#[test]
fn nobody_is_held_up_for_more_than_ten_seconds() {
    let scenario = scenario("limit-thousand");
    for kernel_seat in [true, false] {
        let report = run(&scenario, &SimulationOptions { kernel_seat, ..SimulationOptions::default() });
        all_rules_hold(&report);
        let (boxed, hog) = (report.group("boxed").unwrap(), report.group("hog").unwrap());
        assert!(boxed.longest_gap_ns < 10_600_000_000 && boxed.ran_ns < 25 * 30_000_000, "{report}");
        assert!(hog.ran_ns > 24_000_000_000, "{report}");
        let overran = report.counters.iter().any(|(name, number)| *name == "nr_limit_overrun" && *number > 1000);
        assert!(overran, "{report}");
    }
}

/// The scenario on a kernel that is built in this way.
fn built(name: &str, scheduling: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("toml");
    let text = std::fs::read_to_string(path).expect("a scenario");
    let text = text.replace("[machine]\n", &format!("[machine]\ncgroup_scheduling = \"{scheduling}\"\n"));
    Scenario::parse(name, &text).expect("a scenario")
}

/// `CONFIG_CFS_BANDWIDTH` is not set: sched_ext has fields of its own for limits, from 6.17 on.
#[test]
fn limits_hold_where_only_sched_ext_has_them() {
    for options in everywhere() {
        let scenario = built("limit-half", "without-bandwidth");
        let report = run(&scenario, &options);
        all_rules_hold(&report);
        got_cpus(&report, &scenario, "boxed", 0.5, 30);
    }
    let mut scenario = built("limit-half", "without-bandwidth");
    *scenario.machine.kernel.get_mut() = "6.16".to_owned();
    let report = run(&scenario, &SimulationOptions::default());
    all_rules_hold(&report);
    assert_eq!(report.idle_share, 0, "6.16 has no limits then\n{report}");
}

/// `CONFIG_CGROUP_SCHED` is not set: the scheduler sees no groups, neither their weights nor their limits nor which is in front.
#[test]
fn without_the_cpu_controller_all_tasks_compete_in_one_group() {
    for name in ["limit-half", "limits-nested", "deep-groups", "foreground-group", "foreground-scopes"] {
        for kernel_seat in [true, false] {
            let options = SimulationOptions { kernel_seat, ..SimulationOptions::default() };
            let report = run(&built(name, "none"), &options);
            all_rules_hold(&report);
            assert!(report.groups.iter().all(|group| is_fair(&report, &group.name, 20)), "{name}\n{report}");
        }
    }
}
