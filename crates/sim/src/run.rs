//! A run: a scenario, a seed, and all that happens until its time is over.

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use scherzo_wire::control::Mode;
use scherzo_wire::layout::NR_SLOTS;
use scherzo_wire::message::LoadSettings;

use crate::abi::CpuMask;
use crate::cgroups::{self, Cgroups};
use crate::events::Happenings;
use crate::interleave::{Explorer, NO_EPISODES, RunLog, SwitchPlan};
use crate::invariants;
use crate::machine::{Machine, MachineEvent, SharedStream};
use crate::options::SimulationOptions;
use crate::replay::Recorded;
use crate::report::SimulationReport;
use crate::scenario::{Scenario, ScenarioGroup, SchedPolicySpec, SleepState, WorkKind};
use crate::task::{Identity, State, TaskClass, TaskId};
use crate::traps;
use crate::user::{ENGINE, EngineTask, FEW_SLOTS};
use crate::work::{Next, Work};

/// Room for tasks where CPUs interrupt each other: one that is interrupted may be looking at a task while another one adds one, and the
/// table must not move.
const MOST_TASKS: usize = 32_768;

/// The scheduler's memory is one, so there is one run at a time.
static ONE_RUN: Mutex<()> = Mutex::new(());

/// Nobody else uses the scheduler's memory meanwhile.
pub(crate) fn lock_scheduler() -> MutexGuard<'static, ()> {
    ONE_RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `PF_KTHREAD`.
const KTHREAD: u32 = 0x0020_0000;
const MS: u64 = 1_000_000;

pub(crate) struct Simulation<'a> {
    pub(crate) machine: Machine,
    engine: EngineTask,
    /// By task; the engine has none.
    pub(crate) works: Vec<Option<Work>>,
    groups: Vec<&'a ScenarioGroup>,
    pub(crate) scenario: &'a Scenario,
    pub(crate) cgroups: Cgroups,
    pub(crate) happenings: Happenings<'a>,
    pub(crate) recorded: Recorded<'a>,
    explorer: Option<Box<Explorer>>,
}

/// Runs a scenario to its end, or until the kernel ends the scheduler.
#[must_use]
pub fn run(scenario: &Scenario, options: &SimulationOptions) -> SimulationReport {
    run_noting(scenario, options, NO_EPISODES).0
}

