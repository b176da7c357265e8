//! Schedulers that are compiled from a file and loaded: `scherzo-sim --scheduler`.

#[path = "../machines/mod.rs"]
mod machines;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use machines::random_scenario;
use scherzo_sim::{
    BaselineScheduler, Rule, Scenario, SchedulerSetting, SimulationOptions, SimulationReport, SourceScheduler, run,
};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn scenario(name: &str) -> Scenario {
    Scenario::read(&here("scenarios").join(name).with_extension("toml")).expect("a scenario")
}

fn under(baseline: BaselineScheduler) -> SimulationOptions {
    SimulationOptions { baseline: Some(baseline), trace: true, ..SimulationOptions::default() }
}

fn load(file: &Path, settings: &[&str]) -> anyhow::Result<BaselineScheduler> {
    let settings: Vec<_> = settings.iter().map(|text| SchedulerSetting::parse(text).expect("a setting")).collect();
    SourceScheduler::load(file, &settings).map(|scheduler| BaselineScheduler::Loaded(Arc::new(scheduler)))
}

/// One queue for all CPUs, by virtual runtime unless that is set otherwise.
fn shared(settings: &[&str]) -> BaselineScheduler {
    load(&here("tests/schedulers/shared.bpf.c"), settings).expect("a scheduler that compiles")
}

/// A scheduler that is written here, with these definitions behind the headers.
fn written(name: &str, text: &str) -> anyhow::Result<BaselineScheduler> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("bpf.c");
    std::fs::write(&file, format!("#include <scx/common.bpf.h>\n{text}\n")).expect("a file");
    load(&file, &[])
}

fn outcome(name: &str, baseline: BaselineScheduler) -> SimulationReport {
    let report = run(&scenario(name), &under(baseline));
    assert!(report.violations.is_empty(), "{report}");
    report
}

fn share(report: &SimulationReport, group: &str) -> u64 {
    report.group(group).expect("a group").share
}

/// The two schedulers are the same but for the language, so they have the same tasks run at the same moments.
#[test]
fn what_is_loaded_does_what_is_built_in() {
    let (by_vruntime, by_arrival) = (shared(&[]), shared(&["by_arrival=true"]));
    for name in ["nice-hogs", "frames", "desktop", "nappers", "build"] {
        for (loaded, built_in) in [(&by_vruntime, BaselineScheduler::Vruntime), (&by_arrival, BaselineScheduler::Fifo)]
        {
            let expected = outcome(name, built_in.clone());
            assert!(expected.trace.as_ref().is_some_and(|trace| trace.len() > 10_000), "{name} is quiet");
            let found = outcome(name, loaded.clone());
            assert!(found == expected, "{name}, {}:\n{expected}\n{found}", built_in.name());
        }
    }
}

#[test]
fn shares_follow_weights_by_vruntime_and_nothing_by_arrival() {
    let report = outcome("nice-hogs", shared(&[]));
    assert!(share(&report, "nice-0") > 180 * share(&report, "nice-5") / 100, "{report}");
    let report = outcome("nice-hogs", shared(&["by_arrival=1"]));
    assert_eq!(share(&report, "nice-0"), share(&report, "nice-5"), "{report}");
}

/// `shared_init()` refuses to begin beside what another run has left.
#[test]
fn nothing_is_left_of_the_run_before() {
    let loaded = shared(&[]);
    let first = outcome("desktop", loaded.clone());
    let _ = outcome("nice-hogs", loaded.clone());
    let _ = run(&scenario("nice-hogs"), &SimulationOptions::default());
    assert!(first == outcome("desktop", loaded.clone()), "two runs differ");
    let other_seed = run(&scenario("desktop"), &SimulationOptions { seed: 2, ..under(loaded) });
    assert_ne!(first.trace, other_seed.trace);
}

#[test]
fn no_task_is_lost_on_random_machines() {
    for loaded in [shared(&[]), written("default", "SCX_OPS_DEFINE(ops, .name = \"default\");").expect("it compiles")] {
        for seed in 0..50 {
            let text = random_scenario(&mut Rng::with_seed(seed));
            let scenario = Scenario::parse("random.toml", &text).expect("a good scenario");
            let report = run(&scenario, &SimulationOptions { seed, trace: false, ..under(loaded.clone()) });
            assert!(report.violations.is_empty(), "seed {seed}, {loaded:?}\n{text}\n{report}");
        }
    }
}

/// Without callbacks tasks wait in the global queue, and those that wake go to an idle CPU.
#[test]
fn what_a_scheduler_does_not_do_the_kernel_does() {
    let default = written("nothing", "SCX_OPS_DEFINE(ops, .name = \"default\");").expect("it compiles");
    let report = outcome("nice-hogs", default.clone());
    assert_eq!(share(&report, "nice-0"), share(&report, "nice-5"), "{report}");
    let report = outcome("quiet-desktop", default);
    assert!(report.groups.iter().all(|group| group.ran_ns > 0 && group.latency_ns[0] < 10_000), "{report}");
}

