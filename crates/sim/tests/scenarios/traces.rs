//! Traces: the same on any machine, and such that Perfetto opens them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use scherzo_sim::{BaselineScheduler, SimulationOptions, run};

use super::{outcome, scenario};

/// The trace that the program writes, run in this directory with this much in its environment: both move what is on its stack.
fn trace_of_process(directory: &Path, padding: usize, arguments: &[&str]) -> Vec<u8> {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let trace = directory.join("trace.json");
    let mut program = Command::new(env!("CARGO_BIN_EXE_scherzo-sim"));
    program.arg(scenarios.join("desktop.toml")).args(arguments).arg("--trace").arg(&trace).current_dir(directory);
    program.env_clear().env("SCHERZO_TEST_PADDING", "x".repeat(padding)).env("LANG", format!("x{padding}"));
    let output = program.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(trace).expect("a trace")
}

/// Processes differ in their addresses, as the kernel chooses these by chance, and in all that they find around them.
#[test]
fn the_same_seed_gives_the_same_trace_in_every_process() {
    let [here, there] = [(), ()].map(|()| tempfile::tempdir().expect("a directory"));
    let deep = there.path().join("a/directory/with a longer name");
    std::fs::create_dir_all(&deep).expect("a directory");
    for arguments in [&["--seed", "3"][..], &["--user-seat", "--mode", "low-power"], &["--baseline", "eevdf"]] {
        let one = trace_of_process(here.path(), 1, arguments);
        assert!(one.len() > 10_000, "{arguments:?}");
        assert!(one == trace_of_process(&deep, 100_000, arguments), "two processes differ with {arguments:?}");
    }
    // Both are what a run within this process gives.
    let options = SimulationOptions { seed: 3, trace: true, ..SimulationOptions::default() };
    let own = run(&scenario("desktop"), &options).trace.expect("a trace");
    assert!(
        own.as_bytes() == trace_of_process(here.path(), 1, &["--seed", "3"]),
        "the program differs from the library"
    );
}

/// What a CPU did, as the format of Chrome's tracing has it.
struct Slice {
    cpu: u64,
    begins_ns: u64,
    ends_ns: u64,
}

/// Whole nanoseconds of a number of microseconds.
fn nanoseconds(number: &serde_json::Value) -> u64 {
    let microseconds = number.as_f64().expect("a number");
    (microseconds * 1000.0).round() as u64
}

fn slices_of(trace: &str) -> Vec<Slice> {
    let events: Vec<serde_json::Value> = serde_json::from_str(trace).expect("JSON");
    let slice = |event: &serde_json::Value| {
        assert_eq!(event["ph"], "X", "a slice with its length: {event}");
        assert!(event["name"].as_str().is_some_and(|name| !name.is_empty()), "{event}");
        assert!(event["pid"].is_u64(), "{event}");
        let begins_ns = nanoseconds(&event["ts"]);
        Slice { cpu: event["tid"].as_u64().expect("a CPU"), begins_ns, ends_ns: begins_ns + nanoseconds(&event["dur"]) }
    };
    events.iter().map(slice).collect()
}

/// Slices of one track that overlap without one being within the other are not shown as what they are.
#[test]
fn a_trace_is_what_perfetto_reads() {
    for baseline in [None, Some(BaselineScheduler::Eevdf)] {
        let scenario = scenario("desktop");
        let length_ns = (scenario.warmup_ms.get_ref() + scenario.duration_ms.get_ref()) * 1_000_000;
        let report = run(&scenario, &SimulationOptions { trace: true, baseline, ..SimulationOptions::default() });
        let slices = slices_of(report.trace.as_ref().expect("a trace"));
        let first_ns = slices.iter().map(|slice| slice.begins_ns).min().expect("a slice");
        let mut free_from = BTreeMap::new();
        for slice in &slices {
            let free_ns = free_from.insert(slice.cpu, slice.ends_ns).unwrap_or(0);
            let ends_ns = slice.ends_ns - first_ns;
            assert!(
                slice.begins_ns <= slice.ends_ns && ends_ns <= length_ns,
                "{} to {} ns",
                slice.begins_ns,
                slice.ends_ns
            );
            assert!(slice.begins_ns >= free_ns, "CPU {} at {} ns runs two tasks", slice.cpu, slice.begins_ns);
        }
        let nr_cpus = *scenario.machine.cpus.get_ref();
        assert!(
            free_from.len() == nr_cpus && slices.len() > 1_000,
            "{} slices on {} CPUs",
            slices.len(),
            free_from.len()
        );
    }
    assert!(outcome("four-hogs").trace.is_none(), "nobody asked for one");
}
