//! The machine: CPUs, tasks and time, and the core of sched_ext between them.
//!
//! Each rule follows the kernel's code; docs/simulator.md names the functions, and says where this is simpler.

mod bypass;
mod callbacks;
mod change;
mod cpu;
mod enqueue;
mod hotplug;
mod idle;
mod kick;
mod pick;
mod queue;
mod rings;
mod stream;
mod transfer;
mod waits;
mod wake;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use scherzo_wire::layout::{ControlPage, CpuStats, Slot};

use crate::abi::{self, CpuMask, Ops, TaskStruct};
use crate::baseline::BaselineScheduler;
use crate::fault::InjectedFault;
use crate::interleave;
use crate::invariants::Invariants;
use crate::profile::{Costs, Profile, TopologySpec};
use crate::stats::MachineStats;
use crate::task::{Identity, Task, TaskClass, TaskId};
use crate::trace::Trace;

pub use self::cpu::Cpu;
pub use self::idle::IdleMasks;
pub use self::queue::Queue;
use self::queue::Walk;
pub use self::rings::Rings;
pub use self::stream::SharedStream;
pub(crate) use self::transfer::QueueMove;

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineEvent {
    /// A CPU chooses its next task.
    Schedule(usize),
    /// A CPU's periodic timer.
    Tick(usize),
    /// The current task of a CPU has done its work; of this run only.
    Done(usize, u64),
    /// A task's sleep is over.
    Wake(TaskId),
    /// A new task.
    Start(TaskId),
    /// A CPU works off what its scheduler left to interrupt work: kicks, insertions into other CPUs' queues.
    Interrupt(usize),
    /// The ring buffer wakes its reader.
    Notify(usize),
    /// A timer of the scheduler's: its place in the table, and which start of it.
    Timer(usize, u64),
    /// A CPU that goes offline is to be empty by now.
    Emptied(usize),
    /// An event of the scenario.
    Scenario(usize),
    /// The kernel takes the scheduler away, whose process is gone.
    Unregister,
    /// A CPU's turn to be emulated ends; of this turn only.
    Turn(u64),
}

/// The scheduler inserts from `ops.dispatch`.
#[derive(Debug)]
struct Dispatch {
    cpu: usize,
    inserted: Vec<Inserted>,
    nr_moved: u32,
}

/// One insertion, carried out when the callback is over or wants a queue's head.
#[derive(Clone, Copy, Debug)]
struct Inserted {
    task: TaskId,
    queue_seq: u64,
    dsq_id: u64,
    flags: u64,
    by_vtime: bool,
}

/// What belongs to a call, not to the machine.
pub struct LaneContext {
    this_cpu: usize,
    dispatch: Option<Dispatch>,
    enqueuing: Option<TaskId>,
    current: *mut Machine,
}

/// A timer that the scheduler has started.
struct Timer {
    address: usize,
    cpu: usize,
    nr_starts: u64,
}

/// The whole machine.
pub struct Machine {
    /// Time.
    pub now: u64,
    /// The time that the event was asked for which happens now: earlier, if its CPU was at something else.
    pub event_at: u64,
    nr_events: u64,
    events: BinaryHeap<Reverse<(u64, u64, MachineEvent)>>,
    /// CPUs.
    pub cpus: Vec<Cpu>,
    /// Those that have no task.
    pub without_task: CpuMask,
    /// Tasks, gone ones included.
    pub tasks: Vec<Task>,
    by_pid: BTreeMap<i32, TaskId>,
    /// The scheduler's queues, and the global one.
    pub queues: BTreeMap<u64, Queue>,
    /// Built-in tracking of idle CPUs.
    pub idle: IdleMasks,
    /// The kernel.
    pub profile: Profile,
    /// What things take.
    pub costs: Costs,
    /// The hardware.
    pub topology: TopologySpec,
    /// Rings between the scheduler and its engine.
    pub rings: Rc<RefCell<Rings>>,
    /// What is measured.
    pub stats: MachineStats,
    /// See there.
    pub fault: Option<InjectedFault>,
    /// What must hold.
    pub invariants: Invariants,
    /// What ran where.
    pub trace: Trace,
    ops: *const Ops,
    this_cpu: usize,
    dispatch: Option<Dispatch>,
    enqueuing: Option<TaskId>,
    timers: Vec<Timer>,
    walks: BTreeMap<u64, Walk>,
    nr_walks: u64,
    next_sequence: u64,
    bypassing: bool,
    is_unregistered: bool,
    is_baseline: bool,
    /// The kernel ends a loaded scheduler if a task waits for so long.
    pub(crate) watchdog_ns: Option<u64>,
    /// The host has some CPU until then.
    stolen_until: u64,
    /// One thread emulates all CPUs.
    pub(crate) stream: Option<SharedStream>,
    /// The scheduler was passed by until then.
    bypassed_until: u64,
    /// A CPU came or went last then.
    hotplugged_at: u64,
    /// What CPUs together have had for higher classes and for the host.
    withheld_ns: u64,
    error: Option<String>,
}

