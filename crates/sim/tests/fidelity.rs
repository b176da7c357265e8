//! The simulator beside a guest: what groups of tasks got on Linux 6.18.15 with 4 CPUs, in virtual time, and what they get here.

use scherzo_sim::{Scenario, SimulationOptions, run};

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
