use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ids::{CpuId, Generation};
use crate::settings::LoadSettings;

const MS: u64 = 1_000_000;
const NR_SLOTS: u32 = 16;
const CAPACITY: u32 = 12;
const NR_CPUS: u32 = 4;
const BUSY: Load = Load { nr_running: NR_CPUS, nr_waiting: NR_CPUS };

fn policy() -> Scherzo {
    Scherzo::new(Limits { nr_slots: NR_SLOTS, pool_capacity: CAPACITY }, Settings::default(), NR_CPUS)
}

/// An enqueue of a forked task of ordinary weight on a busy machine.
fn facts(slot: u32, now_ns: u64) -> QueuedTask {
    QueuedTask {
        slot: SlotId(slot),
        pid: Pid(1000 + slot),
        now_ns,
        weight: 100,
        nr_cpus_allowed: NR_CPUS,
        load: BUSY,
        ..QueuedTask::default()
    }
}

fn woken(slot: u32, now_ns: u64) -> QueuedTask {
    QueuedTask { flags: TaskFlags::WAKEUP, ..facts(slot, now_ns) }
}

fn drain(policy: &mut Scherzo) -> Vec<DispatchedTask> {
    core::iter::from_fn(|| policy.pop()).collect()
}

fn slots(decisions: &[DispatchedTask]) -> Vec<u32> {
    decisions.iter().map(|decision| decision.slot.0).collect()
}

impl Scherzo {
    fn verify_invariants(&self) {
        self.pool.verify_invariants();
        for (index, task) in self.tasks.iter().enumerate() {
            let slot = SlotId(index as u32);
            let pooled = self.pool.contains(slot);
            let overflown = self.overflow.contains(slot);
            assert!(!(pooled && overflown), "slot {index} waits twice");
            assert!(task.pid != Pid(0) || !(pooled || overflown), "slot {index} waits without a task");
            if pooled || overflown {
                assert_eq!((task.pending.slot, task.pending.pid), (slot, task.pid));
            }
            let lag = signed_diff(task.vruntime_ns, self.virtual_ns);
            assert!(task.pid == Pid(0) || lag <= self.bound_ns().max(MAX_BOUND_NS) as i64, "slot {index}: {lag}");
        }
        assert_eq!(self.peek().is_some(), self.nr_pending() > 0);
    }
}

/// Of the settings that the property tests use.
const MAX_BOUND_NS: u64 = 500 * MS;

mod behaviour {
    use super::*;

    #[test]
    fn interactive_goes_first_but_not_for_ever() {
        let mut policy = policy();
        policy.enqueue(&facts(0, 0)).unwrap();
        policy.enqueue(&woken(1, 10 * MS)).unwrap();
        policy.enqueue(&woken(2, 30 * MS)).unwrap();
        assert_eq!(slots(&drain(&mut policy)), [1, 0, 2]);
    }

    #[test]
    fn without_boost_arrival_and_fairness_decide() {
        let mut policy = policy();
        policy.set_settings(Settings { slice_boost_ns: 0, ..Settings::default() });
        policy.enqueue(&facts(0, 0)).unwrap();
        policy.enqueue(&woken(1, 10 * MS)).unwrap();
        assert_eq!(slots(&drain(&mut policy)), [0, 1]);
    }

    #[test]
    fn a_hog_that_begins_with_a_wake_up_does_not_stay_interactive() {
        let mut policy = policy();
        policy.enqueue(&woken(0, 0)).unwrap();
        assert_eq!(policy.pop().unwrap().class, Class::Interactive);
        let ran = QueuedTask { burst_ns: 5 * MS, sum_exec_ns: 5 * MS, ..facts(0, 5 * MS) };
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
        let preempts = |policy: &mut Scherzo, facts: &QueuedTask| {
            policy.enqueue(facts).unwrap();
            policy.pop().unwrap().preempt
        };
        assert!(preempts(&mut policy, &woken(0, 0)));
        assert!(!preempts(&mut policy, &facts(0, 0)), "interactive, but its slice ended");
        assert!(!preempts(&mut policy, &facts(1, 0)), "batch");
        policy.set_settings(LoadSettings { mode: Mode::Fifo, ..LoadSettings::default() }.into());
        assert!(preempts(&mut policy, &woken(0, 0)), "in any mode");
        policy.set_settings(LoadSettings { preemption: false, ..LoadSettings::default() }.into());
        assert!(!preempts(&mut policy, &woken(0, 0)), "turned off");
    }

