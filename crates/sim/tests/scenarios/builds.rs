//! Builds: what `make -j` does, by itself and beside others.

use scherzo_sim::{Scenario, SimulationOptions, SimulationReport, run};
use toml::Spanned;

use super::{all_rules_hold, is_fair, outcome, scenario};

/// With compilers that compute for so long.
fn with_compilers(name: &str, compute_us: u64) -> Scenario {
    let mut scenario = scenario(name);
    let build = build_of(&scenario);
    scenario.group[build].get_mut().compute_us = Some(Spanned::new(0..0, compute_us));
    scenario
}

/// Where the build is among the groups.
fn build_of(scenario: &Scenario) -> usize {
    scenario.group.iter().position(|group| group.get_ref().name == "build").expect("a build")
}

/// With some seeds.
fn outcomes(scenario: &Scenario) -> impl Iterator<Item = SimulationReport> {
    (0..4).map(|seed| run(scenario, &SimulationOptions { seed, ..SimulationOptions::default() }))
}

/// Who forks for each job computes a fiftieth of that each time: before the program, in it, before it waits, and afterwards.
#[test]
fn a_job_waits_for_its_compiler() {
    let report = outcome("build-alone");
    all_rules_hold(&report);
    let build = report.group("build").expect("a group");
    let [half_ns, .., longest_ns] = build.response_ns;
    assert!((10_800_000..10_850_000).contains(&half_ns) && longest_ns < 10_900_000, "{report}");
    assert!(build.nr_done > 160, "{report}");
}

#[test]
fn a_build_gets_its_share() {
    for compute_us in [5_000, 30_000, 300_000] {
        for report in outcomes(&with_compilers("build", compute_us)) {
            all_rules_hold(&report);
            assert!(is_fair(&report, "build", 33) && is_fair(&report, "hogs", 16), "{compute_us} us: {report}");
        }
    }
}

/// Half the weight of the hogs' group.
#[test]
fn a_build_in_a_group_gets_what_the_group_weighs() {
    for compute_us in [5_000, 30_000, 300_000] {
        for report in outcomes(&with_compilers("build-in-group", compute_us)) {
            all_rules_hold(&report);
            assert!(is_fair(&report, "build", 17), "{compute_us} us: {report}");
        }
    }
}

/// One build or two, whose compilers are brief or not. What programs run that end between two ticks counts as well for what the others
/// have had: otherwise the game would be taken to be ahead of them, and take turns.
#[test]
fn frames_are_in_time_beside_builds() {
    for nr_builds in [1, 2] {
        for compute_us in [300, 1_000, 5_000, 30_000, 300_000] {
            let mut scenario = with_compilers("frames-beside-build", compute_us);
            let build = build_of(&scenario);
            scenario.group[build].get_mut().count = Spanned::new(0..0, nr_builds);
            for report in outcomes(&scenario) {
                all_rules_hold(&report);
                let [frames, sound, build] =
                    ["frames", "sound", "build"].map(|name| report.group(name).expect("a group"));
                assert!(frames.nr_missed == 0 && frames.nr_done > 350, "{nr_builds}, {compute_us} us: {report}");
                assert!(sound.nr_missed == 0 && sound.latency_ns[3] < 1_000_000, "{report}");
                assert!(build.share * 10 >= build.fair_share * 9, "{report}");
            }
        }
    }
}

/// What its compilers run for counts as used by the build, although each of them is new and sleeps for half of its time; and they do not
/// interrupt who uses less. Otherwise the game misses nine frames of ten, and has 6 % of the CPUs: it is late, so it does not sleep any more,
/// and takes turns, beside those that do sleep. There is more to do than the CPUs can; EEVDF misses 1 %.
#[test]
fn a_game_keeps_its_share_beside_compilers_that_wait() {
    let (mut nr_missed, mut nr_done) = (0, 0);
    for report in outcomes(&scenario("frames-beside-waiting-build")) {
        all_rules_hold(&report);
        let [frames, sound, build] = ["frames", "sound", "build"].map(|name| report.group(name).expect("a group"));
        nr_missed += frames.nr_missed;
        nr_done += frames.nr_done;
        assert!(frames.share >= 141, "{report}");
        assert!(frames.response_ns[3] < 25_000_000, "{report}");
        assert!(sound.nr_missed == 0, "{report}");
        assert!(build.share * 10 >= build.fair_share * 9, "{report}");
    }
    assert!(nr_missed * 20 <= nr_done, "{nr_missed} of {nr_done} frames are late");
}

/// Also where it may run on one CPU only, waiting for a child is no sleep.
#[test]
fn starts_on_one_cpu_get_their_share() {
    for compute_us in [1_000, 5_000, 30_000] {
        let mut scenario = scenario("pinned-starts");
        scenario.group[0].get_mut().compute_us = Some(Spanned::new(0..0, compute_us));
        for report in outcomes(&scenario) {
            all_rules_hold(&report);
            let [starts, hogs] = ["starts", "hogs"].map(|name| report.group(name).expect("a group"));
            assert!(
                starts.share.abs_diff(hogs.share) < 6 && hogs.longest_gap_ns < 25_000_000,
                "{compute_us} us: {report}"
            );
        }
    }
}

#[test]
fn sound_does_not_wait_for_compilers_on_a_single_cpu() {
    for compute_us in [1_000, 5_000, 30_000] {
        for report in outcomes(&with_compilers("sound-beside-build", compute_us)) {
            all_rules_hold(&report);
            let sound = report.group("sound").expect("a group");
            assert!(sound.nr_missed == 0 && sound.latency_ns[3] < 1_000_000, "{compute_us} us: {report}");
        }
    }
}

/// A driver often waits for its turn when its compiler ends. If it were not told what that has run, each job would begin as early in virtual
/// time as the first: these had 93 % of the CPU.
#[test]
fn brief_jobs_one_after_the_other_are_no_new_tasks_to_the_hogs() {
    for report in outcomes(&scenario("brief-jobs")) {
        all_rules_hold(&report);
        assert!(is_fair(&report, "build", 20), "{report}");
    }
}

#[test]
fn brief_jobs_side_by_side_have_their_share() {
    for (jobs, compute_us, nice) in [(4, 1_000, 0), (8, 1_000, 0), (8, 300, -5), (8, 1_000, 10), (8, 3_000, 19)] {
        let text = format!(
            "about = \"\"\nduration_ms = 3000\nwarmup_ms = 1000\n[machine]\ncpus = 4\n\
             [[group]]\nname = \"build\"\nkind = \"build-tree\"\njobs = {jobs}\ncompute_us = {compute_us}\nnice = {nice}\n\
             [[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = 8\n"
        );
        for report in outcomes(&Scenario::parse("jobs.toml", &text).expect("a good scenario")) {
            all_rules_hold(&report);
            assert!(is_fair(&report, "build", 25), "{jobs} of {compute_us} us, nice {nice}: {report}");
        }
    }
}
