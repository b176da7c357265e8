//! Modes that programs ask for while they need them.

use crate::Refusal;
use scherzo_catalogue::types::Mode;

use super::event::Caller;

/// For one caller. A program needs one or two; more is a mistake.
const MAX_HOLDS_PER_CALLER: usize = 64;
/// For one user's programs together.
const MAX_HOLDS_PER_USER: usize = 256;
/// For everyone together.
const MAX_HOLDS: usize = 1024;
/// Longest reason and application id, in bytes.
const MAX_TEXT_BYTES: usize = 256;

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRequest {
    /// The mode.
    pub mode: Mode,
    /// Why, for people.
    pub reason: String,
    /// Who, for people: a desktop id such as `org.gnome.Totem`.
    pub application: String,
}

impl HoldRequest {
    /// Refuses texts that nobody could read: before a person is asked whether it may be.
    pub fn check(&self) -> Result<(), Refusal> {
        check_text("reason", &self.reason)?;
        check_text("application id", &self.application)
    }
}

/// A mode that is asked for until it is released or its holder leaves the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Names it; never used twice.
    pub cookie: u32,
    /// Whose it is.
    pub holder: Caller,
    /// What is asked for.
    pub wanted: HoldRequest,
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

    /// Takes a hold and returns its cookie.
    pub(super) fn add(&mut self, holder: Caller, wanted: HoldRequest) -> Result<u32, Refusal> {
        wanted.check()?;
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
        self.list.push(Hold { cookie, holder, wanted });
        Ok(cookie)
    }

    /// Takes a hold away.
    pub(super) fn release(&mut self, cookie: u32) -> Option<Hold> {
        let index = self.list.iter().position(|hold| hold.cookie == cookie)?;
        Some(self.list.remove(index))
    }

    /// Takes away what a program that has left the bus held.
    pub(super) fn release_of(&mut self, holder: &str) {
        self.list.retain(|hold| hold.holder.name != holder);
    }

    /// Takes all away.
    pub(super) fn release_all(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.list)
    }

    /// The one that counts: the newest, but whoever asks for low power comes before everyone who does not.
    pub(super) fn deciding(&self) -> Option<&Hold> {
        let newest_frugal = self.list.iter().rfind(|hold| hold.wanted.mode == Mode::LowPower);
        newest_frugal.or(self.list.last())
    }
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

    fn wanted(mode: Mode) -> HoldRequest {
        HoldRequest { mode, reason: "a test".into(), application: "org.example.Test".into() }
    }

    fn caller(name: &str) -> Caller {
        Caller { name: name.into(), uid: Some(1000) }
    }

    #[test]
    fn the_newest_counts_but_low_power_beats_all() {
        let mut holds = Holds::default();
        holds.add(caller(":1.1"), wanted(Mode::Fifo)).unwrap();
        let newest = holds.add(caller(":1.2"), wanted(Mode::Interactive)).unwrap();
        assert_eq!(holds.deciding().unwrap().cookie, newest);
        let frugal = holds.add(caller(":1.3"), wanted(Mode::LowPower)).unwrap();
        holds.add(caller(":1.1"), wanted(Mode::Fifo)).unwrap();
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
            holds.add(caller(":1.1"), wanted(Mode::Fifo)).unwrap();
        }
        assert!(matches!(holds.add(caller(":1.1"), wanted(Mode::Fifo)), Err(Refusal::LimitReached(_))));
        holds.add(caller(":1.2"), wanted(Mode::Fifo)).unwrap();
    }

    #[test]
    fn one_user_cannot_take_them_all() {
        let mut holds = Holds::default();
        for number in 0..MAX_HOLDS_PER_USER {
            holds.add(caller(&format!(":1.{number}")), wanted(Mode::Fifo)).unwrap();
        }
        assert!(matches!(holds.add(caller(":2.1"), wanted(Mode::Fifo)), Err(Refusal::LimitReached(_))));
        holds.add(Caller { name: ":2.2".into(), uid: Some(1001) }, wanted(Mode::Fifo)).unwrap();
    }

    #[test]
    fn texts_are_short_and_printable() {
        let mut holds = Holds::default();
        for reason in [String::new(), " ".into(), "x".repeat(MAX_TEXT_BYTES + 1), "two\nlines".into()] {
            let asked = HoldRequest { reason, ..wanted(Mode::Fifo) };
            assert!(matches!(holds.add(caller(":1.1"), asked), Err(Refusal::InvalidArgs(_))));
        }
        assert!(holds.list().is_empty());
    }
}
