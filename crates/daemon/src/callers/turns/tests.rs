//! Calls come, wait, have their turns and end, in a time that the tests make.

use super::*;

const KINDS: [(Cost, usize); 3] =
    [(Cost::Read, NR_READS_AT_ONCE), (Cost::Asking, NR_ASKING_AT_ONCE), (Cost::Long, NR_LONG_AT_ONCE)];

fn call(sender: &str, serial: u32, cost: Cost) -> WaitingCall {
    WaitingCall { sender: sender.into(), serial, cost, wants_answer: true, bytes: vec![0; 200] }
}

/// Users 1000 and 1001 with two connections each, called after them.
fn queue(now: Instant) -> CallQueue {
    let mut queue = CallQueue::default();
    for (name, uid) in [("1000.a", 1000), ("1000.b", 1000), ("1001.a", 1001), ("1001.b", 1001)] {
        queue.know(name.into(), Some(uid), now);
    }
    queue
}

impl CallQueue {
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
        let is_free = |room: &WaitingRoom| (room.nr_calls, room.nr_bytes) == (0, 0);
        let has_room = self.users.values().all(|user| is_free(&user.room)) && is_free(&self.strangers);
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
fn those_that_wait_begin_one_by_one() {
    let now = Instant::now();
    let mut queue = queue(now);
    for serial in 0..u32::try_from(NR_ASKING_AT_ONCE).unwrap() {
        assert!(queue.begins(call("1000.a", serial, Cost::Asking), now));
    }
    for serial in 100..110 {
        assert!(queue.waits(call("1000.a", serial, Cost::Asking), now));
    }
    let later = now + Duration::from_millis(1);
    for serial in 0..5 {
        queue.end_turn("1000.a", serial, later);
    }
    assert_eq!(queue.next_begun(later), None, "the bus has to pass the answers on");
    let later = later + Duration::from_millis(1);
    assert_eq!(queue.next_begun(later), Some(("1000.a".into(), 100)));
    assert_eq!((queue.next_begun(later), queue.due_at()), (None, Some(later + MAX_PAUSE)));
    assert_eq!(queue.next_begun(later + MAX_PAUSE), Some(("1000.a".into(), 101)), "a person may have to think");
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
    assert_eq!(queue.due_at(), Some(answered + took));
    assert_eq!(queue.next_begun(answered + took / 2), None);
    assert!(queue.begins(call("1001.a", 1, Cost::Long), answered), "others do not feel it");
    assert_eq!(queue.next_begun(answered + took), Some(("1000.a".into(), 3)));

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
    assert!(matches!(queue.come(call("new", 1, Cost::Asking), now), Fate::WaitsForUser(name) if name == "new"));
    assert!(queue.waits(call("new", 2, Cost::Long), now), "the bus is asked once");
    assert_eq!((queue.next_begun(now), queue.knows("new")), (None, false));
    queue.know("new".into(), Some(1000), now);
    assert_eq!(queue.user_of("new"), Some(1000));
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
    assert!(queue.begins(call("1000.b", 2, Cost::Asking), now), "it need not wait");
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
    assert!(matches!(queue.come(call("new", 3, Cost::Asking), now), Fate::WaitsForUser(_)));
    queue.end();
    let told: Vec<_> = std::iter::from_fn(|| queue.next(now)).collect();
    assert!(matches!(told[..], [Fate::ComesTooLate(_), Fate::ComesTooLate(_)]), "{told:?}");
    assert!(matches!(queue.come(call("1001.a", 1, Cost::Read), now), Fate::ComesTooLate(_)));
}

#[test]
fn calls_of_a_connection_that_has_gone_have_no_turn() {
    let now = Instant::now();
    let mut queue = queue(now);
    for (cost, nr_at_once) in KINDS {
        for serial in 0..u32::try_from(nr_at_once).unwrap() {
            assert!(queue.begins(call("1000.a", serial, cost), now));
        }
        assert!(queue.waits(call("1000.a", 100, cost), now) && queue.waits(call("1000.a", 101, cost), now));
    }
    assert!(queue.waits(call("1000.b", 1, Cost::Long), now));
    assert!(matches!(queue.come(call("new", 1, Cost::Read), now), Fate::WaitsForUser(_)));
    queue.drop_calls_of("unheard-of");
    queue.drop_calls_of("1000.a");
    queue.drop_calls_of("new");
    assert!(queue.has_waiting());
    queue.end_turn("1000.a", 0, now);
    assert_eq!(queue.next_begun(now), None, "those of another kind that run go on");
    queue.know("new".into(), None, now);
    let later = now + MAX_TURN;
    assert_eq!((queue.next_begun(later), queue.next_begun(later)), (Some(("1000.b".into(), 1)), None));
    assert!(!queue.has_waiting());
    queue.end_turn("1000.b", 1, later);
    assert!(queue.is_empty(later + MAX_TURN), "their room is given back");
}

#[test]
fn many_waiting_calls_of_one_user_are_a_flood() {
    let now = Instant::now();
    let mut queue = queue(now);
    let many = u32::try_from(MANY_WAITING).unwrap();
    for (sender, cost) in [("1000.a", Cost::Read), ("1001.a", Cost::Long)] {
        assert!(queue.begins(call(sender, 0, cost), now));
        for serial in 1..=many {
            assert!(queue.waits(call(sender, serial, cost), now));
        }
    }
    assert!(!queue.is_flooded(), "these are of two users");
    assert!(queue.begins(call("1000.b", 0, Cost::Long), now) && queue.waits(call("1000.b", 1, Cost::Long), now));
    assert!(queue.is_flooded());
    queue.drop_calls_of("1000.b");
    assert!(!queue.is_flooded());
}

#[test]
fn a_flood_has_a_fifth_of_the_time() {
    let now = Instant::now();
    let mut queue = queue(now);
    assert!(queue.begins(call("1000.a", 0, Cost::Long), now));
    for serial in 1..=2 + u32::try_from(MANY_WAITING).unwrap() {
        assert!(queue.waits(call("1000.a", serial, Cost::Long), now));
    }
    let took = Duration::from_millis(100);
    let answered = now + took;
    queue.end_turn("1000.a", 0, answered);
    assert_eq!(queue.due_at(), Some(answered + 4 * took));
    let begun = answered + 4 * took;
    assert_eq!(queue.next_begun(begun), Some(("1000.a".into(), 1)));
    let answered = begun + Duration::from_mins(1);
    queue.end_turn("1000.a", 1, answered);
    assert_eq!(queue.due_at(), Some(answered + MAX_PAUSE_OF_FLOOD));
    let begun = answered + MAX_PAUSE_OF_FLOOD;
    assert_eq!(queue.next_begun(begun), Some(("1000.a".into(), 2)));
    queue.end_turn("1000.a", 2, begun + took);
    assert_eq!(queue.due_at(), Some(begun + 2 * took), "so few may wait");
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
    queue: CallQueue,
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
            while !play.running.is_empty() {
                play.end_one();
            }
            play.now += MAX_PAUSE_OF_FLOOD;
            play.go_on();
        }
        assert!(play.queue.is_empty(play.now), "seed {seed}");
        assert_eq!(play.nr_ended, NR_CALLS, "seed {seed}");
    }
}