    #[test]
    fn pinned_tasks_stay() {
        let mut policy = policy();
        let one_cpu = QueuedTask { cpu: CpuId(3), nr_cpus_allowed: 1, ..facts(0, 0) };
        let pinned = QueuedTask { cpu: CpuId(2), flags: TaskFlags::PINNED, ..facts(1, 1) };
        for facts in [one_cpu, pinned, facts(2, 2)] {
            policy.enqueue(&facts).unwrap();
        }
        let targets: Vec<Target> = drain(&mut policy).into_iter().map(|decision| decision.target).collect();
        assert_eq!(targets, [Target::Cpu(CpuId(3)), Target::Cpu(CpuId(2)), Target::Any]);
    }

    #[test]
    fn fifo_is_arrival_order_with_one_slice() {
        let mut policy = policy();
        policy.set_settings(LoadSettings { mode: Mode::Fifo, ..LoadSettings::default() }.into());
        let crowd = Load { nr_running: NR_CPUS, nr_waiting: 100 };
        policy.enqueue(&QueuedTask { burst_ns: 50 * MS, load: crowd, ..facts(3, 7) }).unwrap();
        policy.enqueue(&QueuedTask { load: crowd, ..woken(1, 7) }).unwrap();
        policy.enqueue(&QueuedTask { load: crowd, ..facts(2, 8) }).unwrap();
        let decisions = drain(&mut policy);
        assert_eq!(slots(&decisions), [3, 1, 2]);
        for decision in decisions {
            assert_eq!((decision.order, decision.slice_ns), (Order::Fifo, 5 * MS));
        }
    }

    #[test]
    fn tasks_that_wait_survive_a_change_of_mode_and_follow_it() {
        let mut policy = policy();
        policy.enqueue(&facts(0, 0)).unwrap();
        policy.set_settings(LoadSettings { mode: Mode::Fifo, ..LoadSettings::default() }.into());
        policy.enqueue(&facts(1, 1)).unwrap();
        assert_eq!(policy.pop().map(|decision| (decision.slot.0, decision.order)), Some((0, Order::Fifo)));
        policy.set_settings(LoadSettings { mode: Mode::LowPower, ..LoadSettings::default() }.into());
        assert_eq!(policy.pop().map(|decision| (decision.slot.0, decision.order)), Some((1, Order::Deadline)));
    }

    #[test]
    fn interactive_uses_arrival_order_while_the_machine_is_under_used() {
        let mut policy = policy();
        assert_eq!(policy.order(), Order::Deadline);
        policy.observe_load(5, Load { nr_running: 1, nr_waiting: 0 });
        assert_eq!((policy.order(), policy.totals().fifo_since_ns), (Order::Fifo, Some(5)));
        for settings in [
            LoadSettings { mode: Mode::LowPower, ..LoadSettings::default() }.into(),
            LoadSettings { auto_fifo: false, ..LoadSettings::default() }.into(),
        ] {
            policy.set_settings(settings);
            assert_eq!((policy.order(), policy.totals().fifo_since_ns), (Order::Deadline, None));
        }
        policy.set_settings(Settings::default());
        policy.enqueue(&QueuedTask { load: Load { nr_running: NR_CPUS - 1, nr_waiting: 1 }, ..facts(0, 6) }).unwrap();
        assert_eq!(policy.pop().unwrap().order, Order::Deadline);
    }

