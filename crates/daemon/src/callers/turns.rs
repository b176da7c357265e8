//! The turns of users' calls: who has one, who waits, when the next may begin. Without a clock or I/O.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Calls of one user that are worked on at once, by what they take.
const NR_READS_AT_ONCE: usize = 4;
const NR_SIMPLE_AT_ONCE: usize = 16;
const NR_LONG_AT_ONCE: usize = 1;
/// While calls of a user wait, a turn is followed by a pause of so many times what its answer took, but not by a longer one than
/// this: so the user has a part of the service's time, and of the bus's, however fast the machine is.
const PAUSE_PER_ANSWER: u32 = 3;
const MAX_PAUSE: Duration = Duration::from_millis(150);
/// A call that nobody answers keeps its turn for so long.
const MAX_TURN: Duration = Duration::from_mins(1);
/// What the calls of one user take that wait: so many as the system bus lets a hundred connections have open.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// What a call takes beside its message, and beside what is remembered of its connection.
const CALL_BYTES: usize = size_of::<WaitingCall>() + 16;
/// Names whose users are remembered, or asked for: more than a bus has connections. A name is never given to another program.
const MAX_NAMES: usize = 4096;

/// What a call takes until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// It reads properties, or what is known of the interface.
    Read,
    /// It asks the loop, or polkit: a person may have to think.
    Simple,
    /// It has a long answer, or looks at the host.
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
        CALL_BYTES + self.bytes.len()
    }
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
pub(crate) struct Queue {
    names: HashMap<String, Name>,
    /// What waits for a user to be known.
    strangers: Room,
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
struct Room {
    nr_bytes: usize,
}

impl Room {
    fn has_room(&self, call: &WaitingCall) -> bool {
        self.nr_bytes + call.nr_bytes() <= MAX_WAITING_BYTES
    }

    fn take(&mut self, call: &WaitingCall) {
        self.nr_bytes += call.nr_bytes();
    }

    fn give_back(&mut self, call: &WaitingCall) {
        self.nr_bytes -= call.nr_bytes();
    }
}

#[derive(Debug)]
struct User {
    reads: Turns,
    simple: Turns,
    long: Turns,
    room: Room,
}

impl Default for User {
    fn default() -> Self {
        let [reads, simple, long] = [NR_READS_AT_ONCE, NR_SIMPLE_AT_ONCE, NR_LONG_AT_ONCE].map(Turns::new);
        Self { reads, simple, long, room: Room::default() }
    }
}

impl User {
    fn kinds(&mut self) -> [&mut Turns; 3] {
        [&mut self.reads, &mut self.simple, &mut self.long]
    }

    fn turns(&mut self, cost: Cost) -> &mut Turns {
        match cost {
            Cost::Read => &mut self.reads,
            Cost::Simple => &mut self.simple,
            Cost::Long => &mut self.long,
        }
    }

    fn come(&mut self, call: WaitingCall, now: Instant) -> Fate {
        let turns = self.turns(call.cost);
        if turns.waiting.is_empty() && turns.is_free(now) {
            turns.begin(&call, now);
            Fate::Begins(call)
        } else if self.room.has_room(&call) {
            self.wait(call);
            Fate::Waits
        } else {
            Fate::IsRefused(call)
        }
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

    fn is_idle(&mut self, now: Instant) -> bool {
        self.kinds().into_iter().all(|turns| turns.is_idle(now))
    }
}

/// The turns of a user's calls of one kind.
#[derive(Debug)]
struct Turns {
    nr_at_once: usize,
    running: Vec<Running>,
    /// When the pauses end that follow turns.
    pauses: Vec<Instant>,
    /// Each connection's calls in their order; the connections take turns as well.
    waiting: VecDeque<(String, VecDeque<WaitingCall>)>,
}

/// A call that has its turn.
#[derive(Debug)]
struct Running {
    sender: String,
    serial: u32,
    wants_answer: bool,
    began: Instant,
}

impl Turns {
    fn new(nr_at_once: usize) -> Self {
        Self { nr_at_once, running: Vec::new(), pauses: Vec::new(), waiting: VecDeque::new() }
    }

