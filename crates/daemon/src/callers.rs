//! How many calls of a user are worked on at once. A user's programs together take turns: what is beyond that waits, which costs
//! next to nothing, so that no user keeps others from being answered.
//!
//! Waiting calls are what stops a flood: a bus lets a connection have so many calls open, and refuses the others itself. Refusals of
//! ours would be followed by the next call at once. Only if more wait than one expects of a user they are refused.
//!
//! An answer still has to be written when its call's turn ends, and the bus to pass it on. So the turns of a user who has had many
//! answers lately, or has calls that wait, last for a moment after the answer (`PAUSE`): answers would otherwise pile up, and
//! everybody's would come after them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use scherzo_api::Error;
use scherzo_api::catalogue::gettext_noop;
use scherzo_supervisor::Caller;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use zbus::Connection;
use zbus::message::Header;

use crate::authorize::sender_uid;

/// Calls of one user that are worked on at once, by what they take.
const NR_READS_AT_ONCE: usize = 4;
const NR_SIMPLE_AT_ONCE: usize = 16;
const NR_LONG_AT_ONCE: usize = 1;
/// How long a turn lasts after its call was answered, if the user has calls that wait for one, or has had many answers lately.
const PAUSE: Duration = Duration::from_millis(150);
/// As many answers of a kind a user gets without a pause, and so many more each second: what clients ask for at a start, and while
/// they show what changes.
const NR_WITHOUT_PAUSE: u32 = 100;
const NR_WITHOUT_PAUSE_PER_S: u32 = 20;
/// Calls of one user that wait or are worked on: as many as the system bus lets some twenty connections have open.
const MAX_OPEN_PER_USER: usize = 2560;
/// Names whose users are remembered. A name is never given to another program.
const MAX_NAMES: usize = 4096;

/// What a call takes until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// It reads properties.
    Read,
    /// It asks the loop, or polkit: a person may have to think.
    Simple,
    /// It has a long answer, or looks at the host.
    Long,
}

/// All callers.
#[derive(Debug, Default)]
pub struct Callers {
    names: Mutex<HashMap<String, Arc<OnceCell<Option<u32>>>>>,
    users: Users,
    ended: AtomicBool,
}

/// Those who have calls open.
type Users = Arc<Mutex<HashMap<Option<u32>, User>>>;

#[derive(Debug)]
struct User {
    reads: Turns,
    simple: Turns,
    long: Turns,
}

/// The turns of a user's calls of one kind.
#[derive(Debug)]
struct Turns {
    nr_at_once: usize,
    /// Calls that have a turn or wait for one.
    nr_open: usize,
    at_once: Arc<Semaphore>,
    /// What is left of [`NR_WITHOUT_PAUSE`], and when that was counted.
    nr_without_pause: u32,
    counted: Instant,
}

impl Turns {
    fn new(nr_at_once: usize) -> Self {
        let at_once = Arc::new(Semaphore::new(nr_at_once));
        Self { nr_at_once, nr_open: 0, at_once, nr_without_pause: NR_WITHOUT_PAUSE, counted: Instant::now() }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.counted).min(Duration::from_mins(1));
        let nr_more = (passed * NR_WITHOUT_PAUSE_PER_S).as_secs() as u32;
        self.nr_without_pause = NR_WITHOUT_PAUSE.min(self.nr_without_pause + nr_more);
        // A part of one counts the next time.
        self.counted = match self.nr_without_pause {
            NR_WITHOUT_PAUSE => now,
            _ => self.counted + Duration::from_secs(nr_more.into()) / NR_WITHOUT_PAUSE_PER_S,
        };
    }

    /// A call is answered: whether its turn lasts for a moment longer.
    fn count_answer(&mut self, now: Instant) -> bool {
        self.refill(now);
        let has_had_many = self.nr_without_pause == 0;
        self.nr_without_pause = self.nr_without_pause.saturating_sub(1);
        has_had_many || self.nr_open > self.nr_at_once
    }
}

impl Default for User {
    fn default() -> Self {
        let [reads, simple, long] = [NR_READS_AT_ONCE, NR_SIMPLE_AT_ONCE, NR_LONG_AT_ONCE].map(Turns::new);
        Self { reads, simple, long }
    }
}

impl User {
    fn nr_open(&self) -> usize {
        [&self.reads, &self.simple, &self.long].iter().map(|turns| turns.nr_open).sum()
    }

    /// Nothing need be remembered of this user.
    fn is_forgettable(&mut self, now: Instant) -> bool {
        let turns = [&mut self.reads, &mut self.simple, &mut self.long];
        turns.into_iter().all(|turns| {
            turns.refill(now);
            turns.nr_open == 0 && turns.nr_without_pause == NR_WITHOUT_PAUSE
        })
    }

    fn turns(&mut self, cost: Cost) -> &mut Turns {
        match cost {
            Cost::Read => &mut self.reads,
            Cost::Simple => &mut self.simple,
            Cost::Long => &mut self.long,
        }
    }
}

