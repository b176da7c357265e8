//! Loading: from a request to a scheduler that the kernel confirms, and back.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, anyhow, ensure};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use scherzo_engine_loop::{Doorbell, EnginePages, publish_limits};
use scherzo_host::{Root, Topology};
use scherzo_wire::control::ControlWord;
use scherzo_wire::layout::{ControlPage, NR_SLOTS, Slot};
use scherzo_wire::message::{ExitKind, FailKind, LoadSettings};
use scherzo_wire::page::Mapping;
use scx_utils::{compat, scx_ops_attach, scx_ops_load, scx_ops_open};

use crate::bpf_skel::{BpfSkel, BpfSkelBuilder, OpenBpfSkel};
use crate::kernel_file::KernelFile;
use crate::{exit, topology};

const SCHED_EXT_STATE: &str = "/sys/kernel/sched_ext/state";
const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Why loading failed.
#[derive(Debug)]
pub struct LoadError {
    /// Stable kind.
    pub kind: FailKind,
    /// What happened, in the kernel's words where it has any.
    pub cause: anyhow::Error,
}

impl LoadError {
    fn new(kind: FailKind, text: impl Into<String>) -> Self {
        Self { kind, cause: anyhow!(text.into()) }
    }
}

impl From<anyhow::Error> for LoadError {
    fn from(cause: anyhow::Error) -> Self {
        let denied = cause.chain().any(|error| {
            error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
                || error
                    .downcast_ref::<libbpf_rs::Error>()
                    .is_some_and(|error| error.kind() == libbpf_rs::ErrorKind::PermissionDenied)
        });
        Self { kind: if denied { FailKind::Permission } else { FailKind::Other }, cause }
    }
}

/// What the kernel says about schedulers, open.
#[derive(Debug)]
pub struct SchedExtFile(KernelFile);

impl SchedExtFile {
    /// Fails where the kernel lacks what must be there for it to make sense to try.
    pub fn open() -> Result<Self, LoadError> {
        let Ok(state) = KernelFile::open(SCHED_EXT_STATE) else {
            return Err(LoadError::new(
                FailKind::NotSupported,
                "this kernel has no sched_ext: it needs Linux 6.12 or newer, built with CONFIG_SCHED_CLASS_EXT",
            ));
        };
        if !Path::new(VMLINUX_BTF).exists() {
            return Err(LoadError::new(
                FailKind::NotSupported,
                "this kernel does not publish its type information: it must be built with CONFIG_DEBUG_INFO_BTF",
            ));
        }
        Ok(Self(state))
    }

    /// Fails if a scheduler is loaded.
    pub fn ensure_free(&self) -> Result<(), LoadError> {
        let free = self.0.read()? == "disabled";
        free.then_some(())
            .ok_or_else(|| LoadError::new(FailKind::Conflict, "another sched_ext scheduler is loaded: stop it first"))
    }
}

/// Tells a failure to load as the malformed type information that explains it. That is looked for only afterwards: the
/// service has looked when it started, and nobody should wait for it without a scheduler.
fn explain(error: LoadError) -> LoadError {
    let malformed = scherzo_host::malformed_kfuncs(&Root::default());
    if malformed.is_empty() {
        return error;
    }
    LoadError::new(FailKind::MalformedBtf, scherzo_host::quote_names(&malformed))
}

/// Room for the BPF object: for two of them, since a second is opened where the first cannot be loaded.
pub type Room = [MaybeUninit<OpenObject>; 2];

/// Nothing opened yet.
pub fn room() -> Room {
    [const { MaybeUninit::uninit() }; 2]
}

/// Loaded programs and mapped pages, not attached yet.
pub struct LoadedScheduler<'obj> {
    skel: BpfSkel<'obj>,
    pages: Rc<Pages>,
    nr_cpus: u32,
}

/// The memory that BPF and the engine share.
pub struct Pages {
    control: Mapping<ControlPage>,
    slots: Mapping<Slot>,
    tick_us: u32,
}

impl EnginePages for Pages {
    type Parked = AtomicU64;

    fn control(&self) -> &ControlPage {
        &self.control.as_slice()[0]
    }

    fn slots(&self) -> &[Slot] {
        self.slots.as_slice()
    }

    fn parked(&self) -> &AtomicU64 {
        &self.control().parked
    }

    fn tick_us(&self) -> u32 {
        self.tick_us
    }
}