    #[test]
    fn what_does_not_fit_is_handed_straight_back_in_order_and_counted() {
        let mut policy = policy();
        for slot in 0..NR_SLOTS {
            policy.enqueue(&facts(slot, u64::from(slot))).unwrap();
            policy.verify_invariants();
        }
        assert_eq!(policy.totals().nr_overflow, u64::from(NR_SLOTS - CAPACITY));
        assert!(policy.exit(SlotId(13), Pid(1013)));
        assert!(policy.dequeue(SlotId(3), Pid(1003)));
        assert_eq!(slots(&drain(&mut policy)), [12, 14, 15, 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn a_slot_with_a_new_owner_starts_afresh() {
        let mut policy = policy();
        policy.enqueue(&woken(0, 0)).unwrap();
        policy.enqueue(&QueuedTask { pid: Pid(7), ..facts(0, 1) }).unwrap();
        assert!(!policy.exit(SlotId(0), Pid(1000)), "of the owner before");
        assert_eq!(policy.nr_pending(), 1);
        assert_eq!(policy.pop().map(|decision| (decision.pid, decision.class)), Some((Pid(7), Class::Batch)));
        assert!(policy.exit(SlotId(0), Pid(7)));
        assert_eq!(policy.classification(SlotId(0)), Classification::default());
    }

    #[test]
    fn a_refresh_judges_and_leaves_the_queue_alone() {
        let mut policy = policy();
        policy.enqueue(&facts(0, 0)).unwrap();
        policy.refresh(&woken(1, MS)).unwrap();
        assert_eq!(policy.classification(SlotId(1)).class, Class::Interactive);
        assert_eq!(policy.classification(SlotId(1)).classified_ns, MS);
        assert_eq!(slots(&drain(&mut policy)), [0]);
    }

    #[test]
    fn records_that_name_no_task_are_counted() {
        let mut policy = policy();
        assert_eq!(policy.enqueue(&facts(NR_SLOTS, 0)), Err(BadRecord::Slot));
        assert_eq!(policy.refresh(&QueuedTask { pid: Pid(0), ..facts(0, 0) }), Err(BadRecord::Pid));
        assert!(!policy.exit(SlotId(u32::MAX), Pid(1)) && !policy.dequeue(SlotId(0), Pid(0)));
        assert_eq!((policy.totals().nr_bad_records, policy.nr_pending()), (2, 0));
        assert_eq!(policy.classification(SlotId(u32::MAX)), Classification::default());
    }
}

/// One CPU and tasks that never sleep.
mod fairness {
    use super::*;

    /// CPU time in ms that hogs of these weights get within 20 s.
    fn shares_ms<const N: usize>(weights: [u32; N]) -> [u64; N] {
        let mut policy = policy();
        let mut ran_ns = [0; N];
        let mut now_ns = u64::MAX - 500 * MS;
        let load = Load { nr_running: 1, nr_waiting: N as u32 - 1 };
        policy.set_nr_cpus(1);
        let enqueue = |policy: &mut Scherzo, hog: usize, now_ns: u64, ran_ns: u64| {
            let hog_task = facts(hog as u32, now_ns);
            let run = QueuedTask { weight: weights[hog], sum_exec_ns: ran_ns, burst_ns: ran_ns, load, ..hog_task };
            policy.enqueue(&run).unwrap();
        };
        for hog in 0..N {
            enqueue(&mut policy, hog, now_ns, 0);
        }
        let mut passed_ns = 0;
        while passed_ns < 20_000 * MS {
            let decision = policy.pop().unwrap();
            let hog = decision.slot.index();
            ran_ns[hog] += decision.slice_ns;
            passed_ns += decision.slice_ns;
            now_ns = now_ns.wrapping_add(decision.slice_ns);
            enqueue(&mut policy, hog, now_ns, ran_ns[hog]);
        }
        ran_ns.map(|ns| ns / MS)
    }

    #[test]
    fn equal_weights_get_equal_shares() {
        for share_ms in shares_ms([100; 5]) {
            assert!((3_980..=4_020).contains(&share_ms), "{share_ms}");
        }
    }

    #[test]
    fn shares_follow_the_weights() {
        let [light, heavy] = shares_ms([100, 300]);
        assert!((14_900..=15_100).contains(&heavy), "{light} {heavy}");
        let [half, one, two] = shares_ms([50, 100, 200]);
        assert!((1_980..=2_020).contains(&(one * 1000 / half)), "{half} {one} {two}");
        assert!((1_980..=2_020).contains(&(two * 1000 / one)), "{half} {one} {two}");
    }

    #[test]
    fn the_lightest_gets_what_the_starvation_bound_gives() {
        let [lightest, normal] = shares_ms([1, 100]);
        assert!((1_000..=4_000).contains(&lightest), "{lightest} {normal}");
    }
}

mod properties {
    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Enqueue(QueuedTask),
        Refresh(QueuedTask),
        Dequeue(SlotId, Pid),
        Exit(SlotId, Pid),
        Pop,
        Load(u64, Load),
        Settings(Settings),
        NrCpus(u32),
    }

    /// Small, huge and everything between.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..20, 0..200 * MS, any::<u64>()]
    }

    prop_compose! {
        fn load()(nr_running in 0u32..6, nr_waiting in prop_oneof![0u32..10, any::<u32>()]) -> Load {
            Load { nr_running, nr_waiting }
        }
    }

    prop_compose! {
        /// Any facts at all, on few slots and pids so that they meet.
        fn garbage()(
            (slot, pid, generation) in (0..NR_SLOTS + 1, 0u32..4, any::<u64>()),
            (now_ns, sum_exec_ns, burst_ns, nr_voluntary_switches) in (number(), number(), number(), number()),
            weight: u32,
            (cpu, nr_cpus_allowed, flags) in (0u32..8, 0u32..8, any::<u32>()),
            load in load(),
        ) -> QueuedTask {
            QueuedTask {
                slot: SlotId(slot), pid: Pid(pid), generation: Generation(generation), tgid: Pid(pid),
                now_ns, sum_exec_ns, burst_ns, nr_voluntary_switches, weight,
                cpu: CpuId(cpu), nr_cpus_allowed, flags: TaskFlags::from_bits(flags), load,
                waker_pid: Pid(0), cgroup_id: 0,
            }
        }
    }

    prop_compose! {
        fn settings()(
            mode in prop_oneof![Just(Mode::Interactive), Just(Mode::Fifo), Just(Mode::LowPower)],
            preemption: bool, auto_fifo: bool,
            base_slice_ns in number(), min_slice_ns in number(), slice_boost_ns in number(),
            starvation_ns in 0..=2 * MAX_BOUND_NS, sample_interval_ns in number(),
        ) -> Settings {
            let load = LoadSettings { mode, preemption, auto_fifo, ..LoadSettings::default() };
            Settings {
                load,
                base_slice_ns, min_slice_ns, slice_boost_ns, starvation_ns, sample_interval_ns,
            }
        }
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            8 => garbage().prop_map(Op::Enqueue),
            2 => garbage().prop_map(Op::Refresh),
            1 => (0..NR_SLOTS + 1, 0u32..4).prop_map(|(slot, pid)| Op::Dequeue(SlotId(slot), Pid(pid))),
            1 => (0..NR_SLOTS + 1, 0u32..4).prop_map(|(slot, pid)| Op::Exit(SlotId(slot), Pid(pid))),
            4 => Just(Op::Pop),
            1 => (any::<u64>(), load()).prop_map(|(now_ns, load)| Op::Load(now_ns, load)),
            1 => settings().prop_map(Op::Settings),
            1 => any::<u32>().prop_map(Op::NrCpus),
        ];
        proptest::collection::vec(op, 0..120)
    }

