//! What groups of tasks get in a guest, and what they get here: under Scherzo and under the kernel's default.
//!
//! The guest's figures are a line of JSON for each load and scheduler, from `scherzo-bench shares`, as `guest/shares.sh` prints them.

use std::fmt::Write;

use scherzo_sim::{BaselineScheduler, Scenario, SimulationOptions, SimulationReport, run};
use serde_json::Value;

const GUEST: &str = include_str!("guest/shares.jsonl");

/// A load of the script: what it is, its control groups, and its groups of tasks, named as there.
type SharesLoad = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const LOADS: [SharesLoad; 8] = [
    (
        "nice",
        "4 hogs, 4 of nice 10",
        "",
        &[("normal", "kind = \"hog\"\ncount = 4"), ("nice-10", "kind = \"hog\"\ncount = 4\nnice = 10")],
    ),
    (
        "policies",
        "4 hogs, 4 of SCHED_BATCH, 4 of SCHED_IDLE",
        "",
        &[
            ("normal", "kind = \"hog\"\ncount = 4"),
            ("batch", "kind = \"hog\"\ncount = 4\npolicy = \"batch\""),
            ("idle", "kind = \"hog\"\ncount = 4\npolicy = \"idle\""),
        ],
    ),
    (
        "long-naps",
        "8 hogs, 8 that compute for 4 ms and nap for 0.1 ms",
        "",
        &[
            ("hogs", "kind = \"hog\"\ncount = 8"),
            ("nappers", "kind = \"napper\"\ncompute_us = 4000\nsleep_us = 100\ncount = 8\ngoes_by_cpu_time = true"),
        ],
    ),
    (
        "naps",
        "4 hogs, 16 that compute for 2 ms and nap for 0.05 ms",
        "",
        &[
            ("hogs", "kind = \"hog\"\ncount = 4"),
            ("nappers", "kind = \"napper\"\ncompute_us = 2000\nsleep_us = 50\ncount = 16\ngoes_by_cpu_time = true"),
        ],
    ),
    (
        "short-naps",
        "4 hogs, 16 that compute for 0.5 ms and nap for 0.02 ms",
        "",
        &[
            ("hogs", "kind = \"hog\"\ncount = 4"),
            ("nappers", "kind = \"napper\"\ncompute_us = 500\nsleep_us = 20\ncount = 16\ngoes_by_cpu_time = true"),
        ],
    ),
    (
        "groups",
        "groups of equal weight with 8 and 2 hogs",
        "[[cgroup]]\nname = \"eight\"\n[[cgroup]]\nname = \"two\"\n",
        &[
            ("eight", "kind = \"hog\"\ncount = 8\ncgroup = \"eight\""),
            ("two", "kind = \"hog\"\ncount = 2\ncgroup = \"two\""),
        ],
    ),
    (
        "weights",
        "groups of weight 400 and 100, 4 hogs each",
        "[[cgroup]]\nname = \"heavy\"\nweight = 400\n[[cgroup]]\nname = \"light\"\n",
        &[
            ("heavy", "kind = \"hog\"\ncount = 4\ncgroup = \"heavy\""),
            ("light", "kind = \"hog\"\ncount = 4\ncgroup = \"light\""),
        ],
    ),
    (
        "nested",
        "a group of weight 300 with 4 hogs; one of 100 with two groups of 4 and 8 in it",
        "[[cgroup]]\nname = \"big\"\nweight = 300\n[[cgroup]]\nname = \"outer\"\n\
         [[cgroup]]\nname = \"four\"\nparent = \"outer\"\n[[cgroup]]\nname = \"eight\"\nparent = \"outer\"\n",
        &[
            ("big", "kind = \"hog\"\ncount = 4\ncgroup = \"big\""),
            ("four", "kind = \"hog\"\ncount = 4\ncgroup = \"four\""),
            ("eight", "kind = \"hog\"\ncount = 8\ncgroup = \"eight\""),
        ],
    ),
];

/// A group may differ from the guest's by so much of its share, in percent, or by so many percent of all.
const TOLERANCE_PERCENT: f64 = 5.0;
const TOLERANCE_OF_ALL: f64 = 0.5;

/// What is further apart, and why.
const EXCEPTIONS: [(&str, &str, &str); 0] = [];

