//! The scheduling loop of `scherzo-engine-loop` over libbpf's rings, with epoll between its turns.
//!
//! One thread, no allocation, no page fault, no system call that may block except the wait itself. The wait is
//! level-triggered on the ring of queued tasks and the control socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use anyhow::{Context, Result};
use rustix::event::{Timespec, epoll};
use scherzo_engine_loop::{Core, EngineLoop, EngineSleep, LoopStep};
use scherzo_policy::Policy;
use scherzo_wire::channel;
use scherzo_wire::layout::ControlPage;
use scherzo_wire::message::{MESSAGE_BYTES, ToDaemon, ToEngine};

use crate::arena::heap_ops;
use crate::kernel::{Kicker, LoadedScheduler, Pages};
use crate::memory::Usage;
use crate::rings::{LibbpfDispatchedRing, LibbpfQueuedRing};

const NS_PER_S: u64 = 1_000_000_000;

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// The daemon asked, or is gone.
    Asked,
    /// A signal arrived.
    Signalled,
    /// The kernel took the scheduler away.
    Ejected,
}

/// What the engine's cost is counted from.
#[derive(Clone, Copy, Debug)]
struct Baseline {
    nr_page_faults: u64,
    cpu_time_ns: u64,
    nr_heap_ops: u64,
}

impl Baseline {
    fn take() -> Self {
        let usage = Usage::now();
        Self {
            nr_page_faults: usage.nr_page_faults,
            cpu_time_ns: usage.cpu_time.as_nanos() as u64,
            nr_heap_ops: heap_ops(),
        }
    }

    fn publish(&self, page: &ControlPage) {
        let usage = Usage::now();
        page.nr_page_faults.store(usage.nr_page_faults - self.nr_page_faults, Relaxed);
        page.cpu_time_ns.store(usage.cpu_time.as_nanos() as u64 - self.cpu_time_ns, Relaxed);
        page.nr_heap_ops.store(heap_ops() - self.nr_heap_ops, Relaxed);
    }
}

/// Everything the loop needs. Built before attaching, since building allocates.
pub struct SchedulerLoop<'a, P: Policy + 'static> {
    engine: EngineLoop<P, Pages, LibbpfQueuedRing<Core<P, Pages>>, LibbpfDispatchedRing>,
    kicker: Kicker,
    epoll: OwnedFd,
    socket: &'a OwnedFd,
}

/// What an event of the wait is about.
const RING: u64 = 0;
const SOCKET: u64 = 1;
const SIGNAL: u64 = 2;

/// What there is to do besides records.
#[derive(Clone, Copy, Default)]
struct Ready {
    socket: bool,
    signal: bool,
}

impl<'a, P: Policy + 'static> SchedulerLoop<'a, P> {
    /// Maps the rings and registers what the loop waits for. `signals` must stay open as long as the loop runs.
    pub fn new(loaded: &LoadedScheduler<'_>, socket: &'a OwnedFd, signals: &OwnedFd, policy: P) -> Result<Self> {
        let queued = LibbpfQueuedRing::new(loaded.queued_tasks_map())?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot create an epoll instance")?;
        for (fd, what) in
            [(loaded.queued_tasks_map().as_fd(), RING), (socket.as_fd(), SOCKET), (signals.as_fd(), SIGNAL)]
        {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(what), epoll::EventFlags::IN)
                .context("cannot wait for the rings")?;
        }
        let dispatched = LibbpfDispatchedRing::new(loaded.dispatched_tasks_map())?;
        let engine = EngineLoop::new(policy, loaded.pages(), queued, dispatched);
        Ok(Self { engine, kicker: loaded.kicker()?, epoll, socket })
    }

    /// Schedules until asked to stop, or until the kernel has taken the scheduler away.
    pub fn run(&mut self) -> LoopEnd {
        let baseline = Baseline::take();
        let outcome = self.schedule(&baseline);
        // For a last reading of the counters.
        baseline.publish(self.engine.page());
        outcome
    }

    fn schedule(&mut self, baseline: &Baseline) -> LoopEnd {
        let mut ready = Ready { socket: true, signal: false };
        loop {
            match self.engine.step(&mut self.kicker) {
                LoopStep::Read { .. } => {}
                LoopStep::Dispatched { .. } => {
                    if let Some(end) = self.look_around(ready, baseline) {
                        return end;
                    }
                }
                LoopStep::Parked { sleep, .. } => ready = self.wait(sleep),
            }
        }
    }

    /// What there is to do once in each turn besides records; why the loop ends, if it does.
    fn look_around(&mut self, ready: Ready, baseline: &Baseline) -> Option<LoopEnd> {
        // What BPF has written of the end before this is read after it.
        if self.engine.page().exited.load(Acquire) != 0 {
            return Some(LoopEnd::Ejected);
        }
        if ready.socket && self.answer_daemon(baseline) == DaemonRequest::Stop {
            return Some(LoopEnd::Asked);
        }
        ready.signal.then_some(LoopEnd::Signalled)
    }

    /// Sleeps until there is something to do. Says what there is besides records.
    fn wait(&self, sleep: EngineSleep) -> Ready {
        let timeout = match sleep {
            EngineSleep::No => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
            EngineSleep::AtMost(ns) => {
                Some(Timespec { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as i64 })
            }
            EngineSleep::UntilWoken => None,
        };
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(RING) }; 3];
        // An interrupted wait is as good as one that ended: the next turn looks at the ring.
        let nr_events = epoll::wait(&self.epoll, &mut events, timeout.as_ref()).unwrap_or(0);
        events[..nr_events].iter().fold(Ready::default(), |ready, event| match event.data.u64() {
            SOCKET => Ready { socket: true, ..ready },
            SIGNAL => Ready { signal: true, ..ready },
            _ => ready,
        })
    }

    /// Handles every request that has arrived.
    fn answer_daemon(&mut self, baseline: &Baseline) -> DaemonRequest {
        let mut packet = [0; MESSAGE_BYTES];
        loop {
            match channel::receive_into(self.socket, &mut packet) {
                Ok(Some(())) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return DaemonRequest::None,
                Ok(None) | Err(_) => return DaemonRequest::Stop,
            }
            let seq = match ToEngine::decode(&packet) {
                Ok(ToEngine::Apply { seq, settings }) => {
                    if settings.validate().is_err() {
                        return DaemonRequest::Stop;
                    }
                    self.engine.apply(&settings);
                    self.kicker.kick_all();
                    seq
                }
                Ok(ToEngine::Refresh { seq }) => {
                    baseline.publish(self.engine.page());
                    seq
                }
                Ok(ToEngine::Unload | ToEngine::Load(_) | ToEngine::Prepare(_)) | Err(_) => return DaemonRequest::Stop,
            };
            match channel::send(self.socket, &ToDaemon::Done { seq }.encode(), &[]) {
                Ok(()) => {}
                // A daemon that does not read its answers is slow, not gone.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return DaemonRequest::Stop,
            }
        }
    }
}

/// What the daemon wants after one look at the socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DaemonRequest {
    None,
    Stop,
}