impl<'obj> LoadedScheduler<'obj> {
    /// Opens, sizes, verifies and maps. This is the slow part, and the last that allocates much.
    pub fn new(room: &'obj mut Room, settings: &LoadSettings) -> Result<Self, LoadError> {
        let mut topology = topology::detect()?;
        let skel = retry_with_uniform_cores(room, &mut topology, |object, topology| load(object, topology, settings))?;

        let control = Mapping::read_write(skel.maps.control.as_fd(), 1).context("cannot map the control page")?;
        let slots =
            Mapping::read_write(skel.maps.slots.as_fd(), NR_SLOTS as usize).context("cannot map the slot table")?;
        let pages = Rc::new(Pages { control, slots, tick_us: tick_us() });
        let loaded = Self { skel, pages, nr_cpus: topology.llc_of_cpu.len() as u32 };
        loaded.write_topology(&topology)?;
        loaded.write_limits(settings);
        Ok(loaded)
    }

    fn write_topology(&self, topology: &Topology) -> Result<()> {
        // The map holds `struct cpu_ctx`: three words, then the LLC, whether it is known, and whether the core is slow.
        const LLC_OFFSET: usize = 24;
        let mut value = vec![0; self.skel.maps.cpu_ctxs.value_size() as usize];
        for (cpu, llc) in (0_u32..).zip(&topology.llc_of_cpu) {
            let words = [llc.unwrap_or(0), llc.is_some().into(), topology.is_slow(cpu as usize).into()];
            for (to, word) in value[LLC_OFFSET..].chunks_exact_mut(4).zip(words) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            self.skel
                .maps
                .cpu_ctxs
                .update(&cpu.to_ne_bytes(), &value, MapFlags::ANY)
                .context("cannot write the topology")?;
        }
        Ok(())
    }

    /// Has it begin with these settings, if what they fix is what it was loaded with.
    pub fn write_limits(&self, settings: &LoadSettings) {
        let page = self.pages.control();
        publish_limits(page, settings, self.pages.tick_us());
        let LoadSettings { mode, preemption, .. } = *settings;
        let word = ControlWord { mode, preemption, placement: settings.into(), ..ControlWord::default() };
        page.word.store(word.pack(), Relaxed);
    }

    /// The memory shared with BPF.
    pub fn pages(&self) -> Rc<Pages> {
        Rc::clone(&self.pages)
    }

    /// Possible CPUs.
    pub fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    /// Descriptors for the daemon: the control page, then the per-CPU pages.
    pub fn page_fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.skel.maps.control.as_fd(), self.skel.maps.cpu_stats.as_fd()]
    }

    /// The ring of queued tasks.
    pub fn queued_tasks_map(&self) -> &dyn MapCore {
        &self.skel.maps.queued_tasks
    }

    /// The ring of dispatched tasks.
    pub fn dispatched_tasks_map(&self) -> &dyn MapCore {
        &self.skel.maps.dispatched_tasks
    }

    /// Programs that the scheduling loop runs by itself.
    pub fn kicker(&self) -> Result<Kicker> {
        let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().context("cannot keep a program open");
        Ok(Kicker {
            kick_all: own(self.skel.progs.scherzo_kick_all.as_fd())?,
            doorbell: own(self.skel.progs.scherzo_doorbell.as_fd())?,
        })
    }

    /// Makes it the scheduler of the machine.
    pub fn attach(&mut self, kernel: &SchedExtFile) -> Result<Link, LoadError> {
        let skel = &mut self.skel;
        // The macro looks first whether a scheduler is loaded, which takes a file that cannot be opened any more. The kernel
        // refuses a second one anyway.
        let attached: Result<Link> = scx_ops_attach!(skel, scherzo_ops);
        match attached {
            _ if self.refused_for_hotplug() => {
                Err(LoadError::new(FailKind::Outdated, "CPUs came or went since the scheduler was prepared"))
            }
            Ok(link) => Ok(link),
            // Somebody else may have been faster than we were since the check.
            Err(error) => Err(kernel.ensure_free().err().unwrap_or_else(|| error.into())),
        }
    }

    fn refused_for_hotplug(&self) -> bool {
        let exit = self.skel.maps.data_data.as_ref().map(|data| (data.uei.kind, data.uei.exit_code));
        exit.is_some_and(|(kind, code)| kind != 0 && code as u64 & *scx_utils::SCX_ECODE_RSN_HOTPLUG != 0)
    }

    /// Why the kernel let go of it, once it has.
    pub fn exit_reason(&self) -> SchedulerExit {
        let skel = &self.skel;
        let data = skel.maps.data_data.as_ref();
        let (kind, code) = data.map_or((0, 0), |data| (data.uei.kind, data.uei.exit_code));
        let text = data.map_or_else(String::new, |data| exit::describe(&data.uei.reason, &data.uei.msg));
        let dump = exit::dump();
        if !dump.is_empty() {
            eprintln!("what the kernel dumped:\n{dump}");
        }
        let by_watchdog = kind == scx_utils::ScxExitKind::ErrorStall as i32;
        // The threads that end RCU's grace periods are tasks of ours like others, and starve with them.
        let by_rcu = text.contains("RCU CPU stall");
        let starved = self.pages.control().nr_higher_class_cpus.load(Relaxed) > 0;
        let kind = match kind {
            0 | 1 => ExitKind::Unloaded,
            // Our own check leaves such time out of account, the kernel's do not.
            _ if (by_watchdog || by_rcu) && starved => ExitKind::RtStarvation,
            _ if by_watchdog || text.contains("stall:") => ExitKind::Stall,
            kind if is_exit_kind(kind, "SCX_EXIT_ERROR_REENQ") => ExitKind::ReenqueueLimit,
            kind if is_exit_kind(kind, "SCX_EXIT_ERROR_RESCUE") => ExitKind::RescueOverload,
            kind if kind >= scx_utils::ScxExitKind::Error as i32 => ExitKind::Error,
            kind if kind == scx_utils::ScxExitKind::Unreg as i32 => ExitKind::Unloaded,
            _ => ExitKind::Kernel,
        };
        SchedulerExit { kind, code, text }
    }
}

