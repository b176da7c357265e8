//! Who decides the mode, and why.

use scherzo_api::types::{Mode, Reason, RequestedMode};

use super::event::{Choice, Wish};

/// The decision, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// How the scheduler is to behave.
    pub(super) choice: Choice,
    /// Why.
    pub(super) reason: Reason,
}

/// Decides: a person's choice first, else the default.
pub(super) fn decide(wish: Wish) -> Decision {
    let (mode, reason) = match wish.mode {
        RequestedMode::Mode(mode) => (mode, Reason::Choice),
        RequestedMode::Auto => (Mode::default(), Reason::Default),
    };
    Decision { choice: Choice { mode, preemption: wish.preemption }, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_wins_over_the_default() {
        let auto = decide(Wish::default());
        assert_eq!((auto.choice.mode, auto.reason), (Mode::Interactive, Reason::Default));
        let chosen = decide(Wish { mode: RequestedMode::Mode(Mode::Fifo), ..Wish::default() });
        assert_eq!((chosen.choice.mode, chosen.reason), (Mode::Fifo, Reason::Choice));
    }
}
