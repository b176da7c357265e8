//! One life of the engine: greet the daemon, load, schedule, unload, say how it ended.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::OpenObject;
use scherzo_policy::{FifoPolicy, Limits, Policy, Scherzo};
use scherzo_wire::channel::{self, Received};
use scherzo_wire::layout::{NR_SLOTS, WIRE_VERSION};
use scherzo_wire::message::{ExitKind, FailKind, LoadSettings, ToDaemon, ToEngine};

use crate::core::policy_settings;
use crate::kernel::{self, Exit, LoadError, Loaded};
use crate::memory::{self, CompactionOff};
use crate::privileges;
use crate::scheduler::{Outcome, Scheduler};
use crate::signal;

/// Name of the operations, as the kernel shows it.
const OPS_NAME_PATH: &str = "/sys/kernel/sched_ext/root/ops";
/// Tasks kept in order; with more waiting, order gains nothing.
const POOL_CAPACITY: u32 = 16_384;
/// A CPU that comes or goes during loading makes the kernel refuse; it seldom happens twice.
const MAX_ATTEMPTS: u32 = 3;

/// Serves the daemon at the other end of the socket until one of the two is done.
pub fn run(socket: &OwnedFd) -> Result<()> {
    send(socket, &ToDaemon::Hello { wire_version: WIRE_VERSION })?;
    let Some(settings) = wait_for_load(socket)? else { return Ok(()) };
    match schedule(socket, &settings) {
        Ok(Exit { kind, code, text }) => send(socket, &ToDaemon::Exited { kind, code, text }),
        Err(LoadError { kind, cause }) => send(socket, &ToDaemon::Failed { kind, text: format!("{cause:#}") }),
    }
}

/// The first request must be to load; `None` if the daemon left instead.
fn wait_for_load(socket: &OwnedFd) -> Result<Option<LoadSettings>> {
    let mut fds = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, None).context("cannot wait for the daemon")?;
    match channel::receive(socket).context("cannot read from the daemon")? {
        Received::Closed => Ok(None),
        Received::Packet(packet, _) => match ToEngine::decode(&packet[..])? {
            ToEngine::Load(settings) => Ok(Some(settings)),
            ToEngine::Unload => Ok(None),
            other => bail!("expected a request to load, got {other:?}"),
        },
    }
}

/// Loads, schedules and unloads. Everything that loading touched is restored on the way out.
fn schedule(socket: &OwnedFd, settings: &LoadSettings) -> Result<Exit, LoadError> {
    let started = Instant::now();
    settings.validate().map_err(|text| LoadError { kind: FailKind::Other, cause: anyhow!(text) })?;
    kernel::check_kernel()?;
    let signals = signal::block_and_open().context("cannot take over signals")?;
    let _compaction = CompactionOff::new()?;
    for _ in 0..MAX_ATTEMPTS {
        let mut object = MaybeUninit::<OpenObject>::uninit();
        let mut loaded = Loaded::new(&mut object, settings)?;
        let own = policy_settings(settings);
        let ended = if settings.fixed.minimal_policy {
            attach(socket, &signals, &mut loaded, started, FifoPolicy::new(NR_SLOTS, own))?
        } else {
            let limits = Limits { nr_slots: NR_SLOTS, pool_capacity: POOL_CAPACITY };
            let policy = Scherzo::new(limits, own, loaded.nr_cpus());
            attach(socket, &signals, &mut loaded, started, policy)?
        };
        if let Some(exit) = ended {
            return Ok(exit);
        }
    }
    let cause = anyhow!("CPUs kept coming or going while the scheduler was loaded: try again");
    Err(LoadError { kind: FailKind::Other, cause })
}

/// Schedules by this policy until the end. All that allocates comes before attaching. `None` if the kernel refused because
/// CPUs came or went meanwhile.
fn attach<P: Policy + 'static>(
    socket: &OwnedFd,
    signals: &OwnedFd,
    loaded: &mut Loaded<'_>,
    started: Instant,
    policy: P,
) -> Result<Option<Exit>, LoadError> {
    let scheduler = Scheduler::new(loaded, socket, signals, policy)?;
    memory::lock_all()?;
    loaded.pages().control().resident_bytes.store(memory::resident_bytes(), Relaxed);
    let Some(link) = loaded.attach()? else { return Ok(None) };
    privileges::drop_all()?;
    announce(socket, loaded, started)?;
    let outcome = scheduler.run();
    // Destroying the link returns once the kernel is back on its own scheduler.
    drop(link);
    let exit = loaded.exit_reason();
    Ok(Some(if outcome == Outcome::Asked { Exit { kind: ExitKind::Unloaded, ..exit } } else { exit }))
}

fn announce(socket: &OwnedFd, loaded: &Loaded<'_>, started: Instant) -> Result<()> {
    let ops = std::fs::read_to_string(OPS_NAME_PATH).unwrap_or_default().trim().to_owned();
    let message = ToDaemon::Loaded { nr_cpus: loaded.nr_cpus(), load_us: started.elapsed().as_micros() as u64, ops };
    channel::send(socket, &message.encode(), &loaded.page_fds()).context("cannot answer the daemon")
}

fn send(socket: &OwnedFd, message: &ToDaemon) -> Result<()> {
    match channel::send(socket.as_fd(), &message.encode(), &[]) {
        // The daemon may be gone: then nobody needs to know.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot answer the daemon"),
    }
}
