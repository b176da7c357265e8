//! An engine and a kernel that only pretend, for developing clients, for demonstrations and for tests where no
//! sched_ext kernel is at hand. Everything above the trait is the real service.
//!
//! The pretended kernel is a directory with the files of sysfs and procfs that the service reads. Two signals to the
//! service play accidents: SIGUSR1 kills the engine, SIGUSR2 makes it stop answering, or answer again. Taking the
//! scheduler out of the pretended kernel ejects it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use scherzo_host::{Root, ThreadPolicy};
use scherzo_wire::control::{ControlWord, Mode};
use scherzo_wire::layout::{Class, ControlPage, Counter, CpuStats};
use scherzo_wire::message::{ExitKind, FailKind, LoadSettings, ToEngine};
use scherzo_wire::page::{Mapping, Shared, memory_file};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{Engine, Reporter, hello};
use crate::input::Input;
use crate::sample::SharedPages;
use scherzo_supervisor::{EngineEvent, Gone, Run};

const OPS: &str = "scherzo_simulated";
const NR_CPUS: u32 = 4;
/// RCU's grace-period thread.
pub const RCU_THREAD: u32 = 17;
/// What a real load takes on an ordinary machine.
const LOAD_TIME: Duration = Duration::from_millis(40);
const BEAT: Duration = Duration::from_millis(100);
const SIGKILL: i32 = 9;

/// The pretended kernel.
#[derive(Clone, Debug)]
pub struct Tree(Root);

impl Tree {
    /// The files that are there.
    #[must_use]
    pub fn at(root: Root) -> Self {
        Self(root)
    }

    /// Makes the files of a kernel with sched_ext and nothing loaded.
    pub fn plant(root: Root) -> io::Result<Self> {
        let tree = Self(root);
        tree.write("proc/sys/kernel/osrelease", "6.18.0-simulated\n")?;
        tree.write("proc/sys/vm/compact_unevictable_allowed", "1\n")?;
        tree.write("proc/stat", "cpu  1 0 1 100 0 0 0 0 0 0\n")?;
        set_policy(&tree.0, RCU_THREAD, ThreadPolicy::Normal)?;
        for (name, value) in
            [("state", "disabled\n"), ("enable_seq", "0\n"), ("switch_all", "0\n"), ("nr_rejected", "0\n")]
        {
            tree.write(&format!("sys/kernel/sched_ext/{name}"), value)?;
        }
        Ok(tree)
    }

    /// Shows these operations as loaded.
    pub fn load(&self, ops: &str) -> io::Result<()> {
        let sequence = fs::read_to_string(self.0.path("sys/kernel/sched_ext/enable_seq"))?;
        let next = sequence.trim().parse::<u64>().map_err(io::Error::other)? + 1;
        self.write("sys/kernel/sched_ext/enable_seq", &format!("{next}\n"))?;
        self.write("sys/kernel/sched_ext/switch_all", "1\n")?;
        self.write("sys/kernel/sched_ext/root/ops", &format!("{ops}\n"))?;
        self.write("sys/kernel/sched_ext/state", "enabled\n")
    }

    /// Does with `vm.compact_unevictable_allowed` what loading does; gives what it was.
    fn turn_compaction_off(&self) -> io::Result<Option<u32>> {
        let before = scherzo_host::compact_unevictable(&self.0).map_err(io::Error::other)?;
        if before.is_some() {
            self.set_compaction(0)?;
        }
        Ok(before)
    }

    fn set_compaction(&self, value: u32) -> io::Result<()> {
        scherzo_host::set_compact_unevictable(&self.0, value).map_err(io::Error::other)
    }

    /// Shows nothing as loaded.
    pub fn unload(&self) -> io::Result<()> {
        self.write("sys/kernel/sched_ext/state", "disabled\n")?;
        self.write("sys/kernel/sched_ext/switch_all", "0\n")?;
        let directory = self.0.path("sys/kernel/sched_ext/root");
        if directory.exists() { fs::remove_dir_all(directory) } else { Ok(()) }
    }