thread_local! {
    static CURRENT: Cell<*mut Machine> = const { Cell::new(std::ptr::null_mut()) };
}

/// Calls `f` with the machine that is calling the scheduler; for the functions that the scheduler calls.
#[allow(unsafe_code)]
pub(crate) fn with_machine<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    let machine = CURRENT.get();
    assert!(!machine.is_null(), "the scheduler runs outside of a machine");
    // SAFETY: `Machine::bpf()` has lent the machine out for the length of the call that this is part of, and does not touch it.
    f(unsafe { &mut *machine })
}

/// Whether the queue is one of those for tasks that a limit holds up.
#[allow(unsafe_code)]
pub(crate) fn is_park(dsq_id: u64) -> bool {
    // SAFETY: the function looks at nothing but its argument.
    unsafe { abi::sim_bpf_is_park(dsq_id) }
}

impl Machine {
    /// A machine that idles, with the scheduler's memory as it was when it was compiled. One at a time: see [`crate::run`].
    pub(crate) fn new(profile: Profile, topology: TopologySpec, costs: Costs, engine_pid: u32, broken: u32) -> Self {
        let nr_cpus = topology.nr_cpus;
        let mut config = abi::BpfConfig {
            engine_pid,
            nr_cpus: nr_cpus as u32,
            nr_llcs: topology.nr_llcs() as u32,
            fast_llc: topology.fast_llc() as u32,
            cores_differ: u32::from(topology.cores_differ()),
            reenqueue_anywhere: u32::from(profile.reenqueues_anywhere),
            schedutil: u32::from(profile.schedutil),
            broken,
            absent: profile.absent_fields(),
        };
        #[allow(unsafe_code)]
        // SAFETY: the caller holds the lock of `crate::run`, so nobody else uses the scheduler's memory.
        let ops = unsafe {
            abi::sim_maps_reset();
            abi::sim_bpf_reset();
            abi::sim_bpf_configure(&raw mut config);
            for cpu in 0..nr_cpus {
                abi::sim_bpf_describe_cpu(
                    cpu as u32,
                    topology.llc_of(cpu) as u32,
                    u32::from(topology.cores_differ() && topology.slow.has(cpu)),
                );
            }
            abi::sim_bpf_ops()
        };
        Self {
            now: START_NS,
            event_at: START_NS,
            nr_events: 0,
            events: BinaryHeap::new(),
            cpus: (0..nr_cpus).map(|cpu| Cpu::new(cpu, START_NS)).collect(),
            without_task: CpuMask::of(0..nr_cpus),
            tasks: Vec::new(),
            by_pid: BTreeMap::new(),
            queues: BTreeMap::from([(queue::GLOBAL, Queue::default())]),
            idle: IdleMasks::all(&topology),
            profile,
            costs,
            topology,
            rings: Rc::default(),
            stats: MachineStats::default(),
            fault: None,
            invariants: Invariants::default(),
            trace: Trace::default(),
            ops,
            this_cpu: 0,
            dispatch: None,
            enqueuing: None,
            timers: Vec::new(),
            walks: BTreeMap::new(),
            nr_walks: 0,
            next_sequence: 0,
            bypassing: false,
            is_unregistered: false,
            is_baseline: false,
            watchdog_ns: None,
            stolen_until: 0,
            stream: None,
            bypassed_until: 0,
            hotplugged_at: 0,
            withheld_ns: 0,
            error: None,
        }
    }

    /// Another scheduler than the one that was compiled in.
    pub(crate) fn compare_with(&mut self, baseline: &BaselineScheduler) {
        self.ops = baseline.ops();
        self.is_baseline = true;
        self.invariants.may_idle_beside_work |= baseline.may_idle_beside_work();
        self.watchdog_ns = baseline.is_loaded().then(|| match self.ops().timeout_ms {
            0 => WATCHDOG_MAX_NS,
            ms => u64::from(ms) * 1_000_000,
        });
    }

