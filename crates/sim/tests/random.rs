//! Random machines with random work: the rules hold on all of them.

mod machines;

use std::io::Write;
use std::path::Path;

use fastrand::Rng;
use machines::random_scenario;
use scherzo_sim::{
    BaselineScheduler, Coverage, InjectedFault, KnownFault, Mode, Rule, Scenario, SimulationOptions, SimulationReport,
    run,
};

/// How many machines are tried.
const NR_MACHINES: u64 = 500;
/// How many run for longer than anybody may wait.
const NR_LONG_RUNS: u64 = 20;

fn outcome(seed: u64, kernel_seat: bool) -> (String, SimulationReport) {
    let mut rng = Rng::with_seed(seed);
    let text = random_scenario(&mut rng);
    let scenario = Scenario::parse("random.toml", &text).expect("a good scenario");
    let mode = rng.choice(Mode::ALL).unwrap_or_default();
    let report = run(&scenario, &SimulationOptions { seed, mode, kernel_seat, ..SimulationOptions::default() });
    (format!("seed {seed}, mode {}, kernel seat: {kernel_seat}\n{text}", mode.name()), report)
}

#[test]
fn the_rules_hold_on_random_machines() {
    let mut nr_events = 0;
    for seed in 0..NR_MACHINES {
        let (what, report) = outcome(seed, seed.is_multiple_of(2));
        let mut broken = report.violations.iter().filter(|violation| violation.known.is_none());
        assert!(broken.next().is_none(), "{what}\n{report}");
        nr_events += report.nr_events;
    }
    assert!(nr_events > 1_000_000, "{nr_events} events say little");
}

/// One in a hundred such machines is known to break the promise: see `known_fault_pairs_starve_others_of_their_cpu`.
#[test]
fn nobody_waits_for_longer_than_is_promised_on_random_machines() {
    for seed in 0..NR_LONG_RUNS {
        let mut rng = Rng::with_seed(seed);
        let text = random_scenario(&mut rng).replace("duration_ms = 300", "duration_ms = 12000");
        let scenario = Scenario::parse("random.toml", &text).expect("a good scenario");
        let mode = rng.choice(Mode::ALL).unwrap_or_default();
        let kernel_seat = seed.is_multiple_of(2);
        let report = run(&scenario, &SimulationOptions { seed, mode, kernel_seat, ..SimulationOptions::default() });
        let waited =
            report.violations.iter().any(|violation| matches!(violation.rule, Rule::OverdueWait | Rule::Ended));
        assert!(!waited, "seed {seed}, mode {}, kernel seat: {kernel_seat}\n{text}\n{report}", mode.name());
    }
}

/// A machine for each fault that is known. One that has been mended is to be taken out of `KnownFault`, so that its rule holds again.
#[test]
fn known_faults_let_tasks_wait_beside_idle_cpus() {
    for (seed, kernel_seat, fault) in [
        (13, false, KnownFault::LetGo),
        (18711, false, KnownFault::AfterSuspension),
        (223, false, KnownFault::EngineInLowPower),
        (1045, true, KnownFault::QueuedBeforeHotplug),
    ] {
        let (what, report) = outcome(seed, kernel_seat);
        let is_there = report.violations.iter().any(|violation| violation.known == Some(fault));
        assert!(is_there, "{fault:?} has been mended, or hides: {what}\n{report}");
    }
}

/// So they do while the engine is slow, and when it ends.
#[test]
fn the_rules_hold_whatever_becomes_of_the_engine() {
    for seed in 0..NR_MACHINES / 5 {
        let mut rng = Rng::with_seed(seed);
        let text = random_scenario(&mut rng);
        let fate = match seed % 3 {
            0 => format!("engine_slowdown = {}\n", 2_u64 << rng.u64(0..15)),
            1 => format!("engine_gone_ms = {}\n", rng.u64(0..300)),
            _ => format!("engine_hangs_ms = {}\n", rng.u64(0..300)),
        };
        let text = fate + &text;
        let scenario = Scenario::parse("random.toml", &text).expect("a good scenario");
        let kernel_seat = rng.u8(0..4) == 0;
        let report = run(&scenario, &SimulationOptions { seed, kernel_seat, ..SimulationOptions::default() });
        let mut broken = report.violations.iter().filter(|violation| violation.known.is_none());
        assert!(broken.next().is_none(), "seed {seed}, kernel seat: {kernel_seat}\n{text}\n{report}");
    }
}

