//! Where the power comes from, how much is left, and which profile the desktop has chosen.

use std::time::Duration;

use super::event::Time;

/// A plug that makes poor contact, or a dock that restarts, is not worth two switches.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// A power daemon that is gone this long is gone; one that restarts is back before.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// After waking up, what the daemons say counts at once.
const AWAKE: Duration = Duration::from_secs(2);
/// Power daemons change the profile by themselves after a change of source: for this long a change is no one's choice.
const PROFILE_FOLLOWS: Duration = Duration::from_secs(2);

/// Where the power comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The mains.
    Mains,
    /// A battery.
    Battery,
}

/// What the power daemons say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PowerEvent {
    /// UPower's `OnBattery`; `None` if there is no UPower.
    Source(Option<Source>),
    /// UPower warns that the battery is low or worse.
    BatteryLow(bool),
    /// The active power profile; `None` if no power-profiles daemon runs.
    Profile(Option<String>),
    /// The power-profiles daemon has dropped our hold, because someone chose a profile.
    ProfileHoldDropped,
    /// The power-profiles daemon does not grant us a hold, for now.
    ProfileHoldRefused,
    /// It is asked for one again: what it says from now on may be our doing.
    ProfileHoldTried,
    /// Our hold has ended otherwise: what the power-profiles daemon says from now on is not our doing.
    ProfileHoldEnded,
    /// The system is awake again.
    Resumed,
}

/// What is known about power.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Power {
    source: Option<Source>,
    /// The last source known, also while UPower restarts.
    last_source: Option<Source>,
    /// What UPower says since then, if it differs, and when that counts.
    pending: Option<(Option<Source>, Time)>,
    changed_at: Option<Time>,
    resumed_at: Option<Time>,
    battery_low: bool,
    /// The active profile.
    shown_profile: Option<String>,
    /// The profile without our hold, as far as we know.
    profile: Option<String>,
    /// The last one known, also while the power-profiles daemon restarts.
    last_profile: Option<String>,
    /// The profile was changed after the last change of source.
    profile_chosen: bool,
    hold: ProfileHold,
}

/// How our hold of the profile [`SAVER`] stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProfileHold {
    /// It was asked for, and not taken back.
    asked: bool,
    /// It may be in effect: [`SAVER`] is our doing.
    ours: bool,
    /// Someone chose another profile; that is respected while what we held it for lasts.
    declined: bool,
}

/// The profile that can be held.
const SAVER: &str = "power-saver";

impl Power {
    pub(super) fn source(&self) -> Option<Source> {
        self.source
    }

    pub(super) fn on_battery(&self) -> bool {
        self.source == Some(Source::Battery)
    }

    /// A warning counts only while the battery is in use.
    pub(super) fn battery_low(&self) -> bool {
        self.battery_low && self.on_battery()
    }

    pub(super) fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The active profile, chosen or not.
    pub(super) fn shown_profile(&self) -> Option<&str> {
        self.shown_profile.as_deref()
    }

    pub(super) fn profile_chosen(&self) -> bool {
        self.profile_chosen && self.profile.is_some()
    }

    pub(super) fn next_wakeup(&self) -> Option<Time> {
        self.pending.map(|(_, at)| at)
    }

    pub(super) fn take(&mut self, now: Time, event: PowerEvent) {
        match event {
            PowerEvent::Source(source) => self.source_says(now, source),
            PowerEvent::BatteryLow(low) => self.battery_low = low,
            PowerEvent::Profile(profile) => self.profile_says(now, profile),
            PowerEvent::ProfileHoldDropped => self.hold_dropped(),
            PowerEvent::ProfileHoldRefused => self.hold.ours = false,
            PowerEvent::ProfileHoldTried | PowerEvent::ProfileHoldEnded => self.hold.ours = self.hold.asked,
            PowerEvent::Resumed => {
                self.resumed_at = Some(now);
                if let Some((_, at)) = &mut self.pending {
                    *at = now;
                }
            }
        }
    }

    fn source_says(&mut self, now: Time, source: Option<Source>) {
        let waited_for = self.pending.take();
        if source == self.source {
            return;
        }
        let delay = match source {
            Some(_) if self.last_source.is_none() => Duration::ZERO,
            Some(_) if self.resumed_at.is_some_and(|at| now < at + AWAKE) => Duration::ZERO,
            Some(_) => DEBOUNCE,
            None => LOST_AFTER,
        };
        let at = waited_for.filter(|(same, _)| *same == source).map_or(now + delay, |(_, at)| at);
        self.pending = Some((source, at));
    }