#[test]
fn it_is_known_beforehand_what_would_be_refused() {
    let now = Instant::now();
    let mut queue = queue(now);
    let nr_bytes = call("1000.a", 0, Cost::Asking).bytes.len();
    let mut serial = 0;
    while !queue.refuses("1000.a", Cost::Asking, nr_bytes) {
        serial += 1;
        assert!(!matches!(queue.come(call("1000.a", serial, Cost::Asking), now), Fate::IsRefused(_)), "{serial}");
    }
    assert!(matches!(queue.come(call("1000.b", 1, Cost::Asking), now), Fate::IsRefused(_)));
    assert!(!queue.refuses("1000.b", Cost::Read, nr_bytes) && queue.begins(call("1000.b", 2, Cost::Read), now));
    assert!(!queue.refuses("1001.a", Cost::Asking, nr_bytes), "of another user");
    while !queue.refuses("stranger", Cost::Read, nr_bytes) {
        serial += 1;
        assert!(!matches!(queue.come(call("stranger", serial, Cost::Read), now), Fate::IsRefused(_)), "{serial}");
    }
    assert!(matches!(queue.come(call("other stranger", 1, Cost::Read), now), Fate::IsRefused(_)));
    queue.end();
    assert!(!queue.refuses("1000.a", Cost::Asking, nr_bytes), "it comes too late");
}
