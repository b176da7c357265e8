//! The threads of a group, and what each of them gets.
//!
//! A group is a process of its own, so that it can stand in a control group. Each thread looks at the clock and at its own
//! CPU time every few microseconds of work: what passed without it running, though it did not sleep, is time for which it
//! waited. The process's first thread only waits for lines; it is told the window, and later asked for the figures.

use std::io::{self, BufRead, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

use crate::clock::{MeasuredTime, cpu_time_ns, now_ns, sleep_until};
use crate::groups::{LoadGroup, SchedPolicy, Sleep, Turn};
use crate::helper::{Helper, give_up};
use crate::hierarchy;
use crate::probe::become_prompt;
use crate::work::{Calibration, sip};

/// What a thread got within the window, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GotNs {
    pub(crate) used: u64,
    /// Longest time that it was runnable without running, also after a wake-up.
    pub(crate) longest_gap: u64,
    /// Longest time from the end of a sleep until it ran.
    pub(crate) longest_wake: u64,
}

/// Which group, and how fast this machine is.
#[derive(Args, Clone, Debug)]
pub(crate) struct MemberOptions {
    /// The group
    #[arg(long)]
    group: LoadGroup,
    /// CPUs of the machine
    #[arg(long)]
    nr_cpus: usize,
    /// Loop iterations per µs
    #[arg(long)]
    calibration: Calibration,
}

/// The measuring process's end of a group.
pub(crate) struct Members(Helper);

impl Members {
    /// Starts the threads.
    pub(crate) fn start(group: &LoadGroup, nr_cpus: usize, calibration: Calibration) -> Result<Self> {
        let arguments = [
            "members",
            "--group",
            &group.to_string(),
            "--nr-cpus",
            &nr_cpus.to_string(),
            "--calibration",
            &calibration.to_string(),
        ];
        let mut helper = Helper::start(&format!("the group \"{}\"", group.name), &arguments.map(str::to_owned))?;
        helper.listen()?;
        Ok(Self(helper))
    }

    /// Says when to measure.
    pub(crate) fn announce(&mut self, window: MeasuredTime) -> Result<()> {
        self.0.tell(&format!("{} {}", window.begin_ns, window.end_ns))
    }

    /// What each thread got, after the end of the window.
    pub(crate) fn got(&mut self) -> Result<Vec<GotNs>> {
        Ok(serde_json::from_str(&self.0.ask("")?)?)
    }

    /// Ends them.
    pub(crate) fn stop(self) -> Result<()> {
        self.0.stop().map(drop)
    }
}

/// The group's own main function.
pub(crate) fn serve(options: &MemberOptions) -> Result<()> {
    if let Some(cgroup) = &options.group.cgroup {
        hierarchy::enter(cgroup)?;
    }
    become_prompt(false)?;
    let window = Arc::new(SharedWindow::default());
    let members = start_threads(options, &window)?;
    println!("ready");
    let mut lines = io::stdin().lock().lines();
    if let Some(line) = lines.next() {
        let line = line?;
        window.set(parse_window(&line).with_context(|| format!("{line:?} is no window"))?);
    }
    for line in lines {
        line?;
        let got: Vec<_> = members.iter().map(|member| member.got(window.get())).collect();
        writeln!(io::stdout(), "{}", serde_json::to_string(&got)?)?;
    }
    Ok(())
}

fn parse_window(line: &str) -> Option<MeasuredTime> {
    let (begin, end) = line.split_once(' ')?;
    Some(MeasuredTime { begin_ns: begin.parse().ok()?, end_ns: end.parse().ok()? })
}

fn start_threads(options: &MemberOptions, window: &Arc<SharedWindow>) -> Result<Vec<Arc<SharedMember>>> {
    let nr_threads = options.group.count.threads(options.nr_cpus);
    let start_thread = |partner: Option<Partner>| {
        let member = Arc::new(SharedMember::starting_now());
        let (options, window, theirs) = (options.clone(), Arc::clone(window), Arc::clone(&member));
        thread::Builder::new().name("member".into()).spawn(move || {
            let MemberOptions { group, calibration, .. } = options;
            place(&group).unwrap_or_else(|error| give_up(&format!("{error:#}")));
            run(&mut ThreadClock::new(&theirs, &window), group.turn, partner, calibration);
        })?;
        Ok(member)
    };
    partners(options.group.turn, nr_threads)?.into_iter().map(start_thread).collect()
}

/// The end of a thread of what it and its partner wake each other by.
struct Partner {
    from: PipeReader,
    to: PipeWriter,
    works_first: bool,
}

