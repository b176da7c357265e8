//! One task that sends to many.

use scherzo_sim::{BrokenCopy, SimulationOptions, SimulationReport, run};

use super::{all_rules_hold, known_fault, outcome, scenario};

/// Switches for each hundred messages.
fn switches(report: &SimulationReport, group: &str) -> u64 {
    report.nr_switches * 100 / (report.group(group).expect("a group").nr_done as u64).max(1)
}

/// The sender has as much of a CPU as each of the hogs, the readers what they want, and a message waits no longer than it may gather, and
/// for a turn.
#[test]
fn a_hub_beside_hogs_gets_its_share() {
    let report = outcome("hub");
    all_rules_hold(&report);
    let [hub, hogs] = ["hub", "hogs"].map(|name| report.group(name).expect("a group"));
    assert!(hogs.task_share.1.abs_diff(hub.task_share.1) < 20 && hogs.task_share.0 + 20 > hub.task_share.1, "{report}");
    assert!(hub.latency_ns[2] < 1_000_000 && hub.latency_ns[3] < 12_000_000 && hub.nr_done > 100_000, "{report}");
}

/// Each reader has several messages when it runs; with a switch for each, all get less done.
#[test]
fn messages_gather_where_one_sends_to_many() {
    let of_three_runs = |broken| -> u64 {
        let switches_with = |seed| {
            let report = run(&scenario("hubs"), &SimulationOptions { seed, broken, ..SimulationOptions::default() });
            all_rules_hold(&report);
            switches(&report, "hubs")
        };
        (1..=3).map(switches_with).sum()
    };
    let [gathered, eager] = [None, Some(BrokenCopy::EagerMessages)].map(of_three_runs);
    assert!(
        gathered * 2 < eager && gathered < 3 * 80,
        "{gathered} switches for 300 messages, {eager} if each is read at once"
    );
}

/// Not even in the group of that application.
#[test]
fn readers_do_not_make_others_late() {
    let report = outcome("sound-beside-hubs");
    all_rules_hold(&report);
    let sound = report.group("sound").expect("a group");
    assert!(sound.nr_missed == 0 && sound.latency_ns[2] < 1_000_000, "{report}");
}

/// Sound wants half of its share and sleeps for nine tenths of its time. The workers want more than there are CPUs for, so those that are due
/// before it never come to an end: it interrupts one that has run for longer than it will. EEVDF has it wait for up to 18 ms, and for up to
/// 10 at p99.
#[test]
fn sound_does_not_wait_for_all_busy_workers() {
    let report = outcome("sound-beside-workers");
    all_rules_hold(&report);
    let sound = report.group("sound").expect("a group");
    assert!(sound.latency_ns[1] < 6_000_000 && sound.latency_ns[2] < 9_000_000, "{report}");
}

/// They use little, so they go before the game and the workers that have just begun. Otherwise one in twelve is late, and waits for up to 34 ms.
/// Workers that had to wait for long seem to use little as well: those with the briefest bursts go first then. With seed 10 some timers would
/// wait for 8 ms otherwise.
///
/// The game wants more than its share, so it does not sleep any more and takes turns, alone: it has 6 to 8 % of the CPUs if that is all.
#[test]
fn timers_do_not_wait_where_more_is_asked_than_there_is() {
    let mut shares = [0, 0];
    for seed in [1, 2, 3, 10] {
        let options = SimulationOptions { seed, ..SimulationOptions::default() };
        let report = run(&scenario("timers-beside-overload"), &options);
        all_rules_hold(&report);
        let [frames, timers] = ["frames", "timers"].map(|name| report.group(name).expect("a group"));
        assert!(timers.nr_missed == 0 && timers.nr_done > 10_000 && timers.latency_ns[3] < 700_000, "{report}");
        shares = [shares[0] + frames.share, shares[1] + frames.fair_share];
    }
    assert!(shares[0] * 10 >= shares[1] * 9, "the game has {} of {} thousandths", shares[0], shares[1]);
}

