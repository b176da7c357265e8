//! From pages of the kernel's to scenarios.

use std::collections::HashMap;

use scherzo_host::{ThreadFacts, Topology};

use super::format::EventFormat;
use super::pages::{Happening, LeaveReason, Malformed, SwitchedTask, TaskName, TraceEvent, TraceLayout};
use super::scenario::{RecordedMachine, scenario};
use super::timeline::{RecordLimits, TaskStep, TaskTimeline};

const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";
const WAKING: &str = "name: sched_waking\nID: 375\nformat:\n\
    \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";
const FORK: &str = "name: sched_process_fork\nID: 366\nformat:\n\
    \tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
    \tfield:__data_loc char[] child_comm;\toffset:16;\tsize:4;\tsigned:0;\n\
    \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n";
const HARDIRQ: u8 = 0x08;
const ASLEEP: u64 = 1;
const PREEMPTED: u64 = 0x100;
const ZOMBIE: u64 = 0x20;

fn layout_of(switch: &str) -> Option<TraceLayout> {
    let [page, switch, waking, fork] = [PAGE, switch, WAKING, FORK].map(EventFormat::parse);
    TraceLayout::of(&page, &switch, &waking, &fork)
}

fn name(text: &[u8]) -> TaskName {
    let mut name = TaskName::default();
    name[..text.len()].copy_from_slice(text);
    name
}

fn task(pid: i32, text: &[u8], prio: i32) -> SwitchedTask {
    SwitchedTask { pid, name: name(text), prio }
}

/// A page as the kernel writes it.
struct PageWriter(Vec<u8>);

impl PageWriter {
    fn new(at_ns: u64) -> Self {
        Self([at_ns.to_ne_bytes(), [0; 8]].concat())
    }

    fn word(&mut self, word: u32) -> &mut Self {
        self.0.extend(word.to_ne_bytes());
        self
    }

    fn event(&mut self, delta_ns: u32, event: &[u8]) -> &mut Self {
        self.word((delta_ns << 5) | (event.len() as u32 / 4));
        self.0.extend(event);
        self
    }

    fn done(&self) -> Vec<u8> {
        const MISSED_EVENTS: u64 = 1 << 31;
        let mut page = self.0.clone();
        let length = page.len() as u64 - 16;
        page[8..16].copy_from_slice(&(length | MISSED_EVENTS).to_ne_bytes());
        page.resize(4096, 0xff);
        page
    }
}

fn common(kind: u16, flags: u8, pid: i32) -> Vec<u8> {
    [&kind.to_ne_bytes()[..], &[flags, 0], &pid.to_ne_bytes()].concat()
}

fn switch(from: SwitchedTask, state: u64, to: SwitchedTask) -> Vec<u8> {
    let task = |task: SwitchedTask| [&task.name[..], &task.pid.to_ne_bytes(), &task.prio.to_ne_bytes()].concat();
    [common(372, 0, from.pid), task(from), state.to_ne_bytes().to_vec(), task(to)].concat()
}

fn waking(current: i32, flags: u8, pid: i32) -> Vec<u8> {
    [&common(375, flags, current)[..], &[0; 16], &pid.to_ne_bytes(), &[0; 8]].concat()
}

fn fork(parent: i32, child: i32) -> Vec<u8> {
    [&common(366, 0, parent)[..], &[0; 4], &parent.to_ne_bytes(), &[0; 4], &child.to_ne_bytes()].concat()
}

fn read(page: &[u8]) -> Result<Vec<TraceEvent>, Malformed> {
    let mut events = Vec::new();
    layout_of(SWITCH).unwrap().read(3, page, &mut events)?;
    Ok(events)
}

#[test]
fn events_have_the_time_of_the_page_and_what_has_passed_since() {
    let mut page = PageWriter::new(1_000);
    page.event(5, &fork(10, 11)).event(7, &waking(10, 0, 11)).event(0, &waking(10, HARDIRQ, 11));
    // An extension of the time, an event of another kind, one that was discarded, one with its length beside it.
    page.word(0x1e | 3 << 5).word(2).event(1, &common(9, 0, 1)).word(0x1d | 1 << 5).word(12).word(0).word(0);
    page.word(2 << 5).word(4 + 36).0.extend(waking(0, 0, 12));
    // An absolute time, and the end of the page.
    page.word(0x1f | 9 << 5).word(1).event(1, &waking(12, 0, 13)).word(29).word(0);
    let event = |at_ns, what| TraceEvent { at_ns, cpu: 3, what };
    let woken = |at_ns, pid, waker| event(at_ns, Happening::Waking { pid, waker });
    assert_eq!(
        read(&page.done()).unwrap(),
        [
            event(1_005, Happening::Fork { parent: 10, child: 11 }),
            woken(1_012, 11, Some(10)),
            woken(1_012, 11, None),
            woken(1_012 + (2 << 27) + 3 + 1 + 2, 12, None),
            woken((1 << 27) + 9 + 1, 13, Some(12)),
        ]
    );
}

