//! `scherzoctl record`: what it writes of a known load, with the kernel's own scheduler and with ours, and what it leaves behind.

use std::cmp::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{ensure_loaded, ensure_refused, ensure_undisturbed, ensure_unloaded, wait_for_calm};
use scherzo_rig::shell::Shell;

const LIMIT: Duration = Duration::from_mins(1);
const FILE: &str = "/run/recording.toml";
/// A hog of each nice level per CPU, one of another policy, and two that compute for 4 ms and sleep for 10 ms.
const GROUPS: &str = "--group name=hogs,count=1/cpu --group name=niced,count=1/cpu,nice=10 \
                      --group name=batch,count=1,policy=batch --group name=nappers,count=2,nice=-5,work=4ms,sleep=10ms";
/// The same as they are recorded, with the number of their threads.
const RECORDED: [(&str, usize); 4] =
    [("member", 4), ("member, nice 10", 4), ("member, batch", 1), ("member, nice -5", 2)];
/// What half of the pieces of work and of the sleeps take at most and at least, in microseconds. The benchmark computes for so long as a
/// calibration says, and the kernel's clock counts interrupts as well: on emulated CPUs 4 ms were 4.7.
const WORK_US: std::ops::RangeInclusive<i64> = 3_200..=5_600;
const SLEEP_US: std::ops::RangeInclusive<i64> = 9_900..=11_000;
/// Of the CPUs, what was recorded of all groups at least: the rest is the kernel's own work, and what emulation takes.
const MIN_USED: f64 = 0.85;

#[derive(Deserialize)]
struct RecordingScenario {
    duration_ms: u32,
    machine: RecordingMachine,
    group: Vec<RecordingGroup>,
}

#[derive(Deserialize)]
struct RecordingMachine {
    cpus: u32,
}

#[derive(Deserialize)]
struct RecordingGroup {
    name: String,
    task: Vec<RecordingTask>,
}

#[derive(Deserialize)]
struct RecordingTask {
    steps: Vec<toml::Value>,
}

/// The load is in the recording as it is, whichever scheduler is loaded.
pub(super) fn known_load(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let default = record(guest)?;
    ensure!(default.contains("the kernel's own scheduler"), "{}", default.lines().nth(1).unwrap_or_default());
    check(&default).context("with the kernel's own scheduler")?;
    let loaded = ensure_loaded(guest)?;
    wait_for_calm(guest)?;
    check(&record(guest)?).context("with Scherzo")?;
    ensure_undisturbed(guest, &loaded)
}

/// What ends early is kept, what is refused changes nothing, and no instance stays in either case.
pub(super) fn refusals(guest: &mut Guest) -> Result<()> {
    guest.check(&format!("rm -f {FILE}"), LIMIT)?;
    ensure_refused(
        &guest.run(&format!("runuser -u nobody -- scherzoctl record -o {FILE}"), LIMIT)?,
        &["sudo scherzoctl"],
    )?;
    for signal in ["INT", "TERM"] {
        // Started by the shell itself, and not in the background, where SIGINT would be ignored.
        let look = "(sleep 0.7; ls /sys/kernel/tracing/instances >/run/instances) &";
        let record =
            format!("timeout --preserve-status -s {signal} 1.5 scherzoctl record --force --seconds 60 -o {FILE}");
        guest.check(&format!("{look} {record}"), LIMIT)?;
        let during = guest.check("cat /run/instances", LIMIT)?;
        ensure!(during.contains("scherzo-record-"), "no instance is there while it records: {during}");
        ensure_no_instance(guest)?;
    }
    let before = guest.check(&format!("sha256sum {FILE}"), LIMIT)?;
    ensure_refused(&guest.run(&format!("scherzoctl record --seconds 1 -o {FILE}"), LIMIT)?, &["--force"])?;
    ensure!(guest.check(&format!("sha256sum {FILE}"), LIMIT)? == before, "the file was replaced without --force");
    // One that was killed leaves its instance to the next one.
    guest.check(&format!("scherzoctl record -o {FILE}.other & sleep 1; kill -KILL $!; wait $! || true"), LIMIT)?;
    guest.check(&format!("scherzoctl record --seconds 1 --force -o {FILE}"), LIMIT)?;
    ensure_no_instance(guest)
}

fn ensure_no_instance(guest: &mut Guest) -> Result<()> {
    let instances = guest.check("ls /sys/kernel/tracing/instances", LIMIT)?;
    ensure!(!instances.contains("scherzo-record-"), "still there: {instances}");
    Ok(())
}

/// A second of the load.
fn record(guest: &mut Guest) -> Result<String> {
    let load = format!("scherzo-bench shares --seconds 3 {GROUPS} >/run/load");
    let has_begun = "cat /proc/[0-9]*/task/*/comm 2>/dev/null | grep -q '^member$'";
    let command = format!("scherzoctl --json record --seconds 1 --force --output {FILE}");
    let wait = format!("until {has_begun}; do sleep 0.1; done; sleep 1");
    let printed = guest.check(&format!("{load} & {wait}; {command} && wait $!"), LIMIT)?;
    say(&printed);
    let printed: serde_json::Value = serde_json::from_str(&printed)?;
    let recording = &printed["recording"];
    ensure!(recording["nr_lost"] == 0 && recording["nr_left_out"] == 0, "not all was recorded: {printed}");
    ensure_no_instance(guest)?;
    guest.check(&format!("cat {FILE}"), LIMIT)
}

fn check(text: &str) -> Result<()> {
    let scenario: RecordingScenario = toml::from_str(text)?;
    let group = |name: &str| scenario.group.iter().find(|group| group.name == name);
    let mut ran_us = Vec::new();
    for (name, nr_tasks) in RECORDED {
        let group = group(name).with_context(|| format!("no group {name:?} was recorded"))?;
        ensure!(group.task.len() == nr_tasks, "{name}: {} tasks were recorded, not {nr_tasks}", group.task.len());
        ran_us.push(group.times_us("run_us").iter().sum::<i64>() as f64);
    }
    let used = ran_us.iter().sum::<f64>() / (f64::from(scenario.duration_ms * scenario.machine.cpus) * 1e3);
    ensure!((MIN_USED..=1.0).contains(&used), "{used:.3} of the CPUs were recorded");
    // A second is short for the kernel's default: it once gave the latter a quarter of what the former had, not a tenth.
    ensure!(ran_us[0] > 2.0 * ran_us[1], "hogs ran for {} us, those of nice 10 for {}", ran_us[0], ran_us[1]);
    let nappers = group("member, nice -5").context("no nappers were recorded")?;
    let [work_us, sleep_us] = ["run_us", "sleep_us"].map(|key| median(nappers.times_us(key)));
    ensure!(WORK_US.contains(&work_us), "half of the pieces of work take at most {work_us} us");
    ensure!(SLEEP_US.contains(&sleep_us), "half of the sleeps take at most {sleep_us} us");
    Ok(())
}

/// The one in the middle, 0 of none.
pub(super) fn median<T: Copy + Default + PartialOrd>(mut values: Vec<T>) -> T {
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl RecordingGroup {
    /// All times of one kind.
    fn times_us(&self, key: &str) -> Vec<i64> {
        let steps = self.task.iter().flat_map(|task| &task.steps);
        steps.filter_map(|step| step.get(key)?.as_integer()).collect()
    }
}
