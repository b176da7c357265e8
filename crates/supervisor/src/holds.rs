//! Modes that programs ask for while they need them.

use crate::Refusal;
use scherzo_catalogue::types::Mode;

use super::event::Caller;
use super::foreground::Foreground;

/// For one caller. A program needs one or two; more is a mistake.
const MAX_HOLDS_PER_CALLER: usize = 64;
/// For one user's programs together.
const MAX_HOLDS_PER_USER: usize = 256;
/// For everyone together.
const MAX_HOLDS: usize = 1024;
/// Of holds by descriptor, each of which costs the service one: for one user's programs, and for everyone together.
const MAX_DESCRIPTORS_PER_USER: usize = 32;
const MAX_DESCRIPTORS: usize = 128;
/// A week.
const MAX_SECONDS: u32 = 604_800;
/// Longest reason and application id, in bytes.
const MAX_TEXT_BYTES: usize = 256;

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRequest {
    /// The mode.
    pub mode: Mode,
    /// The reason, for people to read.
    pub reason: String,
    /// The application, for people to read: a desktop id such as `org.gnome.Totem`.
    pub application: String,
    /// What it lasts as long as.
    pub tie: Tie,
    /// It ends after so many seconds at the latest, if that is limited.
    pub seconds: Option<u32>,
}

/// What a hold lasts as long as, unless it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The caller's connection to the bus.
    Connection,
    /// The last copy of the descriptor that the caller was given.
    Descriptor,
}

impl HoldRequest {
    /// Refuses texts that cannot be read: before a person is asked whether it may be.
    pub fn check(&self) -> Result<(), Refusal> {
        check_text("reason", &self.reason)?;
        check_text("application id", &self.application)?;
        self.seconds.map_or(Ok(()), check_seconds)
    }
}

/// A mode that is asked for until it is released or its holder leaves the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Names it; never used twice.
    pub cookie: u32,
    /// The caller that it belongs to.
    pub holder: Caller,
    /// What is asked for.
    pub wanted: HoldRequest,
    /// When it ends by itself, if it does, in seconds since 1970.
    pub until_s: Option<u64>,
    /// The control group that is in front while it lasts.
    pub foreground: Option<Foreground>,
}

/// All holds, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    list: Vec<Hold>,
    last_cookie: u32,
}

impl Holds {
    pub(super) fn list(&self) -> &[Hold] {
        &self.list
    }

    /// Takes a hold at this time, in seconds since 1970, and returns its cookie.
    pub(super) fn add(&mut self, now_s: u64, holder: Caller, wanted: HoldRequest) -> Result<u32, Refusal> {
        wanted.check()?;
        self.check_descriptors(&holder, &wanted)?;
        let nr_own = self.list.iter().filter(|hold| hold.holder.name == holder.name).count();
        let nr_of_user = self.list.iter().filter(|hold| hold.holder.uid == holder.uid).count();
        if nr_own >= MAX_HOLDS_PER_CALLER || nr_of_user >= MAX_HOLDS_PER_USER || self.list.len() >= MAX_HOLDS {
            return Err(Refusal::LimitReached(format!(
                "A program may have {MAX_HOLDS_PER_CALLER} holds, a user's programs together {MAX_HOLDS_PER_USER}, all programs \
                 {MAX_HOLDS}. Release one first."
            )));
        }
        let cookie = self.last_cookie.checked_add(1).ok_or_else(|| {
            Refusal::LimitReached("All numbers for holds have been used. Restart the service scherzod.".into())
        })?;
        self.last_cookie = cookie;
        let until_s = wanted.seconds.map(|seconds| end_s(now_s, seconds));
        self.list.push(Hold { cookie, holder, wanted, until_s, foreground: None });
        Ok(cookie)
    }

