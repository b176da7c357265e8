//! What things take.

use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};

use super::all_rules_hold;

const ALONE: &str = "[[group]]\nname = \"a\"\nkind = \"periodic\"\nperiod_us = 5000\ncompute_us = 500\n";
const HUB: &str =
    "[[group]]\nname = \"a\"\nkind = \"hub\"\ncompute_us = 500\nsleep_us = 500\nreaders = 2\nreply_us = 5\n";
const HOGS: &str = "[[group]]\nname = \"a\"\nkind = \"hog\"\ncount = 6\n";

/// On two CPUs that share no cache.
fn outcome(costs: &str, work: &str, kernel_seat: bool) -> SimulationReport {
    let text =
        format!("about = \"\"\nduration_ms = 2000\n[machine]\ncpus = 2\nllcs = 2\n[machine.costs]\n{costs}\n{work}");
    let scenario = Scenario::parse("costs.toml", &text).expect("a good scenario");
    let report = run(&scenario, &SimulationOptions { kernel_seat, ..SimulationOptions::default() });
    all_rules_hold(&report);
    report
}

/// By how much the time from due to done of a piece of work grows, 99 times of 100.
fn grows_by(costs: &str, work: &str) -> u64 {
    let [usual, dear] = ["", costs].map(|costs| outcome(costs, work, true).groups[0].response_ns[1]);
    dear - usual
}

/// A task that is alone on its CPU comes out of idleness by a switch.
#[test]
fn a_task_that_is_alone_waits_for_a_switch_and_the_way_out_of_idleness() {
    assert_eq!(grows_by("switch_ns = 11500", ALONE), 10_000);
    assert_eq!(grows_by("idle_exit_ns = 12000", ALONE), 10_000);
    assert_eq!(grows_by("ipi_ns = 11000", ALONE), 0);
}

/// The first reader is on another CPU, as its sender goes on; the last one takes that of the sender.
#[test]
fn a_message_to_another_cpu_waits_for_its_interrupt() {
    assert_eq!(grows_by("ipi_ns = 11000", HUB), 10_000);
}

#[test]
fn a_task_that_moves_fetches_its_data() {
    let moved = format!("{ALONE}[[event]]\nkind = \"affinity\"\ngroup = \"a\"\nat_us = 5000\nevery_us = 5000\n");
    let longest_ns = |costs| outcome(costs, &moved, true).groups[0].response_ns[3];
    let [usual, far, near] =
        ["", "migrate_ns = [0, 3000, 2000000, 20000]", "migrate_ns = [0, 2000000, 10000, 20000]"].map(longest_ns);
    assert!(far >= usual + 1_900_000, "{far} and {usual} ns");
    assert_eq!(near, usual, "nothing is within one cache");
}

#[test]
fn the_engine_takes_its_time() {
    let share = |costs| outcome(costs, HOGS, false).engine_share;
    let usual = share("");
    for costs in ["turn_ns = 300000", "record_ns = 300000", "dispatched_ns = 300000"] {
        assert!(share(costs) > 4 * usual.max(1), "{costs}: {} and {usual} thousandths", share(costs));
    }
}