    /// The policy beside what must come out of it.
    struct Checked {
        policy: Scherzo,
        settings: Settings,
        waiting: BTreeMap<SlotId, (Pid, Generation)>,
        decisions: Vec<DispatchedTask>,
    }

    impl Checked {
        fn new() -> Self {
            let settings = Settings::default();
            Self { policy: policy(), settings, waiting: BTreeMap::new(), decisions: Vec::new() }
        }

        fn apply(&mut self, op: &Op) {
            match op {
                Op::Enqueue(facts) => self.enqueue(facts),
                Op::Refresh(facts) => self.refresh(facts),
                Op::Dequeue(slot, pid) => {
                    assert_eq!(self.policy.dequeue(*slot, *pid), self.forget(*slot, *pid));
                }
                Op::Exit(slot, pid) => {
                    let waited = self.forget(*slot, *pid);
                    assert!(self.policy.exit(*slot, *pid) || !waited);
                }
                Op::Pop => self.pop(),
                Op::Load(now_ns, load) => self.policy.observe_load(*now_ns, *load),
                Op::Settings(settings) => {
                    self.settings = settings.clamped();
                    self.policy.set_settings(*settings);
                }
                Op::NrCpus(nr_cpus) => self.policy.set_nr_cpus(*nr_cpus),
            }
            self.policy.verify_invariants();
            assert_eq!(self.policy.nr_pending(), self.waiting.len());
        }

        fn apply_all(&mut self, ops: &[Op]) {
            for op in ops {
                self.apply(op);
            }
        }

        fn forget(&mut self, slot: SlotId, pid: Pid) -> bool {
            let waits = self.waiting.get(&slot).is_some_and(|&(owner, _)| owner == pid);
            if waits {
                self.waiting.remove(&slot);
            }
            waits
        }

