//! What is rare: a real-time task that never sleeps, more tasks than slots, and CPUs that are idle twice in a row.

use scherzo_sim::{BrokenCopy, InjectedFault, Mode, Rule, SimulationOptions, run};

use crate::{all_rules_hold, everywhere, on_kernel, scenario};

/// What may run elsewhere does. What may not waits, which is nobody's stall: neither the kernel nor the scheduler itself ends it.
#[test]
fn a_realtime_task_that_never_sleeps_harms_nobody_elsewhere() {
    for kernel in ["6.16", "6.18", "7.2", "7.3"] {
        for options in everywhere() {
            let report = run(&on_kernel("realtime-hog", kernel), &options);
            all_rules_hold(&report);
            let of = |name: &str| report.group(name).expect("a group");
            assert!(of("realtime").share == 250 && of("held-up").share == 0, "{kernel}, {options:?}\n{report}");
            // The three other CPUs are all in use, or as many of them as low-power keeps awake.
            let hogs = of("hogs");
            assert!(hogs.task_share.1 - hogs.task_share.0 < 30, "{kernel}, {options:?}\n{report}");
            if options.mode == Mode::Interactive {
                assert!(report.idle_share == 0 && hogs.longest_gap_ns < 30_000_000, "{kernel}, {options:?}\n{report}");
                assert!(of("frames").nr_missed == 0 && of("frames").nr_done > 400, "{kernel}, {options:?}\n{report}");
                assert!(of("pointer").latency_ns[3] < 4_100_000, "{kernel}, {options:?}\n{report}");
            }
        }
    }
}

/// There are 32,768 slots. A task without one is not known to user space, and neither prompt nor held up for that.
#[test]
fn tasks_without_a_slot_are_like_others() {
    for kernel_seat in [true, false] {
        let options = SimulationOptions { kernel_seat, ..SimulationOptions::default() };
        let report = run(&scenario("without-slots"), &options);
        all_rules_hold(&report);
        let of = |name: &str| report.group(name).expect("a group");
        assert!(of("nappers").share.abs_diff(500) <= 10 && of("hogs").share.abs_diff(500) <= 10, "{report}");
        // None of those that compute is in flight: there is no slot for it.
        let without_slot = report.counters.iter().any(|(name, number)| *name == "nr_overflow" && *number > 100);
        assert!(kernel_seat || without_slot, "{report}");
    }
}

/// A CPU that was kicked in vain goes from idle to idle, of which nobody is told: it is found for the next task all the same. So is one
/// that has fallen idle while the scheduler was passed by.
#[test]
fn a_cpu_that_goes_from_idle_to_idle_is_found_again() {
    let outcome = |fault, broken, kernel_seat| {
        let options = SimulationOptions { fault, broken, kernel_seat, ..SimulationOptions::default() };
        run(&scenario("idle-to-idle"), &options)
    };
    for kernel_seat in [true, false] {
        all_rules_hold(&outcome(None, None, kernel_seat));
        let without_kernel = outcome(Some(InjectedFault::IdleStaysUnmarked), None, kernel_seat);
        let without_answer = outcome(None, Some(BrokenCopy::UnnotedIdle), kernel_seat);
        for report in [without_kernel, without_answer] {
            let found = report.violations.iter().any(|violation| violation.rule == Rule::IdleBesideWaiting);
            assert!(found, "kernel seat: {kernel_seat}\n{report}");
        }
    }
}
