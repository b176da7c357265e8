//! Recorded tasks: what they do, and what is refused.

use scherzo_sim::{BaselineScheduler, Scenario, SimulationOptions, SimulationReport, run};

use super::{all_rules_hold, is_fair, outcome, scenario};

const HEAD: &str = "about = \"\"\nduration_ms = 100\n[machine]\ncpus = 1\n";

fn group(name: &str, tasks: &str) -> String {
    format!("[[group]]\nname = \"{name}\"\nkind = \"recorded\"\n{tasks}")
}

fn task(id: u32, steps: &str) -> String {
    format!("[[group.task]]\nid = {id}\nsteps = [{steps}]\n")
}

fn replay(groups: &[String]) -> SimulationReport {
    let scenario = Scenario::parse("a.toml", &format!("{HEAD}{}", groups.concat())).expect("a scenario");
    let report = run(&scenario, &SimulationOptions::default());
    all_rules_hold(&report);
    report
}

/// CPU time of a group, in microseconds: what it did, and at most 3 µs for each switch.
#[track_caller]
fn ensure_ran(report: &SimulationReport, group: &str, us: u64) {
    let ran_us = report.group(group).expect("a group").ran_ns / 1_000;
    assert!((us..=us + report.nr_switches * 3).contains(&ran_us), "{group} ran for {ran_us} us, not {us}\n{report}");
}

