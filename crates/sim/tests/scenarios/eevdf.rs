//! The kernel's own scheduler, to compare with. What groups get of it beside a guest is in `tests/fidelity/shares.rs`.

use std::fmt::Write;

use scherzo_sim::{BaselineScheduler, Scenario, SimulationOptions, SimulationReport, run};

use super::{all_rules_hold, is_fair, on_kernel, scenario, spread};

fn eevdf() -> SimulationOptions {
    SimulationOptions { baseline: Some(BaselineScheduler::Eevdf), ..SimulationOptions::default() }
}

fn outcome(scenario: &Scenario) -> SimulationReport {
    let report = run(scenario, &eevdf());
    all_rules_hold(&report);
    report
}

fn with_hogs(machine: &str, groups: &[&str]) -> SimulationReport {
    let mut text = format!("about = \"\"\nduration_ms = 4000\nwarmup_ms = 1000\n[machine]\n{machine}\n");
    for (number, group) in groups.iter().enumerate() {
        let _ = writeln!(text, "[[group]]\nname = \"{number}\"\n{group}");
    }
    outcome(&Scenario::parse("eevdf.toml", &text).expect("a good scenario"))
}

#[test]
fn nice_levels_and_naps_keep_their_shares() {
    for name in ["four-hogs", "nice-hogs", "nice-10", "nice-levels", "nappers", "fine-nappers", "nice-nappers"] {
        let report = outcome(&scenario(name));
        assert!(report.groups.iter().all(|group| is_fair(&report, &group.name, 10)), "{name}\n{report}");
    }
}

/// Two of its three parts in 1027 that a task of SCHED_IDLE weighs, and no more.
#[test]
fn idle_policy_gets_what_it_weighs() {
    let hogs = "kind = \"hog\"\ncount = 2";
    let report = with_hogs("cpus = 2", &[hogs, &format!("{hogs}\npolicy = \"idle\"")]);
    assert!((2..=4).contains(&report.groups[1].share), "{report}");
}

/// A task of SCHED_IDLE gives way at once to one that wakes, whatever it is owed; a batch task takes nothing from anybody by waking.
#[test]
fn policies_decide_who_gives_way() {
    let napper = "kind = \"napper\"\ncompute_us = 100\nsleep_us = 5000";
    let latency_ns = |load: &str, naps: &str| {
        let report = with_hogs("cpus = 1", &[load, &format!("{napper}\n{naps}")]);
        report.groups[1].latency_ns[0]
    };
    assert!(latency_ns("kind = \"hog\"\npolicy = \"idle\"", "") < 10_000);
    assert!(latency_ns("kind = \"hog\"", "policy = \"batch\"") > 1_000_000);
}

/// Nobody who has slept is owed the time for which it slept: beside a hog it gets half at most, over any time.
#[test]
fn a_sleep_earns_nothing() {
    let report = with_hogs("cpus = 1", &["kind = \"hog\"", "kind = \"napper\"\ncompute_us = 50000\nsleep_us = 500000"]);
    let (hog, napper) = (&report.groups[0], &report.groups[1]);
    assert!(hog.longest_gap_ns <= 12_000_000, "a hog never waits for longer than a few slices\n{report}");
    assert!(napper.response_ns[0] >= 95_000_000 && napper.share >= 70, "{report}");
}

/// Work that is unequally divided is moved: where a CPU falls idle, at ticks of busy CPUs, and to idle CPUs that are kicked.
#[test]
fn work_is_balanced() {
    let report = with_hogs("cpus = 2", &["kind = \"hog\"\ncount = 3"]);
    assert!(spread(&report, "0") < 400 && report.nr_moves.iter().sum::<u64>() > 20, "{report}");
    // Pinned work makes the first CPU the busier one.
    let report = with_hogs("cpus = 4", &["kind = \"hog\"\ncpus = [0]", "kind = \"hog\"\ncount = 3"]);
    assert!(report.groups[0].share >= 248 && report.groups[1].share >= 745, "{report}");
    let report = with_hogs("cpus = 8\nllcs = 4\nnodes = 2", &["kind = \"hog\"\ncount = 16"]);
    assert!(spread(&report, "0") < 200 && report.idle_share == 0, "{report}");
    let napper = "kind = \"napper\"\ncompute_us = 3000\nsleep_us = 3000\ncount = 12";
    let report = with_hogs("cpus = 4\nthreads_per_core = 2", &[napper]);
    assert!(report.idle_share < 30, "{report}");
}

#[test]
fn weights_may_change_at_any_moment() {
    let report = outcome(&scenario("live-weights"));
    let [reniced, moved, others] =
        ["reniced", "moved", "others"].map(|name| report.group(name).expect("a group").share);
    assert!((85..120).contains(&(1000 * reniced / others)), "nice 10 weighs about a tenth\n{report}");
    assert!((450..550).contains(&(1000 * moved / others)), "the group weighs half\n{report}");
}

#[test]
fn changes_at_any_moment_break_no_rule() {
    for name in ["hotplug", "affinity", "stolen-time", "suspend", "migration-disabled", "realtime-naps", "hybrid"] {
        for kernel in ["6.18", "7.3"] {
            let report = outcome(&on_kernel(name, kernel));
            assert!(report.groups.iter().all(|group| group.ran_ns > 0), "{name} on {kernel}\n{report}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let options = SimulationOptions { trace: true, ..eevdf() };
    let desktop = scenario("desktop");
    let first = run(&desktop, &options);
    let _ = outcome(&scenario("nice-hogs"));
    assert!(first.trace.as_ref().is_some_and(|trace| trace.len() > 10_000));
    assert!(first == run(&desktop, &options), "two runs differ");
    assert_ne!(first.trace, run(&desktop, &SimulationOptions { seed: 2, ..options }).trace);
}
