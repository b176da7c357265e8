//! What the first page shows: either why there is nothing to control and what to do about it, or the controls.

use scherzo_api::client::{ClientState, Link};
use scherzo_api::types::{Mode, RequestedMode, State};
use scherzo_api::{Snapshot, catalogue};
use scherzo_i18n::{fill, gettext, why_and_until};

/// What the page is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Page {
    /// The state is not known yet.
    Waiting,
    /// There is nothing to control.
    Obstacle(Obstacle),
    /// The usual.
    Controls(Box<Controls>),
}

/// What a button does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    TryAgain,
    StartService,
    TurnOn,
    TurnOff,
    Diagnose,
}

impl Way {
    /// What the button says.
    pub(crate) fn label(self) -> String {
        match self {
            Self::TryAgain => gettext("_Try Again"),
            Self::StartService => gettext("_Start Service"),
            Self::TurnOn => gettext("_Turn On"),
            Self::TurnOff => gettext("_Turn Off"),
            Self::Diagnose => gettext("_Diagnosis"),
        }
    }
}

/// Why there is nothing to control, the way forward, and what else can be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Obstacle {
    pub(crate) icon: &'static str,
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) way: Way,
    pub(crate) other: Option<Way>,
}

/// How well it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Good,
    Off,
    Busy,
    Bad,
}

impl Health {
    /// The icon that says so without colour.
    pub(crate) fn icon(self) -> &'static str {
        match self {
            Self::Good => "app-running-symbolic",
            Self::Off => "app-off-symbolic",
            Self::Busy => "app-starting-symbolic",
            Self::Bad => "app-problem-symbolic",
        }
    }

    /// The style that says so with colour.
    pub(crate) fn style(self) -> &'static str {
        match self {
            Self::Good => "success",
            Self::Off | Self::Busy => "dim-label",
            Self::Bad => "warning",
        }
    }
}

/// What someone asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HoldRow {
    pub(crate) cookie: u32,
    pub(crate) title: String,
    pub(crate) text: String,
}

/// The controls and what is said above them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Controls {
    pub(crate) health: Health,
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) enabled: bool,
    pub(crate) mode: RequestedMode,
    /// Whether choosing `mode` again brings back all that another choice replaces: not where it ends by itself, or programs hold modes.
    pub(crate) can_choose_again: bool,
    pub(crate) preemption: bool,
    pub(crate) holds: Vec<HoldRow>,
    /// What is wrong although Scherzo is turned on, and a button that helps.
    pub(crate) banner: Option<(String, Option<Way>)>,
}

impl Page {
    /// The page for what is known; `seen_on` says that it has been turned on before.
    pub(crate) fn of(state: &ClientState, seen_on: bool) -> Self {
        match &state.link {
            Link::Connecting => Self::Waiting,
            Link::NoBus { .. } => Self::Obstacle(no_bus()),
            Link::NoService { installed } => Self::Obstacle(no_service(*installed)),
            Link::NoAnswer { problem } => Self::Obstacle(no_answer(problem)),
            Link::Up => Self::of_service(&state.service, seen_on),
        }
    }

    fn of_service(service: &Snapshot, seen_on: bool) -> Self {
        // While turned on, Scherzo is loaded by itself once the obstacle has gone.
        let other = service.enabled.then_some(Way::TurnOff);
        match service.known_state() {
            Some(State::Unsupported) => Self::Obstacle(Obstacle {
                icon: "app-problem-symbolic",
                title: gettext("This Kernel Is Not Supported"),
                text: service.why(),
                way: Way::Diagnose,
                other,
            }),
            Some(State::Foreign) => Self::Obstacle(Obstacle {
                icon: "app-foreign-symbolic",
                title: gettext("Another Scheduler Is Running"),
                text: service.why(),
                way: Way::Diagnose,
                other,
            }),
            Some(State::Stopped) if !service.enabled && !seen_on => Self::Obstacle(welcome()),
            state => Self::Controls(Box::new(Controls::of(service, state))),
        }
    }
}

fn no_bus() -> Obstacle {
    Obstacle {
        icon: "app-disconnected-symbolic",
        title: gettext("Not Connected"),
        text: gettext("The system's message bus cannot be reached. Scherzo keeps trying."),
        way: Way::TryAgain,
        other: None,
    }
}

