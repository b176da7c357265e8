//! One task that sends to many, as a bus, a logger or a server does: it wakes its readers one after the other, and goes on.

use std::collections::VecDeque;

use fastrand::Rng;

use super::{Next, WRITE_NS, Work};
use crate::machine::MachineEvent;
use crate::run::Simulation;
use crate::scenario::ScenarioGroup;
use crate::task::{State, TaskId};

/// As many messages has a reader's pipe or socket room for; who waits to write goes on when no more than so many are left.
const MOST_MESSAGES: usize = 64;
const FEW_MESSAGES: usize = 16;

#[derive(Clone, Debug)]
enum HubRole {
    Sender {
        readers: Vec<TaskId>,
        /// The reader that is next in this burst.
        next: usize,
    },
    Reader {
        sender: TaskId,
        /// When each message was sent that it has not begun to read.
        sent_ns: VecDeque<u64>,
        /// The sender sleeps, as there is no room for its message.
        is_awaited: bool,
    },
}

/// One end of the messages.
#[derive(Clone, Debug)]
pub(super) struct HubEnd {
    role: HubRole,
    /// It computes so much at most from one burst to the next.
    wanted_ns: u64,
    interval_ns: u64,
}

impl HubEnd {
    fn of(group: &ScenarioGroup, role: HubRole) -> Self {
        let [compute_ns, sleep_ns, period_ns, reply_ns] =
            [&group.compute_us, &group.sleep_us, &group.period_us, &group.reply_us]
                .map(|time| ScenarioGroup::ns(time.as_ref()));
        let sending_ns = compute_ns + WRITE_NS * group.readers.as_ref().map_or(0, |readers| *readers.get_ref());
        let wanted_ns = if matches!(role, HubRole::Sender { .. }) { sending_ns } else { reply_ns };
        Self { role, wanted_ns, interval_ns: (sending_ns + sleep_ns).max(period_ns) }
    }

    /// What it asks of one CPU, in parts of `whole`.
    pub(super) fn demand(&self, whole: u64) -> u64 {
        whole * self.wanted_ns.min(self.interval_ns) / self.interval_ns
    }
}

impl Work {
    /// What comes next at either end, and how long it took from when a message was sent until a reader was done with it.
    pub(super) fn next_of_hub(&mut self, now: u64) -> (Next, Option<u64>) {
        match self.hub.as_mut().map(|hub| &mut hub.role) {
            Some(HubRole::Sender { readers, next }) => {
                let Some(reader) = readers.get(*next) else {
                    *next = 0;
                    return (self.next_burst(now), None);
                };
                *next += 1;
                (Next::Send(*reader), None)
            }
            Some(HubRole::Reader { sender, sent_ns, is_awaited }) => {
                if *is_awaited && sent_ns.len() <= FEW_MESSAGES {
                    *is_awaited = false;
                    return (Next::Resume(*sender), None);
                }
                let response_ns = now - self.due_ns;
                let next = match sent_ns.pop_front() {
                    Some(due_ns) => {
                        self.due_ns = due_ns;
                        Next::Compute(self.compute_ns)
                    }
                    None => Next::Sleep { until: None, then_ns: self.compute_ns },
                };
                (next, Some(response_ns))
            }
            None => (Next::Exit, None),
        }
    }

    fn next_burst(&mut self, now: u64) -> Next {
        if self.period_ns > 0 {
            return self.next_period(now);
        }
        if self.sleep_ns > 0 { self.nap(now) } else { Next::Compute(self.vary(self.compute_ns)) }
    }

    /// A message for a reader; whether there is room for it. If not, the reader wakes the sender later, which tries again.
    fn receive(&mut self, now: u64, sleeps: bool) -> bool {
        let Some(HubRole::Reader { sent_ns, is_awaited, .. }) = self.hub.as_mut().map(|hub| &mut hub.role) else {
            return true;
        };
        *is_awaited = sent_ns.len() >= MOST_MESSAGES;
        if sleeps {
            self.due_ns = now;
        } else if !*is_awaited {
            sent_ns.push_back(now);
        }
        !*is_awaited
    }

    fn send_again(&mut self) {
        if let Some(HubRole::Sender { next, .. }) = self.hub.as_mut().map(|hub| &mut hub.role) {
            *next -= 1;
        }
    }
}

impl Simulation<'_> {
    /// Creates the senders of a group, each with its readers.
    pub(crate) fn create_hubs(&mut self, index: usize, rng: &mut Rng) {
        let group = self.scenario.group[index].get_ref();
        for number in 0..*group.count.get_ref() {
            let sender = self.create(0, index, &format!("{}-{number}", group.name), Work::of(group, 0));
            let nr_readers = group.readers.as_ref().map_or(0, |readers| *readers.get_ref());
            let readers = (0..nr_readers).map(|_| self.create_reader(index, sender)).collect();
            let Some(work) = &mut self.works[sender] else { continue };
            work.hub = Some(Box::new(HubEnd::of(group, HubRole::Sender { readers, next: 0 })));
            if let Some((at, work_ns)) = work.begin(self.machine.now, rng) {
                self.machine.tasks[sender].remaining_ns = work_ns;
                self.machine.at(at, MachineEvent::Start(sender));
            }
        }
    }

    fn create_reader(&mut self, index: usize, sender: TaskId) -> TaskId {
        let group = self.scenario.group[index].get_ref();
        let mut work = Work::of(group, 1);
        work.compute_ns = ScenarioGroup::ns(group.reply_us.as_ref());
        work.hub =
            Some(Box::new(HubEnd::of(group, HubRole::Reader { sender, sent_ns: VecDeque::new(), is_awaited: false })));
        self.create(0, index, "reader", work)
    }

    /// A message to a reader; whether the sender still wants the CPU.
    pub(crate) fn send(&mut self, cpu: usize, sender: TaskId, reader: TaskId) -> bool {
        let sleeps = self.machine.tasks[reader].state == State::Sleeping;
        let now = self.machine.now;
        let Some(work) = &mut self.works[reader] else { return true };
        if !work.receive(now, sleeps) {
            if let Some(work) = &mut self.works[sender] {
                work.send_again();
            }
            self.sleep(sender, None, WRITE_NS);
            self.machine.schedule(cpu);
            return false;
        }
        self.machine.tasks[sender].remaining_ns = WRITE_NS;
        if sleeps {
            self.machine.tasks[reader].remaining_ns = work.compute_ns();
            self.machine.wake(cpu, reader, true);
        }
        true
    }
}
