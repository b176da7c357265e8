//! What must be so after every event.

use std::collections::BTreeSet;

use scherzo_catalogue::types::{Reason, State};

use super::super::phase::{Loaded, Phase};
use super::super::*;
use super::world::World;

impl World {
    pub(super) fn check(&self) {
        let view = self.state.view();
        assert_eq!(self.shown.as_ref(), Some(&view), "clients see something else");
        let claims_to_run = matches!(view.state, State::Running | State::Degraded);
        assert!(!claims_to_run || self.state.kernel.has_ours(), "{view:?} but {:?}", self.state.kernel);
        assert!(claims_to_run || !self.state.kernel.has_ours(), "{view:?} while ours is loaded");
        assert!(view.state != State::Stopped || !view.enabled, "stopped although wanted");
        assert!(view.state != State::Foreign || !view.kernel_ops.is_empty(), "a foreign scheduler without a name");
        assert!(self.noted || self.process.is_none(), "settings are noted while they may differ");
        assert!(!self.noted || !self.state.phase.is_at_rest(), "settings are restored when nothing needs them");
        // Whether the last attempt succeeds, nobody is left to tell.
        assert!(self.ended || view.not_stored.keys().eq(self.not_stored.keys()), "{:?} is not stored", self.not_stored);
        if !view.not_stored.contains_key(&Stored::Desired) {
            assert_eq!(view.requested_mode, self.stored.mode, "the choice was not stored");
            assert!(view.enabled || !self.stored.enabled, "stored as on");
        }
        self.check_arbiter(&view);
        let now_s = self.started_at_s + self.now.as_secs();
        let ends = view.holds.iter().map(|hold| hold.until_s).chain([view.requested_until_s]).flatten();
        assert!(self.ended || ends.min().is_none_or(|end_s| end_s > now_s), "something lasts beyond its end: {view:?}");
        assert!(
            view.requested_until_s.is_none() || view.requested_mode != RequestedMode::Auto,
            "no choice, but an end"
        );
        self.check_supervision(&view);
        self.check_profile(&view);
        assert!(
            self.boot_watch != BootWatch::On || !matches!(self.state.phase, Phase::Idle),
            "nothing is loaded, so all is well"
        );
        let wakeup = self.state.next_wakeup();
        assert!(wakeup.is_none_or(|at| at > self.now), "a wake-up in the past");
        assert!(self.unanswered.is_empty() || wakeup.is_some(), "waiting for ever");
    }

    pub(super) fn check_arbiter(&self, view: &Published) {
        let Decision { choice, why } = self.state.decision();
        let modes: Vec<_> = view.holds.iter().map(|hold| hold.wanted.mode).collect();
        if let RequestedMode::Mode(chosen) = view.requested_mode {
            assert_eq!((choice.mode, why.reason), (chosen, Reason::Choice), "the person's choice counts first");
        } else if !self.state.settings.rules.holds {
            assert_ne!(why.reason, Reason::Hold, "holds do not count");
        } else if modes.contains(&Mode::LowPower) {
            assert_eq!(choice.mode, Mode::LowPower, "low power beats other holds");
        } else if let Some(newest) = modes.last() {
            assert!(choice.mode == *newest || why.reason == Reason::BatteryLow, "the newest hold counts");
        }
        let of_holds = || view.holds.iter().filter_map(|hold| hold.foreground.as_ref());
        let is_of_hold = view.foreground.as_ref().is_some_and(|front| of_holds().any(|named| named == front));
        assert!(self.state.settings.rules.holds || !is_of_hold, "holds do not count, and have something in front");
        let newest = of_holds().map(|named| named.nth).max().filter(|_| self.state.settings.rules.holds);
        assert!(view.foreground.as_ref().map(|front| front.nth) >= newest, "the newest word counts");
        let tied = view.holds.iter().filter(|hold| hold.wanted.tie == Tie::Connection);
        let holders: BTreeSet<_> = tied.map(|hold| &hold.holder.name).collect();
        assert!(holders.iter().all(|holder| self.watched.contains(*holder)), "a hold that would outlive its holder");
        if let Phase::Loaded(Loaded { applied, switching: None, .. }) = &self.state.phase {
            assert_eq!(applied.decision, self.state.decision(), "the engine does something else");
        }
    }

    fn check_profile(&self, view: &Published) {
        let frugal =
            matches!(&self.state.phase, Phase::Loaded(loaded) if loaded.applied.decision.choice.mode == Mode::LowPower);
        assert!(
            !self.profile_held || frugal && view.settings.drive_power_profile,
            "a power profile is held for nothing"
        );
        let shown = if self.profile_held { Some("power-saver") } else { self.profile.as_deref() };
        assert_eq!(view.power_profile, shown.unwrap_or_default(), "another profile is active");
    }

    fn check_supervision(&self, view: &Published) {
        assert_eq!(view.settings, self.settings, "other settings count than those that are stored");
        assert_eq!(self.state.quarantine, self.quarantine, "what is remembered is not what is known");
        assert_eq!(self.state.lifted, self.lifted, "who lifts a guard after a restart is not asked for more");
        let quarantined = view.why.reason == Reason::Quarantined;
        let of_this_build = self.quarantine.as_ref().is_some_and(|quarantine| quarantine.build == self.build);
        assert!(!quarantined || of_this_build, "a quarantine that would not survive a restart");
        assert!(!of_this_build || self.process.is_none(), "tried all the same");
    }
}
