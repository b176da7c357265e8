//! What is broken on purpose is noticed.

use std::process::Command;

use scherzo_sim::{BrokenCopy, InjectedFault, Rule, Scenario, SimulationOptions, run};
use toml::Spanned;

use crate::{all_rules_hold, outcome, scenario};

/// Longer than anybody may wait.
const LONG_MS: u64 = 12_000;

/// Each fault is noticed as a breach of its rule.
#[test]
fn injected_faults_are_noticed() {
    for (fault, rule) in [
        (InjectedFault::LostInsertion, Rule::LostTask),
        (InjectedFault::DoubleInsertion, Rule::Ended),
        (InjectedFault::ForbiddenCpu, Rule::Ended),
        (InjectedFault::ForgottenKicks, Rule::IdleBesideWaiting),
    ] {
        let report =
            run(&scenario("faults"), &SimulationOptions { fault: Some(fault), ..SimulationOptions::default() });
        assert!(report.violations.iter().any(|violation| violation.rule == rule), "{fault:?}\n{report}");
    }
    all_rules_hold(&outcome("faults"));
}

/// What is broken in the scheduler's own source is noticed as well, and its lines are still there to be broken.
#[test]
fn broken_copies_are_noticed() {
    assert_eq!(scherzo_sim::UNFIT_FAULTS, "", "crates/sim/native/broken.txt is out of date");
    for (copy, rule) in [
        (BrokenCopy::LostTask, Rule::LostTask),
        (BrokenCopy::DoubleDispatch, Rule::Ended),
        (BrokenCopy::ForbiddenCpu, Rule::Ended),
        (BrokenCopy::ForgottenKick, Rule::IdleBesideWaiting),
    ] {
        let report =
            run(&scenario("faults"), &SimulationOptions { broken: Some(copy), ..SimulationOptions::default() });
        assert!(report.violations.iter().any(|violation| violation.rule == rule), "{copy:?}\n{report}");
    }
    let starved = SimulationOptions { broken: Some(BrokenCopy::StarvedClass), ..SimulationOptions::default() };
    let report = run(&Scenario { duration_ms: Spanned::new(0..0, LONG_MS), ..scenario("real-sleepers") }, &starved);
    let hogs = report.group("hogs").expect("a group");
    assert!(hogs.share < hogs.fair_share / 2, "{report}");
    assert!(report.violations.iter().any(|violation| violation.rule == Rule::OverdueWait), "{report}");
}

/// What BPF knows of tasks in flight, and counts of them, is compared with what there is.
#[test]
fn wrong_accounts_are_noticed() {
    let outcome = |broken| {
        let options = SimulationOptions { broken, kernel_seat: false, ..SimulationOptions::default() };
        run(&scenario("faults"), &options)
    };
    for (copy, rule) in [
        (BrokenCopy::MiscountedFlight, Rule::InFlightCount),
        (BrokenCopy::StaleFlightBit, Rule::InFlightCount),
        (BrokenCopy::UncountedSubmission, Rule::Counters),
    ] {
        let report = outcome(Some(copy));
        assert!(report.violations.iter().any(|violation| violation.rule == rule), "{copy:?}\n{report}");
    }
    all_rules_hold(&outcome(None));
}

/// Set in the program that is to end: which of the copies it runs.
const UNDEFINED: &str = "SCHERZO_TEST_UNDEFINED";
/// What C does not define, and what is said of it.
const UNDEFINED_COPIES: [(BrokenCopy, &str); 5] = [
    (BrokenCopy::DivisionByZero, "a division by zero in weight.bpf.h, line "),
    (BrokenCopy::ShiftTooFar, "a shift by more than there are bits in preempt.bpf.h, line "),
    (BrokenCopy::AccessThroughNull, "an access through NULL in count.bpf.h, line "),
    (BrokenCopy::IndexOutOfBounds, "an index out of bounds in count.bpf.h, line "),
    (BrokenCopy::NullForMask, "the scheduler passed NULL for a mask"),
];

/// BPF divides by zero and goes on with 0, and the like: here the program ends, and says what led there. So this test runs itself in
/// other programs.
#[test]
fn what_c_does_not_define_is_reported_with_its_seed() {
    if let Some(index) = std::env::var(UNDEFINED).ok().and_then(|text| text.parse::<usize>().ok()) {
        let (broken, _) = UNDEFINED_COPIES[index];
        let options = SimulationOptions { seed: 7, broken: Some(broken), ..SimulationOptions::default() };
        let _ = run(&scenario("faults"), &options);
        return;
    }
    let program = std::env::current_exe().expect("this program");
    for (index, (copy, message)) in UNDEFINED_COPIES.iter().enumerate() {
        let mut child = Command::new(&program);
        child.args(["broken::what_c_does_not_define_is_reported_with_its_seed", "--exact", "--nocapture"]);
        let output = child.env(UNDEFINED, index.to_string()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{copy:?}: {said}");
        assert!(said.contains(message), "{copy:?}: {said}");
        assert!(said.contains("faults.toml, seed 7, mode interactive"), "{copy:?}: {said}");
    }
}
