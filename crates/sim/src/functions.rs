//! Tests of single BPF functions, over a machine where nothing runs.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

use crate::abi::{CpuMask, TaskStruct};
use crate::machine::Machine;
use crate::profile::{CoreSpec, Costs, Profile, TopologySpec};
use crate::run::lock_scheduler;
use crate::scenario::SchedPolicySpec;
use crate::task::{Identity, TaskClass};

const MS: u64 = 1_000_000;

mod native {
    use crate::abi::TaskStruct;

    #[allow(unsafe_code)]
    // SAFETY: the functions of glue.c have these signatures. They are called with a task that is alive, and CPUs and slots that there are,
    // while a machine is lent out.
    unsafe extern "C" {
        pub(super) safe fn sim_is_low_power(cpu: i32) -> bool;
        pub(super) safe fn sim_publish_victim(cpu: i32, deadline_ns: u64);
        pub(super) safe fn sim_retract_victim(cpu: i32);
        pub(super) safe fn sim_preempt_cpu(p: *mut TaskStruct, prev_cpu: i32) -> i32;
        pub(super) safe fn sim_find_idle_by_kind(p: *mut TaskStruct, prev_cpu: i32, whole_cores: bool) -> i32;
        pub(super) safe fn sim_ours_left(cpu: i32, now: u64);
        pub(super) safe fn sim_ours_returned(cpu: i32, now: u64);
        pub(super) safe fn sim_busy_with_higher_class(cpu: i32, now: u64) -> bool;
        pub(super) safe fn sim_higher_class_ns(cpu: i32, now: u64) -> u64;
        pub(super) safe fn sim_hand_over(slot: u32, generation: u64);
        pub(super) safe fn sim_reclaim(slot: u32, generation: u64) -> bool;
        pub(super) safe fn sim_is_marked_in_flight(slot: u32) -> bool;
        pub(super) safe fn sim_deadline(now: u64, mean_burst_ns: u64, weight: u32) -> u64;
        pub(super) safe fn sim_use_level(early_ran_ns: u64, ran_ns: u64, passed_ns: u64) -> u32;
        pub(super) safe fn sim_group_earns_percent(nr_own: u64, nr_prompt: u64, nr_owed: u64) -> u64;
        pub(super) safe fn sim_is_light(ran_ns: u64, all_weight: i64, nr_cpus: u64, nr_ms: u64) -> bool;
        pub(super) safe fn sim_uses_little(
            ran_ns: u64,
            all_weight: i64,
            nr_cpus: u64,
            nr_ms: u64,
            mean_burst_ns: u64,
        ) -> bool;
        pub(super) safe fn sim_light_level(ran_ns: u64, passed_ns: u64) -> u32;
        pub(super) safe fn sim_is_one_of_light(level: u64) -> bool;
        pub(super) safe fn sim_lead_limit(lead_ns: i64, most_ns: i64, least_ns: i64) -> i64;
        pub(super) safe fn sim_lead_forgotten(lead_ns: i64, run_ns: u64) -> i64;
        pub(super) safe fn sim_burst_kind(mean_burst_ns: u64) -> u32;
        pub(super) safe fn sim_little_is_much(ran_ns: u64, passed_ns: u64, nr_cpus: u64) -> bool;
        pub(super) safe fn sim_deadline_of_use(now: u64, level: u32) -> u64;
        pub(super) safe fn sim_credit_after(credit_ns: i64, slept_ns: u64, ran_ns: u64) -> i64;
        pub(super) safe fn sim_is_within_share(
            ran_ns: u64,
            slept_ns: u64,
            weight: u32,
            others: u64,
            nr_cpus: u64,
        ) -> bool;
        pub(super) safe fn sim_ahead_in_place_of(ahead_ns: u64, weight: u32, of_weight: u32) -> u64;
        pub(super) safe fn sim_has_run_longer(
            ran_ns: u64,
            running_weight: u32,
            last_burst_ns: u64,
            weight: u32,
        ) -> bool;
    }
}

