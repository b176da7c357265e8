//! Several sockets, nodes and threads to a core.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::survival::ensure_sound;
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{
    MOMENT, end_load, ensure_loaded, ensure_responsive, ensure_undisturbed, start_load, statistics,
};
use scherzo_rig::shell::Shell;

/// Two hogs per CPU keep every CPU of every LLC domain busy, and mostly stay in their domain.
pub(super) fn spreads(guest: &mut Guest) -> Result<()> {
    let nodes = guest.check("ls -d /sys/devices/system/node/node[0-9]* | wc -l", MOMENT)?;
    ensure!(nodes == "2", "the machine has {nodes} nodes");
    let loaded = ensure_loaded(guest)?;
    let load = start_load(guest)?;
    guest.check("sleep 2", MOMENT)?;
    let keys = ["nr_switches", "nr_migrated_far"];
    let [switches, far] = statistics(guest, keys)?;
    let idle = guest.check("cat /proc/stat >/tmp/before; sleep 5; cat /proc/stat", Duration::from_mins(1))?;
    let [switches_now, far_now] = statistics(guest, keys)?;
    let before = guest.check("cat /tmp/before", MOMENT)?;
    end_load(guest, &load)?;
    for (cpu, (before, after)) in idle_ticks(&before).zip(idle_ticks(&idle)).enumerate() {
        ensure!(after - before < 50, "CPU {cpu} idled for {} ticks of 500", after - before);
    }
    let (switches, far) = (switches_now - switches, far_now - far);
    ensure!(far * 4 < switches, "{far} of {switches} switches went to another domain");
    ensure_undisturbed(guest, &loaded)
}

/// Idle time of each CPU, in ticks of 10 ms.
fn idle_ticks(stat: &str) -> impl Iterator<Item = u64> {
    let of_cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    of_cpus.filter_map(|line| line.split_ascii_whitespace().nth(4)?.parse().ok())
}

/// All CPUs of an LLC domain go offline under load, one after the other, including every CPU that some tasks may use.
/// The kernel moves those tasks elsewhere, the others keep all CPUs busy, and the counters stay right.
pub(super) fn domain_hotplug(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let list = guest.check("cat /sys/devices/system/node/node1/cpulist", MOMENT)?;
    let cpus = guest.check("cd /sys/devices/system/node/node1; echo cpu[0-9]*", MOMENT)?;
    let load = start_load(guest)?;
    let confined = guest.spawn(&format!("exec taskset -c {list} stress-ng --cpu 6 --cpu-method int64 --quiet"))?;
    guest.check("sleep 1", MOMENT)?;
    let set_online =
        |value: u32| format!("for cpu in {cpus}; do echo {value} >/sys/devices/system/cpu/$cpu/online; done");
    guest.check(&set_online(0), HOTPLUG_LIMIT).context("CPUs could not be taken offline")?;
    guest.check("sleep 2", MOMENT)?;
    ensure_responsive(guest)?;
    ensure_undisturbed(guest, &loaded)?;
    let nr_online: u64 = guest.check("nproc", MOMENT)?.parse()?;
    let [nr_running] = statistics(guest, ["nr_running"])?;
    ensure!(nr_running == nr_online, "{nr_running} of {nr_online} CPUs are said to be busy under two hogs each");
    guest.check(&set_online(1), HOTPLUG_LIMIT).context("CPUs could not be taken online")?;
    ensure_responsive(guest)?;
    end_load(guest, &confined)?;
    end_load(guest, &load)?;
    ensure_undisturbed(guest, &loaded)?;
    ensure_sound(guest)
}

/// Time limit for taking the CPUs of a domain offline, or back, on an emulated machine under load.
const HOTPLUG_LIMIT: Duration = Duration::from_mins(1);

/// Settings that are changed from their defaults together: key, value and default.
const PLACEMENTS: &[&[(&str, &str, &str)]] = &[
    &[("builtin_idle", "false", "true")],
    &[("builtin_idle", "false", "true"), ("whole_cores", "false", "true")],
    &[("builtin_idle", "false", "true"), ("numa_local", "false", "true")],
    &[("builtin_idle", "false", "true"), ("full_user", "true", "false")],
    &[("per_node_idle", "true", "false")],
    &[("policy", "fifo", "scherzo")],
];

/// A mixed load runs with each way to find idle CPUs, and with each setting that takes effect only at load.
pub(super) fn placements(guest: &mut Guest) -> Result<()> {
    for placement in PLACEMENTS {
        for (key, value, _) in *placement {
            guest.check(&format!("scherzoctl config set {key} {value}"), MOMENT)?;
        }
        let loaded = ensure_loaded(guest).with_context(|| format!("with {placement:?}"))?;
        guest.check("stress-ng --cpu 4 --fork 2 --pipe 2 --timeout 3s --quiet", Duration::from_mins(1))?;
        ensure_responsive(guest)?;
        ensure_undisturbed(guest, &loaded).with_context(|| format!("with {placement:?}"))?;
        ensure_sound(guest)?;
        for (key, _, default) in placement.iter().rev() {
            guest.check(&format!("scherzoctl config set {key} {default}"), MOMENT)?;
        }
    }
    Ok(())
}
