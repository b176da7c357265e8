//! CPUs that interrupt each other anywhere: all interleavings of small machines, and random ones of larger machines.

mod machines;

use std::io::Write;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use machines::random_scenario;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use scherzo_sim::{
    BrokenCopy, CpuSwitch, FailedRun, InjectedFault, Mode, Rule, Scenario, SimulationOptions, SwitchPlan, Violation,
};
use scherzo_sim::{explore_all, explore_randomly, run};

/// Most interruptions of an episode in which all interleavings are tried.
const NR_INTERRUPTIONS: usize = 3;
/// Times at which priorities change by chance, in each episode.
const NR_CHANGES: usize = 3;
/// Among how many seeds one must show a missing barrier where the engine is parked. One in some hundred does, or in a thousand: which
/// ones changes with each change of BPF.
const NR_PARKING_SEEDS: u64 = 10_000;
/// How many machines are interrupted by chance.
const NR_MACHINES: u64 = 600;
/// The same where tasks are changed all the time, while CPUs fetch them from each other.
const NR_CROWDED_MACHINES: u64 = 1_000;

/// Three tasks on two CPUs, with the seed that says when they begin.
fn small_machines() -> Vec<(&'static str, u64, String)> {
    let naps = |count: usize, more: &str| {
        format!(
            "[[group]]\nname = \"naps\"\nkind = \"napper\"\ncompute_us = 40\nsleep_us = 60\ncount = {count}\n{more}"
        )
    };
    let hogs = |count: usize| format!("[[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = {count}\n");
    let changes = "[[event]]\nat_us = 100\nevery_us = 60\nkind = \"nice\"\ngroup = \"hogs\"\n";
    let pair = "[[group]]\nname = \"pair\"\nkind = \"ping-pong\"\ncompute_us = 40\n";
    vec![
        ("hogs", 2, hogs(2) + &naps(1, "")),
        ("pinned", 1, hogs(1) + &naps(2, "cpus = [1]\n")),
        ("pair", 1, hogs(1) + pair),
        ("changed", 1, hogs(2) + &naps(1, "") + changes),
        ("two caches", 1, format!("llcs = 2\n{}{}", hogs(1), naps(2, ""))),
    ]
}

fn small_text(tasks: &str) -> String {
    format!("about = \"\"\nduration_ms = 1\n[machine]\ncpus = 2\nkernel = \"7.3\"\nhz = 1000\n{tasks}")
}

fn small_scenario(tasks: &str) -> Scenario {
    Scenario::parse("small.toml", &small_text(tasks)).expect("a good scenario")
}

/// Keeps the scenario, and says how to run it again.
fn report(failed: &FailedRun, options: &SimulationOptions, text: &str) -> String {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("interleaving-{}.toml", options.seed));
    std::fs::write(&file, text).expect("the scenario can be kept");
    format!("cargo xtask sim {} {}\n{}", file.display(), failed.arguments(options), failed.report)
}

#[test]
fn small_machines_keep_the_rules_in_all_interleavings() {
    for (name, seed, tasks) in small_machines() {
        let options = SimulationOptions { seed, ..SimulationOptions::default() };
        let found = explore_all(&small_scenario(&tasks), &options, NR_INTERRUPTIONS);
        // Not `println!()`, which says nothing if the test passes.
        writeln!(std::io::stderr(), "{name}: {} runs, {} episodes", found.nr_runs, found.nr_episodes)
            .expect("it can be printed");
        assert!(found.nr_runs > 100, "{name}: {} runs say little", found.nr_runs);
        if let Some(failed) = found.failed {
            panic!("{name}: {}", report(&failed, &options, &small_text(&tasks)));
        }
    }
}

