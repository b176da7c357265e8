//! Groups of tasks get their share of the CPUs, as a solver that has nothing to do with the scheduler works it out.
//!
//! In virtual time, where no load of the host makes a difference. `scherzo-bench shares` runs the groups and the solver.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    call, change_seats_command, end_load, ensure_loaded, ensure_undisturbed, keep_state_in_memory, start_load,
    wait_for_calm, with_user_seat,
};
use scherzo_rig::shell::Shell;

/// Of its share, by which a group may get more or less.
pub(super) const TOLERANCE: f64 = 0.05;
/// The same where nice levels differ, and where tasks nap.
const WIDE_TOLERANCE: f64 = 0.1;
/// Of the machine, what all groups get together at least where they would take all of it: the rest is the kernel's own work, and
/// what emulation takes.
const MIN_USED: f64 = 0.9;
/// The same where threads wake each other, thousands of times a second on each CPU. Seen are 0.89 to 0.96, with the kernel's default 0.96.
const MIN_USED_BY_PAIRS: f64 = 0.82;
/// CPUs by which any group may get more or less.
const LEAST_TOLERANCE: f64 = 0.01;
/// Of the machine, what SCHED_IDLE may get beside normal work.
const MAX_IDLE: f64 = 0.02;
/// Longest time that a hog gets nothing beside tasks that nap for 20 µs, and longest wake-up of these. Seen are 23 to 37 ms, and 17
/// to 36.
const MAX_GAP_MS: f64 = 60.0;
const MAX_WAKE_MS: f64 = 70.0;
/// Longest time that a hog gets nothing beside pairs that wake each other. Seen are 8 to 51 ms.
const MAX_GAP_BESIDE_PAIRS_MS: f64 = 90.0;
/// The same beside tasks that sleep and want its only CPU. Seen are 13.5 ms.
const MAX_GAP_BESIDE_SLEEPERS_MS: f64 = 40.0;
/// Of its share, what it has at least there. Half is promised, and 0.55 to 0.58 is seen.
const LEAST_BESIDE_SLEEPERS: f64 = 0.5;
/// How many times as long a call that changes the seat may take as where all that takes part in it is SCHED_FIFO. 2.8 was measured.
const MAX_SEAT_CHANGE_RATIO: f64 = 4.0;
const SEAT_CHANGE_PAUSE: Duration = Duration::from_millis(40);
const SECONDS: u32 = 4;
const LIMIT: Duration = Duration::from_mins(1);

/// What `scherzo-bench shares` and `scherzo-bench frames` say about a group.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct GroupFigures {
    name: String,
    pub(super) cpus: f64,
    pub(super) share: f64,
    longest_gap_ms: f64,
    longest_wake_ms: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct ShareFigures {
    pub(super) nr_cpus: u32,
    pub(super) groups: Vec<GroupFigures>,
}

/// Nice levels have the weights that the kernel gives them.
pub(super) fn nice_levels(guest: &mut Guest) -> Result<()> {
    ensure_shares(guest, &["name=nice-0,count=1/cpu", "name=nice-10,count=1/cpu,nice=10"], WIDE_TOLERANCE)
}

/// Also the least ones, which `p->scx.weight` does not tell apart.
pub(super) fn least_nice_levels(guest: &mut Guest) -> Result<()> {
    let groups: Vec<_> = (15..=19).map(|nice| format!("name=nice-{nice},count=1/cpu,nice={nice}")).collect();
    ensure_shares(guest, &groups, WIDE_TOLERANCE)
}

/// SCHED_BATCH has its weight, and SCHED_IDLE what is left over.
pub(super) fn policies(guest: &mut Guest) -> Result<()> {
    let groups =
        ["name=normal,count=1/cpu", "name=batch,count=1/cpu,policy=batch", "name=idle,count=1/cpu,policy=idle"];
    let figures = measure(guest, &groups)?;
    for group in &figures.groups {
        if group.name == "idle" {
            let most = MAX_IDLE * f64::from(figures.nr_cpus);
            ensure!(group.cpus <= most, "group \"idle\" got {:.3} CPUs, not at most {most:.3}", group.cpus);
        } else {
            group.ensure_share(TOLERANCE)?;
        }
    }
    Ok(())
}

