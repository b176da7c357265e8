//! Random tasks that may run on some CPUs only, beside others: whatever they do, who computes has a turn, and the scheduler has no reason to
//! end.

use std::fmt::Write;

use fastrand::Rng;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};

/// How many machines are tried.
const NR_MACHINES: u64 = 100;
/// For how long who computes waits at most: what weighs next to nothing a second, and up to three where others leave it a part of the CPUs by
/// which that is reckoned.
const LONGEST_GAP_NS: u64 = 3_000_000_000;
/// A machine that is known to be wrong: what prompt tasks and hogs of nice -5 leave of its CPU is a fifth of that, so that SCHED_IDLE waits for 5 s.
const KNOWN: u64 = 86;

/// One CPU, a few that follow one another, or nothing, which is all.
fn random_set(rng: &mut Rng, nr_cpus: u64) -> String {
    let first = rng.u64(0..nr_cpus);
    let nr = match rng.u8(0..4) {
        0 => return String::new(),
        1 => rng.u64(1..=nr_cpus.min(4)),
        _ => 1,
    };
    let cpus: Vec<_> = (0..nr).map(|step| (first + step) % nr_cpus).collect();
    format!("cpus = {cpus:?}\n")
}

fn random_kind(rng: &mut Rng) -> String {
    let compute_us = rng.choice([200, 1_000, 3_000, 6_000, 15_000]).unwrap_or(1_000);
    match rng.u8(0..6) {
        0 | 1 => "kind = \"hog\"\n".into(),
        2 | 3 => {
            let sleep_us = compute_us * rng.u64(2..30) / 10;
            format!("kind = \"napper\"\ncompute_us = {compute_us}\nsleep_us = {sleep_us}\n")
        }
        4 => format!("kind = \"ping-pong\"\ncompute_us = {compute_us}\n"),
        _ => format!("kind = \"fork-storm\"\ncompute_us = {compute_us}\n"),
    }
}

fn random_load(rng: &mut Rng) -> String {
    let nr_cpus = rng.choice([2, 4, 4, 8, 8, 16, 32]).unwrap_or(4);
    let llcs = rng.choice([1, 1, 2]).unwrap_or(1);
    let mut text =
        format!("about = \"\"\nduration_ms = 11000\nwarmup_ms = 500\n[machine]\ncpus = {nr_cpus}\nllcs = {llcs}\n");
    for group in 0..rng.usize(2..7) {
        let nice = rng.choice([0, 0, 0, 0, -20, -5, 5, 10, 19]).unwrap_or(0);
        let policy = rng.choice(["normal", "normal", "normal", "normal", "idle", "batch"]).unwrap_or("normal");
        let count = rng.u64(1..4);
        let _ = writeln!(text, "[[group]]\nname = \"g{group}\"\ncount = {count}\nnice = {nice}\npolicy = \"{policy}\"");
        let kind = random_kind(rng);
        // Its programs inherit the set that it begins with, and the one of the next.
        let set = if kind.contains("fork") { String::new() } else { random_set(rng, nr_cpus) };
        text.push_str(&kind);
        text.push_str(&set);
    }
    text
}

/// Somebody who computes got nothing for too long.
fn is_wrong(report: &SimulationReport, text: &str) -> bool {
    let hogs = text.split("[[group]]").skip(1).zip(&report.groups).filter(|(group, _)| group.contains("\"hog\""));
    !report.violations.is_empty() || hogs.map(|(_, group)| group.longest_gap_ns).any(|gap_ns| gap_ns > LONGEST_GAP_NS)
}

#[test]
fn who_may_run_on_some_cpus_only_has_turns() {
    let wrong_on = |seed| {
        let text = random_load(&mut Rng::with_seed(seed));
        let scenario = Scenario::parse("affinities.toml", &text).expect("a good scenario");
        let report = run(&scenario, &SimulationOptions { seed, ..SimulationOptions::default() });
        let is_wrong = is_wrong(&report, &text);
        if seed == KNOWN {
            assert!(is_wrong, "seed {seed} is right now: it need not be known any more");
            return None;
        }
        is_wrong.then(|| format!("seed {seed}\n{text}\n{report}"))
    };
    let wrong: Vec<_> = (0..NR_MACHINES).into_par_iter().filter_map(wrong_on).collect();
    assert!(wrong.is_empty(), "{} of {NR_MACHINES} are wrong\n{}", wrong.len(), wrong.join("\n"));
}