    fn check_descriptors(&self, holder: &Caller, wanted: &HoldRequest) -> Result<(), Refusal> {
        let tied = || self.list.iter().filter(|hold| hold.wanted.tie == Tie::Descriptor);
        let nr_of_user = tied().filter(|hold| hold.holder.uid == holder.uid).count();
        let is_full = nr_of_user >= MAX_DESCRIPTORS_PER_USER || tied().count() >= MAX_DESCRIPTORS;
        if wanted.tie == Tie::Descriptor && is_full {
            return Err(Refusal::LimitReached(format!(
                "A user's programs may have {MAX_DESCRIPTORS_PER_USER} holds by descriptor, all programs {MAX_DESCRIPTORS}. \
                 Close one first."
            )));
        }
        Ok(())
    }

    /// When the first of them ends by itself, in seconds since 1970.
    pub(super) fn next_end_s(&self) -> Option<u64> {
        self.list.iter().filter_map(|hold| hold.until_s).min()
    }

    /// Gives those that end by themselves another end.
    pub(super) fn move_ends(&mut self, moved: impl Fn(u64) -> u64) {
        for until_s in self.list.iter_mut().filter_map(|hold| hold.until_s.as_mut()) {
            *until_s = moved(*until_s);
        }
    }

    /// Takes away those that have ended by this time.
    pub(super) fn expire(&mut self, now_s: u64) -> Vec<Hold> {
        self.list.extract_if(.., |hold| hold.until_s.is_some_and(|until_s| until_s <= now_s)).collect()
    }

    /// The hold with this cookie, if it is the caller's own.
    pub(super) fn own(&mut self, caller: &Caller, cookie: u32) -> Result<&mut Hold, Refusal> {
        let own = self.list.iter_mut().find(|hold| hold.cookie == cookie && hold.holder.name == caller.name);
        own.ok_or_else(|| {
            Refusal::NoSuchHold(format!("This program has no hold {cookie}. It may have been released already."))
        })
    }

    /// Takes a hold away.
    pub(super) fn release(&mut self, cookie: u32) -> Option<Hold> {
        let index = self.list.iter().position(|hold| hold.cookie == cookie)?;
        Some(self.list.remove(index))
    }

    /// Takes away what a program that has left the bus held.
    pub(super) fn release_of(&mut self, holder: &str) {
        self.list.retain(|hold| hold.holder.name != holder || hold.wanted.tie == Tie::Descriptor);
    }

    /// Takes all away.
    pub(super) fn release_all(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.list)
    }

    /// The one that counts: the newest, but one for low power comes before all others.
    pub(super) fn deciding(&self) -> Option<&Hold> {
        let newest_frugal = self.list.iter().rfind(|hold| hold.wanted.mode == Mode::LowPower);
        newest_frugal.or(self.list.last())
    }
}

/// When something ends that lasts for so long from now on: never early, as the time has no parts of a second.
pub(super) fn end_s(now_s: u64, seconds: u32) -> u64 {
    now_s.saturating_add(seconds.into()).saturating_add(1)
}

/// For how long a hold or a choice may be limited.
pub fn check_seconds(seconds: u32) -> Result<(), Refusal> {
    if (1..=MAX_SECONDS).contains(&seconds) {
        return Ok(());
    }
    Err(Refusal::InvalidArgs(format!("The time must be 1 to {MAX_SECONDS} seconds, which is a week.")))
}

