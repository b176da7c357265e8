//! Thousands of tasks and control groups: the scheduler stays loaded, and who is not of the crowd gets what is theirs.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, call, ensure_loaded, ensure_responsive, ensure_undisturbed, wait_until, with_user_seat,
};
use scherzo_rig::shell::Shell;

use crate::limits::within;
use crate::shares::{ShareFigures, say_groups};
use crate::survival::ensure_sound;

/// Beside crowds shares are less exact.
const TOLERANCE: f64 = 0.1;
/// Of the machine, what eight tasks with a weight of 1024 have beside 3,010 with a weight of 3.
const PART_BESIDE_IDLE: f64 = 8192.0 / (8192.0 + 9030.0);
/// Of a CPU, what a group with a limit of 1 % gets in which a thousand tasks have a turn every 10 s.
const MAX_LIMITED_CPUS: f64 = 0.03;
/// Of the machine, what is left to loads beside what emulation and the kernel's own work take.
const MIN_USED: f64 = 0.85;
/// More than this many of them are runnable.
const NR_HOGS: u64 = 3_000;
/// They are started by a real-time thread: one of their kind would have its turn after all that are there already.
const CROWD: &str = "exec scherzo-bench shares --seconds 3600 --group name=crowd,count=3010";
/// The longest that one of ten programs takes, with a second before each: a loop without would have its share, of minutes.
const START_NOW_AND_THEN: &str = "bash -c 'for turn in 1 2 3 4 5 6 7 8 9 10; do sleep 1; begin=${EPOCHREALTIME/./}; /bin/true; \
     echo $((${EPOCHREALTIME/./} - begin)); done' | sort -n | tail -n 1";
const MAX_START_US: u32 = 500_000;
/// More than [`SLEEPERS`] has, all others included.
const NR_SLEEPERS: u64 = 33_000;
/// Threads that never wake up, more than user space has slots for.
const SLEEPERS: &str =
    "sysctl -q kernel.threads-max=200000 kernel.pid_max=100000 vm.max_map_count=262144; exec python3 -c '