    fn profile_says(&mut self, now: Time, profile: Option<String>) {
        self.shown_profile.clone_from(&profile);
        // Following what we hold ourselves would never end.
        if profile == self.profile || self.hold.ours && profile.as_deref() == Some(SAVER) {
            return;
        }
        let follows = self.pending.is_some() || self.changed_at.is_some_and(|at| now < at + PROFILE_FOLLOWS);
        // The first word, and that of a daemon that has returned, is no change; a choice that returns with it still is one.
        if self.profile.is_some() && profile.is_some() {
            self.profile_chosen = !follows;
            self.hold.declined |= self.profile_chosen;
        } else if profile.is_some() {
            self.profile_chosen &= profile == self.last_profile;
        }
        self.last_profile = profile.clone().or(self.last_profile.take());
        self.profile = profile;
    }

    fn hold_dropped(&mut self) {
        self.hold.ours = false;
        self.hold.declined = true;
        self.profile_chosen = true;
        // If it is another one, that is about to be told.
        self.profile.clone_from(&self.shown_profile);
        self.last_profile.clone_from(&self.shown_profile);
    }

    /// Whether to hold the profile [`SAVER`] from now on, if that is new; `saving` says that there is a reason to.
    pub(super) fn drive_profile(&mut self, saving: bool) -> Option<bool> {
        self.hold.declined &= saving;
        let needless = !self.hold.asked && self.profile.as_deref() == Some(SAVER);
        let hold = saving && !self.hold.declined && !needless;
        if hold == self.hold.asked {
            return None;
        }
        self.hold.asked = hold;
        self.hold.ours |= hold;
        Some(hold)
    }

