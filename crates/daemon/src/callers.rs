//! How many calls of a user are worked on at once. A user's programs together take turns: what is beyond that waits, which costs
//! next to nothing, so that no user keeps others from being answered.
//!
//! Waiting calls are what stops a flood: a bus lets a connection have so many calls open, and refuses the others itself. Refusals of
//! ours would be followed by the next call at once. Only if more wait than one expects of a user they are refused.
//!
//! An answer still has to be written when its call's turn ends, and the bus to pass it on. So a turn that other calls of the user wait
//! for lasts for a moment after the answer (`PAUSE`): answers would otherwise pile up, and everybody's would come after them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
const NR_READS_AT_ONCE: usize = 2;
const NR_SIMPLE_AT_ONCE: usize = 16;
const NR_LONG_AT_ONCE: usize = 1;
/// How long a turn lasts after its call was answered, while others of the user wait for one: a user who floods is given 40 readings,
/// 320 simple answers and 20 long ones a second.
const PAUSE: Duration = Duration::from_millis(50);
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
}

impl Turns {
    fn new(nr_at_once: usize) -> Self {
        Self { nr_at_once, nr_open: 0, at_once: Arc::new(Semaphore::new(nr_at_once)) }
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
    // In this order: the user is forgotten with the last call.
    _permit: OwnedSemaphorePermit,
    open: OpenCall,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take().filter(|turn| turn.open.others_wait()) else { return };
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
        // Turns are never closed.
        let turn = turns.acquire_owned().await.ok().map(|permit| HeldTurn { _permit: permit, open });
        Ok(Admitted { caller, turn })
    }

    fn open(&self, uid: Option<u32>, cost: Cost) -> Result<(OpenCall, Arc<Semaphore>), Error> {
        let mut users = lock(&self.users);
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
    /// Calls of the user wait for a turn like this one's.
    fn others_wait(&self) -> bool {
        let mut users = lock(&self.users);
        let turns = users.get_mut(&self.uid).map(|user| user.turns(self.cost));
        turns.is_some_and(|turns| turns.nr_open > turns.nr_at_once)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut users = lock(&self.users);
        if let Some(user) = users.get_mut(&self.uid) {
            user.turns(self.cost).nr_open -= 1;
            if user.nr_open() == 0 {
                users.remove(&self.uid);
            }
        }
    }
}

/// What is kept makes sense whatever happened to another thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures_util::FutureExt;

    use super::*;

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
        assert!(lock(&callers.users).is_empty(), "nothing is left of answered calls");
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
        assert!(lock(&callers.users).is_empty());
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
