//! The scenarios, and what is known to go wrong in them.
//!
//! A fault that is known stands here as an expected failure, by name. Once it is mended its test fails, so that somebody
//! notices and turns it round.

mod affinity;
mod broken;
mod builds;
mod costs;
mod eevdf;
mod engine;
mod extremes;
mod frames;
mod frequency;
mod hubs;
mod limits;
mod nappers;
mod pairs;
mod recorded;
mod requests;
mod slices;
mod traces;

use std::path::Path;

use scherzo_sim::{BaselineScheduler, InjectedFault, Mode, Rule, Scenario, SimulationOptions, SimulationReport, run};

fn scenario(name: &str) -> Scenario {
    Scenario::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("toml"))
        .expect("a scenario")
}

fn outcome(name: &str) -> SimulationReport {
    run(&scenario(name), &SimulationOptions::default())
}

/// The group got what it should have, within so many thousandths of all CPUs.
fn is_fair(report: &SimulationReport, group: &str, tolerance: u64) -> bool {
    let group = report.group(group).expect("a group");
    group.share.abs_diff(group.fair_share) <= tolerance
}

/// Today's scheduler is known to fail here.
#[track_caller]
fn known_fault(name: &str, holds: bool, report: &SimulationReport) {
    assert!(!holds, "{name} has been mended: turn the expectation round\n{report}");
}

#[track_caller]
fn all_rules_hold(report: &SimulationReport) {
    assert!(report.violations.is_empty(), "{report}");
}

#[test]
fn equal_hogs_get_equal_parts() {
    let report = outcome("four-hogs");
    all_rules_hold(&report);
    assert!(is_fair(&report, "hogs", 10) && report.groups[0].longest_gap_ns < 20_000_000, "{report}");
}

#[test]
fn hogs_spread_over_two_caches() {
    let report = outcome("two-caches");
    all_rules_hold(&report);
    assert!(is_fair(&report, "many", 10), "{report}");
    assert!(report.groups.iter().all(|group| spread(&report, &group.name) < 50), "{report}");
}

/// What runs on a slow core takes longer, and nothing does while a fast one idles.
#[test]
fn fast_cores_are_used_first() {
    let report = outcome("hybrid");
    all_rules_hold(&report);
    let median_us = |group: &str| report.group(group).expect("a group").response_ns[0] / 1000;
    assert!((3000..3100).contains(&median_us("anywhere")), "{report}");
    assert!((5000..5100).contains(&median_us("slow")), "{report}");
}

#[test]
fn hogs_spread_over_two_sockets() {
    let report = outcome("two-sockets");
    all_rules_hold(&report);
    assert!(spread(&report, "hogs") < 100, "{report}");
    // Moves cost more the farther they are.
    let [.., cache, node, machine] = report.nr_moves;
    assert!(cache > 10 * (node + machine), "{report}");
}

/// Prompt tasks keep a cache busy: those that compute go elsewhere, by what is left of each cache's CPUs.
#[test]
fn hogs_make_room_for_prompt_tasks() {
    let report = outcome("two-sockets-prompt");
    all_rules_hold(&report);
    assert!(spread(&report, "hogs") < 60, "{report}");
}

/// Between the task of a group that got most and the one that got least, in thousandths of a CPU.
fn spread(report: &SimulationReport, group: &str) -> u64 {
    let (least, most) = report.group(group).expect("a group").task_share;
    most - least
}

#[test]
fn a_desktop_is_served_at_once() {
    let report = outcome("desktop");
    all_rules_hold(&report);
    for name in ["audio", "pointer", "frames"] {
        let group = report.group(name).unwrap();
        // Where all CPUs run prompt tasks that have just begun, one gives way at the next tick.
        let [_, p99_ns, .., max_ns] = group.latency_ns;
        assert!(group.nr_missed == 0 && group.nr_done > 100, "{report}");
        assert!(p99_ns < 100_000 && max_ns < 4_100_000, "{report}");
    }
}

