//! One life of the engine: greet the daemon, perhaps wait in reserve, load, schedule, unload, say how it ended.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use scherzo_policy::{Construction, Limits, Policy, PolicyVisitor, with_policy};
use scherzo_wire::channel::{self, Received};
use scherzo_wire::layout::{NR_SLOTS, WIRE_VERSION};
use scherzo_wire::message::{ExitKind, FailKind, LoadSettings, ToDaemon, ToEngine};

use crate::kernel::{self, LoadError, LoadedScheduler, Room, SchedulerExit};
use crate::memory::{self, CompactionOff};
use crate::name;
use crate::privileges;
use crate::scheduler::{LoopEnd, SchedulerLoop};
use crate::signal;

/// Name of the operations, as the kernel shows it.
const OPS_NAME_PATH: &str = "/sys/kernel/sched_ext/root/ops";
/// Tasks kept in order; with more waiting, order gains nothing.
const POOL_CAPACITY: u32 = 16_384;
/// A CPU that comes or goes during loading makes the kernel refuse; it seldom happens twice.
const MAX_ATTEMPTS: u32 = 3;

/// Serves the daemon at the other end of the socket until one of the two is done.
pub fn run(socket: &OwnedFd) -> Result<()> {
    name::show(name::WAITING);
    memory::avoid_huge_pages();
    send(socket, &ToDaemon::Hello { wire_version: WIRE_VERSION })?;
    let mut room = kernel::room();
    let mut standby = None;
    let mut request = next_request(socket)?;
    if let Some(ToEngine::Prepare(settings)) = request {
        match PreparedLoad::prepare(&mut room, &settings) {
            Ok(prepared) => standby = Some(prepared),
            Err(error) => return send(socket, &failed(&error)),
        }
        send(socket, &ToDaemon::Prepared)?;
        request = next_request(socket)?;
    }
    match request {
        Some(ToEngine::Load(settings)) => match schedule(socket, &settings, standby) {
            Ok(SchedulingEnd::Reported(SchedulerExit { kind, code, text })) => {
                send(socket, &ToDaemon::Exited { kind, code, text })
            }
            Ok(SchedulingEnd::Signalled) => signal::end_by_sigterm().context("cannot end by the signal"),
            Err(error) => send(socket, &failed(&error)),
        },
        Some(ToEngine::Unload) | None => Ok(()),
        Some(other) => bail!("expected a request to load, got {other:?}"),
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

/// What can be done of loading while another engine schedules: nothing here is seen outside this process.
struct PreparedLoad<'obj> {
    loaded: LoadedScheduler<'obj>,
    settings: LoadSettings,
}

impl<'obj> PreparedLoad<'obj> {
    fn prepare(room: &'obj mut Room, settings: &LoadSettings) -> Result<Self, LoadError> {
        check(settings)?;
        privileges::keep_loading()?;
        let loaded = LoadedScheduler::new(room, settings)?;
        memory::trim();
        Ok(Self { loaded, settings: *settings })
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

/// Loads, schedules and unloads. Everything that loading touched is restored on the way out.
fn schedule(
    socket: &OwnedFd,
    settings: &LoadSettings,
    standby: Option<PreparedLoad<'_>>,
) -> Result<SchedulingEnd, LoadError> {
    let session = LoadSession { socket, started: Instant::now(), settings };
    name::show(name::SCHEDULING);
    check(settings)?;
    kernel::check_kernel()?;
    let signals = signal::block_and_open().context("cannot take over signals")?;
    let _compaction = CompactionOff::new()?;
    if let Some(mut standby) = standby.filter(|standby| !standby.settings.must_reload_for(settings)) {
        standby.loaded.write_limits(settings);
        if let Some(end) = session.attach(&signals, &mut standby.loaded)? {
            return Ok(end);
        }
    }
    for _ in 0..MAX_ATTEMPTS {
        let mut room = kernel::room();
        let mut loaded = LoadedScheduler::new(&mut room, settings)?;
        if let Some(end) = session.attach(&signals, &mut loaded)? {
            return Ok(end);
        }
    }
    let cause = anyhow!("CPUs kept coming or going while the scheduler was loaded: try again");
    Err(LoadError { kind: FailKind::Other, cause })
}

/// A request to load.
struct LoadSession<'a> {
    socket: &'a OwnedFd,
    started: Instant,
    settings: &'a LoadSettings,
}

/// An attempt to attach, by whichever policy.
struct Attempt<'a, 'obj> {
    session: &'a LoadSession<'a>,
    signals: &'a OwnedFd,
    loaded: &'a mut LoadedScheduler<'obj>,
}

impl PolicyVisitor for Attempt<'_, '_> {
    type Output = Result<Option<SchedulingEnd>, LoadError>;

    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Output {
        self.session.attach_with(self.signals, self.loaded, policy)
    }
}

impl LoadSession<'_> {
    /// Schedules until the end, by the policy that is asked for. `None` if the kernel refused because CPUs came or went since
    /// this was loaded.
    fn attach(&self, signals: &OwnedFd, loaded: &mut LoadedScheduler<'_>) -> Result<Option<SchedulingEnd>, LoadError> {
        let construction = Construction {
            limits: Limits { nr_slots: NR_SLOTS, pool_capacity: POOL_CAPACITY },
            settings: (*self.settings).into(),
            nr_cpus: loaded.nr_cpus(),
        };
        let id = self.settings.policy.0.into();
        let attempt = Attempt { session: self, signals, loaded };
        with_policy(id, construction, attempt).unwrap_or_else(|| {
            let cause = anyhow!("there is no policy {id}: install service and engine together");
            Err(LoadError { kind: FailKind::Other, cause })
        })
    }

    /// All that allocates comes before attaching.
    fn attach_with<P: Policy + 'static>(
        &self,
        signals: &OwnedFd,
        loaded: &mut LoadedScheduler<'_>,
        policy: P,
    ) -> Result<Option<SchedulingEnd>, LoadError> {
        let scheduler = SchedulerLoop::new(loaded, self.socket, signals, policy)?;
        memory::lock_all()?;
        loaded.pages().control().resident_bytes.store(memory::resident_bytes(), Relaxed);
        let Some(link) = loaded.attach()? else { return Ok(None) };
        privileges::drop_all()?;
        self.announce(loaded)?;
        let outcome = scheduler.run();
        // Destroying the link returns once the kernel is back on its own scheduler.
        drop(link);
        let exit = loaded.exit_reason();
        Ok(Some(match outcome {
            LoopEnd::Asked => SchedulingEnd::Reported(SchedulerExit { kind: ExitKind::Unloaded, ..exit }),
            LoopEnd::Ejected => SchedulingEnd::Reported(exit),
            LoopEnd::Signalled => SchedulingEnd::Signalled,
        }))
    }

    fn announce(&self, loaded: &LoadedScheduler<'_>) -> Result<()> {
        let ops = std::fs::read_to_string(OPS_NAME_PATH).unwrap_or_default().trim().to_owned();
        let load_us = self.started.elapsed().as_micros() as u64;
        let message = ToDaemon::Loaded { nr_cpus: loaded.nr_cpus(), load_us, ops };
        channel::send(self.socket, &message.encode(), &loaded.page_fds()).context("cannot answer the daemon")
    }
}

fn send(socket: &OwnedFd, message: &ToDaemon) -> Result<()> {
    match channel::send(socket.as_fd(), &message.encode(), &[]) {
        // If the daemon is gone, there is no one left to tell.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot answer the daemon"),
    }
}