/// A CPU that falls idle looks once more at the DSQs of other caches as well: between its last look and its mark a task had been queued
/// there. These interruptions show it; as they are counted from the beginning, those a little earlier or later are tried too.
#[test]
fn a_cpu_that_falls_idle_sees_work_of_other_caches() {
    const MACHINE: &str = "about = \"\"\nduration_ms = 60\n[machine]\ncpus = 4\nkernel = \"7.3\"\nllcs = 3\nnodes = 3\nhz = 703\n\
         [[group]]\nname = \"starts\"\nkind = \"fork-wait\"\nnice = -16\ncompute_us = 11215\nsleep_us = 7570\ncpus = [0]\n\
         [[group]]\nname = \"frames\"\nkind = \"periodic\"\ncount = 3\nnice = -11\ncompute_us = 1859\nperiod_us = 1431\n\
         [[group]]\nname = \"realtime\"\nkind = \"napper\"\nrealtime = true\ncpus = [3]\ncompute_us = 1048\nsleep_us = 6815\n\
         [[event]]\nat_us = 15845\nevery_us = 17799\nkind = \"affinity\"\ngroup = \"starts\"\n";
    const SWITCHES: [(i64, usize); 7] = [(11, 0), (175, 2), (277, 2), (334, 1), (365, 3), (425, 0), (468, 0)];
    for later in -15..=15 {
        let switch = |(point, to): (i64, usize)| CpuSwitch {
            point: (point + later).max(1).cast_unsigned(),
            to,
            holds_back: false,
        };
        let plan = Some(SwitchPlan::Listed(SWITCHES.map(switch).to_vec()));
        let options = SimulationOptions { seed: 6_005_568, plan, ..SimulationOptions::default() };
        let report = run(&Scenario::parse("caches.toml", MACHINE).expect("a good scenario"), &options);
        assert!(report.violations.is_empty(), "{later} points later\n{report}");
    }
}

/// The engine is woken while a CPU falls idle, among others: that CPU is kicked although it has not switched yet.
#[test]
fn an_engine_that_wakes_up_at_any_moment_gets_a_cpu() {
    // Two interruptions in one of these machines only: in all of them they would take half a minute.
    for (seed, nr_interruptions) in (17..23).map(|seed| (seed, 1)).chain([(17, 2)]) {
        let options = SimulationOptions { seed, kernel_seat: false, ..SimulationOptions::default() };
        let tasks = "[[group]]\nname = \"hogs\"\nkind = \"hog\"\n\
                     [[group]]\nname = \"naps\"\nkind = \"napper\"\ncompute_us = 40\nsleep_us = 60\ncount = 2\n";
        let found = explore_all(&small_scenario(tasks), &options, nr_interruptions);
        if let Some(failed) = found.failed {
            panic!("{}", report(&failed, &options, &small_text(tasks)));
        }
    }
}

/// See `KnownFault`.
fn is_known(failed: &FailedRun) -> bool {
    failed.report.violations.iter().all(|violation| violation.known.is_some())
}

#[test]
fn random_machines_keep_the_rules_when_cpus_interrupt_each_other() {
    let nr_events_on = |seed: u64| {
        let mut rng = Rng::with_seed(seed);
        let text = random_scenario(&mut rng).replace("duration_ms = 300", "duration_ms = 60");
        let scenario = Scenario::parse("random.toml", &text).expect("a good scenario");
        let mode = rng.choice(Mode::ALL).unwrap_or_default();
        // In turns BPF and the engine in user space apply the policy.
        let kernel_seat = seed.is_multiple_of(2);
        let options = SimulationOptions { seed, mode, kernel_seat, ..SimulationOptions::default() };
        match explore_randomly(&scenario, &options, seed, NR_CHANGES) {
            Ok(report) => report.nr_events,
            Err(failed) if is_known(&failed) => 0,
            Err(failed) => panic!("{}", report(&failed, &options, &text)),
        }
    };
    let nr_events: u64 = (0..NR_MACHINES).into_par_iter().map(nr_events_on).sum();
    assert!(nr_events > 100_000, "{nr_events} events say little");
}

/// Few CPUs and more tasks, which are changed every few microseconds: on their way from one queue to another, too.
fn crowded_scenario(rng: &mut Rng) -> Scenario {
    let nr_cpus = rng.usize(2..4);
    let kernel = rng.choice(["6.18", "7.3"]).unwrap_or_default();
    let is_limited = rng.bool();
    let cgroup = if is_limited { "[[cgroup]]\nname = \"box\"\nquota_us = 2000\nperiod_us = 4000\n" } else { "" };
    let of_cgroup = if is_limited { "cgroup = \"box\"\n" } else { "" };
    let (nr_hogs, sleep_us) = (nr_cpus + rng.usize(1..4), rng.usize(20..200));
    let mut event = |kind: &str, group: &str| {
        let (at_us, every_us) = (rng.usize(1..100), rng.usize(10..100));
        format!("[[event]]\nat_us = {at_us}\nevery_us = {every_us}\nkind = \"{kind}\"\ngroup = \"{group}\"\n")
    };
    let events: String =
        ["nice", "affinity", "policy"].iter().flat_map(|kind| [event(kind, "hogs"), event(kind, "naps")]).collect();
    let text = format!(
        "about = \"\"\nduration_ms = 8\n[machine]\ncpus = {nr_cpus}\nkernel = \"{kernel}\"\nhz = 1000\n{cgroup}\
         [[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = {nr_hogs}\n\
         [[group]]\nname = \"naps\"\nkind = \"napper\"\ncount = 2\ncompute_us = 90\nsleep_us = {sleep_us}\n\
         jitter_percent = 20\n{of_cgroup}{events}"
    );
    Scenario::parse("crowded.toml", &text).expect("a good scenario")
}