/// Low-power leaves CPUs asleep: with hogs beside it at the cost of their work, without at the cost of nothing.
#[test]
fn low_power_saves_energy() {
    let used_mj = |name: &str, mode| {
        let report = run(&scenario(name), &SimulationOptions { mode, ..SimulationOptions::default() });
        all_rules_hold(&report);
        let frames = report.group("frames").expect("a group");
        assert!(frames.nr_missed == 0 && frames.nr_done > 200, "{name}: {report}");
        report.energy.total_mj()
    };
    let [quiet, quiet_saved] = [Mode::Interactive, Mode::LowPower].map(|mode| used_mj("quiet-desktop", mode));
    assert!(quiet_saved < quiet, "{quiet_saved} of {quiet} mJ");
    let [busy, busy_saved] = [Mode::Interactive, Mode::LowPower].map(|mode| used_mj("desktop", mode));
    assert!(
        busy_saved < busy / 2 && quiet < busy / 2,
        "{busy_saved} of {busy} mJ, {quiet} where there is little to do"
    );
}

/// No hog runs where another CPU is to sleep, whatever wakes that.
#[test]
fn low_power_keeps_hogs_on_few_cpus() {
    let options = SimulationOptions { mode: Mode::LowPower, ..SimulationOptions::default() };
    let report = run(&scenario("low-power-packed"), &options);
    all_rules_hold(&report);
    let nr_moves = report.counters.iter().find(|(name, _)| *name == "nr_migrated_llc").map_or(0, |(_, nr)| *nr);
    assert!(is_fair(&report, "hogs", 5) && nr_moves < 5, "{report}");
}

/// The scheduler goes on alone.
#[test]
fn work_goes_on_without_the_engine() {
    let report =
        run(&scenario("engine-hangs"), &SimulationOptions { kernel_seat: false, ..SimulationOptions::default() });
    all_rules_hold(&report);
    assert!(is_fair(&report, "hogs", 30) && report.groups[0].longest_gap_ns < 300_000_000, "{report}");
    let swept = report.counters.iter().any(|(name, number)| *name == "nr_swept" && *number > 0);
    assert!(swept && report.is_degraded && report.engine_share < 5, "{report}");
}

/// That user space does not answer is noticed also where CPUs take every task back before it gets old; and only where it is asked.
#[test]
fn an_engine_that_hangs_is_noticed() {
    for kernel_seat in [false, true] {
        let options = SimulationOptions { kernel_seat, ..SimulationOptions::default() };
        let report = run(&scenario("engine-hangs-reclaimed"), &options);
        all_rules_hold(&report);
        assert_eq!(report.is_degraded, !kernel_seat, "kernel seat: {kernel_seat}\n{report}");
    }
}

#[test]
fn every_mode_keeps_the_rules() {
    for mode in Mode::ALL {
        for name in ["desktop", "nappers"] {
            let report = run(&scenario(name), &SimulationOptions { mode, ..SimulationOptions::default() });
            all_rules_hold(&report);
        }
    }
}

/// Nobody is further from its share than so many thousandths of all CPUs.
#[track_caller]
fn all_are_fair(name: &str, tolerance: u64) -> SimulationReport {
    let report = outcome(name);
    all_rules_hold(&report);
    assert!(report.groups.iter().all(|group| is_fair(&report, &group.name, tolerance)), "{report}");
    report
}

#[test]
fn nice_levels_keep_their_meaning() {
    for name in ["nice-hogs", "nice-10", "nice-levels", "nice-nappers"] {
        all_are_fair(name, 10);
    }
}

/// In low-power half of the machine sleeps, and what runs is divided by weight all the same.
#[test]
fn nice_levels_keep_their_meaning_in_every_mode() {
    for mode in Mode::ALL {
        let report = run(&scenario("nice-hogs"), &SimulationOptions { mode, ..SimulationOptions::default() });
        all_rules_hold(&report);
        let [share, other] = ["nice-0", "nice-5"].map(|name| report.group(name).expect("a group").share);
        assert!((29 * other..33 * other).contains(&(10 * share)), "{mode:?}: {report}");
    }
}

#[test]
fn starting_programs_gets_its_share() {
    all_are_fair("fork-wait", 10);
}

