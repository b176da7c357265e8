//! Requests and replies: clients think, ask, and wait for the answer, which any of some servers works out, as threads of a server or a
//! database do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use fastrand::Rng;

use super::{Next, WRITE_NS, Work};
use crate::machine::MachineEvent;
use crate::run::Simulation;
use crate::scenario::ScenarioGroup;
use crate::task::{State, TaskId};

/// What it takes to read a reply.
const READ_NS: u64 = 1_000;

/// What clients and servers of a group have in common.
#[derive(Debug, Default)]
struct RequestQueue {
    /// Clients whose requests no server has taken.
    waiting: VecDeque<TaskId>,
    /// Servers that sleep, the one that does so for longest first.
    idle: VecDeque<TaskId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientPhase {
    Thinks,
    Writes,
    Reads,
}

#[derive(Clone, Debug)]
enum RequestRole {
    Client {
        phase: ClientPhase,
        /// The reply came before it slept.
        is_answered: bool,
    },
    Server {
        id: TaskId,
        /// For whom it computes.
        client: Option<TaskId>,
    },
}

/// One end of requests.
#[derive(Clone, Debug)]
pub(super) struct RequestEnd {
    role: RequestRole,
    queue: Rc<RefCell<RequestQueue>>,
    /// It computes so much at most from one request to the next.
    wanted_ns: u64,
    interval_ns: u64,
}

impl RequestEnd {
    /// A client asks no faster than it has answers, and all of them no faster than all servers give these.
    fn of(group: &ScenarioGroup, role: RequestRole, queue: &Rc<RefCell<RequestQueue>>) -> Self {
        let [compute_ns, sleep_ns, reply_ns] =
            [&group.compute_us, &group.sleep_us, &group.reply_us].map(|time| ScenarioGroup::ns(time.as_ref()));
        let asking_ns = compute_ns + WRITE_NS + READ_NS;
        let serving_ns = (reply_ns + WRITE_NS) * *group.count.get_ref() as u64 / group.nr_servers();
        let interval_ns = (asking_ns + sleep_ns + reply_ns).max(serving_ns);
        let wanted_ns = if matches!(role, RequestRole::Server { .. }) { serving_ns } else { asking_ns };
        Self { role, queue: Rc::clone(queue), wanted_ns, interval_ns }
    }

    /// What it asks of one CPU, in parts of `whole`.
    pub(super) fn demand(&self, whole: u64) -> u64 {
        whole * self.wanted_ns / self.interval_ns
    }
}

impl Work {
    /// What comes next at either end, and how long it took from when a request was sent until its reply was read.
    pub(super) fn next_of_request(&mut self, now: u64) -> (Next, Option<u64>) {
        let Some(end) = &mut self.request else { return (Next::Exit, None) };
        match &mut end.role {
            RequestRole::Client { phase: phase @ ClientPhase::Thinks, .. } => {
                *phase = ClientPhase::Writes;
                self.due_ns = now;
                (Next::Request, None)
            }
            RequestRole::Client { phase: phase @ ClientPhase::Writes, is_answered } => {
                *phase = ClientPhase::Reads;
                let next = if std::mem::take(is_answered) {
                    Next::Compute(READ_NS)
                } else {
                    Next::Sleep { until: None, then_ns: READ_NS }
                };
                (next, None)
            }
            RequestRole::Client { phase, .. } => {
                *phase = ClientPhase::Thinks;
                let response_ns = now - self.due_ns;
                let next = if self.sleep_ns > 0 { self.nap(now) } else { Next::Compute(self.vary(self.compute_ns)) };
                (next, Some(response_ns))
            }
            RequestRole::Server { id, client } => {
                if let Some(client) = client.take() {
                    return (Next::Reply(client), None);
                }
                let mut queue = end.queue.borrow_mut();
                *client = queue.waiting.pop_front();
                if client.is_none() {
                    queue.idle.push_back(*id);
                    return (Next::Sleep { until: None, then_ns: self.compute_ns }, None);
                }
                drop(queue);
                (Next::Compute(self.vary(self.compute_ns)), None)
            }
        }
    }

    /// A request of this client is for this server, which slept; what it computes for that.
    fn serve(&mut self, of: TaskId) -> u64 {
        if let Some(RequestRole::Server { client, .. }) = self.request.as_mut().map(|end| &mut end.role) {
            *client = Some(of);
        }
        self.vary(self.compute_ns)
    }

    fn is_answered(&mut self) {
        if let Some(RequestRole::Client { is_answered, .. }) = self.request.as_mut().map(|end| &mut end.role) {
            *is_answered = true;
        }
    }
}

impl Simulation<'_> {
    /// Creates the servers of a group, and the clients that they serve.
    pub(crate) fn create_requests(&mut self, index: usize, rng: &mut Rng) {
        let group = self.scenario.group[index].get_ref();
        let queue = Rc::default();
        for _ in 0..group.nr_servers() {
            let mut work = Work::of(group, 1);
            work.compute_ns = ScenarioGroup::ns(group.reply_us.as_ref());
            work.rng = rng.fork();
            let id = self.create(0, index, "server", work);
            let Some(work) = &mut self.works[id] else { continue };
            let role = RequestRole::Server { id, client: None };
            work.request = Some(Box::new(RequestEnd::of(group, role, &queue)));
            queue.borrow_mut().idle.push_back(id);
        }
        for number in 0..*group.count.get_ref() {
            let mut work = Work::of(group, 0);
            let role = RequestRole::Client { phase: ClientPhase::Thinks, is_answered: false };
            work.request = Some(Box::new(RequestEnd::of(group, role, &queue)));
            let first = work.begin(self.machine.now, rng);
            let client = self.create(0, index, &format!("{}-{number}", group.name), work);
            if let Some((at, work_ns)) = first {
                self.machine.tasks[client].remaining_ns = work_ns;
                self.machine.at(at, MachineEvent::Start(client));
            }
        }
    }

    /// A client asks: the server that has slept for longest works for it, or else the first that has done with another one.
    pub(crate) fn request(&mut self, cpu: usize, client: TaskId) {
        self.machine.tasks[client].remaining_ns = WRITE_NS;
        let Some(queue) = self.works[client].as_ref().and_then(|work| Some(Rc::clone(&work.request.as_ref()?.queue)))
        else {
            return;
        };
        let idle = queue.borrow_mut().idle.pop_front();
        let Some(server) = idle else {
            queue.borrow_mut().waiting.push_back(client);
            return;
        };
        if let Some(work) = &mut self.works[server] {
            self.machine.tasks[server].remaining_ns = work.serve(client);
            self.machine.wake(cpu, server, true);
        }
    }

    /// A server answers.
    pub(crate) fn reply(&mut self, cpu: usize, server: TaskId, client: TaskId) {
        self.machine.tasks[server].remaining_ns = WRITE_NS;
        if self.machine.tasks[client].state == State::Sleeping {
            self.machine.wake(cpu, client, true);
        } else if let Some(work) = &mut self.works[client] {
            work.is_answered();
        }
    }
}