/// For each of so many threads.
fn partners(turn: Option<Turn>, nr_threads: usize) -> Result<Vec<Option<Partner>>> {
    if turn.is_none_or(|turn| turn.sleep != Sleep::Partner) {
        return Ok((0..nr_threads).map(|_| None).collect());
    }
    ensure!(nr_threads.is_multiple_of(2), "of {nr_threads} threads one has no partner");
    let mut ends = Vec::new();
    for _ in 0..nr_threads / 2 {
        let ((to_first, from_second), (to_second, from_first)) = (io::pipe()?, io::pipe()?);
        ends.push(Some(Partner { from: to_first, to: from_first, works_first: true }));
        ends.push(Some(Partner { from: to_second, to: from_second, works_first: false }));
    }
    Ok(ends)
}

/// Gives this thread the group's policy, nice level and CPU.
fn place(group: &LoadGroup) -> Result<()> {
    let policy = match group.policy {
        SchedPolicy::Normal => None,
        SchedPolicy::Batch => Some(NormalThreadSchedulePolicy::Batch),
        SchedPolicy::Idle => Some(NormalThreadSchedulePolicy::Idle),
    };
    if let Some(policy) = policy {
        let policy = ThreadSchedulePolicy::Normal(policy);
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy)
            .map_err(|error| anyhow!("the policy was refused: {error:?}"))?;
    }
    rustix::process::setpriority_process(None, group.nice).context("the nice level was refused")?;
    if let Some(cpu) = group.pin {
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        rustix::thread::sched_setaffinity(None, &cpus).with_context(|| format!("CPU {cpu}"))?;
    }
    Ok(())
}

fn run(watch: &mut ThreadClock<'_>, turn: Option<Turn>, mut partner: Option<Partner>, calibration: Calibration) -> ! {
    if let Some(partner) = partner.as_mut().filter(|partner| !partner.works_first) {
        watch.sleep_until_woken(partner);
    }
    loop {
        let work_ns = turn.map_or(u64::MAX / 2, |turn| turn.work_ns);
        let end_ns = watch.used_ns + work_ns;
        while let left_ns @ 1.. = end_ns.saturating_sub(watch.used_ns) {
            sip(left_ns, calibration);
            watch.look();
        }
        match (turn.map(|turn| turn.sleep), &mut partner) {
            (Some(Sleep::Time(sleep_ns)), _) => watch.sleep(sleep_ns),
            (_, Some(partner)) => {
                partner.to.write_all(&[0]).unwrap_or_else(|error| give_up(&format!("a partner is gone: {error}")));
                watch.sleep_until_woken(partner);
            }
            _ => {}
        }
    }
}

/// The window, once it is known.
struct SharedWindow {
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
}

impl Default for SharedWindow {
    /// Never.
    fn default() -> Self {
        Self { begin_ns: AtomicU64::new(u64::MAX), end_ns: AtomicU64::new(u64::MAX) }
    }
}

impl SharedWindow {
    fn set(&self, window: MeasuredTime) {
        self.end_ns.store(window.end_ns, Relaxed);
        self.begin_ns.store(window.begin_ns, Relaxed);
    }

    fn get(&self) -> MeasuredTime {
        MeasuredTime { begin_ns: self.begin_ns.load(Relaxed), end_ns: self.end_ns.load(Relaxed) }
    }
}

/// What a thread lets others know. Only the thread itself writes.
#[derive(Debug, Default)]
struct SharedMember {
    used_ns: AtomicU64,
    longest_gap_ns: AtomicU64,
    longest_wake_ns: AtomicU64,
    /// Since then it has been runnable and has not run, as far as is known.
    waiting_since_ns: AtomicU64,
    /// Whether it waits after a sleep.
    is_waking: AtomicBool,
}

impl SharedMember {
    fn starting_now() -> Self {
        Self { waiting_since_ns: AtomicU64::new(now_ns()), ..Self::default() }
    }

    fn note_gap(&self, gap_ns: u64, is_waking: bool) {
        self.longest_gap_ns.fetch_max(gap_ns, Relaxed);
        if is_waking {
            self.longest_wake_ns.fetch_max(gap_ns, Relaxed);
        }
    }

    /// By the end of the window, for which it may be waiting still.
    fn got(&self, window: MeasuredTime) -> GotNs {
        self.note_gap(passed_ns(self.waiting_since_ns.load(Relaxed), u64::MAX, window), self.is_waking.load(Relaxed));
        GotNs {
            used: self.used_ns.load(Relaxed),
            longest_gap: self.longest_gap_ns.load(Relaxed),
            longest_wake: self.longest_wake_ns.load(Relaxed),
        }
    }
}