/// A call that is worked on, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) caller: Caller,
    turn: Option<HeldTurn>,
}

/// A call's turn among those of its user.
#[derive(Debug)]
struct HeldTurn {
    // In this order: the next call's turn begins before this one is closed.
    _permit: OwnedSemaphorePermit,
    open: OpenCall,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take().filter(|turn| turn.open.count_answer()) else { return };
        // Without a runtime nobody waits any more.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                sleep(PAUSE).await;
                drop(turn);
            });
        }
    }
}

/// A call that has come and is not answered.
#[derive(Debug)]
struct OpenCall {
    uid: Option<u32>,
    cost: Cost,
    users: Users,
}

impl Callers {
    /// Waits for a call's turn among those of its user, or refuses it.
    pub(crate) async fn admit(&self, bus: &Connection, call: &Header<'_>, cost: Cost) -> Result<Admitted, Error> {
        let name = call.sender().ok_or_else(|| Error::AccessDenied("The message names no sender.".into()))?;
        let caller = Caller { name: name.to_string(), uid: self.uid(bus, call).await };
        self.wait_for_turn(caller, cost).await
    }

    /// The user whose program it is, if the bus knows; it is asked once for each program.
    pub(crate) async fn uid(&self, bus: &Connection, call: &Header<'_>) -> Option<u32> {
        let name = call.sender()?.to_string();
        let user = {
            let mut names = lock(&self.names);
            if names.len() >= MAX_NAMES && !names.contains_key(&name) {
                names.clear();
            }
            Arc::clone(names.entry(name).or_default())
        };
        *user.get_or_init(|| sender_uid(bus, call)).await
    }

    async fn wait_for_turn(&self, caller: Caller, cost: Cost) -> Result<Admitted, Error> {
        let (open, turns) = self.open(caller.uid, cost)?;
        if self.ended.load(Ordering::SeqCst) {
            return Ok(Admitted { caller, turn: None });
        }
        // Closed once the service ends.
        let turn = turns.acquire_owned().await.ok().map(|permit| HeldTurn { _permit: permit, open });
        Ok(Admitted { caller, turn })
    }

    /// The service ends: what waits for a turn is let in at once, to be told so.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        for user in lock(&self.users).values_mut() {
            for cost in [Cost::Read, Cost::Simple, Cost::Long] {
                user.turns(cost).at_once.close();
            }
        }
    }

    fn open(&self, uid: Option<u32>, cost: Cost) -> Result<(OpenCall, Arc<Semaphore>), Error> {
        let mut users = lock(&self.users);
        if !users.contains_key(&uid) {
            let now = Instant::now();
            users.retain(|_, user| !user.is_forgettable(now));
        }
        let user = users.entry(uid).or_default();
        if user.nr_open() >= MAX_OPEN_PER_USER {
            return Err(Error::LimitReached(
                gettext_noop("Too many requests wait for an answer. Try again later.").into(),
            ));
        }
        let turns = user.turns(cost);
        turns.nr_open += 1;
        let at_once = Arc::clone(&turns.at_once);
        Ok((OpenCall { uid, cost, users: Arc::clone(&self.users) }, at_once))
    }
}

impl OpenCall {
    /// It is answered: whether its turn lasts for a moment longer. Not root's: that user could end the service as well.
    fn count_answer(&self) -> bool {
        if self.uid == Some(0) {
            return false;
        }
        let mut users = lock(&self.users);
        users.get_mut(&self.uid).is_some_and(|user| user.turns(self.cost).count_answer(Instant::now()))
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut users = lock(&self.users);
        if let Some(user) = users.get_mut(&self.uid) {
            user.turns(self.cost).nr_open -= 1;
        }
    }
}