fn no_service(installed: bool) -> Obstacle {
    if installed {
        Obstacle {
            icon: "app-disconnected-symbolic",
            title: gettext("The Service Is Not Running"),
            text: gettext("Nothing is changed on this computer while the Scherzo service is not running."),
            way: Way::StartService,
            other: None,
        }
    } else {
        Obstacle {
            icon: "app-disconnected-symbolic",
            title: gettext("The Service Is Missing"),
            text: gettext("This app needs the Scherzo service. Install it with your package manager, then try again."),
            way: Way::TryAgain,
            other: None,
        }
    }
}

fn no_answer(problem: &str) -> Obstacle {
    Obstacle {
        icon: "app-problem-symbolic",
        title: gettext("The Service Does Not Answer"),
        text: fill(&gettext("Scherzo keeps trying. What it was told: {problem}"), &[("problem", &problem)]),
        way: Way::TryAgain,
        other: None,
    }
}

fn welcome() -> Obstacle {
    Obstacle {
        icon: "org.scherzo.Scherzo",
        title: gettext("Keep Your Desktop Responsive"),
        text: gettext(
            "Scherzo decides which program runs next, so that what you use stays smooth while the computer is busy. \
             You can turn it off at any time, and if anything goes wrong, the kernel's own scheduler takes over at once.",
        ),
        way: Way::TurnOn,
        other: Some(Way::Diagnose),
    }
}

impl Controls {
    fn of(service: &Snapshot, state: Option<State>) -> Self {
        let mode = Mode::from_name(&service.mode).map_or_else(
            || service.mode.clone(),
            |mode| catalogue::translated(catalogue::mode_title(RequestedMode::Mode(mode))).into_owned(),
        );
        let (health, title) = match state {
            Some(State::Running) => (Health::Good, mode),
            Some(State::Degraded) => (Health::Bad, mode),
            Some(State::Starting) => (Health::Busy, gettext("Starting")),
            Some(State::Stopped) => (Health::Off, gettext("Turned Off")),
            Some(State::Fallback) => (Health::Bad, gettext("The Kernel's Scheduler Has Taken Over")),
            // Obstacles of their own, and states that this version does not know.
            _ => (Health::Bad, service.state.clone()),
        };
        let text = match state {
            Some(State::Stopped) => gettext("The kernel's own scheduler decides which program runs next."),
            _ => why_and_until(service),
        };
        Self {
            health,
            title,
            text,
            enabled: service.enabled,
            mode: service.requested_mode.parse().unwrap_or_default(),
            can_choose_again: service.requested_mode_until == 0 && service.holds.is_empty(),
            preemption: service.preemption,
            holds: service.holds.iter().filter_map(HoldRow::of).collect(),
            banner: banner(state),
        }
    }
}

fn banner(state: Option<State>) -> Option<(String, Option<Way>)> {
    match state {
        Some(State::Fallback) => Some((gettext("Scherzo has stopped working"), Some(Way::TurnOn))),
        Some(State::Degraded) => Some((gettext("The engine does not answer; nothing is lost"), Some(Way::Diagnose))),
        _ => None,
    }
}

impl HoldRow {
    fn of(details: &scherzo_api::details::Details) -> Option<Self> {
        let cookie = details.get("cookie")?.to_string().parse().ok()?;
        let mode = Mode::from_name(&details.get("mode")?.to_string())?;
        let title = catalogue::translated(catalogue::mode_title(RequestedMode::Mode(mode)));
        let mode = if details.contains_key("foreground") {
            fill(&gettext("{mode}, in front"), &[("mode", &title)])
        } else {
            title.into_owned()
        };
        // The service tells applications and reasons of the user's own programs only.
        let title = match details.get("application") {
            Some(application) => application.to_string(),
            None => gettext("A program of another user"),
        };
        let text = match details.get("reason") {
            Some(reason) => format!("{mode} · {reason}"),
            None => mode,
        };
        Some(Self { cookie, title, text })
    }
}

#[cfg(test)]
mod tests {
    use scherzo_api::client::ClientEvent;
    use scherzo_api::details::Details;

    use super::*;

    fn page(state: &str, edit: impl FnOnce(&mut Snapshot)) -> Page {
        let mut service =
            Snapshot { state: state.into(), mode: "interactive".into(), enabled: true, ..Snapshot::default() };
        edit(&mut service);
        let mut known = ClientState::default();
        known.apply(ClientEvent::Properties(Box::new(service)));
        Page::of(&known, true)
    }

    fn controls(state: &str, edit: impl FnOnce(&mut Snapshot)) -> Controls {
        match page(state, edit) {
            Page::Controls(controls) => *controls,
            other => panic!("{other:?}"),
        }
    }