/// What goes wrong on a crowded machine; nothing if that is known.
fn fault_when_crowded(seed: u64, fault: Option<InjectedFault>) -> Option<(String, Box<FailedRun>)> {
    let mut rng = Rng::with_seed(seed);
    let scenario = crowded_scenario(&mut rng);
    let kernel_seat = rng.bool();
    let options = SimulationOptions { seed, kernel_seat, fault, ..SimulationOptions::default() };
    let failed = explore_randomly(&scenario, &options, seed, NR_CHANGES).err()?;
    // Known, of the user seat: the engine is left to a CPU that is about to take another task while one idles. And a task may be taken
    // off its queue and enqueued anew after its answer has been taken, before it is inserted: the kernel accepts that for the new enqueue.
    // So it is where it had to be before its affinity changed, and in flight as well until the next answer, which is dropped.
    let is_known_kind = |violation: &Violation| matches!(violation.rule, Rule::IdleBesideWaiting | Rule::InFlightCount);
    let is_known = !kernel_seat && failed.report.violations.iter().all(is_known_kind);
    (!is_known).then(|| (format!("machine {seed}: {}", failed.arguments(&options)), failed))
}

#[test]
fn tasks_that_change_on_their_way_between_queues_are_neither_lost_nor_run_twice() {
    (0..NR_CROWDED_MACHINES).into_par_iter().for_each(|seed| {
        if let Some((what, failed)) = fault_when_crowded(seed, None) {
            panic!("{what}\n{}", failed.report);
        }
    });
}

/// While a CPU fetches a task from the run queue of another one, neither that nor the task's queue is locked for a moment, in which the
/// task may be dequeued and queued anew: then it is no longer the one that was found.
#[test]
fn a_task_that_is_dequeued_while_a_cpu_fetches_it_is_noticed() {
    let overlooked = Some(InjectedFault::OverlookedDequeue);
    let found = (0..NR_CROWDED_MACHINES).find_map(|seed| fault_when_crowded(seed, overlooked));
    let (what, failed) = found.expect("a CPU fetches a task that it should have left alone");
    assert_ne!(failed.report.violations[0].rule, Rule::IdleBesideWaiting, "{what}\n{}", failed.report);
    assert!(!failed.switches.is_empty(), "{what}: without interruptions nothing is wrong");
}

/// Slices end at the same tick on all CPUs, which then look at the same queue. If they had not locked it two of them would find the same
/// task; nothing interrupts a CPU between its look and what it does then but the lock.
#[test]
fn a_queue_that_is_not_locked_while_a_cpu_looks_for_a_task_is_noticed() {
    let explore = |kernel, seed, fault| {
        let text = format!(
            "about = \"\"\nduration_ms = 30\n[machine]\ncpus = 3\nkernel = \"{kernel}\"\nhz = 1000\n\
             [[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = 8\nslice_us = 1000\n"
        );
        let scenario = Scenario::parse("in-step.toml", &text).expect("a good scenario");
        let options = SimulationOptions { seed, fault, ..SimulationOptions::default() };
        explore_randomly(&scenario, &options, seed, NR_CHANGES).map_err(|failed| (failed.arguments(&options), failed))
    };
    let unlocked = Some(InjectedFault::UnlockedSearch);
    let found = (0..NR_CROWDED_MACHINES).find_map(|seed| explore("6.18", seed, unlocked).err());
    let (arguments, failed) = found.expect("two CPUs take one task");
    assert_eq!(failed.report.violations[0].rule, Rule::RunsTwice, "{arguments}\n{}", failed.report);
    assert!(!failed.switches.is_empty(), "{arguments}: without interruptions nothing is wrong");
    for (kernel, seed) in (0..NR_CROWDED_MACHINES / 4).flat_map(|seed| [("6.18", seed), ("7.3", seed)]) {
        if let Err((arguments, failed)) = explore(kernel, seed, None) {
            panic!("{kernel}: {arguments}\n{}", failed.report);
        }
    }
}

