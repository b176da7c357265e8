//! Whatever the records say.

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Enqueue(QueuedTask),
    Refresh(QueuedTask),
    Exit(SlotId, Pid),
    Pop,
    Settings(PolicySettings),
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
    /// Any record at all, on few slots and pids so that they meet.
    fn garbage()(
        (slot, pid, generation) in (0..NR_SLOTS + 1, 0u32..4, any::<u64>()),
        (now_ns, sum_exec_ns, burst_ns, nr_voluntary_switches) in (number(), number(), number(), number()),
        weight: u32,
        (cpu, flags) in (0u32..8, any::<u32>()),
        load in load(),
    ) -> QueuedTask {
        QueuedTask {
            slot: SlotId(slot), pid: Pid(pid), generation: Generation(generation),
            now_ns, sum_exec_ns, burst_ns, nr_voluntary_switches, weight,
            cpu: CpuId(cpu), flags: TaskFlags::from_bits(flags), load, ..QueuedTask::default()
        }
    }
}

prop_compose! {
    fn settings()(
        mode in prop_oneof![Just(Mode::Interactive), Just(Mode::Fifo), Just(Mode::LowPower)],
        preemption: bool, auto_fifo: bool,
        base_slice_ns in number(), min_slice_ns in number(), slice_boost_ns in number(),
        starvation_ns in 0..=2 * MAX_BOUND_NS, sample_interval_ns in number(),
    ) -> PolicySettings {
        let load = LoadSettings { mode, preemption, auto_fifo, ..LoadSettings::default() };
        PolicySettings {
            load,
            base_slice_ns, min_slice_ns, slice_boost_ns, starvation_ns, sample_interval_ns,
        }
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => garbage().prop_map(Op::Enqueue),
        2 => garbage().prop_map(Op::Refresh),
        1 => (0..NR_SLOTS + 1, 0u32..4).prop_map(|(slot, pid)| Op::Exit(SlotId(slot), Pid(pid))),
        4 => Just(Op::Pop),
        1 => settings().prop_map(Op::Settings),
        1 => any::<u32>().prop_map(Op::NrCpus),
    ];
    proptest::collection::vec(op, 0..120)
}

/// The policy beside what must come out of it.
struct Checked {
    policy: Classes,
    settings: PolicySettings,
    waiting: BTreeMap<SlotId, (Pid, Generation)>,
    all_dispatched: Vec<DispatchedTask>,
}

impl Checked {
    fn new() -> Self {
        let settings = PolicySettings::default();
        Self { policy: policy(), settings, waiting: BTreeMap::new(), all_dispatched: Vec::new() }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Enqueue(queued) => self.enqueue(queued),
            Op::Refresh(queued) => self.refresh(queued),
            Op::Exit(slot, pid) => {
                let waited = self.forget(*slot, *pid);
                assert!(self.policy.exit(*slot, *pid) || !waited);
            }
            Op::Pop => self.pop(),
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

    fn enqueue(&mut self, queued: &QueuedTask) {
        let fits = queued.slot.0 < NR_SLOTS && queued.pid != Pid(0);
        assert_eq!(self.policy.enqueue(queued).is_ok(), fits);
        if fits {
            self.waiting.insert(queued.slot, (queued.pid, queued.generation));
            self.check_classification(queued.slot);
        }
    }

    fn refresh(&mut self, queued: &QueuedTask) {
        if self.policy.refresh(queued).is_ok() {
            if self.waiting.get(&queued.slot).is_some_and(|&(owner, _)| owner != queued.pid) {
                self.waiting.remove(&queued.slot);
            }
            self.check_classification(queued.slot);
        }
    }

    /// Slices and deadlines lie within their bounds, whatever the record says.
    fn check_classification(&self, slot: SlotId) {
        let classification = self.policy.classification(slot);
        assert!((self.settings.min_slice_ns..=self.settings.base_slice_ns).contains(&classification.slice_ns));
        let offset_ns = signed_diff(classification.deadline_ns, classification.classified_ns);
        assert!(offset_ns.unsigned_abs() <= self.settings.starvation_ns / 2, "{offset_ns}");
        assert_ne!(classification.class, Class::Unknown);
    }

    fn pop(&mut self) {
        let peeked = self.policy.peek();
        let dispatched = self.policy.pop();
        assert_eq!(peeked, dispatched);
        if let Some(dispatched) = dispatched {
            let expected = self.waiting.remove(&dispatched.slot);
            assert_eq!(expected, Some((dispatched.pid, dispatched.generation)));
            self.all_dispatched.push(dispatched);
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
            checked.all_dispatched
        });
        prop_assert_eq!(first, second);
    }

    /// A garbage record harms no task for long: the clock finds back once the queue has been empty.
    #[test]
    fn the_clock_recovers_from_garbage(ops in ops(), now_ns: u64) {
        let mut checked = Checked::new();
        checked.apply_all(&ops);
        checked.drain();
        checked.apply(&Op::Enqueue(queued(0, now_ns)));
        prop_assert_eq!(checked.policy.classification(SlotId(0)).classified_ns, now_ns);
    }

    /// No task is overtaken by one that arrives more than the starvation bound later, across the wrap of time.
    #[test]
    fn waiting_is_bounded(
        arrivals in proptest::collection::vec((garbage(), 0..60 * MS, any::<bool>()), 1..100),
        start_ns in prop_oneof![any::<u64>(), u64::MAX - 1000 * MS..=u64::MAX],
    ) {
        let limits = Limits { nr_slots: NR_SLOTS, pool_capacity: NR_SLOTS };
        let mut policy = Classes::new(limits, PolicySettings::default(), NR_CPUS);
        let starvation_ns = PolicySettings::default().starvation_ns;
        let mut arrived = BTreeMap::new();
        let mut passed_ns = 0;
        for (garbage, pause_ns, pop) in arrivals {
            passed_ns += pause_ns;
            let queued = QueuedTask { now_ns: start_ns.wrapping_add(passed_ns), ..garbage };
            if policy.enqueue(&queued).is_ok() {
                arrived.insert(queued.slot, passed_ns);
            }
            if let Some(dispatched) = pop.then(|| policy.pop()).flatten() {
                let own_ns = arrived.remove(&dispatched.slot).unwrap();
                let oldest_ns = arrived.values().min().copied().unwrap_or(own_ns);
                prop_assert!(own_ns <= oldest_ns + starvation_ns, "{} overtook {}", own_ns, oldest_ns);
            }
        }
    }
}
