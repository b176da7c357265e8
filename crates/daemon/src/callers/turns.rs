//! The turns of users' calls: who has one, who waits, when the next may begin. Without a clock or I/O.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Calls of one user that are worked on at once, by what they take. Where nobody has to think, a second one at the same time would
/// not be answered sooner.
const NR_READS_AT_ONCE: usize = 1;
const NR_ASKING_AT_ONCE: usize = 16;
const NR_LONG_AT_ONCE: usize = 1;
/// Those of a user that wait begin one by one, each after a pause as long as the last answer took, so that the user has half of the
/// service's time, and of the bus's, however fast the machine is. It is no longer than this; after that long the next one begins
/// also if the last one is not answered yet, as a person may have to think about it.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// A call that nobody answers keeps its turn for so long.
const MAX_TURN: Duration = Duration::from_mins(1);
/// What the calls of one user take that wait: so many as the system bus lets a hundred connections have open.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// More calls of a user wait only if somebody does not wait for answers. Such a user has a fifth of the time: an answer that the bus
/// takes in parts, a few KiB each time it turns to the service, stands before those of others until its end.
const MANY_WAITING: usize = 16;
const PAUSES_OF_FLOOD: u32 = 4;
const MAX_PAUSE_OF_FLOOD: Duration = Duration::from_secs(4);
/// What a call takes beside its message, and beside what is remembered of its connection.
const CALL_BYTES: usize = size_of::<WaitingCall>() + 16;
/// Names whose users are remembered, or asked for: more than a bus has connections. A name is never given to another program.
const MAX_NAMES: usize = 4096;

/// What a call takes until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// It reads properties, or what is known of the interface.
    Read,
    /// It asks polkit: a person may have to think.
    Asking,
    /// It asks the loop, has a long answer or looks at the host.
    Long,
}

/// A call as it came.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    /// The name of the connection that calls.
    pub(crate) sender: String,
    /// What tells the calls of a sender apart.
    pub(crate) serial: u32,
    pub(crate) cost: Cost,
    pub(crate) wants_answer: bool,
    /// The message.
    pub(crate) bytes: Vec<u8>,
}

impl WaitingCall {
    fn nr_bytes(&self) -> usize {
        call_bytes(self.bytes.len())
    }
}

/// What a call takes whose message has so many bytes.
fn call_bytes(nr_bytes: usize) -> usize {
    CALL_BYTES + nr_bytes
}

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Fate {
    /// Its turn begins.
    Begins(WaitingCall),
    /// It waits.
    Waits,
    /// It waits, and nobody has asked yet which user has this name.
    WaitsForUser(String),
    /// Too many wait already.
    IsRefused(WaitingCall),
    /// The service ends.
    ComesTooLate(WaitingCall),
}

/// All users' turns.
#[derive(Debug, Default)]
pub(crate) struct CallQueue {
    names: HashMap<String, Name>,
    /// What waits for a user to be known.
    strangers: WaitingRoom,
    users: HashMap<Option<u32>, User>,
    has_ended: bool,
}

#[derive(Debug)]
enum Name {
    /// The bus is being asked, and these calls wait for that.
    Asked(Vec<WaitingCall>),
    /// It is this user's, unless the bus did not know.
    Of(Option<u32>),
}

/// What calls that wait take.
#[derive(Debug, Default)]
struct WaitingRoom {
    nr_calls: usize,
    nr_bytes: usize,
}

impl WaitingRoom {
    fn has_room(&self, nr_bytes: usize) -> bool {
        self.nr_bytes + nr_bytes <= MAX_WAITING_BYTES
    }

    fn take(&mut self, call: &WaitingCall) {
        self.nr_calls += 1;
        self.nr_bytes += call.nr_bytes();
    }

    fn give_back(&mut self, call: &WaitingCall) {
        self.nr_calls -= 1;
        self.nr_bytes -= call.nr_bytes();
    }
}

#[derive(Debug)]
struct User {
    reads: Turns,
    asking: Turns,
    long: Turns,
    room: WaitingRoom,
}

