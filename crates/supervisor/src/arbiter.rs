//! Which mode is in effect, and why. The first of these that has something to say decides:
//!
//! 1. a person's choice;
//! 2. holds, among which a low battery counts as one for low power;
//! 3. a change of power profile since the last change of power source;
//! 4. running on battery;
//! 5. the power profile;
//! 6. the default.

use scherzo_catalogue::details::{Detail, Details};
use scherzo_catalogue::types::{Mode, Reason, RequestedMode};
use scherzo_model::{LoadSettings, Seat};

use super::event::{Choice, Desired, Fault};
use super::holds::Holds;
use super::power::Power;
use crate::settings::Settings;

/// Which rules apply, and what they ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Independent switches, each a setting of its own.
pub struct Rules {
    /// A person's choice ends when the machine is plugged or unplugged.
    pub choice_ends_with_source: bool,
    /// Programs may hold a mode.
    pub holds: bool,
    /// A low battery asks for low power.
    pub low_battery: bool,
    /// Changing the power profile counts more than the power source.
    pub profile_change: bool,
    /// Running on battery asks for [`Self::battery_mode`].
    pub power_source: bool,
    /// The power profile counts where nothing else does.
    pub power_profile: bool,
    /// The mode on battery.
    pub battery_mode: Mode,
    /// The mode where nothing else decides.
    pub default_mode: Mode,
    /// What power profiles ask for while the machine is plugged in, or its source is not known.
    pub on_mains: ProfileModes,
    /// What they ask for on battery.
    pub on_battery: ProfileModes,
}

/// The mode that each power profile asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileModes {
    /// For `power-saver`.
    pub power_saver: Mode,
    /// For `balanced`.
    pub balanced: Mode,
    /// For `performance`.
    pub performance: Mode,
}

impl ProfileModes {
    /// Profiles that this version does not know ask for nothing.
    fn mode(self, profile: &str) -> Option<Mode> {
        match profile {
            "power-saver" => Some(self.power_saver),
            "balanced" => Some(self.balanced),
            "performance" => Some(self.performance),
            _ => None,
        }
    }
}

impl Default for ProfileModes {
    fn default() -> Self {
        Self { power_saver: Mode::LowPower, balanced: Mode::Interactive, performance: Mode::Interactive }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            choice_ends_with_source: true,
            holds: true,
            low_battery: true,
            profile_change: true,
            power_source: true,
            power_profile: true,
            battery_mode: Mode::LowPower,
            default_mode: Mode::Interactive,
            on_mains: ProfileModes::default(),
            on_battery: ProfileModes::default(),
        }
    }
}

/// The decision, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// How the scheduler is to behave.
    pub(super) choice: Choice,
    /// Why.
    pub(super) why: Fault,
}

/// Decides.
pub(super) fn decide(settings: &Settings, desired: Desired, holds: &Holds, power: &Power) -> Decision {
    let rules = settings.rules;
    let (mode, why) = chosen(desired)
        .or_else(|| held(rules, holds, power))
        .or_else(|| {
            profile(rules, power).filter(|_| rules.profile_change && power.profile_chosen()).map(profile_changed)
        })
        .or_else(|| on_battery(rules, power))
        .or_else(|| profile(rules, power).filter(|_| rules.power_profile))
        .unwrap_or_else(|| (rules.default_mode, Fault::plain(Reason::Default)));
    let seat = seat(settings.tunables, desired);
    Decision { choice: Choice { mode, preemption: desired.preemption, seat, foreground_cgroup: 0 }, why }
}

/// The one that was chosen, else that of the settings; and whatever was chosen, settings may need user space.
fn seat(tunables: LoadSettings, desired: Desired) -> Seat {
    let kernel_seat = desired.seat.map_or(tunables.kernel_seat, Seat::is_kernel);
    LoadSettings { kernel_seat, ..tunables }.seat()
}

type Opinion = (Mode, Fault);

fn because<const N: usize>(reason: Reason, details: [(&str, Detail); N]) -> Fault {
    let details = details.into_iter().map(|(name, detail)| (name.to_owned(), detail));
    Fault { reason, details: details.collect::<Details>() }
}

fn chosen(desired: Desired) -> Option<Opinion> {
    let RequestedMode::Mode(mode) = desired.mode else { return None };
    let mut why = Fault::plain(Reason::Choice);
    if let Some(uid) = desired.chosen_by {
        why.details.insert("uid".to_owned(), i64::from(uid).into());
    }
    Some((mode, why))
}

fn held(rules: Rules, holds: &Holds, power: &Power) -> Option<Opinion> {
    let hold = holds.deciding().filter(|_| rules.holds);
    let frugal = hold.is_some_and(|hold| hold.wanted.mode == Mode::LowPower);
    if rules.low_battery && power.battery_low() && !frugal {
        return Some((Mode::LowPower, Fault::plain(Reason::BatteryLow)));
    }
    let hold = hold?;
    // Everybody sees this: which application it is and why stays with the hold.
    let mut why = because(Reason::Hold, [("cookie", i64::from(hold.cookie).into())]);
    if let Some(uid) = hold.holder.uid {
        why.details.insert("uid".to_owned(), i64::from(uid).into());
    }
    Some((hold.wanted.mode, why))
}

fn profile(rules: Rules, power: &Power) -> Option<Opinion> {
    let name = power.profile()?;
    let modes = if power.on_battery() { rules.on_battery } else { rules.on_mains };
    Some((modes.mode(name)?, because(Reason::PowerProfile, [("profile", name.into())])))
}

