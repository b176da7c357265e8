//! How many calls of a user are worked on at once. A user's programs together take turns: what is beyond that waits, which costs
//! next to nothing, so that no user keeps others from being answered.
//!
//! Waiting calls are what stops a flood: a bus lets a connection have so many calls open, and refuses the others itself. Refusals of
//! ours would be followed by the next call at once. Only if more wait than one expects of a user they are refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scherzo_api::Error;
use scherzo_api::catalogue::gettext_noop;
use scherzo_supervisor::Caller;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use zbus::Connection;
use zbus::message::Header;

use crate::authorize::sender_uid;

/// Calls of one user that are worked on at once, by what they take.
const NR_READS_AT_ONCE: usize = 16;
const NR_SIMPLE_AT_ONCE: usize = 16;
const NR_LONG_AT_ONCE: usize = 1;
/// Calls of one user that wait or are worked on: as many as the system bus lets some twenty connections have open.
const MAX_OPEN_PER_USER: u32 = 2560;
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
    nr_open: u32,
    reads: Arc<Semaphore>,
    simple: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Default for User {
    fn default() -> Self {
        let turns = |nr_at_once| Arc::new(Semaphore::new(nr_at_once));
        Self {
            nr_open: 0,
            reads: turns(NR_READS_AT_ONCE),
            simple: turns(NR_SIMPLE_AT_ONCE),
            long: turns(NR_LONG_AT_ONCE),
        }
    }
}

/// A call that is worked on, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) caller: Caller,
    // In this order: the user is forgotten with the last call.
    _turn: Option<OwnedSemaphorePermit>,
    _open: OpenCall,
}

/// A call that has come and is not answered.
#[derive(Debug)]
struct OpenCall {
    uid: Option<u32>,
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
        Ok(Admitted { caller, _turn: turns.acquire_owned().await.ok(), _open: open })
    }

    fn open(&self, uid: Option<u32>, cost: Cost) -> Result<(OpenCall, Arc<Semaphore>), Error> {
        let mut users = lock(&self.users);
        let user = users.entry(uid).or_default();
        if user.nr_open >= MAX_OPEN_PER_USER {
            return Err(Error::LimitReached(
                gettext_noop("Too many requests wait for an answer. Try again later.").into(),
            ));
        }
        user.nr_open += 1;
        let turns = match cost {
            Cost::Read => &user.reads,
            Cost::Simple => &user.simple,
            Cost::Long => &user.long,
        };
        Ok((OpenCall { uid, users: Arc::clone(&self.users) }, Arc::clone(turns)))
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut users = lock(&self.users);
        if let Some(user) = users.get_mut(&self.uid) {
            user.nr_open -= 1;
            if user.nr_open == 0 {
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