/// What `scherzoctl record` writes; its tests make the same file.
#[test]
fn what_is_recorded_is_read() {
    let scenario = Scenario::parse("recorded.toml", include_str!("recorded.toml")).unwrap();
    let report = run(&scenario, &SimulationOptions::default());
    all_rules_hold(&report);
    ensure_ran(&report, r#"a \"==>\"\n\xff\\\', nice 10, batch"#, 1_480);
    ensure_ran(&report, "sound, real-time", 400);
    assert!(report.group("sh, batch").unwrap().ran_ns > 40_000_000, "{report}");
}

#[test]
fn work_is_cpu_time_however_long_it_waits() {
    let two = task(1, "{ run_us = 10000 }, { sleep_us = 5000 }, { run_us = 20000 }") + &task(2, "{ run_us = 40000 }");
    ensure_ran(&replay(&[group("both", &two)]), "both", 70_000);
    let beside_hog = replay(&[group("both", &two), group("hog", &task(3, "\"compute\""))]);
    let hog = beside_hog.group("hog").unwrap();
    assert!(hog.ran_ns > 30_000_000 && beside_hog.idle_share == 0, "{beside_hog}");
}

/// A server computes for its client when that wakes it, not at the time at which it did in the recording.
#[test]
fn a_task_waits_for_its_waker() {
    let client = |sleep_us: u32| {
        let request = format!("{{ sleep_us = {sleep_us} }}, {{ run_us = 100 }}, {{ wake = 2 }}, \"wait\", ");
        task(1, &(request.repeat(10) + "\"exit\""))
    };
    let server = task(2, &("\"wait\", { run_us = 500 }, { wake = 1 }, ".repeat(10) + "\"exit\""));
    for sleep_us in [1_000, 4_000] {
        let report = replay(&[group("client", &client(sleep_us)), group("server", &server)]);
        ensure_ran(&report, "client", 1_000);
        ensure_ran(&report, "server", 5_000);
        // Work is due when its timer or its waker says.
        for (group, longest_ns) in [("client", 200_000), ("server", 600_000)] {
            let [.., longest] = report.group(group).unwrap().response_ns;
            assert!((1..longest_ns).contains(&longest), "{group} took {longest} ns\n{report}");
        }
    }
    let unanswered = replay(&[group("client", &task(1, "\"wait\"")), group("server", &server)]);
    assert_eq!(unanswered.group("server").unwrap().ran_ns, 0, "{unanswered}");
}

#[test]
fn a_wake_up_that_comes_early_spares_the_wait() {
    let early = task(1, "{ wake = 2 }, { wake = 2 }, \"exit\"");
    let late =
        task(2, "{ sleep_us = 20000 }, { run_us = 100 }, \"wait\", { run_us = 100 }, \"wait\", { run_us = 100 }");
    let report = replay(&[group("early", &early), group("late", &late)]);
    ensure_ran(&report, "late", 300);
}

#[test]
fn a_forked_task_is_there_from_then_on() {
    let parent = task(1, "{ sleep_us = 30000 }, { run_us = 1000 }, { fork = 2 }, \"wait\", { run_us = 1000 }");
    let child = task(2, "{ run_us = 5000 }, { wake = 1 }, \"exit\"");
    let report = replay(&[group("parent", &parent), group("child", &child)]);
    ensure_ran(&report, "parent", 2_000);
    ensure_ran(&report, "child", 5_000);
}

#[test]
fn a_replay_is_the_same_each_time() {
    let tasks: String = (0..8).map(|id| task(id, &"{ run_us = 700 }, { sleep_us = 900 }, ".repeat(50))).collect();
    assert_eq!(replay(&[group("tasks", &tasks)]), replay(&[group("tasks", &tasks)]));
}

#[test]
fn bad_recordings_are_refused_with_place_and_reason() {
    for (steps, message) in [
        ("{ run_us = 0 }", "a.toml:10: run_us is 0, allowed is 1 to 60000000"),
        ("{ sleep_us = 60000001 }", "a.toml:10: sleep_us is 60000001, allowed is 1 to 60000000"),
        ("{ wake = 5 }", "a.toml:10: wake: there is no task 5"),
        ("{ fork = 5 }", "a.toml:10: fork: there is no task 5"),
        ("{ fork = 1 }", "a.toml:10: fork: task 1 cannot begin itself"),
        ("{ fork = 2 }, { fork = 2 }", "a.toml:10: fork: task 2 is begun twice"),
        ("\"exit\", { run_us = 5 }", "a.toml:10: exit must be the last step"),
        ("\"compute\", \"wait\"", "a.toml:10: compute must be the last step"),
    ] {
        let text = format!("{HEAD}{}", group("a", &(task(1, steps) + &task(2, "\"wait\""))));
        assert_eq!(Scenario::parse("a.toml", &text).unwrap_err().to_string(), message);
    }
    let unknown = format!("{HEAD}{}", group("a", &task(1, "{ run_us = 5 }, { nap_us = 5 }")));
    let error = Scenario::parse("a.toml", &unknown).unwrap_err().to_string();
    assert!(error.starts_with("a.toml:10: steps: unknown variant `nap_us`"), "{error}");
}

#[test]
fn bad_groups_of_a_recording_are_refused_with_place_and_reason() {
    let one = task(1, "\"wait\"");
    for (text, message) in [
        (group("a", &(one.clone() + &one)), "a.toml:12: id 1 is that of two tasks"),
        (group("a", &format!("count = 2\n{one}")), "a.toml:8: count is 2, recorded tasks are listed one by one"),
        (group("a", &format!("{one}cpus = [1]\n")), "a.toml:11: cpus is 1, allowed is 0 to 0"),
        (
            group("a", &format!("realtime = true\n{one}")),
            "a.toml:5: group a: real-time tasks are emulated on one CPU only: cpus must name it",
        ),
        (group("a", &one).replace("recorded", "hog"), "a.toml:8: group a: task is for recorded only"),
    ] {
        assert_eq!(Scenario::parse("a.toml", &format!("{HEAD}{text}")).unwrap_err().to_string(), message);
    }
}

/// `scherzo-bench shares` in a guest of 4 CPUs in virtual time, under EEVDF: hogs, niced hogs, and nappers of 4 and 10 ms. What each group
/// ran there, in microseconds of that second.
const RECORDED_SHARES: [(&str, u64); 4] =
    [("member", 2_161_721), ("member, batch", 491_157), ("member, nice -5", 558_145), ("member, nice 10", 541_903)];

fn under(name: &str, baseline: BaselineScheduler) -> SimulationReport {
    let options = SimulationOptions { baseline: Some(baseline), ..SimulationOptions::default() };
    let report = run(&scenario(name), &options);
    all_rules_hold(&report);
    report
}

#[test]
fn a_recording_of_a_guest_has_the_shares_that_it_had() {
    let report = under("recorded-shares", BaselineScheduler::Eevdf);
    for (group, ran_us) in RECORDED_SHARES {
        let recorded = ran_us / 4_000;
        let share = report.group(group).unwrap().share;
        assert!(share.abs_diff(recorded) <= 35, "{group} had {recorded} thousandths, has {share}\n{report}");
    }
}

/// Its tasks ask for the same whatever they get, and get what the scheduler makes of that.
#[test]
fn a_recording_of_a_guest_is_replayed_with_any_scheduler() {
    let ours = outcome("recorded-shares");
    all_rules_hold(&ours);
    assert!(RECORDED_SHARES.iter().all(|(group, _)| is_fair(&ours, group, 5)), "{ours}");
    ensure_ran_nearly(&ours, "member, nice -5", 558_145);
    let fifo = under("recorded-shares", BaselineScheduler::Fifo);
    let wakes_up_ns = |report: &SimulationReport| report.group("member, nice -5").unwrap().latency_ns[0];
    assert!(wakes_up_ns(&ours) < 1_000_000 && wakes_up_ns(&fifo) > 10_000_000, "{ours}{fifo}");
}

/// `scherzo-bench frames` beside a hog per CPU: the game wakes the compositor with each frame.
#[test]
fn a_recorded_game_wakes_its_compositor() {
    let report = outcome("recorded-frames");
    all_rules_hold(&report);
    ensure_ran_nearly(&report, "scherzo-bench", 590_156);
}

/// At most what chance decides at the end of a recording is missing, or what switches cost is added.
#[track_caller]
fn ensure_ran_nearly(report: &SimulationReport, group: &str, us: u64) {
    let ran_us = report.group(group).expect("a group").ran_ns / 1_000;
    assert!(ran_us.abs_diff(us) <= us / 50, "{group} ran for {ran_us} us, not {us}\n{report}");
}
