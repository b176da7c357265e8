//! What every policy in the registry must do, whatever order it chooses.

use alloc::collections::BTreeSet;

use crate::{
    Construction, Limits, POLICIES, Pid, Policy, PolicySettings, PolicyVisitor, QueuedTask, SlotId, TaskFlags,
    with_policy,
};

const NR_SLOTS: u32 = 64;
const MAX_SLICE_NS: u64 = 1_000_000_000;

fn task(slot: u32, now_ns: u64) -> QueuedTask {
    QueuedTask {
        slot: SlotId(slot),
        pid: Pid(slot + 1),
        now_ns,
        weight: 100,
        flags: TaskFlags::from_bits(0x1),
        ..QueuedTask::default()
    }
}

/// Runs a check against every policy.
fn for_each_policy(check: fn(&mut dyn Policy, &str)) {
    struct Check(fn(&mut dyn Policy, &str), &'static str);
    impl PolicyVisitor for Check {
        type Output = ();
        fn visit<P: Policy + 'static>(self, mut policy: P) {
            (self.0)(&mut policy, self.1);
        }
    }
    let limits = Limits { nr_slots: NR_SLOTS, pool_capacity: NR_SLOTS };
    for (id, name) in POLICIES.iter().enumerate() {
        let with = Construction { limits, settings: PolicySettings::default(), nr_cpus: 4 };
        with_policy(id, with, Check(check, name)).unwrap();
    }
    assert!(
        with_policy(
            POLICIES.len(),
            Construction { limits, settings: PolicySettings::default(), nr_cpus: 4 },
            Check(check, "")
        )
        .is_none()
    );
}

#[test]
fn every_task_is_decided_exactly_once() {
    for_each_policy(|policy, name| {
        for slot in 0..NR_SLOTS {
            policy.enqueue(&task(slot, 1_000_000 + u64::from(slot))).unwrap();
        }
        assert_eq!(policy.nr_pending(), NR_SLOTS as usize, "{name}");
        let mut decided = BTreeSet::new();
        while let Some(next) = policy.peek() {
            assert_eq!(policy.pop(), Some(next), "{name}: what is looked at comes next");
            assert!((1..=MAX_SLICE_NS).contains(&next.slice_ns), "{name}: a slice of {} ns", next.slice_ns);
            assert_eq!(next.pid, Pid(next.slot.0 + 1), "{name}");
            assert!(decided.insert(next.slot.0), "{name}: slot {} twice", next.slot.0);
        }
        assert_eq!((decided.len(), policy.nr_pending()), (NR_SLOTS as usize, 0), "{name}");
    });
}

#[test]
fn a_second_enqueue_replaces_the_first() {
    for_each_policy(|policy, name| {
        policy.enqueue(&task(3, 1_000)).unwrap();
        policy.enqueue(&task(3, 2_000)).unwrap();
        assert!(policy.pop().is_some() && policy.pop().is_none(), "{name}");
    });
}

#[test]
fn a_task_that_exits_is_not_decided_and_only_its_own_pid_counts() {
    for_each_policy(|policy, name| {
        policy.enqueue(&task(3, 1_000)).unwrap();
        policy.exit(SlotId(3), Pid(99));
        assert_eq!(policy.nr_pending(), 1, "{name}");
        policy.exit(SlotId(3), Pid(4));
        assert_eq!(policy.pop(), None, "{name}");
    });
}

#[test]
fn a_record_that_makes_no_sense_is_refused_and_counted() {
    for_each_policy(|policy, name| {
        assert!(policy.enqueue(&task(NR_SLOTS, 1_000)).is_err(), "{name}");
        assert_eq!((policy.pop(), policy.totals().nr_bad_records), (None, 1), "{name}");
    });
}
