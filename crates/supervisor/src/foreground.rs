//! The application in front: desktops name its control group, and so do holds. The newest word counts.

use scherzo_catalogue::gettext_noop;

use super::Refusal;
use super::event::Caller;
use super::holds::Hold;

/// Callers that name a group, of one user and of all.
const MAX_PER_USER: usize = 16;
const MAX_FOREGROUNDS: usize = 64;

/// A control group of the default hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForegroundGroup {
    /// Its path from the root of the hierarchy, with a leading slash.
    pub path: String,
    /// The kernel's number for it, which no other group ever gets.
    pub cgroup: u64,
}

/// A group that was named, by a caller for itself or for a hold of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreground {
    /// The caller. What it named for itself ends with it.
    pub caller: Caller,
    /// The group.
    pub group: ForegroundGroup,
    /// Its place among all that were named: a later one counts more.
    pub nth: u64,
}

/// What callers have named for themselves, one for each caller, the oldest first. What is named for a hold is part of that.
#[derive(Clone, Debug, Default)]
pub(super) struct Foregrounds {
    list: Vec<Foreground>,
    nr_named: u64,
}

impl Foregrounds {
    /// The caller names a group for itself, or none any more.
    pub(super) fn set(&mut self, caller: Caller, group: Option<ForegroundGroup>) -> Result<(), Refusal> {
        let others = || self.list.iter().filter(|other| other.caller.name != caller.name);
        let nr_of_user = others().filter(|other| other.caller.uid == caller.uid).count();
        if group.is_some() && (nr_of_user >= MAX_PER_USER || others().count() >= MAX_FOREGROUNDS) {
            return Err(Refusal::LimitReached(
                gettext_noop("Too many programs name an application in front. Close one.").into(),
            ));
        }
        self.release_of(&caller.name);
        if let Some(group) = group {
            let named = self.name(caller, group);
            self.list.push(named);
        }
        Ok(())
    }

    /// The newest word, to be kept by whom it is for.
    pub(super) fn name(&mut self, caller: Caller, group: ForegroundGroup) -> Foreground {
        self.nr_named += 1;
        Foreground { caller, group, nth: self.nr_named }
    }

    /// Forgets what a program that has left the bus named.
    pub(super) fn release_of(&mut self, caller: &str) {
        self.list.retain(|foreground| foreground.caller.name != caller);
    }

    /// The one that counts, if these holds count as well.
    pub(super) fn deciding<'a>(&'a self, holds: impl Iterator<Item = &'a Hold>) -> Option<&'a Foreground> {
        let of_holds = holds.filter_map(|hold| hold.foreground.as_ref());
        self.list.last().into_iter().chain(of_holds).max_by_key(|foreground| foreground.nth)
    }

    /// The bus names of the callers.
    pub(super) fn callers(&self) -> impl Iterator<Item = &String> {
        self.list.iter().map(|foreground| &foreground.caller.name)
    }
}

#[cfg(test)]
mod tests {
    use scherzo_catalogue::types::Mode;

    use super::*;
    use crate::holds::{HoldRequest, Tie};

    fn caller(number: u32, uid: u32) -> Caller {
        Caller { name: format!(":1.{number}"), uid: Some(uid) }
    }

    fn group(cgroup: u64) -> ForegroundGroup {
        ForegroundGroup { path: format!("/{cgroup}"), cgroup }
    }

    #[test]
    fn the_newest_word_counts_and_ends_with_its_caller() {
        let mut foregrounds = Foregrounds::default();
        let deciding = |foregrounds: &Foregrounds| foregrounds.deciding([].iter()).map(|front| front.group.cgroup);
        foregrounds.set(caller(1, 1000), Some(group(7))).unwrap();
        foregrounds.set(caller(2, 1001), Some(group(8))).unwrap();
        assert_eq!(deciding(&foregrounds), Some(8));
        foregrounds.set(caller(1, 1000), Some(group(9))).unwrap();
        assert_eq!(deciding(&foregrounds), Some(9));
        foregrounds.release_of(":1.1");
        assert_eq!(deciding(&foregrounds), Some(8));
        foregrounds.set(caller(2, 1001), None).unwrap();
        assert_eq!((deciding(&foregrounds), foregrounds.callers().count()), (None, 0));
    }

    #[test]
    fn holds_name_groups_as_callers_do() {
        let wanted = HoldRequest {
            mode: Mode::Fifo,
            reason: "a test".into(),
            application: "org.example.Test".into(),
            tie: Tie::Connection,
            seconds: None,
        };
        let hold =
            |foreground| Hold { cookie: 1, holder: caller(1, 1000), wanted: wanted.clone(), until_s: None, foreground };
        let mut foregrounds = Foregrounds::default();
        foregrounds.set(caller(1, 1000), Some(group(7))).unwrap();
        let holds = [hold(Some(foregrounds.name(caller(1, 1000), group(8)))), hold(None)];
        let deciding = |foregrounds: &Foregrounds| foregrounds.deciding(holds.iter()).unwrap().group.cgroup;
        assert_eq!(deciding(&foregrounds), 8);
        foregrounds.set(caller(2, 1000), Some(group(9))).unwrap();
        assert_eq!(deciding(&foregrounds), 9, "the newest word counts, whoever says it");
        foregrounds.set(caller(2, 1000), None).unwrap();
        assert_eq!(deciding(&foregrounds), 8, "what ends gives way to the one before");
        assert_eq!(foregrounds.deciding([].iter()).unwrap().group.cgroup, 7, "without the holds");
    }

    #[test]
    fn one_user_cannot_take_all_places() {
        let mut foregrounds = Foregrounds::default();
        for number in 0..MAX_PER_USER as u32 {
            foregrounds.set(caller(number, 1000), Some(group(1))).unwrap();
        }
        assert!(matches!(foregrounds.set(caller(99, 1000), Some(group(1))), Err(Refusal::LimitReached(_))));
        foregrounds.set(caller(0, 1000), Some(group(2))).unwrap();
        foregrounds.set(caller(99, 1000), None).unwrap();
        foregrounds.set(caller(99, 1001), Some(group(1))).unwrap();
    }
}
