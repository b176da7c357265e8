//! One life of the engine: greet the daemon, perhaps wait in reserve, load, schedule, unload, say how it ended.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use scherzo_engine_loop::EnginePages;
use scherzo_policy::{Construction, Limits, Policy, PolicyVisitor, with_policy};
use scherzo_wire::channel::{self, Received};
use scherzo_wire::layout::{NR_SLOTS, WIRE_VERSION};
use scherzo_wire::message::{ExitKind, FailKind, LoadSettings, ToDaemon, ToEngine};

use crate::arena;
use crate::filter::Filters;
use crate::kernel::{self, LoadError, LoadedScheduler, Room, SchedExtFile, SchedulerExit};
use crate::kernel_file::KernelFile;
use crate::memory::{self, CompactionSetting};
use crate::name;
use crate::privileges;
use crate::scheduler::{LoopEnd, SchedulerLoop};
use crate::signal;

/// Tasks kept in order; with more waiting, order gains nothing.
const POOL_CAPACITY: u32 = 16_384;

/// Serves the daemon at the other end of the socket until one of the two is done.
pub fn run(socket: &OwnedFd) -> Result<()> {
    name::show(name::WAITING);
    memory::avoid_huge_pages();
    send(socket, &ToDaemon::Hello { wire_version: WIRE_VERSION })?;
    match next_request(socket)? {
        Some(ToEngine::Prepare(settings)) => wait_in_reserve(socket, &settings),
        Some(ToEngine::Load(settings)) => report(socket, load(socket, &settings)),
        other => decline(other),
    }
}

/// As a standby engine.
fn wait_in_reserve(socket: &OwnedFd, settings: &LoadSettings) -> Result<()> {
    let mut room = kernel::room();
    let prepared = match KernelFiles::open().and_then(|files| PreparedLoad::prepare(&mut room, files, settings)) {
        Ok(prepared) => prepared,
        Err(error) => return send(socket, &failed(&error)),
    };
    send(socket, &ToDaemon::Prepared)?;
    match next_request(socket)? {
        Some(ToEngine::Load(settings)) => {
            name::show(name::SCHEDULING);
            report(socket, prepared.schedule(socket, &settings, Instant::now()))
        }
        other => decline(other),
    }
}

/// From the beginning.
fn load(socket: &OwnedFd, settings: &LoadSettings) -> Result<SchedulingEnd, LoadError> {
    let started = Instant::now();
    name::show(name::SCHEDULING);
    let files = KernelFiles::open()?;
    files.kernel.ensure_free()?;
    let mut room = kernel::room();
    PreparedLoad::prepare(&mut room, files, settings)?.schedule(socket, settings, started)
}

/// What is neither of the requests that an engine waits for.
fn decline(request: Option<ToEngine>) -> Result<()> {
    match request {
        Some(ToEngine::Unload) | None => Ok(()),
        Some(other) => bail!("expected a request to load, got {other:?}"),
    }
}

fn report(socket: &OwnedFd, ended: Result<SchedulingEnd, LoadError>) -> Result<()> {
    match ended {
        Ok(SchedulingEnd::Reported(SchedulerExit { kind, code, text })) => {
            send(socket, &ToDaemon::Exited { kind, code, text })
        }
        Ok(SchedulingEnd::Signalled) => signal::end_by_sigterm().context("cannot end by the signal"),
        Err(error) => send(socket, &failed(&error)),
    }
}

/// Waits for what the daemon wants; `None` if it left instead.
fn next_request(socket: &OwnedFd) -> Result<Option<ToEngine>> {
    let mut fds = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, None).context("cannot wait for the daemon")?;
    match channel::receive(socket).context("cannot read from the daemon")? {
        Received::Closed => Ok(None),
        Received::Packet(packet, _) => Ok(Some(ToEngine::decode(&packet[..])?)),
    }
}

fn failed(LoadError { kind, cause }: &LoadError) -> ToDaemon {
    ToDaemon::Failed { kind: *kind, text: format!("{cause:#}") }
}

/// Files that attaching, restoring and reporting take.
struct KernelFiles {
    kernel: SchedExtFile,
    compaction: CompactionSetting,
    memory_status: KernelFile,
}

impl KernelFiles {
    fn open() -> Result<Self, LoadError> {
        let kernel = SchedExtFile::open()?;
        let memory_status =
            KernelFile::open(memory::MEMORY_STATUS).context("cannot open the status of this process")?;
        Ok(Self { kernel, compaction: CompactionSetting::open()?, memory_status })
    }
}