    /// Lets what was pending count. True if the machine was plugged or unplugged.
    pub(super) fn settle(&mut self, now: Time) -> bool {
        let Some((source, _)) = self.pending.take_if(|(_, at)| *at <= now) else { return false };
        self.source = source;
        let Some(source) = source else { return false };
        let changed = self.last_source.replace(source).is_some_and(|before| before != source);
        if changed {
            self.changed_at = Some(now);
            self.profile_chosen = false;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn on(source: Source) -> Power {
        let mut power = Power::default();
        power.take(Time::ZERO, PowerEvent::Source(Some(source)));
        assert!(!power.settle(Time::ZERO), "the first word is no change");
        power
    }

    #[test]
    fn a_source_counts_once_it_lasts() {
        let mut power = on(Source::Mains);
        power.take(SECOND, PowerEvent::Source(Some(Source::Battery)));
        assert!(!power.settle(SECOND) && !power.on_battery());
        assert!(power.settle(power.next_wakeup().unwrap()) && power.on_battery());
        assert_eq!(power.next_wakeup(), None);
    }

    #[test]
    fn a_loose_contact_changes_nothing() {
        let mut power = on(Source::Mains);
        power.take(SECOND, PowerEvent::Source(Some(Source::Battery)));
        power.take(SECOND + DEBOUNCE / 2, PowerEvent::Source(Some(Source::Mains)));
        assert!(!power.settle(SECOND * 9) && power.next_wakeup().is_none());
    }

    #[test]
    fn repeating_does_not_put_off() {
        let mut power = on(Source::Mains);
        power.take(SECOND, PowerEvent::Source(Some(Source::Battery)));
        power.take(SECOND + DEBOUNCE / 2, PowerEvent::Source(Some(Source::Battery)));
        assert!(power.settle(SECOND + DEBOUNCE));
    }

    #[test]
    fn a_daemon_that_restarts_is_no_change_of_source() {
        let mut power = on(Source::Battery);
        power.take(SECOND, PowerEvent::Source(None));
        assert!(!power.settle(SECOND * 2) && power.on_battery());
        assert!(!power.settle(SECOND * 7) && !power.on_battery());
        power.take(SECOND * 8, PowerEvent::Source(Some(Source::Battery)));
        assert!(!power.settle(SECOND * 9) && power.on_battery());
    }

    #[test]
    fn profiles_that_follow_the_source_are_nobodys_choice() {
        let mut power = on(Source::Mains);
        let profile = |name: &str| PowerEvent::Profile(Some(name.into()));
        power.take(SECOND, profile("balanced"));
        assert!(!power.profile_chosen());
        power.take(SECOND * 2, profile("performance"));
        assert!(power.profile_chosen());
        power.take(SECOND * 3, PowerEvent::Source(Some(Source::Battery)));
        assert!(power.settle(SECOND * 4) && !power.profile_chosen());
        power.take(SECOND * 5, profile("power-saver"));
        assert!(!power.profile_chosen());
        power.take(SECOND * 60, profile("balanced"));
        assert!(power.profile_chosen());
    }

    #[test]
    fn a_chosen_profile_outlives_its_daemon() {
        let mut power = on(Source::Battery);
        let profile = |name: &str| PowerEvent::Profile(Some(name.into()));
        power.take(SECOND * 5, profile("balanced"));
        power.take(SECOND * 6, profile("performance"));
        power.take(SECOND * 7, PowerEvent::Profile(None));
        assert!(!power.profile_chosen());
        power.take(SECOND * 8, profile("performance"));
        assert!(power.profile_chosen());
        power.take(SECOND * 9, PowerEvent::Profile(None));
        power.take(SECOND * 10, profile("balanced"));
        assert!(!power.profile_chosen(), "it came back with another");
    }

    #[test]
    fn our_own_hold_is_no_change_of_profile() {
        let mut power = on(Source::Battery);
        let profile = |name: &str| PowerEvent::Profile(Some(name.into()));
        power.take(SECOND, profile("balanced"));
        assert_eq!(power.drive_profile(true), Some(true));
        assert_eq!(power.drive_profile(true), None);
        power.take(SECOND * 9, profile("power-saver"));
        assert_eq!((power.profile(), power.shown_profile()), (Some("balanced"), Some("power-saver")));
        assert_eq!(power.drive_profile(false), Some(false));
        // Said before our release was heard.
        power.take(SECOND * 10, profile("power-saver"));
        power.take(SECOND * 10, profile("balanced"));
        power.take(SECOND * 10, PowerEvent::ProfileHoldEnded);
        assert!(!power.profile_chosen());
        power.take(SECOND * 20, profile("power-saver"));
        assert!(power.profile_chosen());
        let mut refused = on(Source::Battery);
        refused.take(SECOND, profile("balanced"));
        assert_eq!(refused.drive_profile(true), Some(true));
        refused.take(SECOND, PowerEvent::ProfileHoldRefused);
        refused.take(SECOND * 9, profile("power-saver"));
        assert!(refused.profile_chosen(), "it is not our doing");
        assert_eq!(power.drive_profile(true), None, "it is active anyway");
    }

    #[test]
    fn a_hold_that_is_granted_after_a_refusal_is_our_doing() {
        let mut power = on(Source::Battery);
        let profile = |name: &str| PowerEvent::Profile(Some(name.into()));
        power.take(SECOND, profile("balanced"));
        assert_eq!(power.drive_profile(true), Some(true));
        power.take(SECOND, PowerEvent::ProfileHoldRefused);
        power.take(SECOND * 2, PowerEvent::ProfileHoldTried);
        power.take(SECOND * 9, profile("power-saver"));
        assert!(!power.profile_chosen());
        assert_eq!(power.profile(), Some("balanced"));
    }

    #[test]
    fn whoever_chooses_a_profile_meanwhile_is_obeyed() {
        let mut power = on(Source::Battery);
        let profile = |name: &str| PowerEvent::Profile(Some(name.into()));
        power.take(SECOND, profile("balanced"));
        assert_eq!(power.drive_profile(true), Some(true));
        power.take(SECOND * 9, profile("power-saver"));
        power.take(SECOND * 10, PowerEvent::ProfileHoldDropped);
        power.take(SECOND * 10, profile("balanced"));
        assert!(power.profile_chosen(), "although it is the one from before");
        assert_eq!((power.drive_profile(true), power.drive_profile(true)), (Some(false), None));
        assert_eq!(power.drive_profile(false), None);
        assert_eq!(power.drive_profile(true), Some(true), "another time, another reason");
    }

    #[test]
    fn a_low_battery_that_is_not_in_use_is_none() {
        let mut power = on(Source::Mains);
        power.take(SECOND, PowerEvent::BatteryLow(true));
        assert!(!power.battery_low());
        assert!(Power { battery_low: true, ..on(Source::Battery) }.battery_low());
    }

    #[test]
    fn waking_up_does_not_wait() {
        let mut power = on(Source::Mains);
        power.take(SECOND, PowerEvent::Source(Some(Source::Battery)));
        power.take(SECOND, PowerEvent::Resumed);
        assert!(power.settle(SECOND) && power.on_battery());
        power.take(SECOND * 2, PowerEvent::Source(Some(Source::Mains)));
        assert!(power.settle(SECOND * 2) && !power.on_battery());
    }
}