/// So they do where CPUs are emulated in turns, and find what concerns them only in their next one.
#[test]
fn the_rules_hold_where_one_thread_emulates_all_cpus() {
    for seed in 0..NR_MACHINES / 5 {
        let mut rng = Rng::with_seed(seed);
        let text = random_scenario(&mut rng).replace("[machine]", "[machine]\nshared_stream = true");
        let scenario = Scenario::parse("random.toml", &text).expect("a good scenario");
        for baseline in [None, Some(BaselineScheduler::Eevdf)] {
            let options = SimulationOptions {
                seed,
                baseline: baseline.clone(),
                kernel_seat: seed.is_multiple_of(2),
                ..SimulationOptions::default()
            };
            let report = run(&scenario, &options);
            let mut broken = report.violations.iter().filter(|violation| violation.known.is_none());
            assert!(broken.next().is_none(), "seed {seed}, {baseline:?}\n{text}\n{report}");
        }
    }
}

/// So they do whatever user space writes to the rings: tasks may be late within the time that it has for its answers, and no task is
/// lost or runs where it may not.
#[test]
fn the_rules_hold_whatever_user_space_writes() {
    let (mut nr_dispatched, mut nr_refused) = (0, 0);
    for seed in 0..NR_MACHINES / 5 {
        let mut rng = Rng::with_seed(seed);
        let text = random_scenario(&mut rng);
        // Where it takes its time CPUs see more of what it writes meanwhile.
        let text = format!("engine_slowdown = {}\n{text}", 1_u64 << rng.u64(0..10));
        let scenario = Scenario::parse("random.toml", &text).expect("a good scenario");
        let (fault, kernel_seat) = (Some(InjectedFault::RubbishFromEngine), rng.u8(0..8) == 0);
        let report = run(&scenario, &SimulationOptions { seed, kernel_seat, fault, ..SimulationOptions::default() });
        let mut broken = report.violations.iter().filter(|violation| violation.known.is_none());
        assert!(broken.next().is_none(), "seed {seed}, kernel seat: {kernel_seat}\n{text}\n{report}");
        let nr = |name| report.counters.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, number)| *number);
        nr_dispatched += nr("nr_user");
        nr_refused += nr("nr_failed") + nr("nr_cancelled");
    }
    assert!(nr_dispatched > 1_000 && nr_refused > 1_000, "{nr_dispatched} were carried out, {nr_refused} refused");
}

/// The emulation of the kernel's own scheduler loses no task either, whatever happens.
#[test]
fn eevdf_keeps_the_rules_on_random_machines() {
    for seed in 0..NR_MACHINES / 2 {
        let text = random_scenario(&mut Rng::with_seed(seed));
        let scenario = Scenario::parse("random.toml", &text).expect("a good scenario");
        let baseline = Some(BaselineScheduler::Eevdf);
        let report = run(&scenario, &SimulationOptions { seed, baseline, ..SimulationOptions::default() });
        assert!(report.violations.is_empty(), "seed {seed}\n{text}\n{report}");
    }
}

/// Random machines with either seat, and the scenarios of what no such machine has, use nearly all of the scheduler's code. What
/// never ran is printed, also if the test passes.
#[test]
fn most_of_the_scheduler_runs() {
    for seed in 0..200 {
        outcome(seed, seed.is_multiple_of(2));
    }
    for name in ["engine-hangs", "hybrid", "two-sockets", "migration-disabled"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("toml");
        let scenario = Scenario::read(&file).expect("a scenario");
        for kernel_seat in [true, false] {
            let _ = run(&scenario, &SimulationOptions { kernel_seat, ..SimulationOptions::default() });
        }
    }
    let coverage = Coverage::so_far().expect("it is built for tests");
    // Not `println!()`, which says nothing if the test passes.
    write!(std::io::stderr(), "{coverage}").expect("it can be printed");
    // A tenth is what policies for study alone use: the scenarios run with none of them.
    assert!(coverage.percent() >= 60, "{coverage}");
}