/// With nothing else to run the kernel has a task go on, unless the scheduler wants to be asked.
#[test]
fn flags_change_what_the_kernel_asks() {
    let text = |flags: &str| {
        format!(
            "static u64 nr_last;
             void BPF_STRUCT_OPS(count_enqueue, struct task_struct *p, u64 flags)
             {{
                 nr_last += !!(flags & SCX_ENQ_LAST);
                 if (nr_last > 10)
                     scx_bpf_error(\"%llu times the last one\", nr_last);
                 scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags);
                 scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
             }}
             SCX_OPS_DEFINE(ops, .enqueue = count_enqueue, .flags = {flags}, .name = \"count\");"
        )
    };
    let alone = "about = \"\"\nduration_ms = 1000\nwarmup_ms = 0\n[machine]\ncpus = 1\n[[group]]\nname = \"hog\"\nkind = \"hog\"";
    let alone = Scenario::parse("alone.toml", alone).expect("a good scenario");
    let report = run(&alone, &under(written("last", &text("SCX_OPS_ENQ_LAST")).expect("it compiles")));
    assert!(report.violations.iter().any(|violation| violation.what.contains("11 times the last one")), "{report}");
    let report = run(&alone, &under(written("not-last", &text("0")).expect("it compiles")));
    assert!(report.violations.is_empty() && report.groups[0].share > 990, "{report}");
}

#[test]
fn timers_fire() {
    let text = "struct ticker { struct bpf_timer timer; };
                struct {
                    __uint(type, BPF_MAP_TYPE_ARRAY);
                    __uint(max_entries, 1);
                    __type(key, u32);
                    __type(value, struct ticker);
                } tickers SEC(\".maps\");
                static u64 nr_ticks;
                static int tick(void *map, int *key, struct bpf_timer *timer)
                {
                    if (++nr_ticks == 500)
                        scx_bpf_error(\"%llu ticks by %llu\", nr_ticks, scx_bpf_now());
                    bpf_timer_start(timer, 2000000, 0);
                    return 0;
                }
                s32 BPF_STRUCT_OPS_SLEEPABLE(ticker_init)
                {
                    u32 zero = 0;
                    struct ticker *ticker = bpf_map_lookup_elem(&tickers, &zero);

                    if (!ticker)
                        return -ENOENT;
                    bpf_timer_init(&ticker->timer, &tickers, CLOCK_MONOTONIC);
                    bpf_timer_set_callback(&ticker->timer, tick);
                    return bpf_timer_start(&ticker->timer, 2000000, 0);
                }
                SCX_OPS_DEFINE(ops, .init = ticker_init, .name = \"ticker\");";
    let report = run(&scenario("many-hogs"), &under(written("ticker", text).expect("it compiles")));
    let [violation] = &report.violations[..] else { panic!("{report}") };
    // Time begins at 1000 s.
    assert!(violation.what.contains("500 ticks by 1001000000000"), "{report}");
}

#[test]
fn a_scheduler_that_keeps_a_task_is_ended_by_the_watchdog() {
    let text = "void BPF_STRUCT_OPS(keep_enqueue, struct task_struct *p, u64 flags) {}
                SCX_OPS_DEFINE(ops, .enqueue = keep_enqueue, .timeout_ms = 200, .name = \"keep\");";
    let report = run(&scenario("many-hogs"), &under(written("keep", text).expect("it compiles")));
    let [violation] = &report.violations[..] else { panic!("{report}") };
    assert!(violation.rule == Rule::Ended && violation.what.contains("failed to run for 0.2"), "{report}");
}

#[test]
fn files_that_cannot_run_are_refused_with_the_reason() {
    let refused = |name: &str, text: &str, reason: &str| {
        let error = written(name, text).expect_err("it must be refused");
        let error = format!("{error:#}");
        assert!(error.contains(name) && error.contains(reason), "{reason} is not in: {error}");
    };
    let callback = "void BPF_STRUCT_OPS(some, s32 cpu, bool idle) {}\n";
    let with = |field: &str| format!("{callback}SCX_OPS_DEFINE(ops, {field}, .name = \"some\");");
    refused("syntax", "int 1;", "expected identifier");
    refused("no-scheduler", "int number;", "SCX_OPS_DEFINE");
    refused("unknown-kfunc", "void f(void) { scx_bpf_unheard_of(1); }", "'scx_bpf_unheard_of'");
    refused("undefined-kfunc", "void scx_bpf_unheard_of(u32); void f(void) { scx_bpf_unheard_of(1); }", "unheard_of");
    refused("ring", "struct {} ring; void f(void) { bpf_ringbuf_reserve(&ring, 8, 0); }", "'bpf_ringbuf_reserve'");
    refused("map", "struct { __uint(type, BPF_MAP_TYPE_HASH); } map SEC(\".maps\");", "'BPF_MAP_TYPE_HASH'");
    refused("program", "int BPF_PROG(on_exec) { return 0; }", "no programs but those of struct sched_ext_ops");
    refused("unknown-callback", &with(".cgroup_init = some"), "'cgroup_init'");
    refused("partial", &with(".flags = SCX_OPS_SWITCH_PARTIAL"), "'SCX_OPS_SWITCH_PARTIAL'");
    refused("unknown-flag", &with(".flags = 1 << 20"), "flags 0x100000");
    refused("idle", &with(".update_idle = some"), "SCX_OPS_KEEP_BUILTIN_IDLE");
    refused("last", &with(".flags = SCX_OPS_ENQ_LAST"), "requires ops.enqueue");
    refused("patient", &with(".timeout_ms = 30001"), "30001 ms");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let file = here("tests/schedulers/shared.bpf.c");
    let error = format!("{:#}", load(&file, &["by_departure=1"]).expect_err("there is no such variable"));
    assert!(error.contains("'by_departure'"), "{error}");
    let error = format!("{:#}", load(&here("tests/schedulers/missing.bpf.c"), &[]).expect_err("there is no such file"));
    assert!(error.contains("missing.bpf.c") && error.contains("cannot read"), "{error}");
    for text in ["by_arrival", "=1", "by_arrival=", "by_arrival=yes", "1by=1", "by_arrival=1;exit(1)", "a b=1"] {
        assert_eq!(SchedulerSetting::parse(text), None, "{text}");
    }
    for text in ["by_arrival=true", "slice_ns=18446744073709551615", "_offset=-3"] {
        assert!(SchedulerSetting::parse(text).is_some(), "{text}");
    }
}
