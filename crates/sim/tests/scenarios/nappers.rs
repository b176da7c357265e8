//! Tasks that nap, on both sides of the third of their time that makes a task prompt.

use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};

use super::{all_rules_hold, outcome};

/// How long they compute between naps, in microseconds.
const RUNS_US: [u64; 10] = [1_000, 3_000, 6_000, 8_000, 12_000, 16_000, 20_000, 25_000, 40_000, 60_000];

/// Tasks that sleep for so much of their time, and hogs. Each begins where chance says.
struct Mix {
    run_us: u64,
    sleep_percent: u64,
    jitter_percent: u64,
    nr_cpus: usize,
    nr_nappers: usize,
    nr_hogs: usize,
    /// All of them on the first CPU.
    pinned: bool,
}

const FOUR: Mix =
    Mix { run_us: 12_000, sleep_percent: 28, jitter_percent: 0, nr_cpus: 4, nr_nappers: 4, nr_hogs: 4, pinned: false };
const PAIR: Mix = Mix { nr_nappers: 1, nr_hogs: 1, pinned: true, ..FOUR };

impl Mix {
    fn outcome(&self, options: &SimulationOptions) -> SimulationReport {
        let Self { run_us, sleep_percent, jitter_percent, nr_cpus, nr_nappers, nr_hogs, pinned } = *self;
        let sleep_us = run_us * sleep_percent / (100 - sleep_percent);
        let cpus = if pinned { "cpus = [0]" } else { "" };
        let text = format!(
            "about = \"\"\nduration_ms = 5000\nwarmup_ms = 1000\n[machine]\ncpus = {nr_cpus}\n\
             [[group]]\nname = \"nappers\"\nkind = \"napper\"\ncompute_us = {run_us}\nsleep_us = {sleep_us}\n\
             jitter_percent = {jitter_percent}\ncount = {nr_nappers}\n{cpus}\n\
             [[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = {nr_hogs}\n{cpus}\n"
        );
        let report = run(&Scenario::parse("nappers.toml", &text).expect("a good scenario"), options);
        all_rules_hold(&report);
        report
    }

    /// What the nappers got of all that was used, in thousandths.
    fn share(&self, options: &SimulationOptions) -> (u64, SimulationReport) {
        let report = self.outcome(options);
        let [nappers, hogs] = ["nappers", "hogs"].map(|name| report.group(name).map_or(0, |group| group.ran_ns));
        (1000 * nappers / (nappers + hogs), report)
    }
}

/// They may get a little less, as a sleep of many milliseconds is not made up for.
#[track_caller]
fn get_no_more_than(mix: &Mix, most: u64, options: &SimulationOptions) {
    let (share, report) = mix.share(options);
    let Mix { run_us, sleep_percent, .. } = mix;
    assert!(share <= most, "{share} with {run_us} us of work and {sleep_percent} % of sleep, {most} allowed\n{report}");
}

#[test]
fn who_sleeps_for_less_than_a_third_gets_its_share() {
    for kernel_seat in [true, false] {
        let options = SimulationOptions { kernel_seat, ..SimulationOptions::default() };
        for run_us in RUNS_US {
            for sleep_percent in [5, 15, 24, 28, 31, 32] {
                let of = |mix| Mix { run_us, sleep_percent, ..mix };
                get_no_more_than(&of(FOUR), 510, &options);
                get_no_more_than(&of(PAIR), 510, &options);
                get_no_more_than(&of(Mix { nr_hogs: 8, ..FOUR }), 343, &options);
                get_no_more_than(&of(Mix { nr_nappers: 3, ..FOUR }), 438, &options);
            }
        }
    }
}

/// Where it varies they sleep for more than a third now and then.
#[test]
fn naps_of_varying_length_gain_little() {
    for run_us in RUNS_US {
        for jitter_percent in [50, 100] {
            for sleep_percent in [10, 20, 28] {
                let of = |mix| Mix { run_us, sleep_percent, jitter_percent, ..mix };
                get_no_more_than(&of(FOUR), 510, &SimulationOptions::default());
                get_no_more_than(&of(PAIR), 570, &SimulationOptions::default());
            }
        }
    }
}

/// Bursts of up to 32 ms and more. All of them together use less than the prompt may have beside the hogs.
#[test]
fn who_sleeps_for_more_than_a_third_runs_as_soon_as_it_wakes() {
    for run_us in RUNS_US.into_iter().filter(|run_us| *run_us <= 40_000) {
        for (sleep_percent, jitter_percent) in [(36, 0), (36, 10), (40, 0), (40, 10), (50, 50), (60, 50)] {
            let mix = Mix { run_us, sleep_percent, jitter_percent, nr_nappers: 2, ..FOUR };
            let report = mix.outcome(&SimulationOptions::default());
            let [.., longest_ns] = report.group("nappers").expect("a group").latency_ns;
            assert!(longest_ns < 100_000, "{run_us} us, {sleep_percent} %, {jitter_percent} %\n{report}");
        }
    }
}

/// Both sleep for a moment time and again, and have half of their share all the same.
#[test]
fn who_waits_for_a_disk_keeps_half_of_its_share_beside_messages() {
    let report = outcome("disk-beside-messages");
    all_rules_hold(&report);
    let disk = report.group("disk").expect("a group");
    assert!(2 * disk.share >= disk.fair_share && disk.latency_ns[2] < 5_000_000, "{report}");
}
