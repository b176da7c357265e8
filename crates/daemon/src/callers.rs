//! How many calls a user may have open at once: a user's programs together may have only so many calls that wait for an
//! answer. What is beyond that is refused at once, which costs next to nothing, so that no user keeps others from being
//! answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scherzo_api::Error;
use scherzo_api::catalogue::gettext_noop;
use scherzo_supervisor::Caller;
use tokio::sync::OnceCell;
use zbus::Connection;
use zbus::message::Header;

use crate::authorize::sender_uid;

/// Cost of all calls of one user that wait for an answer.
const MAX_COST_PER_USER: u32 = 64;
/// Names whose users are remembered. A name is never given to another program.
const MAX_NAMES: usize = 4096;

/// What a call costs until it is answered, in calls of the simplest kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// It asks the loop, or polkit.
    Simple = 1,
    /// It has a long answer, or looks at the host.
    Long = 16,
}

/// All callers.
#[derive(Debug, Default)]
pub struct Callers {
    users: Mutex<HashMap<String, Arc<OnceCell<Option<u32>>>>>,
    pending: Arc<Mutex<HashMap<Option<u32>, u32>>>,
}

/// A call that was let in. It counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) caller: Caller,
    cost: u32,
    pending: Arc<Mutex<HashMap<Option<u32>, u32>>>,
}

impl Callers {
    /// Lets a call in, or refuses it.
    pub(crate) async fn admit(&self, bus: &Connection, call: &Header<'_>, cost: Cost) -> Result<Admitted, Error> {
        let name = call.sender().ok_or_else(|| Error::AccessDenied("The message names no sender.".into()))?;
        let caller = Caller { name: name.to_string(), uid: self.uid(bus, call).await };
        self.count(caller, cost as u32)
    }

    /// The user whose program it is, if the bus knows; it is asked once for each program.
    pub(crate) async fn uid(&self, bus: &Connection, call: &Header<'_>) -> Option<u32> {
        let name = call.sender()?.to_string();
        let user = {
            let mut users = lock(&self.users);
            if users.len() >= MAX_NAMES && !users.contains_key(&name) {
                users.clear();
            }
            Arc::clone(users.entry(name).or_default())
        };
        *user.get_or_init(|| sender_uid(bus, call)).await
    }

    fn count(&self, caller: Caller, cost: u32) -> Result<Admitted, Error> {
        let mut pending = lock(&self.pending);
        let of_user = pending.entry(caller.uid).or_default();
        if *of_user + cost > MAX_COST_PER_USER {
            return Err(Error::LimitReached(
                gettext_noop("Too many requests wait for an answer. Try again later.").into(),
            ));
        }
        *of_user += cost;
        Ok(Admitted { caller, cost, pending: Arc::clone(&self.pending) })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut pending = lock(&self.pending);
        if let Some(of_user) = pending.get_mut(&self.caller.uid) {
            *of_user -= self.cost;
            if *of_user == 0 {
                pending.remove(&self.caller.uid);
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
    use super::*;

    #[test]
    fn a_user_has_a_limit_over_all_connections_and_others_do_not_feel_it() {
        let callers = Callers::default();
        let count = |name: u32, uid, cost: Cost| {
            callers.count(Caller { name: format!(":1.{name}"), uid: Some(uid) }, cost as u32)
        };
        let mut admitted: Vec<_> =
            (0..MAX_COST_PER_USER).map(|name| count(name, 1000, Cost::Simple).unwrap()).collect();
        assert!(matches!(count(99, 1000, Cost::Simple), Err(Error::LimitReached(_))));
        count(100, 1001, Cost::Long).unwrap();
        admitted.truncate(MAX_COST_PER_USER as usize - Cost::Long as usize);
        let long = count(101, 1000, Cost::Long).unwrap();
        assert!(count(102, 1000, Cost::Simple).is_err());
        drop((admitted, long));
        assert!(lock(&callers.pending).is_empty(), "nothing is left of answered calls");
    }
}
