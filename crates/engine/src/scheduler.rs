//! The loop: queued tasks in, dispatched tasks out, then sleep.
//!
//! One thread, no allocation, no page fault, no system call that may block except the wait itself. The wait is
//! level-triggered on the ring of queued tasks and the control socket. Blocking is also the doorbell: the CPU that this
//! thread leaves runs a dispatch, which drains what was dispatched. Only when more records are there already, so that the
//! thread does not block, a BPF program kicks another CPU.
//!
//! Parking is a handshake: the thread first says that it parks, then looks at the ring once more. BPF first writes its
//! record, then looks whether the engine is parked. One of the two sees the other, unless the record stands behind one that is
//! still being written: then the ring is not empty, and the engine looks again soon.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use anyhow::{Context, Result};
use rustix::event::{Timespec, epoll};
use scherzo_policy::Policy;
use scherzo_wire::channel;
use scherzo_wire::layout::ControlPage;
use scherzo_wire::message::{MESSAGE_BYTES, ToDaemon, ToEngine};
use scherzo_wire::parking::{ParkedWord, park};

use crate::arena::heap_ops;
use crate::core::Core;
use crate::kernel::{Kicker, LoadedScheduler, Pages};
use crate::memory::Usage;
use crate::rings::{DispatchedRing, QueuedRing};

/// While the ring of dispatched tasks is full, or a record is about to be finished, look again after so long.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

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
pub struct SchedulerLoop<'a, P> {
    core: Rc<RefCell<Core<P>>>,
    pages: Rc<Pages>,
    queued: QueuedRing,
    dispatched: DispatchedRing,
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
        let pages = loaded.pages();
        let core = Rc::new(RefCell::new(Core::new(policy, Rc::clone(&pages))));
        let sink = Rc::clone(&core);
        let queued = QueuedRing::new(loaded.queued_tasks_map(), move |record| sink.borrow_mut().take(record))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot create an epoll instance")?;
        for (fd, what) in
            [(loaded.queued_tasks_map().as_fd(), RING), (socket.as_fd(), SOCKET), (signals.as_fd(), SIGNAL)]
        {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(what), epoll::EventFlags::IN)
                .context("cannot wait for the rings")?;
        }
        Ok(Self {
            core,
            pages,
            queued,
            dispatched: DispatchedRing::new(loaded.dispatched_tasks_map())?,
            kicker: loaded.kicker()?,
            epoll,
            socket,
        })
    }

    /// Schedules until asked to stop, or until the kernel has taken the scheduler away.
    pub fn run(&self) -> LoopEnd {
        let baseline = Baseline::take();
        let outcome = self.schedule(&baseline);
        // For a last reading of the counters.
        baseline.publish(self.page());
        outcome
    }

    fn schedule(&self, baseline: &Baseline) -> LoopEnd {
        let mut ready = Ready { socket: true, signal: false };
        loop {
            let nr_dispatched = self.turn();
            if self.page().exited.load(Relaxed) != 0 {
                return LoopEnd::Ejected;
            }
            if ready.socket && self.answer_daemon(baseline) == DaemonRequest::Stop {
                return LoopEnd::Asked;
            }
            if ready.signal {
                return LoopEnd::Signalled;
            }
            self.answer_notice();
            ready = self.park(nr_dispatched);
        }
    }

    fn page(&self) -> &ControlPage {
        self.pages.control()
    }

    /// One turn: all the records that are there, then dispatched tasks for all that wait. The number of dispatched tasks.
    fn turn(&self) -> u64 {
        self.consume();
        let mut core = self.core.borrow_mut();
        core.follow_hotplug();
        let nr_dispatched = core.dispatch(&self.dispatched);
        core.publish_order();
        core.publish_totals();
        self.page().nr_loops.fetch_add(1, Relaxed);
        self.page().nr_dispatched.fetch_add(nr_dispatched, Relaxed);
        nr_dispatched
    }

    /// Takes the records that are there; their number.
    fn consume(&self) -> u64 {
        let nr_records = self.queued.consume() as u64;
        self.page().nr_records.fetch_add(nr_records, Relaxed);
        self.page().nr_max_batch.fetch_max(nr_records, Relaxed);
        nr_records
    }

    /// Degraded: everything that waited has been looked at, so the kernel side may trust user space again.
    fn answer_notice(&self) {
        let seq = self.page().degraded_seq.load(SeqCst);
        if seq & 1 == 1 && self.page().recovered_seq.load(Relaxed) != seq {
            self.page().recovered_seq.store(seq, SeqCst);
        }
    }

    /// Sleeps until there is something to do, unless there is already. Says what there is besides records.
    fn park(&self, nr_dispatched: u64) -> Ready {
        let busy = park(&self.page().parked, || self.consume() > 0);
        if busy && nr_dispatched > 0 {
            self.page().nr_doorbells.fetch_add(1, Relaxed);
            self.kicker.ring();
        }
        let timeout = if busy {
            Some(&NO_WAIT)
        } else if self.core.borrow().nr_pending() > 0 || !self.queued.is_empty() {
            Some(&RETRY)
        } else {
            None
        };
        let ready = self.wait(timeout);
        self.page().parked.say(false);
        ready
    }

    fn wait(&self, timeout: Option<&Timespec>) -> Ready {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(RING) }; 3];
        // An interrupted wait is as good as one that ended: the next turn looks at the ring.
        let nr_events = epoll::wait(&self.epoll, &mut events, timeout).unwrap_or(0);
        events[..nr_events].iter().fold(Ready::default(), |ready, event| match event.data.u64() {
            SOCKET => Ready { socket: true, ..ready },
            SIGNAL => Ready { signal: true, ..ready },
            _ => ready,
        })
    }

    /// Handles every request that has arrived.
    fn answer_daemon(&self, baseline: &Baseline) -> DaemonRequest {
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
                    self.core.borrow_mut().apply(&settings);
                    self.kicker.kick_all();
                    seq
                }
                Ok(ToEngine::Refresh { seq }) => {
                    baseline.publish(self.page());
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