/// What an idle CPU has written is still in its store buffer when it looks at the queues: the other CPU does not see it idle, and it
/// does not see the task.
#[test]
fn a_missing_barrier_is_noticed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/missing-barrier.toml");
    let scenario = Scenario::read(&file).expect("a scenario");
    let outcome = |broken, switch: &str| {
        let plan = Some(SwitchPlan::Listed(vec![CpuSwitch::parse(switch).expect("a switch")]));
        run(&scenario, &SimulationOptions { seed: 5, broken, plan, ..SimulationOptions::default() })
    };
    // What `explore_all()` finds with one interruption.
    let broken = Some(BrokenCopy::MissingBarrier);
    let options = SimulationOptions { seed: 5, broken, ..SimulationOptions::default() };
    let failed = explore_all(&scenario, &options, 1).failed.expect("a task waits beside an idle CPU");
    assert_eq!(failed.report.violations[0].rule, Rule::IdleBesideWaiting, "{}", failed.report);
    assert!(failed.switches.len() == 1 && failed.switches[0].holds_back, "{}", failed.arguments(&options));
    let switch = failed.switches[0].to_string();
    assert!(outcome(None, &switch).violations.is_empty(), "with the barrier nothing is wrong");
    assert!(outcome(broken, switch.trim_end_matches('~')).violations.is_empty(), "it is about the store buffer");
}

/// A CPU's own thread takes a task from there that may not stay, while another CPU takes it from the queue: one of the two gets it.
#[test]
fn a_task_that_is_moved_runs_once() {
    let text = "about = \"\"\nduration_ms = 60\n[machine]\ncpus = 5\nkernel = \"7.3\"\nllcs = 2\nnodes = 2\nthreads_per_core = 2\n\
                hz = 140\n[[group]]\nname = \"moved\"\nkind = \"napper\"\nnice = -17\ncompute_us = 9873\nsleep_us = 9575\ncpus = [1]\n\
                [[event]]\nat_us = 11320\nevery_us = 6159\nkind = \"steal\"\nfor_us = 900\n\
                [[event]]\nat_us = 29529\nevery_us = 38141\nkind = \"affinity\"\ngroup = \"moved\"\n\
                [[event]]\nat_us = 18120\nevery_us = 5692\nkind = \"affinity\"\ngroup = \"moved\"\n";
    let scenario = Scenario::parse("moved.toml", text).expect("a good scenario");
    for seed in 0..100 {
        let options = SimulationOptions { seed, mode: Mode::LowPower, ..SimulationOptions::default() };
        if let Err(failed) = explore_randomly(&scenario, &options, seed, NR_CHANGES) {
            panic!("{}", report(&failed, &options, text));
        }
    }
}

/// That the engine is parked is still in its CPU's store buffer when it looks at the ring: BPF does not see it parked, and it does not see
/// the record. The wait itself would, but it looks only if the ring has notified somebody since it was found empty.
#[test]
fn parking_without_a_barrier_is_noticed() {
    let text = "about = \"\"\nduration_ms = 10\n[machine]\ncpus = 6\nkernel = \"7.3\"\nhz = 1000\n\
                [[group]]\nname = \"hogs\"\nkind = \"hog\"\ncount = 12\n\
                [[group]]\nname = \"naps\"\nkind = \"napper\"\npolicy = \"batch\"\ncompute_us = 40\nsleep_us = 60\n\
                count = 8\njitter_percent = 50\n";
    let scenario = Scenario::parse("parking.toml", text).expect("a good scenario");
    let options = |seed, fault| SimulationOptions { seed, kernel_seat: false, fault, ..SimulationOptions::default() };
    let careless = Some(InjectedFault::NoParkingBarrier);
    let explore = |seed, fault| explore_randomly(&scenario, &options(seed, fault), seed, NR_CHANGES);
    let seed = (0..NR_PARKING_SEEDS)
        .find(|seed| explore(*seed, careless).is_err())
        .expect("the engine sleeps beside a record");
    let failed = explore(seed, careless).expect_err("it fails again");
    let arguments = failed.arguments(&options(seed, careless));
    assert_eq!(failed.report.violations[0].rule, Rule::OverlookedRecord, "{arguments}\n{}", failed.report);
    let held_back = failed.switches.iter().filter(|switch| switch.holds_back).count();
    assert!(held_back > 0, "it is about the store buffer: {arguments}");
    let let_out = failed.switches.iter().map(|switch| CpuSwitch { holds_back: false, ..*switch }).collect();
    let plan = Some(SwitchPlan::Listed(let_out));
    let report = run(&scenario, &SimulationOptions { plan, ..options(seed, careless) });
    assert!(report.violations.is_empty(), "nothing is wrong if the store is let out: {report}");
    let with_barrier = (0..=seed).rev().take(400).find_map(|seed| explore(seed, None).err());
    assert!(with_barrier.is_none(), "with the barrier nothing is wrong: {with_barrier:?}");
}
