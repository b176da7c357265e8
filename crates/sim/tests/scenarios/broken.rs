//! What is broken on purpose is noticed.

use std::process::Command;

use scherzo_sim::{BrokenCopy, InjectedFault, Rule, SimulationOptions, run};

use crate::{all_rules_hold, outcome, scenario};

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
    let report = run(&scenario("real-sleepers"), &starved);
    let hogs = report.group("hogs").expect("a group");
    assert!(hogs.share < hogs.fair_share / 2, "{report}");
}

/// Set in the program that is to end.
const DIVIDES: &str = "SCHERZO_TEST_DIVIDES_BY_ZERO";

/// BPF divides by zero and goes on with 0: here the program ends, and says what led there. So this test runs itself in another
/// program.
#[test]
fn a_division_by_zero_is_reported_with_its_seed() {
    if std::env::var_os(DIVIDES).is_some() {
        let broken = Some(BrokenCopy::DivisionByZero);
        let _ = run(&scenario("faults"), &SimulationOptions { seed: 7, broken, ..SimulationOptions::default() });
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program);
    child.args(["broken::a_division_by_zero_is_reported_with_its_seed", "--exact", "--nocapture"]).env(DIVIDES, "1");
    let output = child.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("a division by zero in weight.bpf.h, line "), "{said}");
    assert!(said.contains("faults.toml, seed 7, mode interactive"), "{said}");
}
