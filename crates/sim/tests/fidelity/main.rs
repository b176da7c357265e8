//! The simulator beside a guest: what groups of tasks got on Linux 6.18.15 with 4 CPUs, in virtual time, and what they get here.

mod turns;

use std::fmt::Write;

use scherzo_sim::{BaselineScheduler, Scenario, SimulationOptions, SimulationReport, run};

/// A load of two groups, and the CPUs that they got in the guest.
struct Measured {
    about: &'static str,
    groups: &'static str,
    cpus: [f64; 2],
    /// By what both groups got together, as the guest's service and the emulator took the rest; limits are compared as they are.
    compares_shares: bool,
}

const HOGS: &str = "[[group]]\nname = \"a\"\nkind = \"hog\"\ncount = 4\n";

const MEASURED: [Measured; 5] = [
    Measured {
        about: "4 hogs beside 16 that compute for 0.5 ms and nap for 20 us",
        groups: "[[group]]\nname = \"b\"\nkind = \"napper\"\ncompute_us = 500\nsleep_us = 20\ncount = 16\n",
        cpus: [0.77, 3.11],
        compares_shares: true,
    },
    Measured {
        about: "8 hogs beside 8 that compute for 4 ms and nap for 0.1 ms",
        groups: "[[group]]\nname = \"c\"\nkind = \"hog\"\ncount = 4\n\
                 [[group]]\nname = \"b\"\nkind = \"napper\"\ncompute_us = 4000\nsleep_us = 100\ncount = 8\n",
        cpus: [1.94, 1.94],
        compares_shares: true,
    },
    Measured {
        about: "4 hogs beside 4 of nice 10",
        groups: "[[group]]\nname = \"b\"\nkind = \"hog\"\nnice = 10\ncount = 4\n",
        cpus: [3.50, 0.38],
        compares_shares: true,
    },
    Measured {
        about: "4 hogs beside 4 of SCHED_IDLE",
        groups: "[[group]]\nname = \"b\"\nkind = \"hog\"\npolicy = \"idle\"\ncount = 4\n",
        cpus: [3.86, 0.016],
        compares_shares: true,
    },
    Measured {
        about: "20 % of a CPU within 80 %",
        groups: "[[cgroup]]\nname = \"outer\"\nquota_us = 80000\n\
                 [[cgroup]]\nname = \"inner\"\nparent = \"outer\"\nquota_us = 20000\n\
                 [[cgroup]]\nname = \"free\"\nparent = \"outer\"\n",
        cpus: [0.586, 0.196],
        compares_shares: false,
    },
];

/// A group may differ from the guest's by so much of its share, in percent, or by so many percent of all.
const TOLERANCE_PERCENT: f64 = 5.0;
const TOLERANCE_OF_ALL: f64 = 0.5;

fn scenario(measured: &Measured) -> Scenario {
    let limited = "[[group]]\nname = \"b\"\nkind = \"hog\"\ncount = 2\ncgroup = \"inner\"\n\
                   [[group]]\nname = \"a\"\nkind = \"hog\"\ncount = 2\ncgroup = \"free\"\n";
    let rest = if measured.compares_shares { HOGS } else { limited };
    let head = "about = \"\"\nduration_ms = 8000\nwarmup_ms = 2000\n[machine]\ncpus = 4\nkernel = \"6.18\"\n";
    Scenario::parse(measured.about, &format!("{head}{}{rest}", measured.groups)).expect("a good scenario")
}

/// CPUs of both groups; those named `c` are more of the first.
fn simulated(measured: &Measured) -> [f64; 2] {
    let scenario = scenario(measured);
    let report = run(&scenario, &SimulationOptions::default());
    assert!(report.violations.is_empty(), "{}\n{report}", measured.about);
    let cpus = |name: &str| report.group(name).map_or(0.0, |group| group.ran_ns as f64 / 8e9);
    [cpus("a") + cpus("c"), cpus("b")]
}

#[test]
fn shares_are_those_of_a_guest() {
    for measured in &MEASURED {
        let here = simulated(measured);
        let whole = |cpus: &[f64; 2]| if measured.compares_shares { cpus[0] + cpus[1] } else { 1.0 };
        for (guest, sim) in measured.cpus.iter().zip(here) {
            let (guest, sim) = (100.0 * guest / whole(&measured.cpus), 100.0 * sim / whole(&here));
            println!("{:60} {guest:6.2} % in the guest, {sim:6.2} % here", measured.about);
            let allowed = (guest * TOLERANCE_PERCENT / 100.0).max(TOLERANCE_OF_ALL);
            assert!((guest - sim).abs() <= allowed, "{}: {guest:.2} and {sim:.2} %", measured.about);
        }
    }
}

/// A load: what it is, its control groups, and its groups of tasks with the CPUs that they got.
type MeasuredEevdf = (&'static str, &'static str, &'static [(&'static str, f64)]);