use native::*;

/// A machine with the scheduler attached, and one task that sleeps.
struct QuietMachine {
    machine: Machine,
    _lock: MutexGuard<'static, ()>,
}

impl QuietMachine {
    fn new(topology: TopologySpec, mask: CpuMask) -> Self {
        let lock = lock_scheduler();
        let profile = Profile::of("6.18").expect("a kernel");
        let mut machine = Machine::new(profile, topology, Costs::default(), 1, 0);
        machine.attach();
        let identity = Identity {
            name: "task".to_owned(),
            flags: 0,
            nice: 0,
            slice_ns: None,
            policy: SchedPolicySpec::Normal,
            class: TaskClass::Ext,
            mask,
            tgid: 2,
            task_group: std::ptr::null_mut(),
            cgroups: std::ptr::null_mut(),
        };
        machine.create(0, 0, &identity);
        Self { machine, _lock: lock }
    }

    /// Cores that are alike, in two caches.
    fn even(nr_cpus: usize) -> Self {
        Self::new(TopologySpec::new(nr_cpus, 2, 1, 1), CpuMask::of(0..nr_cpus))
    }

    /// Two fast cores with CPUs 0, 1 and 4, 5, and two slow ones with CPUs 2 and 3.
    fn hybrid() -> Self {
        let fast = CoreSpec { nr_cores: 2, nr_threads: 2, llc: 0, node: 0, slow: false };
        let topology = TopologySpec::of(&[fast, CoreSpec { nr_threads: 1, llc: 1, slow: true, ..fast }]);
        Self::new(topology, CpuMask::of(0..6))
    }

    fn call<R>(&mut self, f: impl FnOnce(*mut TaskStruct) -> R) -> R {
        let task = self.machine.tasks[0].raw();
        self.machine.bpf(0, |_| f(task))
    }

    /// Has only these CPUs idle, as the kernel and the scheduler know them.
    fn idle_are(&mut self, idle: &[usize]) {
        for cpu in 0..self.machine.cpus.len() {
            let topology = self.machine.topology.clone();
            self.machine.idle.update(&topology, cpu, idle.contains(&cpu));
            let update_idle = self.machine.bpf(0, |ops| ops.update_idle).expect("the scheduler has it");
            #[allow(unsafe_code)]
            // SAFETY: the CPU is there, and the machine is lent out.
            self.machine.bpf(cpu, |_| unsafe { update_idle(cpu as i32, idle.contains(&cpu)) });
        }
    }
}

#[test]
fn low_power_keeps_a_quarter_awake_and_slow_cores_first() {
    let awake = |mut quiet: QuietMachine| -> Vec<i32> {
        let nr = quiet.machine.cpus.len() as i32;
        (0..nr).filter(|cpu| quiet.call(|_| sim_is_low_power(*cpu))).collect()
    };
    assert_eq!(awake(QuietMachine::even(8)), [0, 1]);
    assert_eq!(awake(QuietMachine::even(3)), [0], "at least one");
    assert_eq!(awake(QuietMachine::hybrid()), [2], "a slow one");
}

#[test]
fn the_latest_deadline_gives_way() {
    let mut quiet = QuietMachine::even(8);
    for (cpu, deadline_ns) in [(1, 50), (2, 90), (3, 70), (5, 99)] {
        quiet.call(|_| sim_publish_victim(cpu, deadline_ns));
    }
    let mut taken = |prev| quiet.call(|p| sim_preempt_cpu(p, prev));
    assert_eq!(taken(1), 1, "where the task was its cache is warm");
    assert_eq!([taken(0), taken(0), taken(0)], [2, 3, -1], "the latest of its own cache, each once");
    assert_eq!(taken(4), 5, "in the other cache");
    quiet.call(|_| sim_publish_victim(2, 40));
    quiet.call(|_| sim_retract_victim(2));
    assert_eq!(quiet.call(|p| sim_preempt_cpu(p, 0)), -1, "it runs something else");
}