fn check_text(what: &str, text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() || text.len() > MAX_TEXT_BYTES || text.contains(char::is_control) {
        return Err(Refusal::InvalidArgs(format!(
            "The {what} must be 1 to {MAX_TEXT_BYTES} bytes of text without control characters."
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_000;

    fn wanted(mode: Mode) -> HoldRequest {
        let (reason, application) = ("a test".into(), "org.example.Test".into());
        HoldRequest { mode, reason, application, tie: Tie::Connection, seconds: None }
    }

    fn caller(name: &str) -> Caller {
        Caller { name: name.into(), uid: Some(1000) }
    }

    #[test]
    fn the_newest_counts_but_low_power_beats_all() {
        let mut holds = Holds::default();
        holds.add(NOW_S, caller(":1.1"), wanted(Mode::Fifo)).unwrap();
        let newest = holds.add(NOW_S, caller(":1.2"), wanted(Mode::Interactive)).unwrap();
        assert_eq!(holds.deciding().unwrap().cookie, newest);
        let frugal = holds.add(NOW_S, caller(":1.3"), wanted(Mode::LowPower)).unwrap();
        holds.add(NOW_S, caller(":1.1"), wanted(Mode::Fifo)).unwrap();
        assert_eq!(holds.deciding().unwrap().cookie, frugal);
        holds.release_of(":1.3");
        holds.release_of(":1.1");
        assert_eq!(holds.deciding().unwrap().cookie, newest);
        assert_eq!(holds.release(newest).unwrap().holder.name, ":1.2");
        assert_eq!((holds.release(newest), holds.deciding()), (None, None));
    }

    #[test]
    fn one_program_cannot_take_them_all() {
        let mut holds = Holds::default();
        for _ in 0..MAX_HOLDS_PER_CALLER {
            holds.add(NOW_S, caller(":1.1"), wanted(Mode::Fifo)).unwrap();
        }
        assert!(matches!(holds.add(NOW_S, caller(":1.1"), wanted(Mode::Fifo)), Err(Refusal::LimitReached(_))));
        holds.add(NOW_S, caller(":1.2"), wanted(Mode::Fifo)).unwrap();
    }

    #[test]
    fn one_user_cannot_take_them_all() {
        let mut holds = Holds::default();
        for number in 0..MAX_HOLDS_PER_USER {
            holds.add(NOW_S, caller(&format!(":1.{number}")), wanted(Mode::Fifo)).unwrap();
        }
        assert!(matches!(holds.add(NOW_S, caller(":2.1"), wanted(Mode::Fifo)), Err(Refusal::LimitReached(_))));
        holds.add(NOW_S, Caller { name: ":2.2".into(), uid: Some(1001) }, wanted(Mode::Fifo)).unwrap();
    }

    #[test]
    fn a_hold_by_descriptor_outlives_its_caller_and_has_limits() {
        let mut holds = Holds::default();
        let tied = || HoldRequest { tie: Tie::Descriptor, ..wanted(Mode::Fifo) };
        let cookie = holds.add(NOW_S, caller(":1.1"), tied()).unwrap();
        holds.release_of(":1.1");
        assert_eq!(holds.deciding().unwrap().cookie, cookie);
        for _ in 1..MAX_DESCRIPTORS_PER_USER {
            holds.add(NOW_S, caller(":1.1"), tied()).unwrap();
        }
        assert!(matches!(holds.add(NOW_S, caller(":1.2"), tied()), Err(Refusal::LimitReached(_))));
        holds.add(NOW_S, caller(":1.2"), wanted(Mode::Fifo)).unwrap();
    }

    #[test]
    fn a_hold_with_an_end_ends_then() {
        let mut holds = Holds::default();
        let limited = |seconds| HoldRequest { seconds: Some(seconds), ..wanted(Mode::Fifo) };
        for senseless in [0, MAX_SECONDS + 1, u32::MAX] {
            assert!(matches!(holds.add(NOW_S, caller(":1.1"), limited(senseless)), Err(Refusal::InvalidArgs(_))));
        }
        let cookie = holds.add(NOW_S, caller(":1.1"), limited(60)).unwrap();
        let later = holds.add(NOW_S, caller(":1.1"), limited(90)).unwrap();
        let end_s = holds.next_end_s().unwrap();
        assert!(end_s > NOW_S + 60 && holds.expire(end_s - 1).is_empty());
        assert_eq!(holds.expire(end_s).iter().map(|hold| hold.cookie).collect::<Vec<_>>(), [cookie]);
        assert_eq!(holds.deciding().unwrap().cookie, later);
    }

    #[test]
    fn texts_are_short_and_printable() {
        let mut holds = Holds::default();
        for reason in [String::new(), " ".into(), "x".repeat(MAX_TEXT_BYTES + 1), "two\nlines".into()] {
            let asked = HoldRequest { reason, ..wanted(Mode::Fifo) };
            assert!(matches!(holds.add(NOW_S, caller(":1.1"), asked), Err(Refusal::InvalidArgs(_))));
        }
        assert!(holds.list().is_empty());
    }
}