    fn is_free(&mut self, now: Instant) -> bool {
        self.running.retain(|call| now < call.began + MAX_TURN);
        self.pauses.retain(|end| now < *end);
        self.running.len() + self.pauses.len() < self.nr_at_once
    }

    /// When one of those that wait may begin, if nothing is answered before.
    fn due_at(&self) -> Option<Instant> {
        let ends = self.running.iter().map(|call| call.began + MAX_TURN).chain(self.pauses.iter().copied());
        ends.min().filter(|_| !self.waiting.is_empty())
    }

    fn begin(&mut self, call: &WaitingCall, now: Instant) {
        let WaitingCall { sender, serial, wants_answer, .. } = call;
        let (sender, serial, wants_answer) = (sender.clone(), *serial, *wants_answer);
        self.running.push(Running { sender, serial, wants_answer, began: now });
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

    fn end(&mut self, sender: &str, serial: u32, now: Instant) -> bool {
        let Some(index) = self.running.iter().position(|call| call.is(sender, serial)) else { return false };
        let ended = self.running.swap_remove(index);
        if !self.waiting.is_empty() {
            let took = now.saturating_duration_since(ended.began);
            self.pauses.push(now + MAX_PAUSE.min(took * PAUSE_PER_ANSWER));
        }
        true
    }

    fn is_idle(&mut self, now: Instant) -> bool {
        self.is_free(now) && self.running.is_empty() && self.pauses.is_empty() && self.waiting.is_empty()
    }
}

impl Running {
    fn is(&self, sender: &str, serial: u32) -> bool {
        self.serial == serial && self.sender == sender
    }
}

impl Queue {
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
            _ if !self.strangers.has_room(&call) => Fate::IsRefused(call),
            Some(Name::Asked(calls)) => {
                self.strangers.take(&call);
                calls.push(call);
                Fate::Waits
            }
            None => self.come_first(call),
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