#[test]
fn only_a_cpu_that_the_task_may_use_gives_way() {
    let mut quiet = QuietMachine::new(TopologySpec::new(4, 1, 1, 1), CpuMask::of([0, 3]));
    for cpu in 1..4 {
        quiet.call(|_| sim_publish_victim(cpu, 100 - cpu as u64));
    }
    assert_eq!([1, 1].map(|prev| quiet.call(|p| sim_preempt_cpu(p, prev))), [3, -1]);
}

#[test]
fn fast_cores_give_way_before_slow_ones() {
    let mut quiet = QuietMachine::hybrid();
    quiet.call(|_| sim_publish_victim(2, 1_000));
    quiet.call(|_| sim_publish_victim(1, 10));
    assert_eq!([2, 2, 2].map(|prev| quiet.call(|p| sim_preempt_cpu(p, prev))), [1, 2, -1]);
}

#[test]
fn idle_cores_are_taken_in_the_order_of_what_they_give() {
    let mut quiet = QuietMachine::hybrid();
    let mut found = |idle: &[usize], whole_cores| {
        quiet.idle_are(idle);
        quiet.call(|p| sim_find_idle_by_kind(p, 2, whole_cores))
    };
    assert_eq!(found(&[1, 2, 3, 5], true), 5, "a whole fast core");
    assert_eq!(found(&[1, 2, 3], true), 2, "a slow core gives more than the second thread of a fast one");
    assert_eq!(found(&[1, 2, 3], false), 1, "but for whom does not ask for whole cores");
    assert_eq!(found(&[1], true), 1, "no CPU stays idle because of its kind");
    assert!(found(&[], true) < 0);
}

#[test]
fn the_time_of_a_higher_class_is_what_a_switch_does_not_explain() {
    let mut quiet = QuietMachine::even(2);
    let begin = quiet.machine.now;
    quiet.call(|_| sim_ours_left(1, begin));
    let busy = [10_000, 60_000].map(|ns| quiet.call(|_| sim_busy_with_higher_class(1, begin + ns)));
    assert_eq!(busy, [false, true]);
    assert_eq!(quiet.call(|_| sim_higher_class_ns(1, begin + 3 * MS)), 3 * MS, "the one that lasts counts");
    quiet.call(|_| sim_ours_returned(1, begin + 4 * MS));
    quiet.call(|_| sim_ours_left(1, begin + 9 * MS));
    quiet.call(|_| sim_ours_returned(1, begin + 9 * MS + 20_000));
    assert_eq!(quiet.call(|_| sim_higher_class_ns(1, begin + 20 * MS)), 4 * MS, "a switch does not");
    assert!(!quiet.call(|_| sim_busy_with_higher_class(1, begin + 20 * MS)));
}

#[test]
fn a_task_is_taken_back_once() {
    let mut quiet = QuietMachine::even(2);
    quiet.call(|_| sim_hand_over(70, 5));
    assert!(quiet.call(|_| sim_is_marked_in_flight(70)) && !quiet.call(|_| sim_is_marked_in_flight(6)));
    assert_eq!(quiet.machine.control().nr_in_flight.load(Relaxed), 1);
    assert!(!quiet.call(|_| sim_reclaim(70, 4)), "an answer to what was asked before");
    assert_eq!([5, 5].map(|generation| quiet.call(|_| sim_reclaim(70, generation))), [true, false]);
    assert!(!quiet.call(|_| sim_is_marked_in_flight(70)));
    assert_eq!(quiet.machine.control().nr_in_flight.load(Relaxed), 0);
}

#[test]
fn the_shorter_and_the_heavier_are_due_sooner() {
    let due_ms = |burst_ms: u64, weight| sim_deadline(5 * MS, burst_ms * MS, weight) / MS;
    assert_eq!(due_ms(2, 1024), 7);
    assert_eq!(due_ms(100, 1024), 13, "8 ms of a burst count");
    assert_eq!(due_ms(8, 4096), 7);
    assert!(due_ms(2, 110) > 20, "the lighter is due later");
}