    /// The scheduler's table.
    #[allow(unsafe_code)]
    pub(crate) fn ops(&self) -> &Ops {
        // SAFETY: the table is a variable of the scheduler's, which nobody changes during a run.
        unsafe { &*self.ops }
    }

    /// The scheduler is attached.
    pub(crate) fn attach(&mut self) {
        let result = self.op_init();
        if result != 0 {
            self.fail(format!("ops.init failed: {result}"));
        }
    }

    /// Lends the machine to the scheduler for one call, on a CPU.
    #[allow(unsafe_code)]
    pub(crate) fn bpf<R>(&mut self, cpu: usize, f: impl FnOnce(&Ops) -> R) -> R {
        interleave::point();
        let outer_cpu = std::mem::replace(&mut self.this_cpu, cpu);
        let ops = self.ops;
        let outer = CURRENT.replace(&raw mut *self);
        let current = self.current_raw();
        // `__bpf_prog_enter()`: with CONFIG_PREEMPT_RCU, which these kernels have, the current task cannot migrate meanwhile.
        // SAFETY: a task that is current is alive; no reference to it is held.
        unsafe { (*current).migration_disabled += 1 };
        // SAFETY: the table is a variable of the scheduler's, which nobody changes during a run.
        let result = f(unsafe { &*ops });
        // SAFETY: as above.
        unsafe { (*current).migration_disabled -= 1 };
        CURRENT.set(outer);
        self.this_cpu = outer_cpu;
        result
    }

    /// A new task; asleep until it is woken.
    pub(crate) fn create(&mut self, cpu: usize, group: usize, identity: &Identity) -> TaskId {
        let id = self.tasks.len();
        let pid = FIRST_PID + id as i32;
        let task = Task::new(id, pid, group, identity);
        self.by_pid.insert(pid, id);
        self.tasks.push(task);
        if identity.class == TaskClass::Ext {
            let result = self.op_init_task(cpu, id);
            if result != 0 {
                self.fail(format!("ops.init_task failed: {result}"));
            }
            self.op_enable(cpu, id);
            self.op_set_weight(cpu, id);
        }
        id
    }