#[test]
fn names_are_bytes_like_any_others() {
    let names: [&[u8]; 5] = [b"a ==> b", b"x\nsched_switch:", b"next_pid=1", b"\xff\x00\"\\", b"123456789012345"];
    for text in names {
        let (from, to) = (task(7, text, 120), task(8, text, 99));
        for (state, leaves) in [
            (0, LeaveReason::Runnable),
            (PREEMPTED, LeaveReason::Runnable),
            (ASLEEP, LeaveReason::Asleep),
            (0x80, LeaveReason::Asleep),
            (ZOMBIE, LeaveReason::Dead),
        ] {
            let mut page = PageWriter::new(0);
            let found = read(&page.event(1, &switch(from, state, to)).done()).unwrap();
            assert_eq!(found[0].what, Happening::Switch { from, leaves, to });
        }
    }
}

#[test]
fn what_is_cut_off_or_changed_is_refused_or_read_but_never_more() {
    let mut page = PageWriter::new(u64::MAX - 10);
    page.event(1, &switch(task(7, b"a", 120), 0, task(8, b"b", 120))).event(2, &fork(8, 9)).word(0x1e | 1 << 5).word(9);
    let whole = page.done();
    assert_eq!(read(&whole).unwrap().len(), 2);
    let end = page.0.len();
    for length in 0..end {
        assert_eq!(read(&whole[..length]), Err(Malformed), "{length} bytes");
    }
    for place in 0..end {
        for value in [0, 1, 0x1d, 0x1f, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[place] = value;
            assert!(read(&changed).is_ok_and(|events| events.len() <= 4096) || read(&changed) == Err(Malformed));
        }
    }
    let mut short = PageWriter::new(0);
    assert_eq!(read(&short.event(1, &switch(task(7, b"a", 120), 0, task(8, b"b", 120))[..60]).done()), Err(Malformed));
}

#[test]
fn a_kernel_with_other_events_is_refused() {
    assert!(layout_of(SWITCH).is_some());
    for (from, to) in
        [("prev_state", "state"), ("comm[16];\toffset:40;\tsize:16", "comm[8];\toffset:40;\tsize:8"), ("ID:", "Id")]
    {
        assert!(layout_of(&SWITCH.replace(from, to)).is_none(), "{to}");
    }
}

const LIMITS: RecordLimits = RecordLimits { nr_tasks: 5, nr_steps: 30 };
const IDLE: SwitchedTask = SwitchedTask { pid: 0, name: [0; 16], prio: 120 };

/// Events at so many microseconds, on CPU 0.
fn timeline(events: &[(u64, Happening)]) -> TaskTimeline {
    let mut timeline = TaskTimeline::begin(0, LIMITS, [99]);
    for (at_us, what) in events {
        timeline.add(&TraceEvent { at_ns: at_us * 1_000, cpu: 0, what: *what });
    }
    timeline
}

fn goes(from: SwitchedTask, leaves: LeaveReason, to: SwitchedTask) -> Happening {
    Happening::Switch { from, leaves, to }
}

fn wakes(waker: i32, pid: i32) -> Happening {
    Happening::Waking { pid, waker: (waker != 0).then_some(waker) }
}

fn steps(timeline: &TaskTimeline) -> Vec<&[TaskStep]> {
    timeline.tasks.iter().map(|task| task.steps.as_slice()).collect()
}

use LeaveReason::{Asleep, Dead, Runnable};
use TaskStep::{Compute, Exit, Fork, RunUs, SleepUs, Wait, Wake};

/// Time in the run queue is neither work nor sleep.
#[test]
fn work_is_cpu_time_and_sleep_ends_with_the_wake_up() {
    let [a, b] = [task(1, b"a", 120), task(2, b"b", 125)];
    let mut timeline = timeline(&[
        (100, goes(a, Runnable, b)),
        (150, goes(b, Asleep, a)),
        (350, wakes(0, 2)),
        (400, goes(a, Runnable, b)),
        (410, goes(b, Runnable, a)),
        (500, goes(a, Asleep, b)),
        (530, goes(b, Asleep, IDLE)),
    ]);
    timeline.finish(1_000_000);
    assert_eq!(steps(&timeline), [&[RunUs(100 + 250 + 90)][..], &[RunUs(50), SleepUs(200), RunUs(40)]]);
    assert_eq!((timeline.tasks[1].prio, timeline.nr_switches), (125, 6));
}

#[test]
fn who_is_woken_by_a_task_waits_for_it() {
    let [client, server] = [task(1, b"client", 120), task(2, b"server", 120)];
    let timeline = timeline(&[
        (10, wakes(0, 1)),
        (20, goes(IDLE, Runnable, client)),
        (30, wakes(1, 2)),
        (35, goes(client, Asleep, server)),
        (45, wakes(2, 1)),
        (50, goes(server, Dead, client)),
        (60, goes(client, Asleep, IDLE)),
        (70, wakes(99, 1)),
    ]);
    assert_eq!(
        steps(&timeline),
        [
            &[SleepUs(10), RunUs(10), Wake(1), RunUs(5), Wait, RunUs(10), SleepUs(10)][..],
            &[Wait, RunUs(10), Wake(0), RunUs(5), Exit]
        ]
    );
}