#[test]
fn who_uses_more_than_it_may_is_due_later() {
    let level = |early_ms: u64, ran_ms: u64| sim_use_level(early_ms * MS, ran_ms * MS, 10 * MS);
    assert_eq!([10, 11, 20, 21].map(|ran_ms| level(0, ran_ms)), [2, 1, 1, 0], "modest, moderate, heavy");
    assert_eq!([9, 11, 31].map(|early_ms| level(early_ms, 5)), [2, 1, 0], "half of what was before counts");
    let [heavy, moderate, modest, light] = [0, 1, 2, 3].map(|level| sim_deadline_of_use(1000 * MS, level));
    assert!(modest < moderate && moderate < heavy);
    assert_eq!(light, modest + 1, "the light are due with the modest, and marked");
    assert_eq!((heavy - moderate) / MS, 499, "half a second, but for the mark");
}

#[test]
fn a_group_earns_its_part_and_twice_its_share_at_most() {
    assert_eq!(sim_group_earns_percent(1, 0, 0), 103, "alone, and a thirty-second more");
    assert_eq!(sim_group_earns_percent(1, 3, 0), 25, "beside prompt tasks only");
    assert_eq!(sim_group_earns_percent(1, 0, 7), 25, "twice an eighth");
    assert_eq!(sim_group_earns_percent(1, 3, 1), 25, "its part of the prompt time is less than twice its share");
    assert_eq!(sim_group_earns_percent(10, 990, 0), 1, "beside thousands nothing is lost to rounding");
    assert_eq!(sim_group_earns_percent(2, 0, 1), 103, "twice its share is more than there is");
}

#[test]
fn who_uses_less_than_its_share_is_light() {
    let nice_0 = 1024_i64 << 10;
    let is_light = |ran_ms: u64, nr_tasks: i64| sim_is_light(ran_ms * MS, nr_tasks * nice_0, 4, 100);
    assert!(is_light(37, 8) && !is_light(38, 8), "three quarters of 50 ms");
    assert!(is_light(300, 1), "alone on four CPUs");
    assert!(sim_is_light(0, 0, 4, 100) && !sim_is_light(1, 0, 4, 100), "where nothing is runnable no time passes");
}

/// By quarters of what a light task may have had, three quarters of what has passed.
#[test]
fn light_tasks_are_of_four_kinds() {
    assert_eq!(
        [1_200, 901, 900, 601, 600, 301, 300, 0].map(|ran_ns| sim_light_level(ran_ns, 1_600)),
        [3, 3, 4, 4, 5, 5, 6, 6]
    );
    let light: Vec<u64> = (0..8).filter(|level| sim_is_one_of_light(*level)).collect();
    assert_eq!(light, [3, 4, 5, 6]);
}

#[test]
fn a_lead_stays_within_its_limits_and_is_forgotten() {
    let (most_ns, least_ns) = (300, 100);
    assert_eq!(
        [301, 5_000, -101, -5_000].map(|lead_ns| sim_lead_limit(lead_ns, most_ns, least_ns)),
        [300, 300, -100, -100]
    );
    assert_eq!([100, 10, 5, -7].map(|lead_ns| sim_lead_forgotten(lead_ns, 20)), [95, 5, 0, 0]);
}

#[test]
fn bursts_are_told_apart_by_how_brief_they_are() {
    let kind = |burst_us: u64| sim_burst_kind(burst_us * 1000);
    assert_eq!([0, 62, 63, 124, 125, 999, 1_000, 3_999, 4_000, 1_000_000].map(kind), [0, 0, 1, 1, 2, 4, 5, 6, 7, 7]);
}

