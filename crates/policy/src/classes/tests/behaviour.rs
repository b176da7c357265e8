//! What the policy decides in one situation after another.

use super::*;

#[test]
fn interactive_goes_first_but_not_for_ever() {
    let mut policy = policy();
    policy.enqueue(&queued(0, 0)).unwrap();
    policy.enqueue(&woken(1, 10 * MS)).unwrap();
    policy.enqueue(&woken(2, 30 * MS)).unwrap();
    assert_eq!(slots(&drain(&mut policy)), [1, 0, 2]);
}

#[test]
fn without_boost_arrival_and_fairness_decide() {
    let mut policy = policy();
    policy.set_settings(PolicySettings { slice_boost_ns: 0, ..PolicySettings::default() });
    policy.enqueue(&queued(0, 0)).unwrap();
    policy.enqueue(&woken(1, 10 * MS)).unwrap();
    assert_eq!(slots(&drain(&mut policy)), [0, 1]);
}

#[test]
fn a_hog_that_begins_with_a_wake_up_does_not_stay_interactive() {
    let mut policy = policy();
    policy.enqueue(&woken(0, 0)).unwrap();
    assert_eq!(policy.pop().unwrap().class, Class::Interactive);
    let ran = QueuedTask { burst_ns: 5 * MS, sum_exec_ns: 5 * MS, ..queued(0, 5 * MS) };
    policy.enqueue(&ran).unwrap();
    assert_eq!(policy.pop().unwrap().class, Class::Batch);
    policy.enqueue(&woken(0, 10 * MS)).unwrap();
    assert_eq!(policy.pop().unwrap().class, Class::Batch);
}

/// Wakes 100 times, each time after so long a burst and as long a sleep; its class at the end.
fn class_of_sleeper(mode: Mode, burst_ms: u64) -> Class {
    let mut policy = policy();
    policy.set_settings(LoadSettings { mode, ..LoadSettings::default() }.into());
    for turn in 0..100 {
        policy
            .enqueue(&QueuedTask {
                burst_ns: burst_ms * MS,
                sum_exec_ns: turn * burst_ms * MS,
                nr_voluntary_switches: turn,
                ..woken(0, turn * 2 * burst_ms * MS)
            })
            .unwrap();
        policy.pop();
    }
    policy.classification(SlotId(0)).class
}

#[test]
fn who_computes_long_between_sleeps_packs_in_low_power() {
    assert_eq!(class_of_sleeper(Mode::Interactive, 4), Class::Interactive);
    assert_eq!(class_of_sleeper(Mode::LowPower, 4), Class::Batch);
    assert_eq!(class_of_sleeper(Mode::LowPower, 1), Class::Interactive);
}

#[test]
fn only_woken_interactive_tasks_preempt() {
    let mut policy = policy();
    let preempts = |policy: &mut Classes, queued: &QueuedTask| {
        policy.enqueue(queued).unwrap();
        policy.pop().unwrap().preempt
    };
    assert!(preempts(&mut policy, &woken(0, 0)));
    assert!(!preempts(&mut policy, &queued(0, 0)), "interactive, but its slice ended");
    assert!(!preempts(&mut policy, &queued(1, 0)), "batch");
    policy.set_settings(LoadSettings { mode: Mode::Fifo, ..LoadSettings::default() }.into());
    assert!(preempts(&mut policy, &woken(0, 0)), "in any mode");
    policy.set_settings(LoadSettings { preemption: false, ..LoadSettings::default() }.into());
    assert!(!preempts(&mut policy, &woken(0, 0)), "turned off");
}

#[test]
fn pinned_tasks_stay() {
    let mut policy = policy();
    let pinned = QueuedTask { cpu: CpuId(2), flags: TaskFlags::PINNED, ..queued(1, 1) };
    for queued in [pinned, queued(2, 2)] {
        policy.enqueue(&queued).unwrap();
    }
    let targets: Vec<Target> = drain(&mut policy).into_iter().map(|dispatched| dispatched.target).collect();
    assert_eq!(targets, [Target::Cpu(CpuId(2)), Target::Any]);
}

#[test]
fn fifo_is_arrival_order_with_one_slice() {
    let mut policy = policy();
    policy.set_settings(LoadSettings { mode: Mode::Fifo, ..LoadSettings::default() }.into());
    let crowd = Load { nr_running: NR_CPUS, nr_waiting: 100 };
    policy.enqueue(&QueuedTask { burst_ns: 50 * MS, load: crowd, ..queued(3, 7) }).unwrap();
    policy.enqueue(&QueuedTask { load: crowd, ..woken(1, 7) }).unwrap();
    policy.enqueue(&QueuedTask { load: crowd, ..queued(2, 8) }).unwrap();
    let tasks = drain(&mut policy);
    assert_eq!(slots(&tasks), [3, 1, 2]);
    for dispatched in tasks {
        assert_eq!((dispatched.order, dispatched.slice_ns), (Order::Fifo, 5 * MS));
    }
}