/// Who sleeps for a moment after each 4 ms of work gets no more than who never sleeps.
pub(super) fn short_naps(guest: &mut Guest) -> Result<()> {
    ensure_shares(guest, &["name=hogs,count=2/cpu", "name=nappers,count=2/cpu,work=4ms,sleep=100us"], WIDE_TOLERANCE)
}

/// Nor who sleeps for a little less than a third of its time.
pub(super) fn long_naps(guest: &mut Guest) -> Result<()> {
    ensure_shares(guest, &["name=hogs,count=1/cpu", "name=nappers,count=1/cpu,work=12ms,sleep=4600us"], WIDE_TOLERANCE)
}

/// A real-time task that wakes up more often than slices end does not make the hog that it interrupts keep its CPU.
pub(super) fn beside_real_time(guest: &mut Guest) -> Result<()> {
    let naps = "import time\nwhile True: time.sleep(0.004)";
    let properties = "-p CPUSchedulingPolicy=fifo -p CPUSchedulingPriority=50 -p CPUAffinity=1";
    guest.check(&format!("systemd-run -q --unit=real-time-naps {properties} python3 -c '{naps}'"), LIMIT)?;
    let shares = ensure_shares(guest, &["name=one,count=1/cpu", "name=other,count=1/cpu"], WIDE_TOLERANCE);
    guest.check("systemctl stop real-time-naps", LIMIT)?;
    shares
}

/// Not even if many do.
pub(super) fn many_nappers(guest: &mut Guest) -> Result<()> {
    ensure_shares(guest, &["name=hogs,count=1/cpu", "name=nappers,count=4/cpu,work=2ms,sleep=50us"], WIDE_TOLERANCE)
}

/// The same where user space has the seat.
pub(super) fn nice_levels_in_user_seat(guest: &mut Guest) -> Result<()> {
    with_user_seat(guest, nice_levels)
}

/// Likewise.
pub(super) fn short_naps_in_user_seat(guest: &mut Guest) -> Result<()> {
    with_user_seat(guest, short_naps)
}

/// The seat of the policy changes under two hogs per CPU without a loss, in a few times what it takes where all that takes part in it is
/// SCHED_FIFO, and the groups have their shares afterwards.
pub(super) fn thousand_seat_changes(guest: &mut Guest) -> Result<()> {
    keep_state_in_memory(guest)?;
    let loaded = ensure_loaded(guest)?;
    wait_for_calm(guest)?;
    let load = start_load(guest)?;
    set_policy_of_participants(guest, "-f -p 1")?;
    let (floor_p99_ms, floor_ms) = seat_changes_ms(guest, "chrt -f 1 ", 200)?;
    set_policy_of_participants(guest, "-o -p 0")?;
    let (p99_ms, longest_ms) = seat_changes_ms(guest, "", 1_000)?;
    end_load(guest, &load)?;
    say(&format!(
        "1000 changes of the seat under load: 99 in 100 within {p99_ms:.1} ms, the longest {longest_ms:.1} ms; with \
         SCHED_FIFO {floor_p99_ms:.1} and {floor_ms:.1} ms"
    ));
    ensure_undisturbed(guest, &loaded)?;
    ensure!(p99_ms <= floor_p99_ms * MAX_SEAT_CHANGE_RATIO, "99 in 100 changes of the seat took up to {p99_ms:.1} ms");
    ensure!(longest_ms <= floor_ms * MAX_SEAT_CHANGE_RATIO, "a change of the seat took {longest_ms:.1} ms");
    nice_levels(guest)
}

/// The service, the bus and the engine.
fn set_policy_of_participants(guest: &mut Guest, options: &str) -> Result<()> {
    let processes = "pgrep -x scherzod; pgrep -x dbus-daemon; pgrep -x scherzo-engine";
    guest.check(&format!("for pid in $({processes}); do chrt -a {options} $pid; done"), LIMIT).map(drop)
}

/// What 99 in 100 changes take, and the longest. Between two the service sleeps for long enough not to count as a hog.
fn seat_changes_ms(guest: &mut Guest, started_by: &str, nr_changes: u32) -> Result<(f64, f64)> {
    let command = format!("{started_by}{}", change_seats_command(nr_changes, SEAT_CHANGE_PAUSE));
    let times = guest.check(&command, 5 * LIMIT)?;
    let times_us: Vec<f64> = times.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [p99_us, longest_us] = times_us[..] else { bail!("not two times: {times}") };
    Ok((p99_us / 1e3, longest_us / 1e3))
}

