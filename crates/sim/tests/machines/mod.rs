//! Random machines with random work.

use std::fmt::Write;

use fastrand::Rng;

/// What may happen to a machine, and what that needs beside a kind.
const EVENTS: [&str; 9] = [
    "kind = \"affinity\"\ngroup = \"g0\"",
    "kind = \"affinity\"\ngroup = \"g0\"",
    "kind = \"nice\"\ngroup = \"g0\"",
    "kind = \"policy\"\npolicy = \"idle\"\ngroup = \"g0\"",
    "kind = \"offline\"",
    "kind = \"online\"",
    "kind = \"steal\"\nfor_us = 900",
    "kind = \"bypass\"\nfor_us = 2000",
    "kind = \"suspend\"\nfor_us = 3000",
];

/// A scenario that follows from the seed alone.
pub fn random_scenario(rng: &mut Rng) -> String {
    let cpus = rng.usize(1..9);
    let kernel = rng.choice(["6.16", "6.18", "7.2", "7.3"]).unwrap_or("6.18");
    let (llcs, threads, hz) = (rng.usize(1..=cpus.min(4)), rng.usize(1..3), rng.u64(100..1001));
    let nodes = rng.usize(1..=llcs);
    let mut text = format!(
        "about = \"\"\nduration_ms = 300\n[machine]\ncpus = {cpus}\nkernel = \"{kernel}\"\nllcs = {llcs}\nnodes = {nodes}\n\
         threads_per_core = {threads}\nhz = {hz}\n"
    );
    let nr_cgroups = if rng.u8(0..3) == 0 { rng.usize(1..4) } else { 0 };
    for cgroup in 0..nr_cgroups {
        let (weight, quota, period) = (rng.u64(1..400), rng.u64(1000..150_000), rng.u64(5000..200_000));
        let _ = writeln!(text, "[[cgroup]]\nname = \"c{cgroup}\"\nweight = {weight}");
        if cgroup > 0 && rng.bool() {
            let _ = writeln!(text, "parent = \"c{}\"", rng.usize(0..cgroup));
        }
        if rng.u8(0..4) > 0 {
            let _ = writeln!(text, "quota_us = {quota}\nperiod_us = {period}\nburst_us = {}", rng.u64(0..quota));
        }
    }
    for group in 0..rng.usize(1..6) {
        let kind =
            rng.choice(["hog", "napper", "periodic", "chain", "fork-storm", "fork-wait", "ping-pong"]).unwrap_or("hog");
        let (count, nice) = (rng.usize(1..4), rng.i32(-20..20));
        let mut time = || rng.u64(20..20_000);
        let (compute, sleep, period) = (time(), time(), time() + 500);
        let _ = writeln!(text, "[[group]]\nname = \"g{group}\"\nkind = \"{kind}\"\ncount = {count}\nnice = {nice}");
        for (key, value, kinds) in [
            (
                "compute_us",
                compute.to_string(),
                &["napper", "periodic", "chain", "fork-storm", "fork-wait", "ping-pong"][..],
            ),
            ("sleep_us", sleep.to_string(), &["napper", "fork-wait"]),
            ("period_us", period.to_string(), &["periodic", "chain"]),
            ("stages_us", format!("[{}, {}]", compute / 4 + 1, sleep / 4 + 1), &["chain"]),
        ] {
            if kinds.contains(&kind) {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        if nr_cgroups > 0 && rng.u8(0..3) > 0 {
            let _ = writeln!(text, "cgroup = \"c{}\"", rng.usize(0..nr_cgroups));
        }
        if rng.bool() {
            let _ = writeln!(text, "cpus = [{}]", rng.usize(0..cpus));
        } else if cpus > 1 && rng.u8(0..4) == 0 {
            // Those of one CPU only are known to starve others: see `known_fault_kernel_threads_starve_others`.
            let _ = writeln!(text, "kthread = true");
        }
    }
    if rng.u8(0..3) == 0 {
        let cpu = rng.usize(0..cpus);
        let _ = write!(
            text,
            "[[group]]\nname = \"realtime\"\nkind = \"napper\"\nrealtime = true\ncpus = [{cpu}]\ncompute_us = {}\nsleep_us = {}\n",
            rng.u64(10..3000),
            rng.u64(500..9000)
        );
    }
    for _ in 0..rng.usize(0..4) {
        let event = rng.choice(EVENTS).unwrap_or(EVENTS[0]);
        let (at, every) = (rng.u64(0..50_000), rng.u64(500..40_000));
        let _ = writeln!(text, "[[event]]\nat_us = {at}\nevery_us = {every}\n{event}");
    }
    text
}
