//! Random builds, and tasks that send to many, beside sound and what computes: the rules hold, sound is in time, and what computes has
//! half of its share.

use std::fmt::Write;

use fastrand::Rng;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};

/// How many machines are tried.
const NR_MACHINES: u64 = 100;
/// For how long sound waits at most, 999 times of 1000: one of several CPUs that run prompt tasks becomes free.
const IN_TIME_NS: u64 = 1_500_000;

fn random_build(rng: &mut Rng, nr_cpus: u64) -> String {
    let jobs = rng.u64(1..=3 * nr_cpus);
    let compute_us = rng.choice([300, 1_000, 3_000, 10_000, 50_000, 300_000]).unwrap_or(1_000);
    format!("kind = \"build-tree\"\njobs = {jobs}\ncompute_us = {compute_us}\njitter_percent = {}", rng.u64(0..=80))
}

/// Its readers have as little to do for each message as those that messages gather for.
fn random_hub(rng: &mut Rng) -> String {
    let (readers, compute_us, reply_us) = (rng.u64(1..=40), rng.u64(10..500), rng.u64(2..20));
    let pause = match rng.u8(0..3) {
        0 => String::new(),
        1 => format!("sleep_us = {}", rng.u64(50..5_000)),
        _ => format!("period_us = {}", rng.u64(500..20_000)),
    };
    format!("kind = \"hub\"\nreaders = {readers}\ncompute_us = {compute_us}\nreply_us = {reply_us}\n{pause}")
}

fn random_load(rng: &mut Rng) -> String {
    let nr_cpus = rng.u64(2..9);
    let llcs = rng.u64(1..=nr_cpus / 2);
    let mut text =
        format!("about = \"\"\nduration_ms = 2000\nwarmup_ms = 1000\n[machine]\ncpus = {nr_cpus}\nllcs = {llcs}\n");
    let nr_cgroups = if rng.bool() { rng.usize(1..3) } else { 0 };
    for cgroup in 0..nr_cgroups {
        let weight = rng.choice([50, 100, 100, 200]).unwrap_or(100);
        let _ = writeln!(text, "[[cgroup]]\nname = \"c{cgroup}\"\nweight = {weight}");
    }
    text.push_str("[[group]]\nname = \"sound\"\nkind = \"periodic\"\nperiod_us = 5333\ncompute_us = 400\n");
    for group in 0..rng.usize(1..4) {
        let what = if rng.bool() { random_build(rng, nr_cpus) } else { random_hub(rng) };
        let nice = rng.choice([0, 0, 0, 5, 10]).unwrap_or(0);
        let _ = writeln!(text, "[[group]]\nname = \"g{group}\"\nnice = {nice}\n{what}");
        if nr_cgroups > 0 && rng.bool() {
            let _ = writeln!(text, "cgroup = \"c{}\"", rng.usize(0..nr_cgroups));
        }
    }
    if rng.bool() {
        let _ = writeln!(text, "[[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = {}", rng.u64(1..=2 * nr_cpus));
    }
    text
}

/// Whether sound is late although it wants no more than its share, or what computes has less than half of its own.
fn is_wrong(report: &SimulationReport) -> bool {
    let sound = report.group("sound").expect("a group");
    let hogs = report.group("hogs");
    let is_late = sound.share <= sound.fair_share + 1 && sound.latency_ns[2] > IN_TIME_NS;
    is_late || hogs.is_some_and(|hogs| 2 * hogs.share + 2 < hogs.fair_share)
}

#[test]
fn sound_is_in_time_beside_builds_and_hubs() {
    let wrong_on = |seed| {
        let text = random_load(&mut Rng::with_seed(seed));
        let scenario = Scenario::parse("load.toml", &text).expect("a good scenario");
        let report = run(&scenario, &SimulationOptions { seed, ..SimulationOptions::default() });
        assert!(report.violations.is_empty(), "seed {seed}\n{text}\n{report}");
        is_wrong(&report).then(|| format!("seed {seed}\n{text}\n{report}"))
    };
    let wrong: Vec<_> = (0..NR_MACHINES).into_par_iter().filter_map(wrong_on).collect();
    assert!(wrong.is_empty(), "{} of {NR_MACHINES} are wrong\n{}", wrong.len(), wrong.join("\n"));
}
