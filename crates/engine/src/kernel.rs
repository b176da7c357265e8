//! Loading: from a request to a scheduler that the kernel confirms, and back.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, anyhow, ensure};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use scherzo_host::{Root, Topology};
use scherzo_wire::control::ControlWord;
use scherzo_wire::layout::{ControlPage, NR_SLOTS, Slot};
use scherzo_wire::message::{ExitKind, FailKind, LoadSettings};
use scherzo_wire::page::Mapping;
use scx_utils::{compat, scx_ops_attach, scx_ops_load, scx_ops_open, uei_report};

use crate::bpf_skel::{BpfSkel, BpfSkelBuilder, OpenBpfSkel};
use crate::core::publish_limits;
use crate::topology;

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
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

/// What must hold before it makes sense to try.
pub fn check_kernel() -> Result<(), LoadError> {
    let state = Path::new(SCHED_EXT).join("state");
    let Ok(state) = fs::read_to_string(&state) else {
        return Err(LoadError::new(
            FailKind::NotSupported,
            "this kernel has no sched_ext: it needs Linux 6.12 or newer, built with CONFIG_SCHED_CLASS_EXT",
        ));
    };
    if state.trim() != "disabled" {
        return Err(conflict());
    }
    if !Path::new(VMLINUX_BTF).exists() {
        return Err(LoadError::new(
            FailKind::NotSupported,
            "this kernel does not publish its type information: it must be built with CONFIG_DEBUG_INFO_BTF",
        ));
    }
    Ok(())
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

fn scheduler_loaded() -> bool {
    fs::read_to_string(Path::new(SCHED_EXT).join("state")).is_ok_and(|state| state.trim() != "disabled")
}

fn conflict() -> LoadError {
    let ops = fs::read_to_string(Path::new(SCHED_EXT).join("root/ops")).unwrap_or_default();
    let text = format!("another sched_ext scheduler is loaded ({}): stop it first", ops.trim());
    LoadError::new(FailKind::Conflict, text)
}

/// Loaded programs and mapped pages, not attached yet.
pub struct Loaded<'obj> {
    skel: BpfSkel<'obj>,
    pages: Rc<Pages>,
    nr_cpus: u32,
}

/// The memory that BPF and the engine share.
pub struct Pages {
    control: Mapping<ControlPage>,
    slots: Mapping<Slot>,
}

impl Pages {
    /// The control page.
    pub fn control(&self) -> &ControlPage {
        &self.control.as_slice()[0]
    }

    /// The slot table.
    pub fn slots(&self) -> &[Slot] {
        self.slots.as_slice()
    }
}

impl<'obj> Loaded<'obj> {
    /// Opens, sizes, verifies and maps. This is the slow part, and the last that allocates much.
    pub fn new(object: &'obj mut MaybeUninit<OpenObject>, settings: &LoadSettings) -> Result<Self, LoadError> {
        let topology = topology::detect()?;
        let mut open = open_skeleton(object)?;
        size_maps(&mut open, &topology)?;
        choose_preemption_notice(&mut open)?;
        choose_fixed_options(&mut open, settings)?;
        let skel = load_skeleton(open).map_err(|error| explain(error.into()))?;

        let control = Mapping::read_write(skel.maps.control.as_fd(), 1).context("cannot map the control page")?;
        let slots =
            Mapping::read_write(skel.maps.slots.as_fd(), NR_SLOTS as usize).context("cannot map the slot table")?;
        let pages = Rc::new(Pages { control, slots });
        let loaded = Self { skel, pages, nr_cpus: topology.domain_of_cpu.len() as u32 };
        loaded.write_domains(&topology)?;
        loaded.write_limits(settings);
        Ok(loaded)
    }