/// No task waits for long beside those that wake up thousands of times a second.
pub(super) fn longest_gap(guest: &mut Guest) -> Result<()> {
    let groups = ["name=hogs,count=1/cpu", "name=nappers,count=4/cpu,work=500us,sleep=20us"];
    let figures = measure(guest, &groups)?;
    let [hogs, nappers] = figures.groups.as_slice() else { bail!("not two groups: {figures:?}") };
    hogs.ensure_share(WIDE_TOLERANCE)?;
    nappers.ensure_share(WIDE_TOLERANCE)?;
    let (gap_ms, wake_ms) = (hogs.longest_gap_ms, nappers.longest_wake_ms);
    ensure!(gap_ms <= MAX_GAP_MS, "a task of group \"hogs\" got nothing for {gap_ms:.1} ms, not at most {MAX_GAP_MS}");
    ensure!(wake_ms <= MAX_WAKE_MS, "a wake-up of group \"nappers\" took {wake_ms:.1} ms, not at most {MAX_WAKE_MS}");
    Ok(())
}

/// A hog has half of its share at least beside pairs on every CPU whose threads wake each other, and does not wait for long. Each of those
/// uses less than a thread would on average, as it sleeps while its partner works; without a bound all of them had every CPU.
pub(super) fn beside_pairs(guest: &mut Guest) -> Result<()> {
    for work in ["200us", "1ms"] {
        let pairs = format!("name=pairs,count=2/cpu,work={work},sleep=partner");
        let figures = measure_with(guest, &["name=hog".to_owned(), pairs], MIN_USED_BY_PAIRS)?;
        let [hog, _] = figures.groups.as_slice() else { bail!("not two groups: {figures:?}") };
        hog.ensure_between(0.5, 2.0)?;
        let gap_ms = hog.longest_gap_ms;
        ensure!(
            gap_ms <= MAX_GAP_BESIDE_PAIRS_MS,
            "beside {work} of work the hog got nothing for {gap_ms:.1} ms, not at most {MAX_GAP_BESIDE_PAIRS_MS}"
        );
    }
    Ok(())
}

/// A hog has turns where tasks that sleep want all of the only CPU that it may run on, whatever another hog has elsewhere. What such tasks have
/// is measured for all CPUs together; without a look at each queue the hog had nothing, until the scheduler was ended for that.
pub(super) fn beside_sleepers_of_its_cpu(guest: &mut Guest) -> Result<()> {
    let groups = ["name=hog,pin=1", "name=sleepers,count=2,pin=1,work=6ms,sleep=4ms", "name=free"];
    let figures: ShareFigures = beside_interactive(guest, &format!("shares --seconds {SECONDS}"), &groups)?;
    say_groups(&figures.groups);
    let [hog, ..] = figures.groups.as_slice() else { bail!("no groups: {figures:?}") };
    hog.ensure_between(LEAST_BESIDE_SLEEPERS, 2.0)?;
    let gap_ms = hog.longest_gap_ms;
    ensure!(
        gap_ms <= MAX_GAP_BESIDE_SLEEPERS_MS,
        "the hog got nothing for {gap_ms:.1} ms, not at most {MAX_GAP_BESIDE_SLEEPERS_MS}"
    );
    Ok(())
}

fn ensure_shares(guest: &mut Guest, groups: &[impl AsRef<str>], tolerance: f64) -> Result<()> {
    measure(guest, groups)?.groups.iter().try_for_each(|group| group.ensure_share(tolerance))
}

impl GroupFigures {
    /// It got between these parts of its share.
    pub(super) fn ensure_between(&self, least: f64, most: f64) -> Result<()> {
        let Self { name, cpus, share, .. } = self;
        ensure!(
            (least * share..=most * share).contains(cpus),
            "group \"{name}\" got {cpus:.3} CPUs; its share is {share:.3}"
        );
        Ok(())
    }

    pub(super) fn ensure_share(&self, tolerance: f64) -> Result<()> {
        let Self { name, cpus, share, .. } = self;
        let allowed = (tolerance * share).max(LEAST_TOLERANCE);
        ensure!(
            (cpus - share).abs() <= allowed,
            "group \"{name}\" got {cpus:.3} CPUs; its share is {share:.3}, give or take {allowed:.3}"
        );
        Ok(())
    }
}