    /// When the next event is.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if self.stream.as_ref().is_some_and(SharedStream::has_found) {
            return Some(self.now);
        }
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event, and goes to its time.
    pub(crate) fn next_event(&mut self) -> Option<MachineEvent> {
        if let Some((at, event)) = self.stream.as_mut().and_then(SharedStream::next_found) {
            self.event_at = at;
            return Some(event);
        }
        self.now = self.next_at()?;
        self.event_at = self.now;
        self.pop_event()
    }

    /// Takes the next event.
    pub(crate) fn pop_event(&mut self) -> Option<MachineEvent> {
        self.events.pop().map(|Reverse((_, _, event))| event)
    }

    /// On which CPU an event happens.
    pub(crate) fn cpu_of(&self, event: MachineEvent) -> usize {
        match event {
            MachineEvent::Schedule(cpu)
            | MachineEvent::Tick(cpu)
            | MachineEvent::Done(cpu, _)
            | MachineEvent::Interrupt(cpu)
            | MachineEvent::Notify(cpu)
            | MachineEvent::Emptied(cpu) => cpu,
            MachineEvent::Wake(id) | MachineEvent::Start(id) => self.online_cpu(self.tasks[id].cpu),
            MachineEvent::Timer(index, _) => self.online_cpu(self.timers[index].cpu),
            MachineEvent::Scenario(_) | MachineEvent::Unregister | MachineEvent::Turn(_) => self.online_cpu(0),
        }
    }

    /// What belongs to the call that is interrupted.
    pub(crate) fn save_lane(&mut self) -> LaneContext {
        LaneContext {
            this_cpu: self.this_cpu,
            dispatch: self.dispatch.take(),
            enqueuing: self.enqueuing.take(),
            current: CURRENT.replace(std::ptr::null_mut()),
        }
    }

    /// The call goes on.
    pub(crate) fn restore_lane(&mut self, context: LaneContext) {
        self.this_cpu = context.this_cpu;
        self.dispatch = context.dispatch;
        self.enqueuing = context.enqueuing;
        CURRENT.set(context.current);
    }

    /// Has something happen. Events of the same moment happen in the order in which they were asked for.
    pub(crate) fn at(&mut self, at: u64, event: MachineEvent) {
        self.note_timer(at, event);
        self.nr_events += 1;
        self.events.push(Reverse((at.max(self.now), self.nr_events, event)));
    }

    /// The kernel ends the scheduler.
    pub(crate) fn fail(&mut self, text: String) {
        self.error.get_or_insert(text);
    }

    /// Why the kernel has ended the scheduler.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The task of a pid.
    pub(crate) fn task_of_pid(&self, pid: i32) -> Option<&Task> {
        self.by_pid.get(&pid).map(|id| &self.tasks[*id])
    }

    /// The task is gone: nobody finds it by its pid any more.
    pub(crate) fn forget_pid(&mut self, id: TaskId) {
        let pid = self.tasks[id].kernel().pid;
        self.by_pid.remove(&pid);
    }

    /// Kicks are late: the host has a CPU, or the scheduler is passed by.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.bypassing || self.now < self.stolen_until + self.costs.kick_bound_ns()
    }

    /// How long work may wait beside an idle CPU.
    pub(crate) fn kick_bound_ns(&self) -> u64 {
        let ticks = if self.stream.is_some() { SharedStream::WAIT_TICKS } else { 0 };
        self.costs.kick_bound_ns() + ticks * 1_000_000_000 / self.profile.hz
    }

    /// Another scheduler than the one that was compiled in.
    pub(crate) fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    /// The CPU on which the scheduler runs.
    pub(crate) fn this_cpu(&self) -> usize {
        self.this_cpu
    }

    /// The task on the CPU that runs the scheduler's code now, an idle task included.
    pub(crate) fn current_raw(&self) -> *mut TaskStruct {
        let cpu = &self.cpus[self.this_cpu];
        cpu.current.map_or(cpu.idle_task.raw(), |id| self.tasks[id].raw())
    }

    /// Since when user space has the task, as BPF knows it.
    #[allow(unsafe_code)]
    pub(crate) fn in_flight_since(&mut self, id: TaskId) -> Option<u64> {
        let raw = self.tasks[id].raw();
        // SAFETY: the task is alive, and the function only reads the scheduler's memory.
        let since = self.bpf(0, |_| unsafe { abi::sim_bpf_in_flight_since(raw) });
        (since != 0).then_some(since)
    }

    /// Whether BPF knows that it has to wake the engine.
    #[allow(unsafe_code)]
    pub(crate) fn is_engine_due(&mut self) -> bool {
        // SAFETY: the function only reads the scheduler's memory.
        self.bpf(0, |_| unsafe { abi::sim_bpf_engine_due_ns() }) != 0
    }

    /// The control page.
    #[allow(unsafe_code)]
    pub fn control(&mut self) -> &ControlPage {
        // SAFETY: the page lives until the next run begins, which the lock of `crate::run` keeps from happening.
        self.bpf(0, |_| unsafe { &*abi::sim_bpf_control() })
    }

    /// The slot table.
    #[allow(unsafe_code)]
    pub fn slots(&mut self) -> &[Slot] {
        // SAFETY: as above; the map has that many entries.
        self.bpf(0, |_| unsafe {
            std::slice::from_raw_parts(abi::sim_bpf_slots(), scherzo_wire::layout::NR_SLOTS as usize)
        })
    }

    /// What each CPU counted.
    #[allow(unsafe_code)]
    pub fn cpu_stats(&mut self) -> &[CpuStats] {
        let nr = self.cpus.len();
        // SAFETY: as above; the map was made for that many CPUs.
        self.bpf(0, |_| unsafe { std::slice::from_raw_parts(abi::sim_bpf_cpu_stats(), nr) })
    }

    /// The engine's program that kicks a CPU.
    pub(crate) fn ring_doorbell(&mut self, cpu: usize) {
        #[allow(unsafe_code)]
        // SAFETY: the machine is lent out.
        self.bpf(cpu, |_| unsafe { abi::sim_bpf_doorbell() });
    }

    /// Allowed CPUs of a task that take tasks.
    pub(crate) fn usable(&self, id: TaskId) -> CpuMask {
        self.tasks[id].mask().and(&self.topology.active)
    }
}

/// Where time begins: late enough that "long before" is not negative.
const START_NS: u64 = 1_000_000_000_000;
/// `SCX_WATCHDOG_MAX_TIMEOUT`.
pub(crate) const WATCHDOG_MAX_NS: u64 = 30_000_000_000;
/// Pid of the first task, which is the engine.
pub(crate) const FIRST_PID: i32 = 1000;