/// The clocks that the kernel calls coarse advance at each tick, and say how far.
fn tick_us() -> u32 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    u32::try_from(tick.tv_sec * 1_000_000 + tick.tv_nsec / 1_000).unwrap_or(u32::MAX)
}

/// Whether the running kernel calls this kind of exit by that name. It numbers the kinds, and from 7.3 has some that the
/// bindings do not know.
fn is_exit_kind(kind: i32, name: &str) -> bool {
    compat::read_enum("scx_exit_kind", name).is_ok_and(|value| i64::from(kind) == value.cast_signed())
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerExit {
    /// Stable kind.
    pub kind: ExitKind,
    /// The kernel's code.
    pub code: i64,
    /// The kernel's words.
    pub text: String,
}

/// BPF programs that user space runs, each a single system call that allocates nothing.
#[derive(Debug)]
pub struct Kicker {
    kick_all: OwnedFd,
    doorbell: OwnedFd,
}

impl Kicker {
    /// Makes sleeping CPUs look for work: after a new control word.
    pub fn kick_all(&self) {
        run(&self.kick_all);
    }
}

impl Doorbell for Kicker {
    fn ring(&mut self) {
        run(&self.doorbell);
    }
}

fn run(program: &OwnedFd) {
    // SAFETY: plain data for which all zeroes is valid; the size is set as the interface wants.
    let mut opts: libbpf_rs::libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    opts.sz = size_of_val(&opts) as u64;
    // SAFETY: the descriptor is open and `opts` lives through the call. A failure only costs a late kick.
    unsafe { libbpf_rs::libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut opts) };
}

/// Loads so that fast and slow cores are told apart, where there are both. If the kernel does not take it so, perhaps because
/// its verifier stumbles over what is only looked at then, they are taken for alike: better than no scheduler.
fn retry_with_uniform_cores<'obj, T>(
    [first, second]: &'obj mut Room,
    topology: &mut Topology,
    mut load: impl FnMut(&'obj mut MaybeUninit<OpenObject>, &Topology) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let error = match load(first, topology) {
        Err(error) if topology.cores_differ() => error,
        result => return result,
    };
    topology.slow_cpus.clear();
    // If this fails as well, the cores had nothing to do with it.
    let loaded = load(second, topology)?;
    eprintln!("<4>fast and slow cores are taken for alike, since telling them apart failed: {:#}", error.cause);
    Ok(loaded)
}

fn load<'obj>(
    object: &'obj mut MaybeUninit<OpenObject>,
    topology: &Topology,
    settings: &LoadSettings,
) -> Result<BpfSkel<'obj>, LoadError> {
    let mut open = open_skeleton(object)?;
    size_maps(&mut open, topology)?;
    choose_preemption_notice(&mut open)?;
    choose_fixed_options(&mut open, settings)?;
    load_skeleton(open).map_err(|error| explain(error.into()))
}

fn open_skeleton(object: &mut MaybeUninit<OpenObject>) -> Result<OpenBpfSkel<'_>> {
    let builder = BpfSkelBuilder::default();
    let mut open: Result<OpenBpfSkel<'_>> = scx_ops_open!(builder, object, scherzo_ops, None);
    if let Ok(open) = &mut open {
        set_ops_name(&mut open.struct_ops.scherzo_ops_mut().name);
    }
    open
}

/// Name and version, as everybody sees them in sysfs.
fn set_ops_name(field: &mut [i8]) {
    let name = concat!("scherzo_", env!("CARGO_PKG_VERSION"));
    field.fill(0);
    for (to, from) in field.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
}