    /// Somebody else's may come so soon after an ejection that nobody has seen the kernel with nothing loaded.
    fn has_other_scheduler(&self) -> bool {
        matches!(crate::kernel::read(&self.0), Ok(scherzo_supervisor::Kernel::Loaded { ops }) if ops != OPS)
    }

    /// Replaces a file whole, as a reader of sysfs never sees half a value.
    fn write(&self, relative: &str, text: &str) -> io::Result<()> {
        let path = self.0.path(relative);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let new = path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, path)
    }
}

/// Shows RCU's thread, the only one that the pretended kernel has, as scheduled so.
pub fn set_policy(root: &Root, thread: u32, policy: ThreadPolicy) -> io::Result<()> {
    let (policy, priority) = match policy {
        ThreadPolicy::Normal => (0, 0),
        ThreadPolicy::Fifo(priority) => (1, priority),
        ThreadPolicy::Other => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let unused = "0 ".repeat(35);
    Tree(root.clone()).write(
        &format!("proc/{thread}/stat"),
        &format!("{thread} (rcu_preempt) I 2 {unused}{priority} {policy} 0 0 0 0 0 0 0 0 0 0 0\n"),
    )
}

/// Pretends to start engine processes.
#[derive(Debug)]
pub struct Simulated {
    tree: Tree,
    inputs: mpsc::Sender<Input>,
    running: Option<mpsc::UnboundedSender<SimulatedOrder>>,
}

#[derive(Debug)]
enum SimulatedOrder {
    Message(ToEngine),
    Kill,
}

impl Simulated {
    /// Engines that load into this pretended kernel.
    #[must_use]
    pub fn new(tree: Tree, inputs: mpsc::Sender<Input>) -> Self {
        Self { tree, inputs, running: None }
    }

    fn order(&self, order: SimulatedOrder) {
        if let Some(running) = &self.running {
            // An engine that is gone has reported so.
            let _ = running.send(order);
        }
    }
}

impl Engine for Simulated {
    fn spawn(&mut self, run: Run) {
        let (orders, inbox) = mpsc::unbounded_channel();
        self.running = Some(orders);
        let reporter = Reporter::new(run, self.inputs.clone());
        let process = Process {
            tree: self.tree.clone(),
            reporter,
            loaded: None,
            compaction: None,
            silent: false,
            unread: Vec::new(),
        };
        tokio::spawn(process.live(inbox));
    }

    fn send(&mut self, message: &ToEngine) {
        self.order(SimulatedOrder::Message(*message));
    }

    fn kill(&mut self) {
        self.order(SimulatedOrder::Kill);
    }
}

/// One pretended process.
struct Process {
    tree: Tree,
    reporter: Reporter,
    loaded: Option<Fiction>,
    /// What loading has turned off, as it was.
    compaction: Option<u32>,
    /// It does not answer.
    silent: bool,
    unread: Vec<ToEngine>,
}

impl Process {
    async fn live(mut self, mut inbox: mpsc::UnboundedReceiver<SimulatedOrder>) {
        let how = match self.converse(&mut inbox).await {
            Ok(how) => how,
            Err(error) => {
                self.fail(FailKind::Other, format!("the simulation failed: {error}")).await;
                Gone::Code(1)
            }
        };
        if self.loaded.take().is_some()
            && !self.tree.has_other_scheduler()
            && let Err(error) = self.tree.unload()
        {
            tracing::error!("cannot unload the simulated scheduler: {error}");
        }
        self.reporter.report(EngineEvent::Gone(how), None).await;
    }

    async fn converse(&mut self, inbox: &mut mpsc::UnboundedReceiver<SimulatedOrder>) -> io::Result<Gone> {
        let mut accident = signal(SignalKind::user_defined1())?;
        let mut silence = signal(SignalKind::user_defined2())?;
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.reporter.report(hello(), None).await;
        loop {
            tokio::select! {
                order = inbox.recv() => match order {
                    Some(SimulatedOrder::Message(message)) if self.silent => self.unread.push(message),
                    Some(SimulatedOrder::Message(message)) => {
                        if let Some(how) = self.obey(message).await? {
                            return Ok(how);
                        }
                    }
                    Some(SimulatedOrder::Kill) | None => return Ok(Gone::Signal(SIGKILL)),
                },
                _ = accident.recv() => return Ok(Gone::Signal(SIGKILL)),
                _ = silence.recv() => {
                    self.silent = !self.silent;
                    if let Some(fiction) = &self.loaded {
                        fiction.turn_degraded();
                    }
                    for message in self.read_up() {
                        if let Some(how) = self.obey(message).await? {
                            return Ok(how);
                        }
                    }
                }
                _ = beat.tick() => {
                    if self.is_ejected() {
                        self.loaded = None;
                        self.restore_compaction()?;
                        let text = "simulated ejection".to_owned();
                        self.reporter.report(EngineEvent::Exited { kind: ExitKind::Error, code: 1, text }, None).await;
                        return Ok(Gone::Code(0));
                    }
                    if let Some(fiction) = &mut self.loaded {
                        fiction.go_on();
                    }
                }
            }
        }
    }

    fn read_up(&mut self) -> Vec<ToEngine> {
        if self.silent { Vec::new() } else { std::mem::take(&mut self.unread) }
    }

    /// Does as told; tells how the process ends, if it does.
    async fn obey(&mut self, message: ToEngine) -> io::Result<Option<Gone>> {
        match message {
            ToEngine::Load(settings) => {
                sleep(LOAD_TIME).await;
                if let Some(kind) = self.obstacle() {
                    self.fail(kind, "something else is loaded".to_owned()).await;
                    return Ok(Some(Gone::Code(1)));
                }
                let (fiction, pages) = Fiction::begin(&settings)?;
                self.compaction = self.tree.turn_compaction_off()?;
                self.tree.load(OPS)?;
                self.loaded = Some(fiction);
                self.reporter.report(EngineEvent::Loaded, Some(pages)).await;
            }
            ToEngine::Apply { seq, settings } => {
                if let Some(fiction) = &mut self.loaded {
                    fiction.switch(&settings);
                }
                self.reporter.report(EngineEvent::Done { seq }, None).await;
            }
            ToEngine::Refresh { seq } => self.reporter.report(EngineEvent::Done { seq }, None).await,
            // Loading takes no more without.
            ToEngine::Prepare(_) => {}
            ToEngine::Unload => {
                if self.loaded.take().is_some() {
                    self.tree.unload()?;
                    self.restore_compaction()?;
                    let exited = EngineEvent::Exited { kind: ExitKind::Unloaded, code: 0, text: String::new() };
                    self.reporter.report(exited, None).await;
                }
                return Ok(Some(Gone::Code(0)));
            }
        }
        Ok(None)
    }

    fn restore_compaction(&mut self) -> io::Result<()> {
        self.compaction.take().map_or(Ok(()), |before| self.tree.set_compaction(before))
    }

    fn is_ejected(&self) -> bool {
        let is_idle = || matches!(crate::kernel::read(&self.tree.0), Ok(scherzo_supervisor::Kernel::Idle));
        self.loaded.is_some() && (is_idle() || self.tree.has_other_scheduler())
    }

    fn obstacle(&self) -> Option<FailKind> {
        match crate::kernel::read(&self.tree.0) {
            Ok(scherzo_supervisor::Kernel::Idle) => None,
            Ok(scherzo_supervisor::Kernel::Missing) => Some(FailKind::NotSupported),
            Ok(_) => Some(FailKind::Conflict),
            Err(_) => Some(FailKind::Other),
        }
    }

    async fn fail(&self, kind: FailKind, text: String) {
        self.reporter.report(EngineEvent::Failed { kind, text }, None).await;
    }
}

/// Statistics that move as if tasks were scheduled.
struct Fiction {
    control: Mapping<ControlPage>,
    cpus: Mapping<CpuStats>,
    word: ControlWord,
    dice: u64,
}

impl Fiction {
    fn begin(settings: &LoadSettings) -> io::Result<(Self, SharedPages)> {
        let (control_fd, control) = shared_page(c"scherzo-control", 1)?;
        let (cpus_fd, cpus) = shared_page(c"scherzo-cpus", NR_CPUS as usize)?;
        let pages = SharedPages::map(&[control_fd, cpus_fd], NR_CPUS, LOAD_TIME.as_micros() as u64, None)?;
        let word = word_of(settings, 0);
        let mut fiction = Self { control, cpus, word, dice: 0x9e37_79b9_7f4a_7c15 };
        let page = fiction.page();
        page.nr_online_cpus.store(NR_CPUS.into(), Relaxed);
        page.nr_tasks.store(214, Relaxed);
        page.resident_bytes.store(11 << 20, Relaxed);
        fiction.go_on();
        Ok((fiction, pages))
    }

    fn page(&self) -> &ControlPage {
        &self.control.as_slice()[0]
    }

    fn switch(&mut self, settings: &LoadSettings) {
        self.word = word_of(settings, self.word.generation.wrapping_add(1));
        self.page().word.store(self.word.pack(), Relaxed);
    }

    fn turn_degraded(&self) {
        self.page().degraded_seq.fetch_add(1, Relaxed);
    }

    /// Adds what a beat would bring.
    fn go_on(&mut self) {
        for cpu in 0..self.cpus.as_slice().len() {
            let (woken, contended) = (60 + self.roll(40), 20 + self.roll(20));
            let stats = &self.cpus.as_slice()[cpu];
            let count = |counter: Counter, number| stats.counters[counter as usize].fetch_add(number, Relaxed);
            count(Counter::Direct, woken);
            count(Counter::ContendedBatch, contended);
            count(Counter::Submitted, contended);
            count(Counter::SubmittedBatch, contended - contended / 20);
            count(Counter::User, contended);
            count(Counter::Switches, woken + contended);
            stats.busy_ns.fetch_add(BEAT.as_nanos() as u64 / 10 * 7, Relaxed);
            stats.nr_idle_entries.fetch_add(woken / 2, Relaxed);
            self.add_waits(cpu, woken, contended);
        }
        let page = self.page();
        page.nr_running.store(3, Relaxed);
        page.nr_loops.fetch_add(40, Relaxed);
        page.nr_records.fetch_add(120, Relaxed);
        page.nr_dispatched.fetch_add(120, Relaxed);
        page.nr_max_batch.store(17, Relaxed);
        page.cpu_time_ns.fetch_add(900_000, Relaxed);
    }

    fn add_waits(&mut self, cpu: usize, woken: u64, contended: u64) {
        // Arrival order lets interactive tasks wait as long as any.
        let usual_bucket = if self.word.mode == Mode::Interactive { 3 } else { 7 };
        for _ in 0..woken {
            self.add_wait(cpu, Class::Interactive, usual_bucket);
        }
        for _ in 0..contended {
            self.add_wait(cpu, Class::Batch, 9);
        }
    }

    fn add_wait(&mut self, cpu: usize, class: Class, usual_bucket: u64) {
        let bucket = usual_bucket + self.roll(4) * u64::from(self.roll(8) == 0) + self.roll(2);
        self.cpus.as_slice()[cpu].wait[class as usize][bucket as usize].fetch_add(1, Relaxed);
    }

    /// A number below `limit`, the same ones in every simulation (xorshift).
    fn roll(&mut self, limit: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % limit
    }
}

fn word_of(settings: &LoadSettings, generation: u32) -> ControlWord {
    let LoadSettings { mode, preemption, .. } = *settings;
    ControlWord { mode, preemption, placement: settings.into(), generation, ..ControlWord::default() }
}

fn shared_page<T: Shared>(name: &std::ffi::CStr, len: usize) -> io::Result<(OwnedFd, Mapping<T>)> {
    let fd = memory_file::<T>(name, len)?;
    let mapping = Mapping::read_write(fd.as_fd(), len)?;
    Ok((fd, mapping))
}
