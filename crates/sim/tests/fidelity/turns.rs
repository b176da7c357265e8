//! CPUs that one thread emulates in turns.

use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};

/// Four CPUs with these tasks, emulated by one thread or not.
fn on_four_cpus(shared_stream: bool, groups: &str) -> SimulationReport {
    let text = format!(
        "about = \"\"\nduration_ms = 4000\nwarmup_ms = 500\n\
         [machine]\ncpus = 4\nshared_stream = {shared_stream}\n{groups}"
    );
    let report = run(&Scenario::parse("turns", &text).expect("a good scenario"), &SimulationOptions::default());
    assert!(report.violations.is_empty(), "{report}");
    report
}

const WORKERS: &str = "[[group]]\nname = \"workers\"\nkind = \"napper\"\ncount = 4\ncompute_us = 1000\nsleep_us = 10\n";
const HOGS: &str = "[[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = 3\ncpus = [0, 1, 2]\n";

/// They have all CPUs, and their kernel charges them for that.
#[test]
fn four_cpus_get_done_what_one_does() {
    let [real, emulated] = [false, true].map(|shared_stream| {
        let report = on_four_cpus(shared_stream, WORKERS);
        let workers = report.group("workers").expect("a group");
        assert!(workers.share >= 800, "{report}");
        workers.nr_done
    });
    assert!((15_000..=16_000).contains(&real) && (3_700..=4_000).contains(&emulated), "{real} and {emulated}");
}

#[test]
fn who_goes_by_its_cpu_time_is_done_as_soon_as_ever() {
    let report = on_four_cpus(true, &format!("{WORKERS}goes_by_cpu_time = true\n"));
    let nr_done = report.group("workers").expect("a group").nr_done;
    assert!((9_000..=16_000).contains(&nr_done), "{report}");
}

#[test]
fn a_task_alone_has_the_thread_to_itself() {
    let worker = "[[group]]\nname = \"worker\"\nkind = \"periodic\"\ncompute_us = 2000\nperiod_us = 20000\n";
    let [real, emulated] = [false, true]
        .map(|shared_stream| on_four_cpus(shared_stream, worker).group("worker").expect("a group").response_ns[3]);
    assert!(emulated < real + 200_000, "{real} and {emulated} ns");
}

/// The rig's turns.
#[test]
fn turns_last_from_200_to_700_microseconds_beside_hogs() {
    let timers = "[[group]]\nname = \"timers\"\nkind = \"napper\"\ncount = 2\ncompute_us = 200\nsleep_us = 5000\njitter_percent = 50\n";
    let hogs = "[[group]]\nname = \"all\"\nkind = \"hog\"\ncount = 4\n";
    for groups in [hogs.to_owned(), format!("{hogs}{timers}")] {
        let report = on_four_cpus(true, &groups);
        let mean_us = 4_000_000 / report.nr_turns;
        println!("a turn lasts {mean_us} us");
        assert!((200..=700).contains(&mean_us), "{mean_us} us\n{report}");
    }
}

/// A wake-up waits for its CPU's turn; on a machine whose CPUs have a thread each, for no more than a switch.
#[test]
fn wake_ups_wait_for_a_turn() {
    let sleeper = "[[group]]\nname = \"sleeper\"\nkind = \"napper\"\ncompute_us = 20\nsleep_us = 3000\njitter_percent = 50\ncpus = [3]\n";
    let [real, emulated] = [false, true].map(|shared_stream| {
        let report = on_four_cpus(shared_stream, &format!("{sleeper}{HOGS}"));
        report.group("sleeper").expect("a group").latency_ns
    });
    assert!(real[3] < 10_000 && (500_000..5_000_000).contains(&emulated[1]), "{real:?} and {emulated:?}");
}

#[test]
fn the_same_turns_come_again() {
    let groups = format!("{WORKERS}{HOGS}");
    let [first, second] = [0, 1].map(|_| on_four_cpus(true, &groups));
    assert_eq!(first, second);
    assert_eq!(on_four_cpus(false, &groups).nr_turns, 0);
}