/// All of loading that can be done while another engine schedules: nothing here is seen outside this process. From then on it
/// opens and loads nothing: if CPUs came or went meanwhile, it takes another engine.
struct PreparedLoad<'obj> {
    loaded: LoadedScheduler<'obj>,
    settings: LoadSettings,
    files: KernelFiles,
    filters: Filters,
}

impl<'obj> PreparedLoad<'obj> {
    fn prepare(room: &'obj mut Room, files: KernelFiles, settings: &LoadSettings) -> Result<Self, LoadError> {
        check(settings)?;
        let loaded = LoadedScheduler::new(room, settings)?;
        let filters = Filters::new()?;
        memory::trim();
        arena::give_back_free();
        privileges::keep_attaching()?;
        filters.enter_prepared()?;
        Ok(Self { loaded, settings: *settings, files, filters })
    }

    /// Attaches, schedules and unloads. Everything that attaching touched is restored on the way out.
    fn schedule(self, socket: &OwnedFd, settings: &LoadSettings, started: Instant) -> Result<SchedulingEnd, LoadError> {
        check(settings)?;
        let Self { mut loaded, settings: prepared, files, filters } = self;
        if prepared.must_reload_for(settings) {
            return Err(LoadError { kind: FailKind::Outdated, cause: anyhow!("other settings were prepared") });
        }
        files.kernel.ensure_free()?;
        let signals = signal::block_and_open().context("cannot take over signals")?;
        let _compaction = files.compaction.turn_off()?;
        loaded.write_limits(settings);
        let construction = Construction {
            limits: Limits { nr_slots: NR_SLOTS, pool_capacity: POOL_CAPACITY },
            settings: (*settings).into(),
            nr_cpus: loaded.nr_cpus(),
        };
        let id = settings.policy.0.into();
        let attempt =
            Attempt { socket, started, signals: &signals, loaded: &mut loaded, files: &files, filters: &filters };
        with_policy(id, construction, attempt).unwrap_or_else(|| {
            let cause = anyhow!("there is no policy {id}: install service and engine together");
            Err(LoadError { kind: FailKind::Other, cause })
        })
    }
}

fn check(settings: &LoadSettings) -> Result<(), LoadError> {
    settings.validate().map_err(|text| LoadError { kind: FailKind::Other, cause: anyhow!(text) })
}

/// How scheduling ended.
enum SchedulingEnd {
    /// As the kernel says, or because the daemon asked.
    Reported(SchedulerExit),
    /// By a signal from outside. The daemon is told by this process' end alone: whoever killed it says nothing about the
    /// scheduler.
    Signalled,
}

/// Attaching, by whichever policy.
struct Attempt<'a, 'obj> {
    socket: &'a OwnedFd,
    /// When it was asked for.
    started: Instant,
    signals: &'a OwnedFd,
    loaded: &'a mut LoadedScheduler<'obj>,
    files: &'a KernelFiles,
    filters: &'a Filters,
}

impl PolicyVisitor for Attempt<'_, '_> {
    type Output = Result<SchedulingEnd, LoadError>;

    /// Schedules until the end. All that allocates comes before attaching.
    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Output {
        let Self { socket, started, signals, loaded, files, filters } = self;
        let mut scheduler = SchedulerLoop::new(loaded, socket, signals, policy)?;
        memory::lock_all()?;
        loaded.pages().control().resident_bytes.store(memory::resident_bytes(&files.memory_status), Relaxed);
        let link = loaded.attach(&files.kernel)?;
        privileges::drop_all()?;
        filters.enter_attached()?;
        announce(socket, started, loaded)?;
        let outcome = scheduler.run();
        // Destroying the link returns once the kernel is back on its own scheduler.
        drop(link);
        let exit = loaded.exit_reason();
        Ok(match outcome {
            LoopEnd::Asked => SchedulingEnd::Reported(SchedulerExit { kind: ExitKind::Unloaded, ..exit }),
            LoopEnd::Ejected => SchedulingEnd::Reported(exit),
            LoopEnd::Signalled => SchedulingEnd::Signalled,
        })
    }
}

fn announce(socket: &OwnedFd, started: Instant, loaded: &LoadedScheduler<'_>) -> Result<()> {
    let load_us = started.elapsed().as_micros() as u64;
    let message = ToDaemon::Loaded { nr_cpus: loaded.nr_cpus(), load_us };
    channel::send(socket, &message.encode(), &loaded.page_fds()).context("cannot answer the daemon")
}

fn send(socket: &OwnedFd, message: &ToDaemon) -> Result<()> {
    match channel::send(socket.as_fd(), &message.encode(), &[]) {
        // If the daemon is gone, there is no one left to tell.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot answer the daemon"),
    }
}