/// A thread's eye on its own clocks.
struct ThreadClock<'a> {
    member: &'a SharedMember,
    window: &'a SharedWindow,
    at_ns: u64,
    used_ns: u64,
}

impl<'a> ThreadClock<'a> {
    fn new(member: &'a SharedMember, window: &'a SharedWindow) -> Self {
        Self { member, window, at_ns: now_ns(), used_ns: cpu_time_ns() }
    }

    /// Accounts for what passed since it looked last, none of it asleep.
    fn look(&mut self) {
        let from_ns = self.at_ns;
        let ran_ns = self.note_used();
        self.member.note_gap(passed_ns(from_ns, self.at_ns, self.window.get()).saturating_sub(ran_ns), false);
    }

    fn sleep(&mut self, sleep_ns: u64) {
        let wake_ns = now_ns() + sleep_ns;
        self.member.waiting_since_ns.store(wake_ns, Relaxed);
        self.member.is_waking.store(true, Relaxed);
        sleep_until(wake_ns);
        // Falling asleep and waking up take CPU time as well.
        self.note_used();
        self.member.is_waking.store(false, Relaxed);
        self.member.note_gap(passed_ns(wake_ns, self.at_ns, self.window.get()), true);
    }

    /// How long it waits after that for a CPU is not known.
    fn sleep_until_woken(&mut self, partner: &mut Partner) {
        self.note_used();
        self.member.waiting_since_ns.store(u64::MAX, Relaxed);
        let mut message = [0];
        partner.from.read_exact(&mut message).unwrap_or_else(|error| give_up(&format!("a partner is gone: {error}")));
        self.note_used();
    }

    /// Looks at both clocks; the CPU time since then that lies in the window.
    fn note_used(&mut self) -> u64 {
        let (at_ns, used_ns) = (now_ns(), cpu_time_ns());
        let ran_ns = (used_ns - self.used_ns).min(passed_ns(self.at_ns, at_ns, self.window.get()));
        self.member.used_ns.fetch_add(ran_ns, Relaxed);
        self.member.waiting_since_ns.store(at_ns, Relaxed);
        (self.at_ns, self.used_ns) = (at_ns, used_ns);
        ran_ns
    }
}

/// How much of the window lies between two times.
fn passed_ns(from_ns: u64, to_ns: u64, window: MeasuredTime) -> u64 {
    to_ns.min(window.end_ns).saturating_sub(from_ns.max(window.begin_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: MeasuredTime = MeasuredTime { begin_ns: 1_000, end_ns: 5_000 };

    #[test]
    fn only_what_lies_in_the_window_counts() {
        assert_eq!(passed_ns(2_000, 3_000, WINDOW), 1_000);
        assert_eq!(passed_ns(0, 3_000, WINDOW), 2_000);
        assert_eq!(passed_ns(4_000, u64::MAX, WINDOW), 1_000);
        assert_eq!(passed_ns(0, 900, WINDOW), 0);
        assert_eq!(passed_ns(6_000, 7_000, WINDOW), 0);
        assert_eq!(passed_ns(0, 7_000, SharedWindow::default().get()), 0);
    }

    #[test]
    fn who_still_waits_has_waited_until_the_end() {
        let member = SharedMember { waiting_since_ns: AtomicU64::new(2_000), ..SharedMember::default() };
        assert_eq!(member.got(WINDOW), GotNs { used: 0, longest_gap: 3_000, longest_wake: 0 });
        member.is_waking.store(true, Relaxed);
        assert_eq!(member.got(WINDOW).longest_wake, 3_000);
    }

    #[test]
    fn work_is_used_time_and_sleep_is_no_gap() {
        let window = SharedWindow::default();
        window.set(MeasuredTime { begin_ns: now_ns(), end_ns: u64::MAX });
        let member = SharedMember::starting_now();
        let mut watch = ThreadClock::new(&member, &window);
        let end_ns = watch.used_ns + 2_000_000;
        while watch.used_ns < end_ns {
            sip(end_ns, "1000".parse().unwrap());
            watch.look();
        }
        watch.sleep(500_000_000);
        let got = member.got(MeasuredTime { begin_ns: 0, end_ns: now_ns() });
        assert!(got.used >= 1_900_000, "{got:?}");
        assert!(got.longest_wake <= got.longest_gap && got.longest_gap < 500_000_000, "{got:?}");
    }

    #[test]
    fn windows_are_read() {
        let window = parse_window("17 25").unwrap();
        assert_eq!((window.begin_ns, window.end_ns), (17, 25));
        assert!(parse_window("17").is_none());
    }
}