/// Who waits for a program has it go on with its own credit once the program's half is used up.
#[test]
fn a_program_that_somebody_waits_for_does_not_wait_for_hogs() {
    let report = outcome("program-start");
    all_rules_hold(&report);
    assert!(report.group("starts").expect("a group").longest_gap_ns < 1_000_000, "{report}");
}

/// The engine has never heard of any of them.
#[test]
fn programs_that_end_do_not_wake_the_engine() {
    let report = outcome("fork-brief");
    all_rules_hold(&report);
    let woken = report.counters.iter().find(|(name, _)| *name == "nr_wake_engine");
    assert!(woken.is_none(), "{report}");
}

/// By weight alone a turn would come after more than ten seconds.
#[test]
fn little_weight_waits_for_a_second_at_most() {
    let report = all_are_fair("low-weight", 20);
    let group = report.group("nice-19").unwrap();
    assert!(group.longest_gap_ns < 1_200_000_000, "{report}");
}

#[test]
fn naps_are_no_sleep() {
    all_are_fair("nappers", 10);
    let report = all_are_fair("fine-nappers", 10);
    assert!(report.groups.iter().all(|group| group.longest_gap_ns < 60_000_000), "{report}");
}

/// Who wakes the other before it sleeps leaves it its CPU, with credit or without, and takes nothing from others by that.
#[test]
fn pairs_without_credit_enter_no_queue_and_keep_to_their_share() {
    let report = outcome("batch-pairs");
    all_rules_hold(&report);
    let nr = |counter| report.counters.iter().find(|(name, _)| *name == counter).map_or(0, |(_, number)| *number);
    assert!(nr("nr_kernel") < 100 && nr("nr_switches") > 100_000, "{report}");
    let report = all_are_fair("batch-pairs-beside-hogs", 10);
    assert!(report.group("hogs").expect("a group").longest_gap_ns < 60_000_000, "{report}");
}

/// Pairs that hand work to each other sleep for half of their time, so they may have more than their share.
#[test]
fn a_pinned_task_gets_its_share_beside_pairs() {
    let report = outcome("pinned");
    all_rules_hold(&report);
    assert!(is_fair(&report, "pinned", 20) && is_fair(&report, "hogs", 60), "{report}");
    assert!(report.groups.iter().all(|group| group.longest_gap_ns < 60_000_000), "{report}");
}

#[test]
fn those_who_sleep_leave_half_of_their_share_to_those_who_do_not() {
    for name in ["real-sleepers", "hogs-beside-messages"] {
        let report = outcome(name);
        all_rules_hold(&report);
        let hogs = report.group("hogs").unwrap();
        assert!(hogs.share >= hogs.fair_share / 2 && hogs.longest_gap_ns < 250_000_000, "{name}: {report}");
    }
}

#[test]
fn thousands_of_hogs_take_turns() {
    all_rules_hold(&outcome("thousands"));
}

/// Also those that wait for another reason than their weight: the prompt, when they have had more than their share, and tasks that may
/// run on one CPU only.
#[test]
fn nobody_waits_for_ever_in_a_crowd() {
    let report = outcome("crowd");
    all_rules_hold(&report);
    // Ten seconds by policy, and a turn of all before it.
    assert!(report.groups.iter().all(|group| group.longest_gap_ns < 16_000_000_000), "{report}");
    let latest_ns = |name| report.group(name).expect("a group").latency_ns[3];
    assert!(latest_ns("sleepers") < 10_000_000_000 && latest_ns("pinned") < 4_000_000_000, "{report}");
}

/// What runs on until a tick, beyond its turn, would be forgotten each time: thousands that weigh next to nothing would take most of what
/// others should have.
#[test]
fn a_crowd_of_little_weight_has_no_more_than_its_share() {
    all_are_fair("crowd-idle", 30);
}

/// In each mode, and with both seats.
fn everywhere() -> impl Iterator<Item = SimulationOptions> {
    let modes = Mode::ALL.iter().map(|mode| SimulationOptions { mode: *mode, ..SimulationOptions::default() });
    modes.chain([SimulationOptions { kernel_seat: false, ..SimulationOptions::default() }])
}