fn simulate(
    about: &str,
    cgroups: &str,
    groups: &[(&str, &str)],
    baseline: Option<&BaselineScheduler>,
) -> SimulationReport {
    let mut text = format!(
        "about = \"\"\nduration_ms = 8000\nwarmup_ms = 2000\n\
         [machine]\ncpus = 4\nkernel = \"6.18\"\nshared_stream = true\n{cgroups}"
    );
    for (name, group) in groups {
        let _ = writeln!(text, "[[group]]\nname = \"{name}\"\n{group}");
    }
    let scenario = Scenario::parse(about, &text).expect("a good scenario");
    let report = run(&scenario, &SimulationOptions { baseline: baseline.cloned(), ..SimulationOptions::default() });
    assert!(report.violations.is_empty(), "{about}\n{report}");
    report
}

/// CPUs that a group of the guest's got.
fn guest_cpus(contender: &str, load: &str, group: &str) -> f64 {
    let lines = GUEST.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let mut of_load = lines.filter(|line| line["contender"] == contender && line["load"] == load);
    let line = of_load.next().unwrap_or_else(|| panic!("{load} was not measured with {contender}"));
    let groups = line["report"]["groups"].as_array().expect("groups");
    let found = groups.iter().find(|found| found["name"] == group).and_then(|found| found["cpus"].as_f64());
    found.unwrap_or_else(|| panic!("no group {group} beside {load}"))
}

fn in_percent(cpus: &[f64]) -> Vec<f64> {
    let whole: f64 = cpus.iter().sum();
    cpus.iter().map(|cpus| 100.0 * cpus / whole).collect()
}

/// By what all groups got together: the rest is the kernel's own work, which takes some time on an emulated CPU.
fn shares_are_those_of_a_guest(contender: &str, baseline: Option<&BaselineScheduler>) {
    for (load, about, cgroups, groups) in LOADS {
        let report = simulate(about, cgroups, groups, baseline);
        let guest: Vec<f64> = groups.iter().map(|(name, _)| guest_cpus(contender, load, name)).collect();
        let here: Vec<f64> =
            groups.iter().map(|(name, _)| report.group(name).expect("a group").ran_ns as f64).collect();
        let (guest, here) = (in_percent(&guest), in_percent(&here));
        let list = |shares: &[f64]| shares.iter().map(|share| format!("{share:.1}")).collect::<Vec<_>>().join(" / ");
        println!("| {about} | {contender} | {} % | {} % |", list(&guest), list(&here));
        let is_near = |(guest, here): (&f64, &f64)| {
            (guest - here).abs() <= (guest * TOLERANCE_PERCENT / 100.0).max(TOLERANCE_OF_ALL)
        };
        let agrees = guest.iter().zip(&here).all(is_near);
        match EXCEPTIONS.iter().find(|(of, to, _)| *of == contender && *to == load) {
            None => assert!(agrees, "{about}, {contender}: {guest:?} and {here:?}\n{report}"),
            Some((.., reason)) => assert!(!agrees, "{about}, {contender}: no exception any more ({reason})"),
        }
    }
}

#[test]
fn scherzo_divides_as_in_a_guest() {
    shares_are_those_of_a_guest("scherzo", None);
}

#[test]
fn eevdf_divides_as_in_a_guest() {
    shares_are_those_of_a_guest("default", Some(&BaselineScheduler::Eevdf));
}

/// Measured on the same guest, in CPUs: 0.586 and 0.196.
#[test]
fn limits_are_those_of_a_guest() {
    let cgroups = "[[cgroup]]\nname = \"outer\"\nquota_us = 80000\n\
                   [[cgroup]]\nname = \"inner\"\nparent = \"outer\"\nquota_us = 20000\n\
                   [[cgroup]]\nname = \"free\"\nparent = \"outer\"\n";
    let groups = [
        ("free", "kind = \"hog\"\ncount = 2\ncgroup = \"free\""),
        ("inner", "kind = \"hog\"\ncount = 2\ncgroup = \"inner\""),
    ];
    let report = simulate("20 % of a CPU within 80 %", cgroups, &groups, None);
    for (name, guest) in [("free", 0.586), ("inner", 0.196)] {
        let here = report.group(name).expect("a group").ran_ns as f64 / 8e9;
        println!("{name}: {guest} CPUs in the guest, {here:.3} here");
        assert!((guest - here).abs() <= guest * TOLERANCE_PERCENT / 100.0, "{name}: {guest} and {here}\n{report}");
    }
}