/// What is kept makes sense whatever happened to another thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::unconstrained;

    use super::*;

    impl Callers {
        /// As if a user's programs were reading properties.
        pub(crate) async fn take_all_reads(&self, uid: Option<u32>) -> Vec<Admitted> {
            let mut admitted = Vec::new();
            for _ in 0..NR_READS_AT_ONCE {
                let caller = Caller { name: ":1.1".into(), uid };
                admitted.push(self.wait_for_turn(caller, Cost::Read).await.unwrap());
            }
            admitted
        }

        fn nr_open(&self, uid: u32) -> usize {
            lock(&self.users).get(&Some(uid)).map_or(0, User::nr_open)
        }
    }

    fn caller(uid: u32) -> Caller {
        Caller { name: format!(":1.{uid}"), uid: Some(uid) }
    }

    #[tokio::test]
    async fn calls_of_a_user_take_turns_and_others_do_not_feel_it() {
        let callers = Callers::default();
        let mut admitted = Vec::new();
        for _ in 0..NR_SIMPLE_AT_ONCE {
            admitted.push(callers.wait_for_turn(caller(1000), Cost::Simple).await.unwrap());
        }
        let mut next = Box::pin(callers.wait_for_turn(caller(1000), Cost::Simple));
        assert!((&mut next).now_or_never().is_none(), "over all connections");
        let long = callers.wait_for_turn(caller(1000), Cost::Long).await.unwrap();
        callers.wait_for_turn(caller(1000), Cost::Read).await.unwrap();
        assert!(callers.wait_for_turn(caller(1000), Cost::Long).now_or_never().is_none());
        callers.wait_for_turn(caller(1001), Cost::Long).await.unwrap();
        callers.wait_for_turn(caller(1001), Cost::Simple).await.unwrap();
        admitted.pop();
        let next = next.await.unwrap();
        drop((admitted, long, next));
        assert_eq!(callers.nr_open(1000), 0, "nothing is left of answered calls");
    }

    #[tokio::test]
    async fn a_turn_that_is_waited_for_outlasts_its_answer() {
        let callers = Callers::default();
        let first = callers.wait_for_turn(caller(1000), Cost::Long).await.unwrap();
        drop(first);
        let second = callers.wait_for_turn(caller(1000), Cost::Long).now_or_never();
        let second = second.expect("nobody waited for the first one's turn").unwrap();
        let mut third = Box::pin(callers.wait_for_turn(caller(1000), Cost::Long));
        assert!((&mut third).now_or_never().is_none());
        let answered = Instant::now();
        drop(second);
        assert!((&mut third).now_or_never().is_none(), "the answer is not written yet");
        let others = callers.wait_for_turn(caller(1001), Cost::Long).now_or_never();
        others.expect("others do not feel it").unwrap();
        drop(third.await.unwrap());
        assert!(answered.elapsed() >= PAUSE);
        assert_eq!(callers.nr_open(1000), 0);
    }

    #[tokio::test]
    async fn turns_last_after_many_answers() {
        let callers = Callers::default();
        let answered = async || callers.wait_for_turn(caller(1000), Cost::Read).await.map(drop).unwrap();
        for _ in 0..NR_WITHOUT_PAUSE {
            answered().await;
        }
        assert_eq!(callers.nr_open(1000), 0, "so many are nothing special");
        for _ in 0..=2 * NR_WITHOUT_PAUSE_PER_S {
            let Some(()) = unconstrained(answered()).now_or_never() else { return };
        }
        panic!("no call had to wait for the pause of an earlier one");
    }

    #[tokio::test]
    async fn root_may_ask_as_often_as_it_likes() {
        let callers = Callers::default();
        for _ in 0..3 * NR_WITHOUT_PAUSE {
            let turn = unconstrained(callers.wait_for_turn(caller(0), Cost::Read)).now_or_never();
            drop(turn.expect("no pause").unwrap());
        }
    }

    #[test]
    fn what_is_remembered_of_a_user_is_forgotten_in_time() {
        let now = Instant::now();
        let mut user = User::default();
        assert!(user.is_forgettable(now));
        assert!(!user.reads.count_answer(now) && !user.is_forgettable(now));
        let later = now + Duration::from_secs(1);
        assert!(user.is_forgettable(later));
        user.reads.nr_without_pause = 0;
        assert!(user.reads.count_answer(later), "the last of them was {later:?}");
        assert!(!user.is_forgettable(later + Duration::from_secs(4)));
        assert!(user.is_forgettable(later + Duration::from_secs(6)));
    }

    #[test]
    fn answers_without_a_pause_come_at_their_rate_however_often_one_looks() {
        let mut turns = Turns { nr_without_pause: 0, ..Turns::new(1) };
        let start = turns.counted;
        for tenths_ms in (990..=20_000).step_by(990) {
            turns.refill(start + Duration::from_micros(100 * tenths_ms));
        }
        assert_eq!(turns.nr_without_pause, 39, "in 1.98 s");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_turn_once_the_service_ends() {
        let callers = Callers::default();
        let _first = callers.wait_for_turn(caller(1000), Cost::Long).await.unwrap();
        let mut second = Box::pin(callers.wait_for_turn(caller(1000), Cost::Long));
        assert!((&mut second).now_or_never().is_none());
        callers.end();
        assert!(second.now_or_never().is_some());
        assert!(callers.wait_for_turn(caller(1000), Cost::Long).now_or_never().is_some());
    }

    #[test]
    fn a_user_has_a_limit_also_for_what_waits() {
        let callers = Callers::default();
        let open: Vec<_> = (0..MAX_OPEN_PER_USER).map(|_| callers.open(Some(1000), Cost::Long).unwrap()).collect();
        assert!(matches!(callers.open(Some(1000), Cost::Simple), Err(Error::LimitReached(_))));
        callers.open(Some(1001), Cost::Simple).unwrap();
        drop(open);
        callers.open(Some(1000), Cost::Simple).unwrap();
    }
}