#[test]
fn who_uses_a_quarter_of_its_share_goes_first_while_all_of_them_take_an_eighth() {
    let uses_little =
        |ran_us: u64, burst_ms: u64| sim_uses_little(ran_us * 1000, 8 * (1024 << 10), 4, 100, burst_ms * MS);
    assert!(uses_little(12_400, 1) && !uses_little(12_600, 1), "a quarter of 50 ms");
    assert!(uses_little(12_400, 7) && !uses_little(12_400, 8), "it only had to wait");
    let is_much = |ran_ms: u64| sim_little_is_much(ran_ms * MS, 64 * MS, 4);
    assert!(!is_much(32) && is_much(33), "an eighth of 64 ms on four CPUs");
    assert!(!sim_little_is_much(0, 0, 4), "nothing has passed");
}

/// The most credit with which the task wakes up, in milliseconds, after it has run for a second.
fn most_credit_ms(slept_us: u64, ran_us: u64, nr_bursts: usize) -> i64 {
    let mut credit_ns = sim_credit_after(0, 0, 1000 * MS);
    let credits = (0..nr_bursts).map(|_| {
        credit_ns = sim_credit_after(credit_ns, slept_us * 1000, ran_us * 1000);
        credit_ns + ran_us as i64 * 1000
    });
    credits.max().unwrap_or(0) / MS as i64
}

#[test]
fn who_sleeps_for_less_than_a_third_has_no_credit() {
    for (slept_us, ran_us) in [(1_400, 3_000), (4_600, 12_000), (12_500, 30_000), (29_500, 60_000)] {
        let credit_ms = most_credit_ms(slept_us, ran_us, 1000);
        assert!(credit_ms < 8, "{credit_ms} ms with {ran_us} us of work");
    }
}

#[test]
fn what_was_owed_is_soon_slept_off() {
    assert!(most_credit_ms(8_667, 8_000, 8) >= 8, "frames of 8 ms, for an eighth of a second");
    assert!(most_credit_ms(34_000, 8_000, 1) >= 8, "one sleep");
    assert_eq!(most_credit_ms(1_000_000, 8_000, 1), 100, "a longer one");
    assert_eq!(sim_credit_after(100 * MS as i64, 0, 40 * MS), 60 * MS as i64);
}

#[test]
fn who_uses_less_than_its_share_of_the_cpus_is_within_it() {
    let is_within = |ran_ms: u64, slept_ms: u64, weight, others: u64| {
        sim_is_within_share(ran_ms * MS, slept_ms * MS, weight, others, 4)
    };
    assert!(is_within(79, 21, 1024, 4) && !is_within(81, 19, 1024, 4), "a fifth of four CPUs is 80 %");
    assert!(is_within(100, 0, 1024, 3), "a whole CPU, which is all that a task can use");
    assert!(is_within(12, 4, 4096, 8) && !is_within(12, 4, 1024, 8), "a share by weight");
}

#[test]
fn who_takes_the_place_of_another_waits_no_longer_for_that() {
    assert_eq!(sim_ahead_in_place_of(10 * MS, 1024, 1024), 10 * MS);
    assert_eq!(sim_ahead_in_place_of(683 * MS, 1024, 15), 683 * MS * 15 / 1024, "of one of nice 19 that ran for 10 ms");
    assert_eq!(sim_ahead_in_place_of(10 * MS, 15, 1024), 10 * MS, "nor any shorter");
    assert_eq!(sim_ahead_in_place_of(u64::MAX, 88_761, 88_760), 10_000 * MS * 88_760 / 88_761, "without overflow");
}

#[test]
fn the_longer_burst_gives_way_each_by_its_weight() {
    let gives_way = |ran_ms: u64, running_weight, burst_ms: u64, weight| {
        sim_has_run_longer(ran_ms * MS, running_weight, burst_ms * MS, weight)
    };
    assert!(gives_way(7, 1024, 6, 1024) && !gives_way(5, 1024, 6, 1024));
    assert!(!gives_way(20, 4096, 6, 1024), "a heavy one runs four times as long");
    assert!(gives_way(4, 1024, 12, 4096), "and waits for a quarter");
}