impl Default for User {
    fn default() -> Self {
        let [reads, asking, long] = [NR_READS_AT_ONCE, NR_ASKING_AT_ONCE, NR_LONG_AT_ONCE].map(Turns::new);
        Self { reads, asking, long, room: WaitingRoom::default() }
    }
}

impl User {
    fn kinds(&mut self) -> [&mut Turns; 3] {
        [&mut self.reads, &mut self.asking, &mut self.long]
    }

    fn turns(&mut self, cost: Cost) -> &mut Turns {
        match cost {
            Cost::Read => &mut self.reads,
            Cost::Asking => &mut self.asking,
            Cost::Long => &mut self.long,
        }
    }

    fn come(&mut self, call: WaitingCall, now: Instant) -> Fate {
        let turns = self.turns(call.cost);
        if turns.waiting.is_empty() && turns.is_free(now) {
            turns.begin(&call, now);
            Fate::Begins(call)
        } else if self.room.has_room(call.nr_bytes()) {
            self.wait(call);
            Fate::Waits
        } else {
            Fate::IsRefused(call)
        }
    }

    /// Where others wait for the same kind of turn, none is free for it.
    fn refuses(&self, cost: Cost, nr_bytes: usize) -> bool {
        let turns = match cost {
            Cost::Read => &self.reads,
            Cost::Asking => &self.asking,
            Cost::Long => &self.long,
        };
        !turns.waiting.is_empty() && !self.room.has_room(nr_bytes)
    }

    fn wait(&mut self, call: WaitingCall) {
        self.room.take(&call);
        self.turns(call.cost).wait(call);
    }

    fn next(&mut self, now: Instant) -> Option<WaitingCall> {
        let call = self.kinds().into_iter().find_map(|turns| turns.next(now))?;
        self.room.give_back(&call);
        Some(call)
    }

    fn pop(&mut self) -> Option<WaitingCall> {
        let call = self.kinds().into_iter().find_map(Turns::pop)?;
        self.room.give_back(&call);
        Some(call)
    }

    fn drop_calls_of(&mut self, sender: &str) {
        for turns in [&mut self.reads, &mut self.asking, &mut self.long] {
            turns.take_calls_of(sender).iter().for_each(|call| self.room.give_back(call));
        }
    }

    fn floods(&self) -> bool {
        self.room.nr_calls > MANY_WAITING
    }

    /// The bus has taken the answer to a call, if it is one of this user's.
    fn end_turn(&mut self, sender: &str, serial: u32, now: Instant) -> bool {
        let floods = self.floods();
        self.kinds().into_iter().any(|turns| turns.end(sender, serial, floods, now))
    }

    fn has_waiting(&self) -> bool {
        [&self.reads, &self.asking, &self.long].into_iter().any(|turns| !turns.waiting.is_empty())
    }

    fn is_idle(&mut self, now: Instant) -> bool {
        self.kinds().into_iter().all(|turns| turns.is_idle(now))
    }
}

/// The turns of a user's calls of one kind.
#[derive(Debug)]
struct Turns {
    nr_at_once: usize,
    running: Vec<OpenCall>,
    /// When the next of those that wait may begin.
    next_at: Option<Instant>,
    /// Each connection's calls in their order; the connections take turns as well.
    waiting: VecDeque<(String, VecDeque<WaitingCall>)>,
}

/// A call that has its turn.
#[derive(Debug)]
struct OpenCall {
    sender: String,
    serial: u32,
    wants_answer: bool,
    began: Instant,
}

impl Turns {
    fn new(nr_at_once: usize) -> Self {
        Self { nr_at_once, running: Vec::new(), next_at: None, waiting: VecDeque::new() }
    }

    fn is_free(&mut self, now: Instant) -> bool {
        self.running.retain(|call| now < call.began + MAX_TURN);
        self.next_at = self.next_at.filter(|next_at| now < *next_at);
        self.running.len() < self.nr_at_once && self.next_at.is_none()
    }