#[test]
fn tasks_that_wait_survive_a_change_of_mode_and_follow_it() {
    let mut policy = policy();
    policy.enqueue(&queued(0, 0)).unwrap();
    policy.set_settings(LoadSettings { mode: Mode::Fifo, ..LoadSettings::default() }.into());
    policy.enqueue(&queued(1, 1)).unwrap();
    assert_eq!(policy.pop().map(|dispatched| (dispatched.slot.0, dispatched.order)), Some((0, Order::Fifo)));
    policy.set_settings(LoadSettings { mode: Mode::LowPower, ..LoadSettings::default() }.into());
    assert_eq!(policy.pop().map(|dispatched| (dispatched.slot.0, dispatched.order)), Some((1, Order::Deadline)));
}

#[test]
fn interactive_uses_arrival_order_while_the_machine_is_under_used() {
    let mut policy = policy();
    assert_eq!(policy.order(), Order::Deadline);
    policy.refresh(&QueuedTask { load: Load { nr_running: 1, nr_waiting: 0 }, ..queued(0, 5) }).unwrap();
    assert_eq!((policy.order(), policy.totals().fifo_since_ns), (Order::Fifo, Some(5)));
    for settings in [
        LoadSettings { mode: Mode::LowPower, ..LoadSettings::default() }.into(),
        LoadSettings { auto_fifo: false, ..LoadSettings::default() }.into(),
    ] {
        policy.set_settings(settings);
        assert_eq!((policy.order(), policy.totals().fifo_since_ns), (Order::Deadline, None));
    }
    policy.set_settings(PolicySettings::default());
    policy.enqueue(&QueuedTask { load: Load { nr_running: NR_CPUS - 1, nr_waiting: 1 }, ..queued(0, 6) }).unwrap();
    assert_eq!(policy.pop().unwrap().order, Order::Deadline);
}

#[test]
fn what_does_not_fit_is_handed_straight_back_in_order_and_counted() {
    let mut policy = policy();
    for slot in 0..NR_SLOTS {
        policy.enqueue(&queued(slot, u64::from(slot))).unwrap();
        policy.verify_invariants();
    }
    assert_eq!(policy.totals().nr_overflow, u64::from(NR_SLOTS - CAPACITY));
    assert!(policy.exit(SlotId(13), Pid(1013)));
    assert!(policy.exit(SlotId(3), Pid(1003)));
    assert_eq!(slots(&drain(&mut policy)), [12, 14, 15, 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn a_slot_with_a_new_owner_starts_afresh() {
    let mut policy = policy();
    policy.enqueue(&woken(0, 0)).unwrap();
    policy.enqueue(&QueuedTask { pid: Pid(7), ..queued(0, 1) }).unwrap();
    assert!(!policy.exit(SlotId(0), Pid(1000)), "of the owner before");
    assert_eq!(policy.nr_pending(), 1);
    assert_eq!(policy.pop().map(|dispatched| (dispatched.pid, dispatched.class)), Some((Pid(7), Class::Batch)));
    assert!(policy.exit(SlotId(0), Pid(7)));
    assert_eq!(policy.classification(SlotId(0)), Classification::default());
}

#[test]
fn a_refresh_classifies_and_leaves_the_queue_alone() {
    let mut policy = policy();
    policy.enqueue(&queued(0, 0)).unwrap();
    policy.refresh(&woken(1, MS)).unwrap();
    assert_eq!(policy.classification(SlotId(1)).class, Class::Interactive);
    assert_eq!(policy.classification(SlotId(1)).classified_ns, MS);
    assert_eq!(slots(&drain(&mut policy)), [0]);
}

#[test]
fn records_that_name_no_task_are_counted() {
    let mut policy = policy();
    assert_eq!(policy.enqueue(&queued(NR_SLOTS, 0)), Err(BadRecord::Slot));
    assert_eq!(policy.refresh(&QueuedTask { pid: Pid(0), ..queued(0, 0) }), Err(BadRecord::Pid));
    assert!(!policy.exit(SlotId(u32::MAX), Pid(1)) && !policy.exit(SlotId(0), Pid(0)));
    assert_eq!((policy.totals().nr_bad_records, policy.nr_pending()), (2, 0));
    assert_eq!(policy.classification(SlotId(u32::MAX)), Classification::default());
}