/// What each of them runs is too little to be seen in microseconds, and adds up all the same.
#[test]
fn messages_do_not_keep_others_waiting_for_ever() {
    let report = outcome("many-messages");
    all_rules_hold(&report);
    assert!(report.groups[0].longest_gap_ns < 2_000_000_000, "{report}");
}

/// Where user space applies the policy, it is the same policy.
#[test]
fn shares_and_frames_are_the_same_in_the_user_seat() {
    let outcome = |name| {
        let report = run(&scenario(name), &SimulationOptions { kernel_seat: false, ..SimulationOptions::default() });
        all_rules_hold(&report);
        let submitted = report.counters.iter().any(|(name, number)| *name == "nr_submitted" && *number > 100);
        assert!(submitted, "user space was not asked\n{report}");
        report
    };
    let computing = ["nice-hogs", "nice-10", "nice-levels", "nice-nappers", "nappers", "fine-nappers", "fork-wait"];
    for name in computing.into_iter().chain(["foreground-scopes", "foreground-group"]) {
        let report = outcome(name);
        assert!(report.groups.iter().all(|group| is_fair(&report, &group.name, 20)), "{name}\n{report}");
    }
    for name in ["frames", "frames-niced", "frames-nappers", "frames-144"] {
        let frames = outcome(name).group("frames").unwrap().clone();
        assert!(frames.nr_missed == 0 && frames.nr_done > 200, "{name}: {frames:?}");
    }
}

/// Two real-time tasks that take turns: the kernel has no reason to end the scheduler, and nothing else is wrong either.
#[test]
fn reenqueueing_is_bounded_while_a_higher_class_has_the_cpu() {
    all_rules_hold(&outcome("realtime-ping-pong"));
}

#[test]
fn known_fault_kernel_threads_starve_others() {
    let report = outcome("kernel-threads");
    // The rule that they break is the one that says so.
    assert!(report.violations.iter().any(|violation| violation.rule == Rule::OverdueWait), "{report}");
    let served = report.group("hog").expect("a group").share > 0;
    known_fault("kernel threads of one CPU", served, &report);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let options = SimulationOptions { trace: true, ..SimulationOptions::default() };
    let (scenario, other) = (scenario("desktop"), scenario("four-hogs"));
    let first = run(&scenario, &options);
    let _ = run(&other, &options);
    let second = run(&scenario, &options);
    assert!(first.trace.as_ref().is_some_and(|trace| trace.len() > 10_000));
    assert!(first == second, "two runs differ");
    assert_ne!(first.trace, run(&scenario, &SimulationOptions { seed: 2, ..options }).trace);
}

/// CPUs go and come, tasks are moved and weighed anew at any moment, the host takes CPUs away, and the machine sleeps.
#[test]
fn changes_at_any_moment_break_no_rule() {
    for name in ["hotplug", "affinity", "stolen-time", "suspend", "migration-disabled"] {
        for kernel in ["6.16", "6.18", "7.2", "7.3"] {
            for options in everywhere() {
                let report = run(&on_kernel(name, kernel), &options);
                assert!(report.violations.is_empty(), "{name} on {kernel}, {options:?}\n{report}");
            }
        }
    }
}

/// A CPU on its way out that is taken for an idle one is woken in vain, and no other is in its place.
#[test]
fn cpus_that_go_offline_are_not_woken_in_place_of_others() {
    for seed in 1..=12 {
        for kernel_seat in [true, false] {
            let options = SimulationOptions { seed, kernel_seat, ..SimulationOptions::default() };
            all_rules_hold(&run(&scenario("hotplug-idle"), &options));
        }
    }
}

/// Nor if two of them are on their way out, of which both are taken for idle.
#[test]
fn two_cpus_that_go_offline_are_not_woken_either() {
    for seed in 1..=60 {
        for kernel_seat in [true, false] {
            let options = SimulationOptions { seed, kernel_seat, ..SimulationOptions::default() };
            all_rules_hold(&run(&scenario("hotplug-two"), &options));
        }
    }
}

fn on_kernel(name: &str, kernel: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("toml");
    let text = std::fs::read_to_string(path).expect("a scenario");
    Scenario::parse(name, &text.replace("kernel = \"6.18\"", &format!("kernel = \"{kernel}\""))).expect("a scenario")
}