/// The same; notes what else could have happened in these episodes, if CPUs interrupt each other.
pub(crate) fn run_noting(
    scenario: &Scenario,
    options: &SimulationOptions,
    episodes: RangeInclusive<u64>,
) -> (SimulationReport, RunLog) {
    let lock = lock_scheduler();
    traps::note_run(format!("{}, seed {}, mode {}", scenario.file, options.seed, options.mode.name()));
    let mut run = Simulation::new(scenario, options);
    run.begin(options);
    if let Some(plan) = &options.plan {
        run.explore(plan, episodes);
    }
    let measured_from = run.machine.now + scenario.warmup_ms.get_ref() * MS;
    run.go_until(measured_from);
    run.restart_measuring();
    run.go_until(measured_from + scenario.duration_ms.get_ref() * MS);
    run.finish_measuring();
    run.machine.check_counters();
    let duration_ns = run.machine.now - measured_from.min(run.machine.now);
    let report = SimulationReport::of(&mut run.machine, scenario, &run.works, duration_ns);
    let log = run.explorer.as_mut().map(|explorer| explorer.take_log()).unwrap_or_default();
    drop(run);
    drop(lock);
    (report, log)
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, options: &SimulationOptions) -> Self {
        let settings = LoadSettings {
            mode: options.mode,
            kernel_seat: options.kernel_seat,
            foreground_cgroup: cgroups::id_in_front(scenario),
            slice_timer: options.slice_timer,
            ..LoadSettings::default()
        };
        let engine_pid = crate::machine::FIRST_PID as u32;
        let broken = options.broken.map_or(0, |copy| copy as u32);
        let mut machine = Machine::new(
            scenario.machine.profile(),
            scenario.machine.topology(),
            scenario.machine.costs(),
            engine_pid,
            broken,
        );
        machine.invariants.packs_work = options.mode == Mode::LowPower;
        machine.invariants.in_flight.may_leave_bits = options.plan.is_some();
        let nr_places = if options.plan.is_some() { MOST_TASKS } else { 0 };
        machine.tasks.reserve(nr_places);
        machine.fault = options.fault;
        // Where CPUs interrupt each other they need no turns.
        let has_turns = scenario.machine.shared_stream && options.plan.is_none();
        machine.stream = has_turns.then(|| SharedStream::new(machine.cpus.len()));
        let nr_slots = if options.plan.is_some() { FEW_SLOTS } else { NR_SLOTS };
        let mut engine = EngineTask::new(&mut machine, &settings, nr_slots, options.seed);
        let from = |ms: &Option<toml::Spanned<u64>>| ms.as_ref().map(|ms| machine.now + ms.get_ref() * MS);
        (engine.hangs_from, engine.gone_from) = (from(&scenario.engine_hangs_ms), from(&scenario.engine_gone_ms));
        engine.slowdown = scenario.engine_slowdown.as_ref().map_or(1, |factor| *factor.get_ref());
        let groups = scenario.group.iter().map(toml::Spanned::get_ref).collect();
        let happenings = Happenings::of(scenario.event.iter().map(toml::Spanned::get_ref).collect(), options.seed);
        let cgroups = Cgroups::of(scenario);
        let recorded = Recorded::of(scenario);
        let works = Vec::with_capacity(nr_places);
        Self { machine, engine, works, groups, scenario, cgroups, happenings, recorded, explorer: None }
    }

    fn begin(&mut self, options: &SimulationOptions) {
        if options.trace {
            self.machine.trace.enable();
        }
        if let Some(baseline) = &options.baseline {
            self.machine.compare_with(baseline);
        }
        self.machine.attach();
        let all = CpuMask::of(0..self.machine.cpus.len());
        let engine = Identity {
            name: "scherzo-engine".to_owned(),
            flags: 0,
            nice: 0,
            slice_ns: None,
            policy: SchedPolicySpec::Normal,
            class: TaskClass::Ext,
            mask: all,
            tgid: crate::machine::FIRST_PID,
            task_group: std::ptr::null_mut(),
            cgroups: std::ptr::null_mut(),
        };
        let id = self.machine.create(0, self.groups.len(), &engine);
        assert_eq!(id, ENGINE, "the engine is the first task");
        self.works.push(None);
        self.machine.tasks[ENGINE].remaining_ns = 1;
        self.machine.at(self.machine.now, MachineEvent::Start(ENGINE));
        if let Some(gone_from) = self.engine.gone_from {
            // A signal that ends a process wakes it first.
            self.machine.at(gone_from, MachineEvent::Wake(ENGINE));
        }
        let nr_stoppers = if self.scenario.event.is_empty() { 0 } else { self.machine.cpus.len() };
        if nr_stoppers > 0 {
            self.machine.create_stoppers(self.groups.len() + 1);
            self.works.resize_with(1 + nr_stoppers, || None);
        }
        self.happenings.begin(&mut self.machine);
        let mut rng = Rng::with_seed(options.seed);
        for group in 0..self.groups.len() {
            self.create_group(group, &mut rng);
        }
    }

    fn create_group(&mut self, index: usize, rng: &mut Rng) {
        let group = self.groups[index];
        if group.kind == WorkKind::Recorded {
            self.create_recorded(index);
            return;
        }
        if group.kind == WorkKind::Hub {
            self.create_hubs(index, rng);
            return;
        }
        if group.kind == WorkKind::Request {
            self.create_requests(index, rng);
            return;
        }
        let nr_stages = match group.kind {
            WorkKind::Chain => group.stages_us.len(),
            WorkKind::PingPong => 2,
            _ => 1,
        };
        for number in 0..*group.count.get_ref() {
            let first = self.machine.tasks.len();
            for stage in 0..nr_stages {
                let id = self.create(0, index, &format!("{}-{number}", group.name), Work::of(group, stage));
                let closes = group.kind == WorkKind::PingPong && stage == 1;
                let successor = if closes { Some(first) } else { (stage + 1 < nr_stages).then_some(id + 1) };
                let Some(work) = &mut self.works[id] else { continue };
                work.successor = successor;
                self.machine.tasks[id].remaining_ns = 0;
                if let Some((at, compute_ns)) = work.begin(self.machine.now, rng) {
                    self.machine.tasks[id].remaining_ns = compute_ns;
                    self.machine.at(at, MachineEvent::Start(id));
                }
            }
        }
    }

    pub(crate) fn create(&mut self, cpu: usize, index: usize, name: &str, work: Work) -> TaskId {
        let group = self.groups[index];
        let cgroup = group.cgroup.as_ref().and_then(|name| self.scenario.cgroup_index(name.get_ref()));
        let own_mask = work.script.as_ref().and_then(|script| script.mask.clone());
        let identity = Identity {
            name: name.to_owned(),
            flags: if group.kthread { KTHREAD } else { 0 },
            nice: group.nice(),
            slice_ns: group.slice_us.as_ref().map(|slice| ScenarioGroup::ns(Some(slice))),
            policy: group.policy,
            class: if group.realtime { TaskClass::RealTime } else { TaskClass::Ext },
            mask: own_mask.unwrap_or_else(|| group.mask(self.machine.cpus.len())),
            tgid: crate::machine::FIRST_PID + self.machine.tasks.len() as i32,
            task_group: self.cgroups.task_group(cgroup),
            cgroups: self.cgroups.css_set(cgroup),
        };
        self.works.push(Some(work));
        let id = self.machine.create(cpu, index, &identity);
        self.machine.tasks[id].goes_by_cpu_time = group.goes_by_cpu_time;
        id
    }

    fn explore(&mut self, plan: &SwitchPlan, episodes: RangeInclusive<u64>) {
        let mut explorer = Explorer::new(plan.clone(), self.machine.cpus.len());
        explorer.notes_episodes = episodes;
        explorer.install();
        self.explorer = Some(explorer);
    }

    fn go_until(&mut self, end: u64) {
        if let Some(explorer) = &mut self.explorer {
            let explorer = &raw mut **explorer;
            self.explore_until(explorer, end);
            return;
        }
        while self.machine.error().is_none() && self.machine.next_at().is_some_and(|at| at <= end) {
            let at = self.machine.next_at().unwrap_or(end);
            invariants::check_until(&mut self.machine, at);
            if let Some(event) = self.machine.next_event() {
                if self.machine.was_overtaken(self.machine.event_at, event) {
                    self.machine.pass_on_turn();
                    continue;
                }
                if self.machine.leave_for_turn(event) {
                    self.machine.pass_on_turn();
                    continue;
                }
                if let Some(until) = self.machine.put_off_until(event) {
                    self.machine.put_off(event, until);
                    continue;
                }
                self.machine.stats.nr_events += 1;
                self.handle(event);
                self.machine.pass_on_turn();
                invariants::check(&mut self.machine);
            }
        }
        if self.machine.error().is_none() {
            self.machine.now = end;
        }
    }

    pub(crate) fn handle(&mut self, event: MachineEvent) {
        match event {
            MachineEvent::Schedule(cpu) => self.machine.schedule(cpu),
            MachineEvent::Tick(cpu) => self.machine.tick(cpu),
            MachineEvent::Done(cpu, _) => self.finish_work(cpu),
            MachineEvent::Wake(id) => self.timer_wakes(id),
            MachineEvent::Start(id) => {
                let cpu = self.machine.online_cpu(self.machine.tasks[id].cpu);
                self.machine.start(cpu, id);
            }
            MachineEvent::Interrupt(cpu) => self.machine.interrupt(cpu),
            MachineEvent::Notify(cpu) => {
                self.machine.rings.borrow_mut().notify();
                self.machine.wake(cpu, ENGINE, false);
            }
            MachineEvent::Timer(index, _) => self.machine.fire_timer(index),
            MachineEvent::Emptied(cpu) => self.machine.finish_offline(cpu),
            MachineEvent::Scenario(index) => self.happen(index),
            MachineEvent::Unregister => self.machine.unregister(),
            MachineEvent::Turn(turn) => self.machine.end_turn(turn),
        }
    }

    /// The timer of a sleeping task runs on the CPU where the task slept.
    fn timer_wakes(&mut self, id: TaskId) {
        let due = match &self.works[id] {
            Some(work) => work.wake_at == Some(self.machine.event_at),
            None => true,
        };
        if due {
            let cpu = self.machine.online_cpu(self.machine.tasks[id].cpu);
            self.machine.wake(cpu, id, false);
            let task = &mut self.machine.tasks[id];
            if let Some(since) = &mut task.waits_since {
                *since = self.machine.event_at.min(*since);
            }
        }
    }

    fn finish_work(&mut self, cpu: usize) {
        let Some(id) = self.machine.cpus[cpu].curr else { return };
        self.machine.charge(cpu);
        while self.machine.tasks[id].remaining_ns == 0 {
            if !self.act(cpu, id) {
                return;
            }
        }
        self.machine.plan_work(cpu);
    }

    /// One step of a task; whether it still wants the CPU.
    fn act(&mut self, cpu: usize, id: TaskId) -> bool {
        if self.machine.is_stopper(id) {
            self.machine.run_stopper(cpu);
            let then_ns = self.machine.tasks[id].remaining_ns;
            self.sleep(id, None, then_ns);
            self.machine.schedule(cpu);
            return false;
        }
        if self.toggles_migration(id) {
            return true;
        }
        let now = self.machine.now;
        let (next, response) = match &mut self.works[id] {
            None => (self.engine.act(&mut self.machine, cpu), None),
            Some(work) => work.proceed(now),
        };
        if let Some(response_ns) = response {
            let group = self.machine.tasks[id].group;
            self.machine.stats.responded(group, response_ns);
        }
        match next {
            Next::Compute(ns) => self.machine.tasks[id].remaining_ns = ns,
            Next::Wake(other) => self.wake_successor(cpu, id, other),
            Next::Fork(ns) => self.fork(cpu, id, ns),
            Next::WakeRecorded(other) => self.wake_recorded(cpu, other),
            Next::ForkRecorded(child) => self.fork_recorded(cpu, id, child),
            Next::Execute => self.execute(cpu, id),
            Next::Request => self.request(cpu, id),
            Next::Reply(client) => self.reply(cpu, id, client),
            Next::Resume(sender) => self.machine.wake(cpu, sender, true),
            Next::Send(reader) => return self.send(cpu, id, reader),
            Next::Spawn(then_ns) => {
                self.spawn(cpu, id, then_ns);
                return false;
            }
            Next::Sleep { until, then_ns } => {
                self.sleep(id, until, then_ns);
                self.machine.schedule(cpu);
                return false;
            }
            Next::Exit => {
                self.exit(cpu, id);
                return false;
            }
        }
        true
    }

    /// The task's piece of work is done; true if it goes on with its migration disabled first.
    fn toggles_migration(&mut self, id: TaskId) -> bool {
        let group = self.groups.get(self.machine.tasks[id].group);
        if !group.is_some_and(|group| group.disables_migration) {
            return false;
        }
        let disables = self.machine.tasks[id].kernel().migration_disabled == 0;
        self.machine.disable_migration(id, disables);
        if disables {
            let work_ns = self.works[id].as_ref().map_or(0, Work::compute_ns);
            self.machine.tasks[id].remaining_ns = work_ns / 2 + 1;
        }
        disables
    }

    pub(crate) fn sleep(&mut self, id: TaskId, until: Option<u64>, then_ns: u64) {
        let group = self.groups.get(self.machine.tasks[id].group);
        let state = group.map_or_else(SleepState::default, |group| group.sleep_state);
        let task = &mut self.machine.tasks[id];
        task.go_to_sleep(state);
        task.remaining_ns = then_ns;
        if let Some(work) = &mut self.works[id] {
            work.wake_at = until;
        }
        if let Some(until) = until {
            self.machine.at(until, MachineEvent::Wake(id));
        }
    }

    fn wake_successor(&mut self, cpu: usize, id: TaskId, other: TaskId) {
        let due_ns = self.works[id].as_ref().map_or(0, Work::due_ns);
        let sleeps = self.machine.tasks[other].state == State::Sleeping;
        let is_chain = self.groups[self.machine.tasks[id].group].kind == WorkKind::Chain;
        let Some(work) = &mut self.works[other] else { return };
        if is_chain {
            work.take_over(due_ns);
        }
        if !sleeps {
            work.nr_pending += 1;
            return;
        }
        self.machine.tasks[other].remaining_ns = work.compute_ns();
        self.machine.wake(cpu, other, true);
    }

    fn charge_all(&mut self) {
        for cpu in 0..self.machine.cpus.len() {
            self.machine.charge(cpu);
            if self.machine.cpus[cpu].curr.is_none() {
                self.machine.end_idleness(cpu);
            }
        }
    }

    fn restart_measuring(&mut self) {
        self.charge_all();
        self.machine.stats.restart();
        for task in &mut self.machine.tasks {
            task.ran_before_ns = task.ran_ns;
        }
    }

    /// Tasks that wait at the end count as well.
    fn finish_measuring(&mut self) {
        self.charge_all();
        for id in 0..self.machine.tasks.len() {
            let task = &self.machine.tasks[id];
            if let Some(since) = task.waits_since {
                let (group, waited_ns) = (task.group, self.machine.now - since);
                self.machine.stats.still_waits(group, waited_ns);
            }
        }
    }
}