/// What groups of tasks got in the same guest under EEVDF.
const MEASURED_EEVDF: [MeasuredEevdf; 7] = [
    (
        "4 hogs beside 4 of nice 10",
        "",
        &[("kind = \"hog\"\ncount = 4", 3.61), ("kind = \"hog\"\ncount = 4\nnice = 10", 0.39)],
    ),
    (
        "4 hogs of each policy",
        "",
        &[
            ("kind = \"hog\"\ncount = 4", 2.03),
            ("kind = \"hog\"\ncount = 4\npolicy = \"batch\"", 1.98),
            ("kind = \"hog\"\ncount = 4\npolicy = \"idle\"", 0.0),
        ],
    ),
    (
        "8 hogs beside 8 that compute for 4 ms and nap for 0.1 ms",
        "",
        &[
            ("kind = \"hog\"\ncount = 8", 2.02),
            ("kind = \"napper\"\ncompute_us = 4000\nsleep_us = 100\ncount = 8", 2.0),
        ],
    ),
    (
        "4 hogs beside 16 that compute for 2 ms and nap for 0.05 ms",
        "",
        &[
            ("kind = \"hog\"\ncount = 4", 0.8),
            ("kind = \"napper\"\ncompute_us = 2000\nsleep_us = 50\ncount = 16", 3.19),
        ],
    ),
    (
        "8 hogs in a group beside 2 in another one",
        "[[cgroup]]\nname = \"a\"\n[[cgroup]]\nname = \"b\"\n",
        &[("kind = \"hog\"\ncount = 8\ncgroup = \"a\"", 2.02), ("kind = \"hog\"\ncount = 2\ncgroup = \"b\"", 1.99)],
    ),
    (
        "4 hogs in a group of weight 400 beside 4 in one of weight 100",
        "[[cgroup]]\nname = \"a\"\nweight = 400\n[[cgroup]]\nname = \"b\"\n",
        &[("kind = \"hog\"\ncount = 4\ncgroup = \"a\"", 3.21), ("kind = \"hog\"\ncount = 4\ncgroup = \"b\"", 0.81)],
    ),
    (
        "4 hogs in a group of weight 300 beside one of weight 100 with groups of 4 and 8 in it",
        "[[cgroup]]\nname = \"a\"\nweight = 300\n[[cgroup]]\nname = \"b\"\n\
         [[cgroup]]\nname = \"c\"\nparent = \"b\"\n[[cgroup]]\nname = \"d\"\nparent = \"b\"\n",
        &[
            ("kind = \"hog\"\ncount = 4\ncgroup = \"a\"", 3.03),
            ("kind = \"hog\"\ncount = 4\ncgroup = \"c\"", 0.49),
            ("kind = \"hog\"\ncount = 8\ncgroup = \"d\"", 0.48),
        ],
    ),
];

/// Runs groups of these kinds, named by their number, under EEVDF on four CPUs.
fn under_eevdf(about: &str, cgroups: &str, groups: &[&str]) -> SimulationReport {
    let mut text = format!(
        "about = \"\"\nduration_ms = 8000\nwarmup_ms = 2000\n[machine]\ncpus = 4\nkernel = \"6.18\"\n{cgroups}"
    );
    for (number, group) in groups.iter().enumerate() {
        let _ = writeln!(text, "[[group]]\nname = \"{number}\"\n{group}");
    }
    let scenario = Scenario::parse(about, &text).expect("a good scenario");
    let baseline = Some(BaselineScheduler::Eevdf);
    let report = run(&scenario, &SimulationOptions { baseline, ..SimulationOptions::default() });
    assert!(report.violations.is_empty(), "{about}\n{report}");
    report
}

#[test]
fn eevdf_divides_as_in_a_guest() {
    for (about, cgroups, measured) in MEASURED_EEVDF {
        let groups: Vec<&str> = measured.iter().map(|(group, _)| *group).collect();
        let report = under_eevdf(about, cgroups, &groups);
        let whole: f64 = measured.iter().map(|(_, cpus)| cpus).sum();
        for ((_, cpus), here) in measured.iter().zip(&report.groups) {
            let (guest, sim) = (100.0 * cpus / whole, here.share as f64 / 10.0);
            println!("{about:60} {guest:6.2} % in the guest, {sim:6.2} % here");
            let allowed = (guest * TOLERANCE_PERCENT / 100.0).max(TOLERANCE_OF_ALL);
            assert!((guest - sim).abs() <= allowed, "{about}: {guest:.2} and {sim:.2} %\n{report}");
        }
    }
}

/// Frames that the guest missed nearly all of under EEVDF, and those that it missed none or few of: 99.3, 100, 100, 0 and 1.3 %.
#[test]
fn eevdf_misses_the_frames_that_it_misses_in_a_guest() {
    let long = "kind = \"chain\"\nperiod_us = 16667\nstages_us = [8000, 1500]";
    let short = "kind = \"chain\"\nperiod_us = 16667\nstages_us = [3000, 1000]";
    for (frame, load, missed) in [
        (long, "kind = \"hog\"\ncount = 4", true),
        (long, "kind = \"hog\"\ncount = 8", true),
        (long, "kind = \"napper\"\ncompute_us = 4000\nsleep_us = 100\ncount = 8", true),
        (long, "kind = \"hog\"\ncount = 8\nnice = 19", false),
        (short, "kind = \"hog\"\ncount = 4", false),
    ] {
        let report = under_eevdf("frames", "", &[frame, load]);
        let frames = &report.groups[0];
        let percent = 100 * frames.nr_missed / frames.nr_done.max(1);
        println!("{load:60} {percent} % missed");
        assert!(if missed { percent >= 75 } else { percent <= 10 }, "{frame}\n{load}\n{report}");
    }
}