import os, _thread
os.fork(), os.fork()
_thread.stack_size(65536)
held = _thread.allocate_lock()
held.acquire()
for _ in range(8300): _thread.start_new_thread(held.acquire, ())
held.acquire()'";
/// More groups than have shares of their own. In each a process sleeps.
const MANY_GROUPS: &str = "exec python3 -c '
import os, time
for number in range(4200):
    path = f\"/sys/fs/cgroup/many/{number}\"
    os.mkdir(path)
    if os.fork() == 0:
        open(f\"{path}/cgroup.procs\", \"w\").write(\"0\")
        while True: time.sleep(3600)
open(\"/run/many-groups\", \"w\").close()
time.sleep(3600)'";
/// Makes groups for ten seconds, one in eight of which has a process for a moment, and prints how many a second.
const CHURN: &str = "python3 -c '
import os, time
begin = time.monotonic()
made = 0
while time.monotonic() - begin < 10:
    paths = [f\"/sys/fs/cgroup/churn/{number}\" for number in range(8)]
    for path in paths: os.mkdir(path)
    open(f\"{paths[0]}/cgroup.procs\", \"w\").write(\"0\")
    open(\"/sys/fs/cgroup/churn/rest/cgroup.procs\", \"w\").write(\"0\")
    for path in paths: os.rmdir(path)
    made += len(paths)
print(int(made / (time.monotonic() - begin)))'";
const LIMIT: Duration = Duration::from_mins(10);

/// Three thousand hogs for a minute, and a program that is started now and then.
pub(super) fn hogs(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let crowd = guest.spawn(CROWD)?;
    wait_for_crowd(guest)?;
    guest.check("sleep 50", LIMIT)?;
    let longest_us: u32 = guest.check(START_NOW_AND_THEN, LIMIT)?.parse().context("a time was expected")?;
    say(&format!("beside {NR_HOGS} hogs a program starts and ends within {longest_us} us"));
    ensure!(longest_us <= MAX_START_US, "a program took {longest_us} us, not at most {MAX_START_US}");
    ensure_undisturbed(guest, &loaded)?;
    ensure_sound(guest)?;
    guest.kill(&crowd)
}

/// Eight normal tasks have what they weigh beside three thousand of SCHED_IDLE, which weigh a little more together, for a minute.
pub(super) fn idle_hogs(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    let crowd = guest.spawn(&format!("{CROWD},policy=idle"))?;
    wait_for_crowd(guest)?;
    let figures = beside_crowd(guest, 60, &["name=normal,count=8"])?;
    let [normal] = figures.groups.as_slice() else { bail!("not one group: {figures:?}") };
    let least = MIN_USED * PART_BESIDE_IDLE * f64::from(figures.nr_cpus);
    ensure!(normal.cpus >= least, "normal tasks got {:.3} CPUs, not {least:.3}", normal.cpus);
    guest.kill(&crowd)
}

fn wait_for_crowd(guest: &mut Guest) -> Result<()> {
    wait_until(guest, "there are many hogs", MOMENT * 12, |shell| {
        Ok(shell.check("cut -d' ' -f4 /proc/loadavg | cut -d/ -f1", MOMENT)?.parse::<u64>()? >= NR_HOGS)
    })
}

/// Tasks that user space knows nothing of, since there are too many, have their shares in both seats, and no credit for naps.
pub(super) fn sleepers(guest: &mut Guest) -> Result<()> {
    ensure_loaded(guest)?;
    let sleepers = guest.spawn(SLEEPERS)?;
    wait_until(guest, "there are many tasks", MOMENT * 12, |shell| {
        Ok(shell.check("cut -d/ -f2 /proc/loadavg | cut -d' ' -f1", MOMENT)?.parse::<u64>()? >= NR_SLEEPERS)
    })?;
    let groups = ["name=hogs,count=2/cpu", "name=nappers,count=2/cpu,work=4ms,sleep=100us"];
    let shares = |guest: &mut Guest| {
        beside_crowd(guest, 4, &groups)?.groups.iter().try_for_each(|group| group.ensure_between(0.85, 1.15))
    };
    shares(guest).and_then(|()| with_user_seat(guest, shares))?;
    guest.kill(&sleepers)
}

/// A thousand tasks of a group with 1 % of a CPU, for five minutes, and a hog for each CPU.
pub(super) fn limited(guest: &mut Guest) -> Result<()> {
    within(guest, &[("limited", "1000 100000")], |guest| {
        let figures = beside_crowd(guest, 300, &["name=limited,count=1000,cgroup=limited", "name=free,count=1/cpu"])?;
        let [limited, free] = figures.groups.as_slice() else { bail!("not two groups: {figures:?}") };
        ensure!(limited.cpus <= MAX_LIMITED_CPUS, "the limited group got {:.3} CPUs", limited.cpus);
        ensure!(free.cpus >= MIN_USED * f64::from(figures.nr_cpus), "the others got {:.3} CPUs", free.cpus);
        Ok(())
    })
}

/// Weights count beside more groups than have shares of their own.
pub(super) fn many_groups(guest: &mut Guest) -> Result<()> {
    let make = "mkdir first second many; echo 100 >first/cpu.weight; echo 300 >second/cpu.weight; \
                echo +cpu >many/cgroup.subtree_control";
    guest.check(
        &format!("cd /sys/fs/cgroup; echo +cpu >cgroup.subtree_control; {make}; rm -f /run/many-groups"),
        LIMIT,
    )?;
    let sleepers = guest.spawn(MANY_GROUPS)?;
    wait_until(guest, "there are many groups", MOMENT * 12, |shell| {
        Ok(shell.run("test -e /run/many-groups", MOMENT)?.status == 0)
    })?;
    let groups = ["name=first,count=1/cpu,cgroup=first", "name=second,count=1/cpu,cgroup=second"];
    let figures = beside_crowd(guest, 5, &groups)?;
    let used: f64 = figures.groups.iter().map(|group| group.cpus).sum();
    for (group, part) in figures.groups.iter().zip([0.25, 0.75]) {
        let got = group.cpus / used;
        ensure!((got - part).abs() <= TOLERANCE * part, "group {got:.3}, not {part} of what both got");
    }
    guest.kill(&sleepers)?;
    let remove = "for dir in many/*/; do echo 1 >$dir/cgroup.kill; done; sleep 3; rmdir many/*/ many first second";
    guest.check(&format!("cd /sys/fs/cgroup; {remove}"), LIMIT).map(drop)
}

/// Groups come and go as fast as they can beside two hogs per CPU, with a task in some.
pub(super) fn churn(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    let make = "cd /sys/fs/cgroup; echo +cpu >cgroup.subtree_control; mkdir -p churn/rest; echo +cpu >churn/cgroup.subtree_control";
    guest.check(make, LIMIT)?;
    let load = guest.spawn("exec stress-ng --cpu $((2 * $(nproc))) --cpu-method int64 --quiet")?;
    let rate = guest.check(CHURN, LIMIT)?;
    guest.kill(&load)?;
    say(&format!("{rate} groups a second were made and removed"));
    ensure!(rate.parse::<u32>().context("no rate was printed")? > 0, "no groups were made");
    guest.check("cd /sys/fs/cgroup; rmdir churn/rest churn", LIMIT)?;
    ensure_responsive(guest)?;
    ensure_undisturbed(guest, &loaded)?;
    ensure_sound(guest)
}

/// Runs groups of `scherzo-bench shares` for so many seconds, which nothing disturbs.
fn beside_crowd(guest: &mut Guest, seconds: u32, groups: &[&str]) -> Result<ShareFigures> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    let groups: Vec<_> = groups.iter().flat_map(|group| ["--group", group]).collect();
    let printed =
        guest.check(&format!("scherzo-bench shares --seconds {seconds} --json {}", groups.join(" ")), LIMIT)?;
    let figures: ShareFigures =
        serde_json::from_str(&printed).with_context(|| format!("scherzo-bench printed: {printed}"))?;
    say_groups(&figures.groups);
    ensure_undisturbed(guest, &loaded)?;
    Ok(figures)
}