    fn obstacle(events: &[ClientEvent]) -> Obstacle {
        let mut known = ClientState::default();
        for event in events {
            known.apply(event.clone());
        }
        match Page::of(&known, false) {
            Page::Obstacle(obstacle) => obstacle,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_way_of_not_reaching_the_service_is_told_apart() {
        let pages = [
            obstacle(&[ClientEvent::BusLost("gone".into())]),
            obstacle(&[ClientEvent::ServiceAbsent(true)]),
            obstacle(&[ClientEvent::ServiceAbsent(false)]),
            obstacle(&[ClientEvent::ServiceSilent("timeout".into())]),
        ];
        let titles: std::collections::BTreeSet<_> = pages.iter().map(|page| &page.title).collect();
        assert_eq!(titles.len(), pages.len());
        assert!(pages[3].text.contains("timeout"));
        assert_eq!(Page::of(&ClientState::default(), false), Page::Waiting);
    }

    #[test]
    fn the_first_page_offers_to_turn_it_on_only_before_it_ever_was() {
        let stopped = ClientEvent::Properties(Box::new(Snapshot { state: "stopped".into(), ..Snapshot::default() }));
        assert_eq!(obstacle(&[stopped]).way, Way::TurnOn);
        let off = controls("stopped", |service| service.enabled = false);
        assert_eq!((off.health, off.enabled), (Health::Off, false));
    }

    #[test]
    fn what_runs_is_named() {
        let running = controls("running", |service| service.reason = "choice".into());
        assert_eq!((running.title.as_str(), running.text.as_str()), ("Interactive", "It was chosen by hand."));
        assert_eq!((running.health, &running.banner), (Health::Good, &None));
        assert!(running.can_choose_again);
    }

    #[test]
    fn a_choice_for_a_time_says_until_when() {
        let chosen = controls("running", |service| {
            service.reason = "choice".into();
            service.requested_mode_until = 4_000_000_000;
        });
        assert!(chosen.text.starts_with("It was chosen by hand. It lasts until 2096-10-0"), "{}", chosen.text);
        assert!(!chosen.can_choose_again, "to choose it again would make it last");
    }

    #[test]
    fn troubles_have_a_banner_with_a_way_forward() {
        let ejected = controls("fallback", |service| service.reason = "stall".into());
        assert_eq!(ejected.banner.and_then(|(_, way)| way), Some(Way::TurnOn));
        assert_eq!(controls("degraded", |_| ()).health, Health::Bad);
        assert_eq!(controls("singing", |_| ()).title, "singing", "a state of a newer service shows as it is");
    }

    #[test]
    fn kernels_and_other_schedulers_are_pages_of_their_own() {
        for state in ["unsupported", "foreign"] {
            assert!(matches!(page(state, |_| ()), Page::Obstacle(Obstacle { way: Way::Diagnose, .. })));
        }
    }

    #[test]
    fn whoever_does_not_want_it_back_can_turn_it_off() {
        for state in ["unsupported", "foreign"] {
            for enabled in [true, false] {
                let Page::Obstacle(obstacle) = page(state, |service| service.enabled = enabled) else {
                    panic!("{state}")
                };
                assert_eq!(obstacle.other, enabled.then_some(Way::TurnOff), "{state}");
            }
        }
    }

    #[test]
    fn holds_say_who_and_why_as_far_as_one_may_know() {
        let mut hold = Details::from([
            ("cookie".into(), 7.into()),
            ("mode".into(), "low-power".into()),
            ("application".into(), "org.example.Player".into()),
        ]);
        let shown = |hold: &Details| controls("running", |service| service.holds = vec![hold.clone()]).holds;
        assert_eq!(shown(&hold)[0].text, "Low Power");
        hold.insert("reason".into(), "A film".into());
        assert_eq!(
            shown(&hold)[0],
            HoldRow { cookie: 7, title: "org.example.Player".into(), text: "Low Power · A film".into() }
        );
        hold.insert("foreground".into(), "/app-player.scope".into());
        assert_eq!(shown(&hold)[0].text, "Low Power, in front · A film");
        hold.remove("foreground");
        hold.remove("application");
        hold.remove("reason");
        assert_eq!(
            shown(&hold)[0],
            HoldRow { cookie: 7, title: "A program of another user".into(), text: "Low Power".into() },
            "it can be released all the same"
        );
        hold.insert("cookie".into(), "x".into());
        assert_eq!(shown(&hold), [], "without a number it could not be released");
    }
}