fn load_skeleton(mut open: OpenBpfSkel<'_>) -> Result<BpfSkel<'_>> {
    scx_ops_load!(open, scherzo_ops, uei)
}

fn size_maps(open: &mut OpenBpfSkel<'_>, topology: &Topology) -> Result<()> {
    let nr_cpus = topology.llc_of_cpu.len() as u32;
    open.maps.cpu_stats.set_max_entries(nr_cpus)?;
    open.maps.cpu_ctxs.set_max_entries(nr_cpus)?;
    open.maps.llc_ctxs.set_max_entries(topology.nr_llcs)?;
    let rodata = open.maps.rodata_data.as_mut().context("the object has no constants")?;
    rodata.engine_pid = std::process::id();
    rodata.nr_cpu_slots = nr_cpus;
    rodata.nr_llcs = topology.nr_llcs;
    rodata.cores_differ = topology.cores_differ();
    rodata.fast_llc = topology.fast_llc();
    Ok(())
}

/// What the kernel reads once, when the scheduler is registered.
fn choose_fixed_options(open: &mut OpenBpfSkel<'_>, settings: &LoadSettings) -> Result<()> {
    let ops = open.struct_ops.scherzo_ops_mut();
    ops.timeout_ms = settings.watchdog_s * 1_000;
    // Else the kernel puts a task back by itself that may not migrate, with a new slice, and takes each task for one that a
    // real-time task drives from its CPU on 6.18: the program that empties the CPU's local DSQ then (`cpu_release`) runs on that
    // task, and has disabled its migration. A hog would keep a CPU where a real-time task wakes up every few milliseconds.
    ops.flags |= *compat::SCX_OPS_ENQ_MIGRATION_DISABLED;
    if settings.partial {
        ops.flags |= *compat::SCX_OPS_SWITCH_PARTIAL;
    }
    if settings.per_node_idle {
        let flag = *compat::SCX_OPS_BUILTIN_IDLE_PER_NODE;
        ensure!(flag != 0, "this kernel cannot track idle CPUs per NUMA node: turn per_node_idle off");
        ops.flags |= flag;
    }
    let rodata = open.maps.rodata_data.as_mut().context("the object has no constants")?;
    rodata.per_node_idle = settings.per_node_idle;
    rodata.partial = settings.partial;
    rodata.asks_for_performance = scherzo_host::frequency_can_follow_scheduler(&Root::default());
    rodata.study_policy = settings.policy != LoadSettings::default().policy;
    Ok(())
}

/// From 6.19 waiting tasks can be put back from anywhere, and the callback for it is on its way out.
fn choose_preemption_notice(open: &mut OpenBpfSkel<'_>) -> Result<()> {
    // The second is of 6.19 and on its way out, the first of 7.1; the macro in BPF takes whichever is there.
    let anywhere = ["scx_bpf_dsq_reenq", "scx_bpf_reenqueue_local___v2"]
        .iter()
        .any(|name| compat::ksym_exists(name).unwrap_or(false));
    open.maps.rodata_data.as_mut().context("the object has no constants")?.reenqueue_anywhere = anywhere;
    if anywhere {
        open.struct_ops.scherzo_ops_mut().cpu_release = std::ptr::null_mut();
    } else {
        open.progs.scherzo_sched_switch.set_autoload(false);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// How often it was loaded, what came of it, and whether cores differ in the end. `takes` says whether the kernel takes a
    /// topology.
    fn attempts(slow_cpus: &[usize], takes: impl Fn(&Topology) -> bool) -> (u32, Result<bool, LoadError>, bool) {
        let slow_cpus: BTreeSet<_> = slow_cpus.iter().copied().collect();
        let mut topology = Topology { llc_of_cpu: vec![Some(0); 4], nr_llcs: 1, slow_cpus };
        let mut room = room();
        let mut nr_attempts = 0;
        let result = retry_with_uniform_cores(&mut room, &mut topology, |_, topology| {
            nr_attempts += 1;
            let refused = || LoadError::new(FailKind::Other, format!("refused the {nr_attempts}. time"));
            takes(topology).then_some(topology.cores_differ()).ok_or_else(refused)
        });
        (nr_attempts, result, topology.cores_differ())
    }

    #[test]
    fn cores_are_told_apart_where_the_kernel_takes_it() {
        assert!(matches!(attempts(&[2, 3], |_| true), (1, Ok(true), true)));
        assert!(matches!(attempts(&[], |_| true), (1, Ok(false), false)));
    }

    #[test]
    fn cores_are_taken_for_alike_where_it_does_not() {
        assert!(matches!(attempts(&[2, 3], |topology| !topology.cores_differ()), (2, Ok(false), false)));
    }

    #[test]
    fn what_has_nothing_to_do_with_cores_is_tried_once_without_them() {
        let (nr_attempts, result, _) = attempts(&[2, 3], |_| false);
        assert_eq!((nr_attempts, result.unwrap_err().cause.to_string().as_str()), (2, "refused the 2. time"));
        assert!(matches!(attempts(&[], |_| false), (1, Err(_), _)));
    }
}