    /// When one of those that wait may begin, if nothing is answered before.
    fn due_at(&self) -> Option<Instant> {
        let ends = self.running.iter().map(|call| call.began + MAX_TURN);
        let due_at = if self.running.len() < self.nr_at_once { self.next_at } else { ends.min() };
        due_at.filter(|_| !self.waiting.is_empty())
    }

    fn begin(&mut self, call: &WaitingCall, now: Instant) {
        let WaitingCall { sender, serial, wants_answer, .. } = call;
        let (sender, serial, wants_answer) = (sender.clone(), *serial, *wants_answer);
        self.running.push(OpenCall { sender, serial, wants_answer, began: now });
    }

    fn wait(&mut self, call: WaitingCall) {
        match self.waiting.iter_mut().find(|(sender, _)| *sender == call.sender) {
            Some((_, calls)) => calls.push_back(call),
            None => self.waiting.push_back((call.sender.clone(), VecDeque::from([call]))),
        }
    }

    fn next(&mut self, now: Instant) -> Option<WaitingCall> {
        if self.waiting.is_empty() || !self.is_free(now) {
            return None;
        }
        let call = self.pop()?;
        self.begin(&call, now);
        self.next_at = Some(now + MAX_PAUSE);
        Some(call)
    }

    /// Takes a waiting call; the next one is another connection's, if one of those waits.
    fn pop(&mut self) -> Option<WaitingCall> {
        let (sender, mut calls) = self.waiting.pop_front()?;
        let call = calls.pop_front();
        if !calls.is_empty() {
            self.waiting.push_back((sender, calls));
        }
        call
    }

    fn take_calls_of(&mut self, sender: &str) -> VecDeque<WaitingCall> {
        let index = self.waiting.iter().position(|(of, _)| of == sender);
        index.and_then(|index| self.waiting.remove(index)).map_or_else(VecDeque::new, |(_, calls)| calls)
    }

    fn end(&mut self, sender: &str, serial: u32, is_of_flood: bool, now: Instant) -> bool {
        let Some(index) = self.running.iter().position(|call| call.is(sender, serial)) else { return false };
        let ended = self.running.swap_remove(index);
        let took = now.saturating_duration_since(ended.began);
        let pause = if is_of_flood { (took * PAUSES_OF_FLOOD).min(MAX_PAUSE_OF_FLOOD) } else { took.min(MAX_PAUSE) };
        self.next_at = (!self.waiting.is_empty()).then(|| now + pause);
        true
    }

    fn is_idle(&mut self, now: Instant) -> bool {
        self.is_free(now) && self.running.is_empty() && self.waiting.is_empty()
    }
}

impl OpenCall {
    fn is(&self, sender: &str, serial: u32) -> bool {
        self.serial == serial && self.sender == sender
    }
}

impl CallQueue {
    /// A call has come.
    pub(crate) fn come(&mut self, call: WaitingCall, now: Instant) -> Fate {
        if self.has_ended {
            return Fate::ComesTooLate(call);
        }
        match self.names.get_mut(&call.sender) {
            Some(Name::Of(uid)) => {
                let uid = *uid;
                self.user(uid, now).come(call, now)
            }
            _ if !self.strangers.has_room(call.nr_bytes()) => Fate::IsRefused(call),
            Some(Name::Asked(calls)) => {
                self.strangers.take(&call);
                calls.push(call);
                Fate::Waits
            }
            None => self.come_first(call),
        }
    }

    /// Whether [`Self::come`] would refuse a call for want of room, whenever it comes. It needs neither the call nor the time.
    pub(crate) fn refuses(&self, sender: &str, cost: Cost, nr_bytes: usize) -> bool {
        let nr_bytes = call_bytes(nr_bytes);
        match self.names.get(sender) {
            _ if self.has_ended => false,
            Some(Name::Of(uid)) => self.users.get(uid).is_some_and(|user| user.refuses(cost, nr_bytes)),
            _ => !self.strangers.has_room(nr_bytes),
        }
    }