fn measure(guest: &mut Guest, groups: &[impl AsRef<str>]) -> Result<ShareFigures> {
    measure_with(guest, groups, MIN_USED)
}

/// The same where the groups must get at least such a part of the machine.
fn measure_with(guest: &mut Guest, groups: &[impl AsRef<str>], min_used: f64) -> Result<ShareFigures> {
    let mut figures: ShareFigures = beside_interactive(guest, &format!("shares --seconds {SECONDS}"), groups)?;
    scale_shares(&mut figures.groups, min_used)?;
    say_groups(&figures.groups);
    Ok(figures)
}

/// Makes shares those of what the groups got together, which must be at least such a part of what they would take.
fn scale_shares(groups: &mut [GroupFigures], min_used: f64) -> Result<()> {
    let used: f64 = groups.iter().map(|group| group.cpus).sum();
    let due: f64 = groups.iter().map(|group| group.share).sum();
    ensure!(used >= min_used * due, "the groups got {used:.3} CPUs together, of {due:.3}");
    for group in groups {
        group.share *= used / due;
    }
    Ok(())
}

/// Says what each group got, also where that is as it should be.
pub(super) fn say_groups(groups: &[GroupFigures]) {
    for GroupFigures { name, cpus, share, longest_gap_ms, longest_wake_ms } in groups {
        say(&format!(
            "{name}: {cpus:.3} CPUs, share {share:.3}; longest gap {longest_gap_ms:.1} ms, wake-up {longest_wake_ms:.1} ms"
        ));
    }
}

/// Runs a command of `scherzo-bench` with groups of loads, in `interactive` with preemption.
pub(super) fn beside_interactive<T: for<'a> Deserialize<'a>>(
    guest: &mut Guest,
    command: &str,
    groups: &[impl AsRef<str>],
) -> Result<T> {
    bench_beside_interactive(guest, &format!("scherzo-bench {command}"), groups)
}

/// The same of a shell command that ends with one of `scherzo-bench`.
pub(super) fn bench_beside_interactive<T: for<'a> Deserialize<'a>>(
    guest: &mut Guest,
    command: &str,
    groups: &[impl AsRef<str>],
) -> Result<T> {
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    bench(guest, command, groups)
}

/// The same in the mode that is in effect.
pub(super) fn bench<T: for<'a> Deserialize<'a>>(
    guest: &mut Guest,
    command: &str,
    groups: &[impl AsRef<str>],
) -> Result<T> {
    let loaded = ensure_loaded(guest)?;
    wait_for_calm(guest)?;
    call(guest, "SetPreemption", "b true")?;
    let groups: Vec<_> = groups.iter().flat_map(|group| ["--group", group.as_ref()]).collect();
    let printed = guest.check(&format!("{command} --json {}", groups.join(" ")), LIMIT)?;
    ensure_undisturbed(guest, &loaded)?;
    serde_json::from_str(&printed).with_context(|| format!("scherzo-bench printed: {printed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(cpus: f64, share: f64) -> GroupFigures {
        GroupFigures { name: "a".into(), cpus, share, longest_gap_ms: 0.0, longest_wake_ms: 0.0 }
    }

    #[test]
    fn a_failure_names_the_group_and_what_it_got() {
        let error = group(1.2, 1.0).ensure_share(0.1).unwrap_err().to_string();
        assert_eq!(error, "group \"a\" got 1.200 CPUs; its share is 1.000, give or take 0.100");
        assert!(group(0.8, 1.0).ensure_share(0.1).is_err());
    }

    #[test]
    fn shares_are_of_what_the_groups_got() {
        let mut groups = [group(0.95, 1.0), group(2.85, 3.0)];
        scale_shares(&mut groups, 0.9).unwrap();
        assert!(groups.iter().all(|group| group.ensure_share(0.001).is_ok()));
        let error = scale_shares(&mut [group(0.8, 1.0), group(2.7, 3.0)], 0.9).unwrap_err().to_string();
        assert_eq!(error, "the groups got 3.500 CPUs together, of 4.000");
    }

    #[test]
    fn small_shares_have_a_tolerance_of_their_own() {
        group(1.09, 1.0).ensure_share(0.1).unwrap();
        group(0.019, 0.01).ensure_share(0.05).unwrap();
        assert!(group(0.021, 0.01).ensure_share(0.05).is_err());
    }
}