    fn write_domains(&self, topology: &Topology) -> Result<()> {
        // The map holds `struct cpu_ctx`: three words, then the domain, then whether it is known.
        const LLC_OFFSET: usize = 24;
        let mut value = vec![0; self.skel.maps.cpu_ctxs.value_size() as usize];
        for (cpu, domain) in (0_u32..).zip(&topology.domain_of_cpu) {
            value[LLC_OFFSET..LLC_OFFSET + 4].copy_from_slice(&domain.unwrap_or(0).to_ne_bytes());
            value[LLC_OFFSET + 4..LLC_OFFSET + 8].copy_from_slice(&u32::from(domain.is_some()).to_ne_bytes());
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
        publish_limits(page, settings);
        let LoadSettings { mode, preemption, placement, .. } = *settings;
        let word = ControlWord { mode, preemption, placement, ..ControlWord::default() };
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

    /// The ring of facts.
    pub fn facts_map(&self) -> &dyn MapCore {
        &self.skel.maps.facts
    }

    /// The ring of decisions.
    pub fn decisions_map(&self) -> &dyn MapCore {
        &self.skel.maps.decisions
    }

    /// Programs that the scheduling loop runs by itself.
    pub fn bells(&self) -> Result<Bells> {
        let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().context("cannot keep a program open");
        Ok(Bells {
            kick_all: own(self.skel.progs.scherzo_kick_all.as_fd())?,
            doorbell: own(self.skel.progs.scherzo_doorbell.as_fd())?,
        })
    }

    /// Makes it the scheduler of the machine. `None` if CPUs came or went since it was opened, so that the kernel
    /// refused it: open it anew.
    pub fn attach(&mut self) -> Result<Option<Link>, LoadError> {
        let skel = &mut self.skel;
        let attached: Result<Link> = scx_ops_attach!(skel, scherzo_ops);
        if self.refused_for_hotplug() {
            return Ok(None);
        }
        match attached {
            Ok(link) => Ok(Some(link)),
            // Somebody else was faster than we were since the check.
            Err(_) if scheduler_loaded() => Err(conflict()),
            Err(error) => Err(error.into()),
        }
    }

    fn refused_for_hotplug(&self) -> bool {
        let exit = self.skel.maps.data_data.as_ref().map(|data| (data.uei.kind, data.uei.exit_code));
        exit.is_some_and(|(kind, code)| kind != 0 && code as u64 & *scx_utils::SCX_ECODE_RSN_HOTPLUG != 0)
    }

    /// Why the kernel let go of it, once it has.
    pub fn exit_reason(&self) -> Exit {
        let skel = &self.skel;
        let report: Result<scx_utils::UserExitInfo> = uei_report!(skel, uei);
        let data = skel.maps.data_data.as_ref();
        let (kind, code) = data.map_or((0, 0), |data| (data.uei.kind, data.uei.exit_code));
        let text = match report {
            Ok(_) => "unregistered".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let by_watchdog = kind == scx_utils::ScxExitKind::ErrorStall as i32;
        // The threads that end RCU's grace periods are tasks of ours like others, and starve with them.
        let by_rcu = text.contains("RCU CPU stall");
        let starved = self.pages.control().nr_held_cpus.load(Relaxed) > 0;
        let kind = match kind {
            0 | 1 => ExitKind::Unloaded,
            // Our own check leaves such time out of account, the kernel's do not.
            _ if (by_watchdog || by_rcu) && starved => ExitKind::RtStarvation,
            _ if by_watchdog || text.contains("stall:") => ExitKind::Stall,
            kind if kind >= scx_utils::ScxExitKind::Error as i32 => ExitKind::Error,
            kind if kind == scx_utils::ScxExitKind::Unreg as i32 => ExitKind::Unloaded,
            _ => ExitKind::Kernel,
        };
        Exit { kind, code, text }
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Stable kind.
    pub kind: ExitKind,
    /// The kernel's code.
    pub code: i64,
    /// The kernel's words.
    pub text: String,
}

/// BPF programs that user space runs, each a single system call that allocates nothing.
#[derive(Debug)]
pub struct Bells {
    kick_all: OwnedFd,
    doorbell: OwnedFd,
}

impl Bells {
    /// Makes sleeping CPUs look for work: after a new control word.
    pub fn kick_all(&self) {
        run(&self.kick_all);
    }

    /// Makes one CPU drain decisions although the engine does not block.
    pub fn ring(&self) {
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

fn open_skeleton(object: &mut MaybeUninit<OpenObject>) -> Result<OpenBpfSkel<'_>> {
    let builder = BpfSkelBuilder::default();
    let mut open: Result<OpenBpfSkel<'_>> = scx_ops_open!(builder, object, scherzo_ops, None);
    if let Ok(open) = &mut open {
        set_ops_name(&mut open.struct_ops.scherzo_ops_mut().name);
    }
    open
}

/// Name and version, as everybody sees them in sysfs.
fn set_ops_name(field: &mut [std::ffi::c_char]) {
    let name = concat!("scherzo_", env!("CARGO_PKG_VERSION"));
    field.fill(0);
    for (to, from) in field.iter_mut().zip(name.bytes()) {
        *to = from as std::ffi::c_char;
    }
}

fn load_skeleton(mut open: OpenBpfSkel<'_>) -> Result<BpfSkel<'_>> {
    scx_ops_load!(open, scherzo_ops, uei)
}

fn size_maps(open: &mut OpenBpfSkel<'_>, topology: &Topology) -> Result<()> {
    let nr_cpus = topology.domain_of_cpu.len() as u32;
    open.maps.cpu_stats.set_max_entries(nr_cpus)?;
    open.maps.cpu_ctxs.set_max_entries(nr_cpus)?;
    open.maps.llc_ctxs.set_max_entries(topology.nr_domains)?;
    let rodata = open.maps.rodata_data.as_mut().context("the object has no constants")?;
    rodata.engine_pid = std::process::id();
    rodata.nr_cpu_slots = nr_cpus;
    rodata.nr_llcs = topology.nr_domains;
    Ok(())
}

/// What the kernel reads once, when the scheduler is registered.
fn choose_fixed_options(open: &mut OpenBpfSkel<'_>, settings: &LoadSettings) -> Result<()> {
    let ops = open.struct_ops.scherzo_ops_mut();
    ops.timeout_ms = settings.fixed.watchdog_s * 1_000;
    if settings.fixed.partial {
        ops.flags |= *compat::SCX_OPS_SWITCH_PARTIAL;
    }
    if settings.fixed.per_node_idle {
        let flag = *compat::SCX_OPS_BUILTIN_IDLE_PER_NODE;
        ensure!(flag != 0, "this kernel cannot track idle CPUs per NUMA node: turn per_node_idle off");
        ops.flags |= flag;
    }
    let rodata = open.maps.rodata_data.as_mut().context("the object has no constants")?;
    rodata.per_node_idle = settings.fixed.per_node_idle;
    rodata.partial = settings.fixed.partial;
    Ok(())
}

/// From 6.19 waiting tasks can be put back from anywhere, and the callback for it is on its way out.
fn choose_preemption_notice(open: &mut OpenBpfSkel<'_>) -> Result<()> {
    let anywhere = compat::ksym_exists("scx_bpf_reenqueue_local___v2").unwrap_or(false);
    open.maps.rodata_data.as_mut().context("the object has no constants")?.reenqueue_anywhere = anywhere;
    if anywhere {
        open.struct_ops.scherzo_ops_mut().cpu_release = std::ptr::null_mut();
    } else {
        open.progs.scherzo_sched_switch.set_autoload(false);
    }
    Ok(())
}
