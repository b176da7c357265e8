//! The application in front: desktops name its control group, and the newest word counts.

use scherzo_catalogue::gettext_noop;

use super::Refusal;
use super::event::Caller;

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

/// A group that was named, by one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreground {
    /// The caller, with whom it ends.
    pub caller: Caller,
    /// The group.
    pub group: ForegroundGroup,
}

/// One for each caller that has named a group, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Foregrounds(Vec<Foreground>);

impl Foregrounds {
    /// The caller names a group, or none any more.
    pub(super) fn set(&mut self, caller: Caller, group: Option<ForegroundGroup>) -> Result<(), Refusal> {
        let others = || self.0.iter().filter(|other| other.caller.name != caller.name);
        let nr_of_user = others().filter(|other| other.caller.uid == caller.uid).count();
        if group.is_some() && (nr_of_user >= MAX_PER_USER || others().count() >= MAX_FOREGROUNDS) {
            return Err(Refusal::LimitReached(
                gettext_noop("Too many programs name an application in front. Close one.").into(),
            ));
        }
        self.release_of(&caller.name);
        self.0.extend(group.map(|group| Foreground { caller, group }));
        Ok(())
    }

    /// Forgets what a program that has left the bus named.
    pub(super) fn release_of(&mut self, caller: &str) {
        self.0.retain(|foreground| foreground.caller.name != caller);
    }

    /// The one that counts.
    pub(super) fn deciding(&self) -> Option<&Foreground> {
        self.0.last()
    }

    /// The bus names of the callers.
    pub(super) fn callers(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|foreground| &foreground.caller.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(number: u32, uid: u32) -> Caller {
        Caller { name: format!(":1.{number}"), uid: Some(uid) }
    }

    fn group(cgroup: u64) -> ForegroundGroup {
        ForegroundGroup { path: format!("/{cgroup}"), cgroup }
    }

    #[test]
    fn the_newest_word_counts_and_ends_with_its_caller() {
        let mut foregrounds = Foregrounds::default();
        let deciding = |foregrounds: &Foregrounds| foregrounds.deciding().map(|front| front.group.cgroup);
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