/// A game that uses half of its share, beside workers that woke before it, want more than there are CPUs for, and are interrupted so often
/// that hardly one of them runs for longer than a frame takes. With EEVDF no frame is late; here one in several hundred is. The game goes
/// first, as its bursts are briefer than those of workers that seem to use little since they had to wait; it would else wait for 4 ms at p99.
#[test]
fn frames_are_in_time_beside_busy_workers() {
    let scenario = scenario("frames-beside-workers");
    let (mut nr_missed, mut nr_done) = (0, 0);
    for seed in 1..=8 {
        let report = run(&scenario, &SimulationOptions { seed, ..SimulationOptions::default() });
        all_rules_hold(&report);
        let game = report.group("game").expect("a group");
        assert!(game.latency_ns[1] < 6_000_000, "{report}");
        nr_missed += game.nr_missed;
        nr_done += game.nr_done;
    }
    assert!(nr_missed * 200 < nr_done, "{nr_missed} of {nr_done} frames are late");
}

/// Each reader weighs little, and what it ran on credit before its group had spent too much is held against it by that weight.
#[test]
fn known_fault_readers_of_a_group_wait_long_once_it_has_spent_too_much() {
    let report = outcome("hubs-in-group");
    all_rules_hold(&report);
    known_fault("readers in a group", report.group("hubs").expect("a group").longest_gap_ns < 150_000_000, &report);
}

/// A third of the CPUs' time is idle. Readers are due sooner than the rest of a frame, but not for as long as the game is late.
#[test]
fn frames_are_in_time_beside_bursts_of_readers() {
    let scenario = scenario("frames-beside-readers");
    for seed in 1..=8 {
        let report = run(&scenario, &SimulationOptions { seed, ..SimulationOptions::default() });
        all_rules_hold(&report);
        assert!(report.group("frames").expect("a group").nr_missed == 0, "{report}");
    }
}

/// The group weighs as much as one of the others. Each of its readers uses no more than its part of that, and none gives way by itself:
/// together they had 29 %.
#[test]
fn a_group_of_many_has_no_more_than_twice_its_share() {
    let report = outcome("nappers-beside-busy-group");
    all_rules_hold(&report);
    let [game, readers, hogs, nappers] =
        ["game", "readers", "hogs", "nappers"].map(|name| report.group(name).expect("a group"));
    assert!(readers.share < 2 * readers.fair_share, "{report}");
    assert!(10 * game.share > 9 * game.fair_share && 10 * nappers.share > 9 * nappers.fair_share, "{report}");
    assert!(10 * hogs.share > 7 * hogs.fair_share, "{report}");
}

/// Who gives out work would be interrupted by each of the pool that it wakes after its first millisecond, and nobody would give the others
/// any: the CPUs were idle for 43 % of the time. With EEVDF it is 13.
#[test]
fn who_gives_work_to_a_pool_is_not_interrupted_by_it() {
    let report = outcome("pool");
    all_rules_hold(&report);
    let share = |name| report.group(name).expect("a group").share;
    assert!(share("pool") + share("sound") > 780, "{report}");
}

/// They have 39 % of the CPUs where 3 are their share, as the hogs are owed no more than half of theirs.
#[test]
fn known_fault_sleepers_in_a_group_have_far_more_than_twice_its_share() {
    let report = outcome("sleepers-in-group");
    all_rules_hold(&report);
    let sleepers = report.group("sleepers").expect("a group");
    known_fault("sleepers in a group", sleepers.share < 3 * sleepers.fair_share, &report);
}

/// Of half of the CPUs, which is their share, they have 45 to 53 %, by the seed: half of it is what is promised, and is not quite kept.
#[test]
fn hogs_have_nearly_half_of_their_share_beside_a_busy_group() {
    let scenario = scenario("hogs-beside-busy-group");
    let mut shares = [0, 0];
    for seed in 1..=8 {
        let report = run(&scenario, &SimulationOptions { seed, ..SimulationOptions::default() });
        all_rules_hold(&report);
        let hogs = report.group("hogs").expect("a group");
        shares = [shares[0] + hogs.share, shares[1] + hogs.fair_share];
    }
    assert!(shares[0] * 100 >= shares[1] * 48, "{} of {} thousandths", shares[0], shares[1]);
}
