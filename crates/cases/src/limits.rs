//! Control groups get no more than their `cpu.max`, in every mode, and most of it if no other task wants it.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use scherzo_rig::guest::{Guest, Job};
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    ENGINE, call, ensure_loaded, ensure_undisturbed, ensure_unloaded, wait_for_state, with_user_seat,
};
use scherzo_rig::shell::Shell;

use crate::shares::{ShareFigures, say_groups};

/// Of its limit, what a group gets at most.
const MOST: f64 = 1.03;
/// And at least. A part is lost where a group's tasks have to wait for a CPU after they were held up, most of it in low-power.
const LEAST: f64 = 0.8;
const SECONDS: u32 = 5;
const LIMIT: Duration = Duration::from_mins(1);
const MODES: [&str; 3] = ["interactive", "fifo", "low-power"];

/// Half a CPU, which four hogs want.
pub(super) fn half_a_cpu(guest: &mut Guest) -> Result<()> {
    within(guest, &[("half", "50000 100000")], |guest| {
        MODES.iter().try_for_each(|mode| ensure_limits(guest, mode, &["name=half,count=4,cgroup=half"]))
    })
}

/// Less than the time between two ticks in each period.
pub(super) fn two_percent(guest: &mut Guest) -> Result<()> {
    within(guest, &[("little", "2000 100000")], |guest| {
        MODES.iter().try_for_each(|mode| ensure_limits(guest, mode, &["name=little,cgroup=little"]))
    })
}

/// A limit within a limit, and a group beside it that has only the outer one.
pub(super) fn nested(guest: &mut Guest) -> Result<()> {
    let groups = [("outer", "80000 100000"), ("outer/inner", "20000 100000"), ("outer/free", "max 100000")];
    within(guest, &groups, |guest| {
        ensure_limits(
            guest,
            "interactive",
            &["name=inner,count=2,cgroup=outer/inner", "name=free,count=2,cgroup=outer/free"],
        )
    })
}

/// Half a CPU, which four hogs want: while the engine is stopped, so that the scheduler is degraded, once it goes on, after the scheduler was
/// unloaded under them, and after it was loaded again.
pub(super) fn through_accidents(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    within(guest, &[("half", "50000 100000")], |guest| {
        let hogs = start_hogs(guest, "half")?;
        let outcome = through_each_accident(guest, "half");
        end_hogs(guest, "half", &hogs)?;
        outcome
    })
}

fn through_each_accident(guest: &mut Guest, group: &str) -> Result<()> {
    ensure_held(guest, group, 0.5).context("at first")?;
    with_user_seat(guest, |guest| {
        guest.check(&format!("pkill -STOP -x {ENGINE}"), LIMIT)?;
        let outcome = wait_for_state(guest, "degraded", LIMIT)
            .and_then(|()| ensure_held(guest, group, 0.5).context("while degraded"));
        guest.check(&format!("pkill -CONT -x {ENGINE}"), LIMIT)?;
        outcome?;
        wait_for_state(guest, "running", LIMIT)?;
        ensure_held(guest, group, 0.5).context("in the user seat")
    })?;
    ensure_unloaded(guest)?;
    ensure_held(guest, group, 0.5).context("once unloaded")?;
    ensure_loaded(guest)?;
    ensure_held(guest, group, 0.5).context("loaded again")
}

/// Four of them in a control group, until they are killed.
pub(super) fn start_hogs(guest: &mut Guest, group: &str) -> Result<Job> {
    guest.spawn(&format!(
        "echo $$ >/sys/fs/cgroup/{group}/cgroup.procs && exec stress-ng --cpu 4 --cpu-method int64 --quiet"
    ))
}

/// Ends them, so that the group can be removed.
pub(super) fn end_hogs(guest: &mut Guest, group: &str, hogs: &Job) -> Result<()> {
    guest.kill(hogs)?;
    let populated = format!("grep -q 'populated 1' /sys/fs/cgroup/{group}/cgroup.events");
    guest.check(&format!("while {populated}; do sleep 0.1; done"), LIMIT).map(drop)
}

/// The group uses so many CPUs, by the kernel's account.
pub(super) fn ensure_held(guest: &mut Guest, group: &str, limit_cpus: f64) -> Result<()> {
    let look = format!("echo $(date +%s%N) $(sed -n 's/^usage_usec //p' /sys/fs/cgroup/{group}/cpu.stat)");
    let printed = guest.check(&format!("{look}; sleep {SECONDS}; {look}"), LIMIT)?;
    let numbers = printed.split_whitespace().map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
    let [from_ns, used_before_us, until_ns, used_us] = numbers[..] else { bail!("not two looks: {printed}") };
    let cpus = (used_us - used_before_us) * 1000.0 / (until_ns - from_ns);
    say(&format!("group \"{group}\": {cpus:.3} CPUs of {limit_cpus}"));
    ensure!(
        (LEAST * limit_cpus..=MOST * limit_cpus).contains(&cpus),
        "group \"{group}\" used {cpus:.3} CPUs of {limit_cpus}"
    );
    Ok(())
}

/// Makes control groups with their `cpu.max`, and removes them.
pub(super) fn within(
    guest: &mut Guest,
    groups: &[(&str, &str)],
    work: impl FnOnce(&mut Guest) -> Result<()>,
) -> Result<()> {
    for (group, limit) in groups {
        let enable = "echo +cpu >$(dirname $dir)/cgroup.subtree_control";
        guest.check(&format!("dir=/sys/fs/cgroup/{group}; {enable}; mkdir $dir; echo {limit} >$dir/cpu.max"), LIMIT)?;
    }
    let outcome = work(guest);
    for (group, _) in groups.iter().rev() {
        guest.check(&format!("rmdir /sys/fs/cgroup/{group}"), LIMIT)?;
    }
    outcome
}

/// Each group gets what its limit allows.
fn ensure_limits(guest: &mut Guest, mode: &str, groups: &[&str]) -> Result<()> {
    let figures = measure(guest, mode, groups)?;
    figures.groups.iter().try_for_each(|group| group.ensure_between(LEAST, MOST)).context(mode.to_owned())
}

fn measure(guest: &mut Guest, mode: &str, groups: &[&str]) -> Result<ShareFigures> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", &format!("s {mode}"))?;
    let groups: Vec<_> = groups.iter().flat_map(|group| ["--group", group]).collect();
    let command = format!("scherzo-bench shares --seconds {SECONDS} --json {}", groups.join(" "));
    let printed = guest.check(&command, LIMIT)?;
    ensure_undisturbed(guest, &loaded)?;
    call(guest, "SetMode", "s interactive")?;
    let figures: ShareFigures =
        serde_json::from_str(&printed).with_context(|| format!("scherzo-bench printed: {printed}"))?;
    say_groups(&figures.groups);
    Ok(figures)
}