    fn come_first(&mut self, call: WaitingCall) -> Fate {
        self.make_room_for_a_name();
        if self.names.len() >= MAX_NAMES {
            return Fate::IsRefused(call);
        }
        self.strangers.take(&call);
        let name = call.sender.clone();
        self.names.insert(name.clone(), Name::Asked(vec![call]));
        Fate::WaitsForUser(name)
    }

    fn make_room_for_a_name(&mut self) {
        if self.names.len() >= MAX_NAMES {
            self.names.retain(|_, name| matches!(name, Name::Asked(_)));
        }
    }

    fn user(&mut self, uid: Option<u32>, now: Instant) -> &mut User {
        if !self.users.contains_key(&uid) {
            self.users.retain(|_, user| !user.is_idle(now));
        }
        self.users.entry(uid).or_default()
    }

    /// Whether the bus has been asked for the user of a name, and has answered.
    pub(crate) fn knows(&self, name: &str) -> bool {
        matches!(self.names.get(name), Some(Name::Of(_)))
    }

    /// The user of a name, if the bus knows.
    pub(crate) fn user_of(&self, name: &str) -> Option<u32> {
        match self.names.get(name)? {
            Name::Of(uid) => *uid,
            Name::Asked(_) => None,
        }
    }

    /// The bus has said which user has this name, or that it does not know. The calls that waited for it wait for their turns.
    pub(crate) fn know(&mut self, name: String, uid: Option<u32>, now: Instant) {
        self.make_room_for_a_name();
        let Some(Name::Asked(calls)) = self.names.insert(name, Name::Of(uid)) else { return };
        for call in calls {
            self.strangers.give_back(&call);
            // It has waited already, and is not refused any more.
            self.user(uid, now).wait(call);
        }
    }

    /// A connection has gone: nobody would have the answers to its calls, and polkit could not ask who calls. Those that wait never
    /// have a turn.
    pub(crate) fn drop_calls_of(&mut self, name: &str) {
        match self.names.get_mut(name) {
            Some(Name::Asked(calls)) => calls.drain(..).for_each(|call| self.strangers.give_back(&call)),
            Some(Name::Of(uid)) => {
                if let Some(user) = self.users.get_mut(uid) {
                    user.drop_calls_of(name);
                }
            }
            None => {}
        }
    }

    /// Whether a call of a user that is known waits for its turn. Of a stranger that has gone the bus says so when it is asked who
    /// that was.
    pub(crate) fn has_waiting(&self) -> bool {
        self.users.values().any(User::has_waiting)
    }

    /// Whether many calls of one user wait.
    pub(crate) fn is_flooded(&self) -> bool {
        self.users.values().any(User::floods)
    }

    /// The next call that need not wait any longer.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Fate> {
        if self.has_ended {
            return self.next_too_late().map(Fate::ComesTooLate);
        }
        self.users.values_mut().find_map(|user| user.next(now)).map(Fate::Begins)
    }

    fn next_too_late(&mut self) -> Option<WaitingCall> {
        let stranger = self.names.values_mut().find_map(|name| match name {
            Name::Asked(calls) => calls.pop(),
            Name::Of(_) => None,
        });
        stranger.or_else(|| self.users.values_mut().find_map(User::pop))
    }

    /// When [`Self::next`] has something, if nothing happens before.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let turns = self.users.values().flat_map(|user| [&user.reads, &user.asking, &user.long]);
        turns.filter_map(Turns::due_at).min()
    }

    /// Whether an answer goes to whom it is for.
    pub(crate) fn is_wanted(&self, sender: &str, serial: u32) -> bool {
        let mut running = self.users.values().flat_map(|user| [&user.reads, &user.asking, &user.long]);
        let call = running.find_map(|turns| turns.running.iter().find(|call| call.is(sender, serial)));
        call.is_none_or(|call| call.wants_answer)
    }

    /// The bus has taken the answer to a call, whose turn ends.
    pub(crate) fn end_turn(&mut self, sender: &str, serial: u32, now: Instant) {
        self.users.values_mut().any(|user| user.end_turn(sender, serial, now));
    }

    /// The service ends: no turn begins any more.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }
}

#[cfg(test)]
mod tests;