fn profile_changed((mode, why): Opinion) -> Opinion {
    (mode, Fault { reason: Reason::PowerProfileChanged, ..why })
}

fn on_battery(rules: Rules, power: &Power) -> Option<Opinion> {
    (rules.power_source && power.on_battery()).then(|| (rules.battery_mode, Fault::plain(Reason::OnBattery)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::event::{Caller, Time};
    use super::super::holds::HoldRequest;
    use super::super::power::{PowerEvent, Source};
    use super::*;
    use crate::holds::Tie;

    /// Everything that could decide says something; what is taken away lets the next one decide.
    struct Scene {
        rules: Rules,
        desired: Desired,
        holds: Holds,
        power: Power,
    }

    impl Scene {
        fn full() -> Self {
            let mut scene = Self {
                rules: Rules::default(),
                desired: Desired { mode: RequestedMode::Mode(Mode::Fifo), chosen_by: Some(1000), ..Desired::default() },
                holds: Holds::default(),
                power: Power::default(),
            };
            scene.hold(Mode::Fifo);
            for (at, event) in [
                (0, PowerEvent::Source(Some(Source::Battery))),
                (0, PowerEvent::BatteryLow(true)),
                (10, PowerEvent::Profile(Some("balanced".into()))),
                (20, PowerEvent::Profile(Some("performance".into()))),
            ] {
                scene.power.take(Time::from_secs(at), event);
                scene.power.settle(Time::from_secs(at));
            }
            scene
        }

        fn hold(&mut self, mode: Mode) {
            let asked = HoldRequest {
                mode,
                reason: "why".into(),
                application: "app".into(),
                tie: Tie::Connection,
                seconds: None,
            };
            self.holds.add(0, Caller { name: ":1.7".into(), uid: Some(1000) }, asked).unwrap();
        }

        fn settings(&self) -> Settings {
            Settings { rules: self.rules, ..Settings::default() }
        }

        fn outcome(&self) -> (Mode, Reason) {
            let Decision { choice, why } = decide(&self.settings(), self.desired, &self.holds, &self.power);
            (choice.mode, why.reason)
        }
    }

    #[test]
    fn the_order_is_the_documented_one() {
        let mut scene = Scene::full();
        assert_eq!(scene.outcome(), (Mode::Fifo, Reason::Choice));
        scene.desired.mode = RequestedMode::Auto;
        assert_eq!(scene.outcome(), (Mode::LowPower, Reason::BatteryLow));
        scene.rules.low_battery = false;
        assert_eq!(scene.outcome(), (Mode::Fifo, Reason::Hold));
        scene.holds.release_all();
        assert_eq!(scene.outcome(), (Mode::Interactive, Reason::PowerProfileChanged));
        scene.rules.profile_change = false;
        assert_eq!(scene.outcome(), (Mode::LowPower, Reason::OnBattery));
        scene.rules.power_source = false;
        assert_eq!(scene.outcome(), (Mode::Interactive, Reason::PowerProfile));
        scene.rules.power_profile = false;
        assert_eq!(scene.outcome(), (Mode::Interactive, Reason::Default));
    }

    #[test]
    fn holds_can_be_ignored() {
        let mut scene = Scene::full();
        scene.desired.mode = RequestedMode::Auto;
        scene.rules = Rules { holds: false, low_battery: false, ..Rules::default() };
        assert_eq!(scene.outcome().1, Reason::PowerProfileChanged);
    }

    #[test]
    fn a_hold_for_low_power_explains_itself_also_on_a_low_battery() {
        let mut scene = Scene::full();
        scene.desired.mode = RequestedMode::Auto;
        scene.hold(Mode::LowPower);
        assert_eq!(scene.outcome(), (Mode::LowPower, Reason::Hold));
    }

    #[test]
    fn each_profile_has_a_mode_for_each_power_source() {
        let on_mains =
            ProfileModes { power_saver: Mode::Fifo, balanced: Mode::LowPower, performance: Mode::Interactive };
        let on_battery =
            ProfileModes { power_saver: Mode::Interactive, balanced: Mode::Fifo, performance: Mode::LowPower };
        let rules = Rules { on_mains, on_battery, power_source: false, ..Rules::default() };
        let decided = |source, name: &str| {
            let mut power = Power::default();
            power.take(Time::ZERO, PowerEvent::Source(source));
            power.take(Time::ZERO, PowerEvent::Profile(Some(name.into())));
            power.settle(Time::ZERO);
            let Decision { choice, why } =
                decide(&Settings { rules, ..Settings::default() }, Desired::default(), &Holds::default(), &power);
            assert_eq!(why.reason, Reason::PowerProfile);
            choice.mode
        };
        let profiles = ["power-saver", "balanced", "performance"];
        for source in [None, Some(Source::Mains)] {
            assert_eq!(profiles.map(|name| decided(source, name)), [Mode::Fifo, Mode::LowPower, Mode::Interactive]);
        }
        let modes = profiles.map(|name| decided(Some(Source::Battery), name));
        assert_eq!(modes, [Mode::Interactive, Mode::Fifo, Mode::LowPower]);
    }

    #[test]
    fn strange_profiles_say_nothing() {
        let mut power = Power::default();
        power.take(Duration::ZERO, PowerEvent::Profile(Some("unknown".into())));
        let decision = decide(&Settings::default(), Desired::default(), &Holds::default(), &power);
        assert_eq!(decision.why, Fault::plain(Reason::Default));
    }
}
