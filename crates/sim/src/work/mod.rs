//! What tasks do with their CPU time.

mod build;
mod hub;
mod request;

use build::BuildProcess;
use fastrand::Rng;

use crate::replay::Script;
use crate::scenario::{ScenarioGroup, WorkKind};
use crate::task::TaskId;
use hub::HubEnd;
use request::RequestEnd;

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Computes for so long.
    Compute(u64),
    /// Sleeps until then, or until somebody wakes it, and computes for so long afterwards.
    Sleep {
        /// When its own timer wakes it.
        until: Option<u64>,
        /// Work once it is awake.
        then_ns: u64,
    },
    /// Wakes the other as its last deed before it does what follows.
    Wake(TaskId),
    /// Begins a child with so much work.
    Fork(u64),
    /// Wakes the recorded task of this id.
    WakeRecorded(u32),
    /// Begins the recorded task of this id.
    ForkRecorded(u32),
    /// Begins a child as `posix_spawn()` does, and sleeps until that executes its program; computes for so long afterwards.
    Spawn(u64),
    /// Executes its program, for which its parent has waited.
    Execute,
    /// Sends a message to this reader, and goes on.
    Send(TaskId),
    /// Has read so many of its messages that this sender goes on.
    Resume(TaskId),
    /// Asks a server of its group, and goes on.
    Request,
    /// Answers this client, and goes on.
    Reply(TaskId),
    /// Is done for ever.
    Exit,
}

/// Work without an end.
pub const ENDLESS: u64 = u64::MAX;
/// What it takes to write a message.
const WRITE_NS: u64 = 1_000;

/// What one task is at.
#[derive(Clone, Debug)]
pub struct Work {
    kind: WorkKind,
    compute_ns: u64,
    /// Before that, once.
    first_ns: u64,
    sleep_ns: u64,
    /// By so much of both it does more or less each time, and by what chance says.
    jitter_percent: u64,
    rng: Rng,
    period_ns: u64,
    /// Begins frames, or answers; later stages wait for the one before.
    leads: bool,
    /// The task that it wakes when its part is done.
    pub successor: Option<TaskId>,
    /// Wake-ups that have not been answered.
    pub nr_pending: u32,
    /// When the piece of work became due that it is at.
    due_ns: u64,
    woke_successor: bool,
    /// It has slept since its last child ended.
    has_napped: bool,
    /// When it forked the child that it waits for.
    forked_at: Option<u64>,
    /// The task that forked it.
    parent: Option<TaskId>,
    /// When its timer wakes it.
    pub wake_at: Option<u64>,
    /// What a recorded task does.
    pub script: Option<Box<Script>>,
    /// What a process of a build does.
    build: Option<Box<BuildProcess>>,
    /// What a sender or a reader does.
    hub: Option<Box<HubEnd>>,
    /// What a client or a server does.
    request: Option<Box<RequestEnd>>,
}

impl Work {
    /// Of a task in a group; `stage` is its number in a chain or a pair.
    pub fn of(group: &ScenarioGroup, stage: usize) -> Self {
        let compute_ns = match group.kind {
            WorkKind::Hog => ENDLESS,
            WorkKind::Chain => group.stages_us[stage].get_ref() * 1_000,
            _ => ScenarioGroup::ns(group.compute_us.as_ref()),
        };
        let first_ns = if group.kind == WorkKind::Chain { ScenarioGroup::ns(group.compute_us.as_ref()) } else { 0 };
        Self {
            kind: group.kind,
            compute_ns,
            first_ns,
            sleep_ns: ScenarioGroup::ns(group.sleep_us.as_ref()),
            jitter_percent: group.jitter_percent.as_ref().map_or(0, |percent| *percent.get_ref()),
            rng: Rng::with_seed(0),
            period_ns: ScenarioGroup::ns(group.period_us.as_ref()),
            leads: stage == 0,
            successor: None,
            nr_pending: 0,
            due_ns: 0,
            woke_successor: false,
            has_napped: false,
            forked_at: None,
            parent: None,
            wake_at: None,
            script: None,
            build: BuildProcess::maker(group).map(Box::new),
            hub: None,
            request: None,
        }
    }

    /// Of a forked child.
    pub fn of_child(&self, parent: TaskId) -> Self {
        Self { parent: Some(parent), ..self.clone() }
    }

    /// When the task is first woken, and its work then. Those of a group do not all begin at once.
    pub fn begin(&mut self, now: u64, rng: &mut Rng) -> Option<(u64, u64)> {
        let spread = if self.period_ns > 0 { self.period_ns } else { self.sleep_ns.max(1_000_000) };
        let at = now + rng.u64(0..spread);
        self.due_ns = at;
        if self.jitter_percent > 0 {
            self.rng = rng.fork();
        }
        let waits = !self.leads && matches!(self.kind, WorkKind::Chain | WorkKind::PingPong);
        let work_ns = if self.build.is_some() { self.own_work_ns() } else { self.compute_ns };
        (!waits).then_some((at, self.first_ns.saturating_add(work_ns)))
    }

    /// What it asks of one CPU, in parts of `whole`; by the group's numbers, whatever it gets.
    pub fn demand(&self, whole: u64) -> u64 {
        let of = |interval_ns: u64| whole * self.compute_ns.min(interval_ns) / interval_ns;
        match self.kind {
            WorkKind::Hog | WorkKind::ForkStorm | WorkKind::ForkWait | WorkKind::PingPong | WorkKind::BuildTree => {
                whole
            }
            WorkKind::Napper => of(self.compute_ns + self.sleep_ns),
            WorkKind::Periodic | WorkKind::Chain => of(self.period_ns),
            WorkKind::Recorded => self.script.as_ref().map_or(0, |script| script.demand(whole)),
            WorkKind::Hub => self.hub.as_ref().map_or(0, |hub| hub.demand(whole)),
            WorkKind::Request => self.request.as_ref().map_or(0, |end| end.demand(whole)),
        }
    }

