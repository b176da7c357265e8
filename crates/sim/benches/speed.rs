//! How many events the simulator works off in a second of CPU time, with the invariants on and the trace off:
//! `cargo bench -p scherzo-sim`.

use std::path::Path;
use std::process::ExitCode;

use scherzo_sim::{Scenario, SimulationOptions, run};

/// A scenario, and the events a second that are asked of it on one core.
const ASKED: [(&str, u64); 2] = [("speed-8", 500_000), ("speed-1024", 100_000)];
/// The memory that both may take together.
const ASKED_KIB: u64 = 4 << 20;

fn main() -> ExitCode {
    let fast = ASKED.map(|(name, asked)| measure(name, asked));
    let kib = peak_kib();
    println!("{:12} {:>9} KiB at most, {ASKED_KIB} allowed", "memory", kib);
    if fast.iter().all(|fast| *fast) && kib <= ASKED_KIB { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the scenario ran as fast as is asked.
fn measure(name: &str, asked: u64) -> bool {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("toml");
    let scenario = Scenario::read(&file).expect("a scenario");
    let begin = cpu_time_ns();
    let report = run(&scenario, &SimulationOptions::default());
    let seconds = (cpu_time_ns() - begin) as f64 / 1e9;
    assert!(report.violations.is_empty(), "{report}");
    let rate = report.nr_events as f64 / seconds;
    println!("{name:12} {rate:>9.0} events/s, {asked} asked ({} events in {seconds:.2} s)", report.nr_events);
    rate >= asked as f64
}

/// CPU time of this thread: what else the host does should not count.
fn cpu_time_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel keeps scheduling statistics");
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number")
}

/// `VmHWM` of this process.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("the kernel notes the peak")
}