    /// The user of a name, if that is known.
    pub(crate) fn user_of(&self, name: &str) -> Option<Option<u32>> {
        match self.names.get(name)? {
            Name::Of(uid) => Some(*uid),
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
        let turns = self.users.values().flat_map(|user| [&user.reads, &user.simple, &user.long]);
        turns.filter_map(Turns::due_at).min()
    }

    /// Whether an answer goes to whom it is for.
    pub(crate) fn is_wanted(&self, sender: &str, serial: u32) -> bool {
        let mut running = self.users.values().flat_map(|user| [&user.reads, &user.simple, &user.long]);
        let call = running.find_map(|turns| turns.running.iter().find(|call| call.is(sender, serial)));
        call.is_none_or(|call| call.wants_answer)
    }

    /// The bus has taken the answer to a call, whose turn ends.
    pub(crate) fn end_turn(&mut self, sender: &str, serial: u32, now: Instant) {
        let mut turns = self.users.values_mut().flat_map(User::kinds);
        turns.any(|turns| turns.end(sender, serial, now));
    }

    /// The service ends: no turn begins any more.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [(Cost, usize); 3] =
        [(Cost::Read, NR_READS_AT_ONCE), (Cost::Simple, NR_SIMPLE_AT_ONCE), (Cost::Long, NR_LONG_AT_ONCE)];

    fn call(sender: &str, serial: u32, cost: Cost) -> WaitingCall {
        WaitingCall { sender: sender.into(), serial, cost, wants_answer: true, bytes: vec![0; 200] }
    }

    /// Users 1000 and 1001 with two connections each, called after them.
    fn queue(now: Instant) -> Queue {
        let mut queue = Queue::default();
        for (name, uid) in [("1000.a", 1000), ("1000.b", 1000), ("1001.a", 1001), ("1001.b", 1001)] {
            queue.know(name.into(), Some(uid), now);
        }
        queue
    }

    impl Queue {
        fn begins(&mut self, call: WaitingCall, now: Instant) -> bool {
            matches!(self.come(call, now), Fate::Begins(_))
        }

        fn waits(&mut self, call: WaitingCall, now: Instant) -> bool {
            matches!(self.come(call, now), Fate::Waits)
        }

        /// The next call that begins, by its sender and number.
        fn next_begun(&mut self, now: Instant) -> Option<(String, u32)> {
            match self.next(now)? {
                Fate::Begins(call) => Some((call.sender, call.serial)),
                other => panic!("{other:?}"),
            }
        }

        fn is_empty(&mut self, now: Instant) -> bool {
            let has_room =
                self.users.values().map(|user| &user.room).chain([&self.strangers]).all(|room| room.nr_bytes == 0);
            has_room && self.users.values_mut().all(|user| user.is_idle(now))
        }
    }

    #[test]
    fn calls_of_a_user_take_turns_and_others_do_not_feel_it() {
        let now = Instant::now();
        let mut queue = queue(now);
        for (cost, nr_at_once) in KINDS {
            for serial in 0..u32::try_from(nr_at_once).unwrap() {
                assert!(queue.begins(call("1000.a", serial, cost), now), "{cost:?}");
            }
            assert!(queue.waits(call("1000.b", 100, cost), now), "{cost:?}: over all connections");
            assert!(queue.begins(call("1001.a", 1, cost), now), "{cost:?}: of others");
        }
        assert!(queue.next(now).is_none());
        queue.end_turn("1000.a", 3, now);
        assert_eq!(queue.next_begun(now), Some(("1000.b".into(), 100)), "a turn that took no time is followed by none");
    }

    #[test]
    fn a_turn_that_is_waited_for_is_followed_by_a_pause() {
        let now = Instant::now();
        let mut queue = queue(now);
        assert!(queue.begins(call("1000.a", 1, Cost::Long), now));
        let took = Duration::from_millis(10);
        queue.end_turn("1000.a", 1, now + took);
        assert!(queue.begins(call("1000.a", 2, Cost::Long), now + took), "nobody waited for the first one's turn");
        assert!(queue.waits(call("1000.a", 3, Cost::Long), now + took));
        let answered = now + 2 * took;
        queue.end_turn("1000.a", 2, answered);
        assert_eq!(queue.due_at(), Some(answered + took * PAUSE_PER_ANSWER));
        assert_eq!(queue.next_begun(answered + took * PAUSE_PER_ANSWER - Duration::from_micros(1)), None);
        assert!(queue.begins(call("1001.a", 1, Cost::Long), answered), "others do not feel it");
        assert_eq!(queue.next_begun(answered + took * PAUSE_PER_ANSWER), Some(("1000.a".into(), 3)));

        assert!(queue.waits(call("1000.a", 4, Cost::Long), answered));
        queue.end_turn("1000.a", 3, answered + Duration::from_secs(10));
        assert_eq!(queue.due_at(), Some(answered + Duration::from_secs(10) + MAX_PAUSE), "a person had to think");
    }

    #[test]
    fn connections_of_a_user_take_turns() {
        let now = Instant::now();
        let mut queue = queue(now);
        assert!(queue.begins(call("1000.a", 1, Cost::Long), now));
        for serial in 2..100 {
            assert!(queue.waits(call("1000.a", serial, Cost::Long), now));
        }
        assert!(queue.waits(call("1000.b", 1, Cost::Long), now));
        let mut order = Vec::new();
        let mut last = ("1000.a".to_owned(), 1);
        for _ in 0..4 {
            queue.end_turn(&last.0, last.1, now);
            last = queue.next_begun(now).unwrap();
            order.push(last.clone());
        }
        let expected = [("1000.a", 2), ("1000.b", 1), ("1000.a", 3), ("1000.a", 4)];
        assert_eq!(order, expected.map(|(sender, serial)| (sender.to_owned(), serial)));
    }

    #[test]
    fn calls_of_a_stranger_wait_until_its_user_is_known() {
        let now = Instant::now();
        let mut queue = queue(now);
        assert!(queue.begins(call("1000.a", 1, Cost::Long), now));
        assert!(matches!(queue.come(call("new", 1, Cost::Simple), now), Fate::WaitsForUser(name) if name == "new"));
        assert!(queue.waits(call("new", 2, Cost::Long), now), "the bus is asked once");
        assert_eq!((queue.next_begun(now), queue.user_of("new")), (None, None));
        queue.know("new".into(), Some(1000), now);
        assert_eq!(queue.user_of("new"), Some(Some(1000)));
        assert_eq!(queue.next_begun(now), Some(("new".into(), 1)));
        assert_eq!(queue.next_begun(now), None, "it is one of a user who has a long call");
        queue.end_turn("1000.a", 1, now);
        assert_eq!(queue.next_begun(now), Some(("new".into(), 2)));
        queue.end_turn("new", 1, now);
        queue.end_turn("new", 2, now);
        assert!(queue.is_empty(now));
    }

    #[test]
    fn what_waits_has_a_limit_for_each_user_and_for_strangers() {
        let now = Instant::now();
        let mut queue = queue(now);
        let mut nr_waiting = 0;
        assert!(queue.begins(call("1000.a", 0, Cost::Long), now));
        while queue.waits(call("1000.a", 1 + nr_waiting, Cost::Long), now) {
            nr_waiting += 1;
        }
        assert!(nr_waiting > 100 * 128, "{nr_waiting}");
        assert!(matches!(queue.come(call("1000.b", 1, Cost::Long), now), Fate::IsRefused(_)));
        assert!(queue.begins(call("1000.b", 2, Cost::Simple), now), "it need not wait");
        assert!(queue.begins(call("1001.a", 1, Cost::Long), now) && queue.waits(call("1001.a", 2, Cost::Long), now));
        queue.end_turn("1000.a", 0, now);
        queue.next_begun(now).unwrap();
        assert!(queue.waits(call("1000.b", 3, Cost::Long), now), "there is room again");

        assert!(matches!(queue.come(call("new", 1, Cost::Read), now), Fate::WaitsForUser(_)));
        while queue.waits(call("new", 2, Cost::Read), now) {}
        assert!(matches!(queue.come(call("new", 3, Cost::Read), now), Fate::IsRefused(_)));
        assert!(matches!(queue.come(call("newer", 1, Cost::Read), now), Fate::IsRefused(_)));
    }

    #[test]
    fn a_call_that_nobody_answers_keeps_its_turn_for_a_minute() {
        let now = Instant::now();
        let mut queue = queue(now);
        assert!(queue.begins(call("1000.a", 1, Cost::Long), now) && queue.waits(call("1000.a", 2, Cost::Long), now));
        assert_eq!(queue.due_at(), Some(now + MAX_TURN));
        assert_eq!(queue.next_begun(now + MAX_TURN), Some(("1000.a".into(), 2)));
    }

    #[test]
    fn answers_that_nobody_wants_are_known() {
        let now = Instant::now();
        let mut queue = queue(now);
        assert!(queue.begins(WaitingCall { wants_answer: false, ..call("1000.a", 1, Cost::Long) }, now));
        assert!(queue.begins(call("1000.a", 2, Cost::Read), now));
        assert!(!queue.is_wanted("1000.a", 1) && queue.is_wanted("1000.a", 2) && queue.is_wanted("1000.b", 1));
    }

    #[test]
    fn no_turn_begins_once_the_service_ends() {
        let now = Instant::now();
        let mut queue = queue(now);
        assert!(queue.begins(call("1000.a", 1, Cost::Long), now) && queue.waits(call("1000.a", 2, Cost::Long), now));
        assert!(matches!(queue.come(call("new", 3, Cost::Simple), now), Fate::WaitsForUser(_)));
        queue.end();
        let told: Vec<_> = std::iter::from_fn(|| queue.next(now)).collect();
        assert!(matches!(told[..], [Fate::ComesTooLate(_), Fate::ComesTooLate(_)]), "{told:?}");
        assert!(matches!(queue.come(call("1001.a", 1, Cost::Read), now), Fate::ComesTooLate(_)));
    }

    #[test]
    fn names_and_users_are_forgotten_in_time() {
        let now = Instant::now();
        let mut queue = queue(now);
        queue.come(call("new", 1, Cost::Read), now);
        for nr in 0..2 * MAX_NAMES {
            queue.know(format!("old{nr}"), Some(1002), now);
        }
        assert!(queue.names.len() <= MAX_NAMES);
        assert!(matches!(queue.names["new"], Name::Asked(_)), "its calls still wait");
        queue.come(call("old8191", 1, Cost::Read), now);
        queue.end_turn("old8191", 1, now);
        queue.know("1003.a".into(), Some(1003), now);
        assert!(queue.begins(call("1003.a", 1, Cost::Read), now));
        assert_eq!(queue.users.keys().collect::<Vec<_>>(), [&Some(1003)]);
    }

    /// Calls of several connections, and what is worked on.
    struct Play {
        random: fastrand::Rng,
        queue: Queue,
        now: Instant,
        running: Vec<WaitingCall>,
        nr_ended: u32,
    }

    impl Play {
        fn new(seed: u64) -> Self {
            let now = Instant::now();
            let random = fastrand::Rng::with_seed(seed);
            Self { random, queue: queue(now), now, running: Vec::new(), nr_ended: 0 }
        }

        fn call(&mut self, serial: u32) {
            let sender = self.random.choice(["1000.a", "1000.b", "1001.a", "new"]).unwrap();
            let (cost, _) = self.random.choice(KINDS).unwrap();
            if let Fate::Begins(call) = self.queue.come(call(sender, serial, cost), self.now) {
                self.running.push(call);
            }
        }

        fn go_on(&mut self) {
            while let Some(fate) = self.queue.next(self.now) {
                let Fate::Begins(call) = fate else { panic!("{fate:?}") };
                self.running.push(call);
            }
            for (cost, nr_at_once) in KINDS {
                let is_one = |call: &&WaitingCall| call.sender.starts_with("1000") && call.cost == cost;
                assert!(self.running.iter().filter(is_one).count() <= nr_at_once, "{cost:?}");
            }
        }

        fn end_one(&mut self) {
            if !self.running.is_empty() {
                let ended = self.running.swap_remove(self.random.usize(..self.running.len()));
                self.queue.end_turn(&ended.sender, ended.serial, self.now);
                self.nr_ended += 1;
            }
        }
    }

    /// Each call is worked on once, none is lost, and of no user more at once than allowed.
    #[test]
    fn whatever_comes_in_any_order_has_its_turn() {
        const NR_CALLS: u32 = 500;
        for seed in 0..100 {
            let mut play = Play::new(seed);
            for serial in 0..NR_CALLS {
                play.now += Duration::from_micros(play.random.u64(0..5_000));
                play.call(serial);
                play.go_on();
                if play.random.bool() {
                    play.end_one();
                }
            }
            play.queue.know("new".into(), Some(1000), play.now);
            play.go_on();
            while !play.running.is_empty() {
                play.end_one();
                play.now += MAX_PAUSE;
                play.go_on();
            }
            assert!(play.queue.is_empty(play.now), "seed {seed}");
            assert_eq!(play.nr_ended, NR_CALLS, "seed {seed}");
        }
    }
}