        fn enqueue(&mut self, facts: &QueuedTask) {
            let fits = facts.slot.0 < NR_SLOTS && facts.pid != Pid(0);
            assert_eq!(self.policy.enqueue(facts).is_ok(), fits);
            if fits {
                self.waiting.insert(facts.slot, (facts.pid, facts.generation));
                self.check_classification(facts.slot);
            }
        }

        fn refresh(&mut self, facts: &QueuedTask) {
            if self.policy.refresh(facts).is_ok() {
                if self.waiting.get(&facts.slot).is_some_and(|&(owner, _)| owner != facts.pid) {
                    self.waiting.remove(&facts.slot);
                }
                self.check_classification(facts.slot);
            }
        }

        /// Slices and keys lie within their bounds, whatever the facts were.
        fn check_classification(&self, slot: SlotId) {
            let classification = self.policy.classification(slot);
            assert!((self.settings.min_slice_ns..=self.settings.base_slice_ns).contains(&classification.slice_ns));
            let offset_ns = signed_diff(classification.deadline_ns, classification.classified_ns);
            assert!(offset_ns.unsigned_abs() <= self.settings.starvation_ns / 2, "{offset_ns}");
            assert_ne!(classification.class, Class::Unknown);
        }

        fn pop(&mut self) {
            let peeked = self.policy.peek();
            let decision = self.policy.pop();
            assert_eq!(peeked, decision);
            if let Some(decision) = decision {
                let expected = self.waiting.remove(&decision.slot);
                assert_eq!(expected, Some((decision.pid, decision.generation)));
                self.decisions.push(decision);
            }
        }

        fn drain(&mut self) {
            while self.policy.nr_pending() > 0 {
                self.apply(&Op::Pop);
            }
            assert!(self.waiting.is_empty(), "lost: {:?}", self.waiting);
        }
    }

    proptest! {
        /// Whatever is told: invariants hold, and every task comes out once unless it was replaced or left.
        #[test]
        fn garbage_loses_no_task(ops in ops()) {
            let mut checked = Checked::new();
            checked.apply_all(&ops);
            checked.drain();
        }

        #[test]
        fn equal_input_gives_equal_output(ops in ops()) {
            let [first, second] = [(); 2].map(|()| {
                let mut checked = Checked::new();
                checked.apply_all(&ops);
                checked.drain();
                checked.decisions
            });
            prop_assert_eq!(first, second);
        }

        /// A garbage record harms nobody for long: the clock finds back once the queue has been empty.
        #[test]
        fn the_clock_recovers_from_garbage(ops in ops(), now_ns: u64) {
            let mut checked = Checked::new();
            checked.apply_all(&ops);
            checked.drain();
            checked.apply(&Op::Enqueue(facts(0, now_ns)));
            prop_assert_eq!(checked.policy.classification(SlotId(0)).classified_ns, now_ns);
        }

        /// Nobody is overtaken by a task that arrives more than the starvation bound later, across the wrap of time.
        #[test]
        fn waiting_is_bounded(
            arrivals in proptest::collection::vec((garbage(), 0..60 * MS, any::<bool>()), 1..100),
            start_ns in prop_oneof![any::<u64>(), u64::MAX - 1000 * MS..=u64::MAX],
        ) {
            let limits = Limits { nr_slots: NR_SLOTS, pool_capacity: NR_SLOTS };
            let mut policy = Scherzo::new(limits, Settings::default(), NR_CPUS);
            let starvation_ns = Settings::default().starvation_ns;
            let mut arrived = BTreeMap::new();
            let mut passed_ns = 0;
            for (garbage, pause_ns, pop) in arrivals {
                passed_ns += pause_ns;
                let facts = QueuedTask { now_ns: start_ns.wrapping_add(passed_ns), ..garbage };
                if policy.enqueue(&facts).is_ok() {
                    arrived.insert(facts.slot, passed_ns);
                }
                if let Some(decision) = pop.then(|| policy.pop()).flatten() {
                    let own_ns = arrived.remove(&decision.slot).unwrap();
                    let oldest_ns = arrived.values().min().copied().unwrap_or(own_ns);
                    prop_assert!(own_ns <= oldest_ns + starvation_ns, "{} overtook {}", own_ns, oldest_ns);
                }
            }
        }
    }
}