/// With the cpu controller and without.
#[test]
fn the_application_in_front_weighs_more() {
    for name in ["foreground-scopes", "foreground-group"] {
        all_are_fair(name, 10);
    }
}

/// The solver takes these CPUs for the whole machine, so the shares stand here: of two and of five tasks.
#[test]
fn the_share_of_who_may_not_use_all_cpus_is_not_that_of_the_machine() {
    for (name, share) in [("pinned-nappers", 125), ("half-nappers", 50u64)] {
        let report = outcome(name);
        all_rules_hold(&report);
        assert!(report.group("napper").expect("a group").share.abs_diff(share) <= 10, "{name}: {report}");
    }
}

/// One sleep gives as much credit as makes a task prompt, but not as much as it runs for.
#[test]
fn sleep_of_less_than_a_third_is_none_either() {
    for (name, share) in [("third-nappers", 333), ("third-pair", 125u64)] {
        let report = outcome(name);
        all_rules_hold(&report);
        let nappers = report.group("nappers").expect("a group").share;
        assert!(nappers <= share && 10 * nappers > 8 * share, "{name}: {report}");
    }
}

/// What a group counted for in its parent before counts no longer: the one beside the parent keeps its half.
#[test]
fn a_weight_that_changes_under_load_counts_at_every_level() {
    let report = outcome("weight-changes");
    all_rules_hold(&report);
    for (name, share) in [("changed", 455u64), ("sibling", 45), ("beside", 500)] {
        assert!(report.group(name).expect("a group").share.abs_diff(share) <= 10, "{name}: {report}");
    }
}

/// The shares follow a change while the tasks run.
#[test]
fn weights_may_change_at_any_moment() {
    let report = outcome("live-weights");
    all_rules_hold(&report);
    let [reniced, moved, others] =
        ["reniced", "moved", "others"].map(|name| report.group(name).expect("a group").share);
    assert!((85..120).contains(&(1000 * reniced / others)), "nice 10 weighs about a tenth\n{report}");
    assert!((450..550).contains(&(1000 * moved / others)), "the group weighs half\n{report}");
}

/// Up to 6.18 the program that empties the local queue runs on the task that is driven away, and has disabled its migration.
#[test]
fn a_task_that_a_realtime_task_drives_away_does_not_keep_the_cpu() {
    for kernel in ["6.16", "6.18", "7.2", "7.3"] {
        let report = run(&on_kernel("realtime-naps", kernel), &SimulationOptions::default());
        all_rules_hold(&report);
        assert!(spread(&report, "hogs") < 30 && report.groups[0].longest_gap_ns < 40_000_000, "{kernel}: {report}");
    }
    let kept = SimulationOptions { fault: Some(InjectedFault::KeptFromMigrating), ..SimulationOptions::default() };
    let report = run(&on_kernel("realtime-naps", "6.18"), &kept);
    assert!(spread(&report, "hogs") > 100, "{report}");
}

/// The same tasks under simpler schedulers: one knows no weights, the other nearly keeps them, both let frames wait behind what computes.
#[test]
fn baselines_do_what_they_are_known_for() {
    let with = |name: &str, baseline| {
        let report =
            run(&scenario(name), &SimulationOptions { baseline: Some(baseline), ..SimulationOptions::default() });
        all_rules_hold(&report);
        report
    };
    let share = |report: &SimulationReport, group: &str| report.group(group).expect("a group").share;
    let report = with("nice-hogs", BaselineScheduler::Fifo);
    assert_eq!(share(&report, "nice-0"), share(&report, "nice-5"), "{report}");
    let report = with("nice-hogs", BaselineScheduler::Vruntime);
    assert!(share(&report, "nice-0") > 180 * share(&report, "nice-5") / 100, "{report}");
    for (baseline, percent) in [(BaselineScheduler::Fifo, 90), (BaselineScheduler::Vruntime, 10)] {
        let report = with("frames", baseline);
        let frames = report.group("frames").expect("a group");
        assert!(100 * frames.nr_missed > percent * frames.nr_done, "{report}");
    }
}