    /// How many tasks at a time compete for what it asks.
    pub fn nr_competing(&self) -> u64 {
        self.build.as_ref().map_or(1, |build| build.nr_jobs())
    }

    /// The work is done: what follows, and how long it took since it was due, if somebody waits for that.
    pub fn proceed(&mut self, now: u64) -> (Next, Option<u64>) {
        match self.kind {
            WorkKind::BuildTree => self.next_of_build(now),
            WorkKind::Hub => self.next_of_hub(now),
            WorkKind::Request => self.next_of_request(now),
            _ if self.parent.is_some() => (Next::Exit, None),
            WorkKind::Hog => (Next::Compute(ENDLESS), None),
            WorkKind::Napper => {
                let response_ns = now - self.due_ns;
                let sleep = self.nap(now);
                if let Next::Sleep { until: Some(until), .. } = sleep {
                    self.due_ns = until;
                }
                (sleep, Some(response_ns))
            }
            WorkKind::Periodic => {
                let response = now - self.due_ns;
                (self.next_period(now), Some(response))
            }
            WorkKind::Chain => self.next_stage(now),
            WorkKind::ForkStorm if std::mem::take(&mut self.woke_successor) => (Next::Compute(self.compute_ns), None),
            WorkKind::ForkWait if std::mem::take(&mut self.woke_successor) => {
                (Next::Sleep { until: None, then_ns: self.compute_ns / 10 }, None)
            }
            WorkKind::ForkWait => self.next_child(now),
            WorkKind::ForkStorm => {
                self.woke_successor = true;
                (Next::Fork(self.compute_ns), None)
            }
            WorkKind::PingPong => self.answer(now),
            WorkKind::Recorded => self.next_recorded(now),
        }
    }

    /// Forks the next child, after a nap if it takes one. How long the last one took is from before it was forked until its parent
    /// went on after its end.
    fn next_child(&mut self, now: u64) -> (Next, Option<u64>) {
        let response = self.forked_at.take().map(|forked_at| now - forked_at);
        if self.sleep_ns > 0 && !std::mem::take(&mut self.has_napped) {
            self.has_napped = true;
            return (Next::Sleep { until: Some(now + self.sleep_ns), then_ns: self.compute_ns / 10 }, response);
        }
        (self.forked_at, self.woke_successor) = (Some(now), true);
        (Next::Fork(self.vary(self.compute_ns)), response)
    }

    fn nap(&mut self, now: u64) -> Next {
        let (sleep_ns, then_ns) = (self.vary(self.sleep_ns), self.vary(self.compute_ns));
        Next::Sleep { until: Some(now + sleep_ns), then_ns }
    }

    fn vary(&mut self, time_ns: u64) -> u64 {
        if self.jitter_percent == 0 {
            return time_ns;
        }
        (time_ns * self.rng.u64(100 - self.jitter_percent..=100 + self.jitter_percent) / 100).max(1_000)
    }

    /// Work that is late is begun at once, as a game does; but a frame whose whole period has passed is left out, and any late one
    /// if no other stage waits for it, as a player of videos does.
    fn next_period(&mut self, now: u64) -> Next {
        self.due_ns += self.period_ns;
        let latest_ns = if self.successor.is_some() { self.period_ns - 1 } else { 0 };
        while self.kind == WorkKind::Chain && self.due_ns + latest_ns < now {
            self.due_ns += self.period_ns;
        }
        if self.due_ns <= now {
            return Next::Compute(self.compute_ns);
        }
        Next::Sleep { until: Some(self.due_ns), then_ns: self.compute_ns }
    }

    fn next_stage(&mut self, now: u64) -> (Next, Option<u64>) {
        if let Some(successor) = self.successor
            && !std::mem::replace(&mut self.woke_successor, true)
        {
            return (Next::Wake(successor), None);
        }
        self.woke_successor = false;
        let response = self.successor.is_none().then(|| now - self.due_ns);
        (if self.leads { self.next_period(now) } else { self.wait() }, response)
    }

    fn answer(&mut self, now: u64) -> (Next, Option<u64>) {
        if let Some(successor) = self.successor
            && !std::mem::replace(&mut self.woke_successor, true)
        {
            return (Next::Wake(successor), None);
        }
        self.woke_successor = false;
        let response = self.leads.then(|| now - self.due_ns);
        self.due_ns = now;
        (self.wait(), response)
    }

    /// For the stage before, which may have woken this one already.
    fn wait(&mut self) -> Next {
        if self.nr_pending > 0 {
            self.nr_pending -= 1;
            return Next::Compute(self.compute_ns);
        }
        Next::Sleep { until: None, then_ns: self.compute_ns }
    }

    /// The work is one that was due then: a stage takes over the frame that the first stage began.
    pub fn take_over(&mut self, due_ns: u64) {
        self.due_ns = due_ns;
    }

    /// It was forked by another of its group.
    pub fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    /// The task that forked it.
    pub fn parent(&self) -> Option<TaskId> {
        self.parent
    }

    /// A child ends; whether this task waits for that.
    pub fn child_ends(&mut self) -> bool {
        self.kind == WorkKind::ForkWait || self.build.as_mut().is_some_and(|build| build.child_ends())
    }

    /// Its work each time.
    pub fn compute_ns(&self) -> u64 {
        self.compute_ns
    }

    /// When the work became due that the task is at.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }
}