#[test]
fn a_wake_up_before_the_switch_is_no_sleep() {
    let a = task(1, b"a", 120);
    let timeline = timeline(&[
        (10, wakes(0, 1)),
        (10, goes(IDLE, Runnable, a)),
        (20, wakes(7, 1)),
        (21, goes(a, Asleep, IDLE)),
        (25, goes(IDLE, Runnable, a)),
        (30, goes(a, Asleep, IDLE)),
        (50, goes(IDLE, Runnable, a)),
    ]);
    assert_eq!(timeline.tasks[0].steps, [SleepUs(10), RunUs(16), SleepUs(20)], "and a lost one ends when it runs");
}

#[test]
fn a_child_begins_with_its_parent_and_its_id_may_come_again() {
    let [parent, child] = [task(1, b"sh", 120), task(2, b"ls", 120)];
    let forks = |child| Happening::Fork { parent: 1, child };
    let timeline = timeline(&[
        (10, forks(2)),
        (20, goes(parent, Asleep, child)),
        (30, wakes(2, 1)),
        (31, goes(child, Dead, parent)),
        (40, forks(2)),
        (50, goes(parent, Dead, child)),
        (55, goes(child, Dead, IDLE)),
    ]);
    assert_eq!(
        steps(&timeline),
        [
            &[RunUs(10), Fork(1), RunUs(10), Wait, RunUs(9), Fork(2), RunUs(10), Exit][..],
            &[RunUs(10), Wake(0), RunUs(1), Exit],
            &[RunUs(5), Exit]
        ]
    );
    assert_eq!(timeline.tasks[1].name, child.name);
}

#[test]
fn who_computes_at_the_end_and_longer_than_ever_goes_on() {
    let [hog, napper] = [task(1, b"hog", 120), task(2, b"napper", 120)];
    let mut events =
        vec![(20_000, goes(napper, Asleep, hog)), (30_000, wakes(0, 2)), (50_000, goes(hog, Runnable, napper))];
    let mut before = timeline(&events);
    before.finish(65_000_000);
    assert_eq!(steps(&before), [&[RunUs(20_000), SleepUs(10_000), RunUs(15_000)][..], &[RunUs(30_000), Compute]]);
    events.push((75_000, goes(napper, Runnable, hog)));
    let mut longer = timeline(&events);
    longer.finish(76_000_000);
    assert_eq!(longer.tasks[0].steps.last(), Some(&Compute));
}

#[test]
fn no_more_is_kept_than_the_limits_say() {
    let mut events = Vec::new();
    for pid in 1..=7 {
        events.push((u64::try_from(pid).unwrap() * 10, wakes(0, pid)));
    }
    let many = timeline(&events);
    assert_eq!((many.tasks.len(), many.nr_left_out, many.is_full()), (5, 2, false));
    let a = task(1, b"a", 120);
    let turns = (0..31).flat_map(|turn| {
        [(turn * 10, wakes(0, 1)), (turn * 10 + 1, goes(IDLE, Runnable, a)), (turn * 10 + 5, goes(a, Asleep, IDLE))]
    });
    assert!(timeline(&turns.collect::<Vec<_>>()).is_full());
    let ignored = timeline(&[(1, goes(task(99, b"scherzoctl", 120), Asleep, IDLE)), (2, wakes(0, 99))]);
    assert_eq!((ignored.tasks.len(), ignored.nr_left_out), (0, 0));
}

fn facts(policy: u64, is_kernel: bool, cpus: &[usize]) -> ThreadFacts {
    ThreadFacts { policy, is_kernel, cpus: cpus.to_vec(), name: Vec::new() }
}

/// The simulator's tests read the same file.
#[test]
fn a_recording_is_a_scenario() {
    let [shell, child] = [task(1, b"sh", 120), task(2, b"a \"==>\"\n\xff\\'", 130)];
    let [kernel, sound] = [task(3, b"kworker/1:2", 100), task(4, b"sound", 50)];
    let mut timeline = timeline(&[
        (10, Happening::Fork { parent: 1, child: 2 }),
        (20, goes(shell, Asleep, child)),
        (1_000, wakes(2, 1)),
        (1_200, wakes(0, 3)),
        (1_500, goes(child, Dead, kernel)),
        (1_600, goes(kernel, Asleep, sound)),
        (2_000, goes(sound, Asleep, shell)),
    ]);
    timeline.finish(50_000_000);
    let machine = RecordedMachine {
        release: "6.18.15".to_owned(),
        scheduler: Some("scherzo_0.1\"".to_owned()),
        topology: Topology { llc_of_cpu: vec![Some(0), None, Some(0), Some(1)], nr_llcs: 2, slow_cpus: [3].into() },
        duration_ns: 50_000_000,
    };
    let facts =
        HashMap::from([(1, facts(3, false, &[0, 1, 2, 3])), (3, facts(0, true, &[2])), (4, facts(1, false, &[0]))]);
    let text = scenario(&machine, &timeline.tasks, &facts);
    assert_eq!(text, include_str!("../../../sim/tests/scenarios/recorded.toml"), "{text}");
}
