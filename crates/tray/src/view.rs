//! What the tray shows, as a pure function of the client's state.

use scherzo_api::catalogue::{mode_title, translated};
use scherzo_api::client::{ClientState, Link};
use scherzo_api::types::{RequestedMode, State};
use scherzo_api::{Error, Snapshot};
use scherzo_i18n::{fill, gettext, known, why_and_until};

/// What can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MenuAction {
    /// A mode.
    Mode(RequestedMode),
    /// Preemption on or off.
    Preemption(bool),
    /// The scheduler on or off.
    Enabled(bool),
    /// The app; with the click's token, which lets its window come to the front.
    OpenApp(Option<String>),
    /// Start at login, or not.
    Autostart(bool),
    /// Leave the panel.
    Quit,
}

/// Everything that a person sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Name of a symbolic icon.
    pub icon: &'static str,
    /// Something is wrong.
    pub is_alarming: bool,
    /// What runs, in a few words.
    pub headline: String,
    /// Why, as a sentence; empty where there is nothing to say.
    pub detail: String,
    /// The choices, if there is a service to take them.
    pub choices: Option<Choices>,
    /// Scherzo is wanted; `None` if there is nothing that could be turned on.
    pub enabled: Option<bool>,
}

/// What has been chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// The mode that was asked for; a newer service may have one that is not listed here.
    pub requested: Option<RequestedMode>,
    /// How the automatic mode is called now.
    pub automatic: String,
    /// Preemption.
    pub preemption: bool,
}

const OFF_ICON: &str = "scherzo-off-symbolic";
const WARNING_ICON: &str = "scherzo-warning-symbolic";

impl View {
    /// The view of a state.
    #[must_use]
    pub fn of(state: &ClientState) -> Self {
        match (&state.link, state.current()) {
            (_, Some(service)) => Self::of_service(service),
            (Link::NoService { installed }, _) => Self {
                icon: OFF_ICON,
                is_alarming: false,
                headline: if *installed {
                    gettext("The service is not running")
                } else {
                    gettext("The service is not installed")
                },
                detail: String::new(),
                choices: None,
                enabled: installed.then_some(false),
            },
            (link, None) => Self {
                icon: OFF_ICON,
                is_alarming: false,
                headline: match link {
                    Link::NoBus { .. } => gettext("The system bus is not reachable"),
                    Link::NoAnswer { .. } => gettext("The service does not answer"),
                    _ => gettext("Connecting"),
                },
                detail: String::new(),
                choices: None,
                enabled: None,
            },
        }
    }

    fn of_service(service: &Snapshot) -> Self {
        let state = service.known_state();
        let mode = service.mode.parse().ok();
        let title = mode.map_or_else(|| service.mode.clone(), |mode| translated(mode_title(mode)).into_owned());
        let (icon, headline) = match state {
            Some(State::Running) => (mode_icon(mode), title.clone()),
            Some(State::Starting) => (mode_icon(mode), gettext("Starting")),
            Some(State::Stopped) => (OFF_ICON, gettext("Turned off")),
            Some(State::Degraded) => (WARNING_ICON, gettext("Running, but the engine does not answer")),
            Some(State::Fallback) => (WARNING_ICON, gettext("Stopped working; the kernel's own scheduler runs")),
            Some(State::Unsupported) => (WARNING_ICON, gettext("This kernel is not supported")),
            Some(State::Foreign) => (WARNING_ICON, gettext("Another scheduler is loaded")),
            None => (mode_icon(mode), service.state.clone()),
        };
        let requested = service.requested_mode.parse().ok();
        let automatic = translated(mode_title(RequestedMode::Auto)).into_owned();
        Self {
            icon,
            // The user has turned it off, so there is nothing to explain.
            is_alarming: service.enabled && icon == WARNING_ICON,
            headline,
            detail: why_and_until(service),
            choices: Some(Choices {
                requested,
                automatic: if requested == Some(RequestedMode::Auto) && !service.mode.is_empty() {
                    // Translators: the automatic mode, and the mode that it comes to now.
                    fill(&gettext("Automatic ({mode})"), &[("mode", &title)])
                } else {
                    automatic
                },
                preemption: service.preemption,
            }),
            enabled: Some(service.enabled),
        }
    }

    /// What the choice of a mode is called.
    #[must_use]
    pub fn label(&self, mode: RequestedMode) -> String {
        match (&self.choices, mode) {
            (Some(choices), RequestedMode::Auto) => choices.automatic.clone(),
            _ => translated(mode_title(mode)).into_owned(),
        }
    }
}

fn mode_icon(mode: Option<RequestedMode>) -> &'static str {
    match mode.map(RequestedMode::name) {
        Some("fifo") => "scherzo-fifo-symbolic",
        Some("low-power") => "scherzo-low-power-symbolic",
        _ => "scherzo-interactive-symbolic",
    }
}

/// A message that appears for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// A few words.
    pub title: String,
    /// A sentence or two.
    pub text: String,
}

/// A notice that the scheduler was ejected, if it still is.
#[must_use]
pub fn ejection(state: &ClientState) -> Option<Notice> {
    state.lasting_exit().map(|exit| Notice {
        title: gettext("Scherzo Stopped Working"),
        text: format!("{} {}", exit.why(), gettext("The kernel's own scheduler runs.")),
    })
}

/// A notice that a change was refused or failed.
#[must_use]
pub fn refusal(problem: &Error) -> Notice {
    let text = if problem.is_unreachable() {
        gettext("The Scherzo service is not reachable.")
    } else {
        // Those of the service's sentences that never vary are known to translators.
        known(&problem.to_string())
    };
    // The service may still carry out a change that it has not answered, and keeps one that the scheduler has ended before.
    let title = if matches!(problem, Error::Busy(_) | Error::NoAnswer(_) | Error::NotRunning(_)) {
        gettext("Not Done Yet")
    } else {
        gettext("Nothing Was Changed")
    };
    Notice { title, text }
}

/// The app cannot be started. Packages of the tray do not always bring it.
#[must_use]
pub fn no_app(problem: &std::io::Error) -> Notice {
    let text = if problem.kind() == std::io::ErrorKind::NotFound {
        gettext("Install Scherzo's app with your package manager.")
    } else {
        problem.to_string()
    };
    Notice { title: gettext("Scherzo Did Not Open"), text }
}

/// It cannot start at login: it is not installed where it runs from, or a file could not be written.
#[must_use]
pub fn no_autostart(problem: &std::io::Error) -> Notice {
    let text = if problem.kind() == std::io::ErrorKind::NotFound {
        gettext("Install Scherzo's icon for the panel with your package manager.")
    } else {
        problem.to_string()
    };
    Notice { title: gettext("Nothing Was Changed"), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scherzo_api::client::{ClientEvent, Exit};

    fn known(service: Snapshot) -> View {
        let mut state = ClientState::default();
        state.apply(ClientEvent::Properties(Box::new(service)));
        View::of(&state)
    }

    fn service(state: State) -> Snapshot {
        Snapshot {
            enabled: true,
            state: state.name().into(),
            mode: "low-power".into(),
            requested_mode: "auto".into(),
            reason: "on-battery".into(),
            preemption: true,
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_running_scheduler_shows_its_mode_and_why() {
        let view = known(service(State::Running));
        assert_eq!((view.icon, view.is_alarming), ("scherzo-low-power-symbolic", false));
        assert_eq!((view.headline.as_str(), view.detail.as_str()), ("Low Power", "The computer runs on battery."));
        let choices = view.choices.as_ref().unwrap();
        assert_eq!((choices.requested, choices.preemption), (Some(RequestedMode::Auto), true));
        assert_eq!(view.label(RequestedMode::Auto), "Automatic (Low Power)");
    }

    #[test]
    fn a_choice_is_not_called_automatic() {
        let view = known(Snapshot { requested_mode: "low-power".into(), ..service(State::Running) });
        assert_eq!(view.label(RequestedMode::Auto), "Automatic");
        assert_eq!(view.choices.unwrap().requested, "low-power".parse().ok());
    }

    #[test]
    fn a_choice_for_a_time_says_until_when() {
        let choice = Snapshot { reason: "choice".into(), requested_mode: "fifo".into(), ..service(State::Running) };
        let view = known(Snapshot { requested_mode_until: 4_000_000_000, ..choice.clone() });
        assert!(view.detail.contains("It lasts until 2096-10-0"), "{}", view.detail);
        assert!(!known(choice).detail.contains("lasts until"));
    }

    #[test]
    fn what_is_wrong_alarms() {
        for state in State::ALL {
            let view = known(service(*state));
            let is_wrong = matches!(state, State::Degraded | State::Fallback | State::Unsupported | State::Foreign);
            assert_eq!(view.is_alarming, is_wrong, "{state}");
            let off = known(Snapshot { enabled: false, ..service(*state) });
            assert!(!off.is_alarming, "{state}");
            assert_eq!((view.enabled, off.enabled), (Some(true), Some(false)), "{state}");
            assert!(!view.headline.is_empty() && view.choices.is_some(), "{state}");
        }
    }

    #[test]
    fn a_service_that_could_be_started_can_be_turned_on() {
        let after = |event| {
            let mut state = ClientState::default();
            state.apply(event);
            View::of(&state)
        };
        assert_eq!(after(ClientEvent::ServiceAbsent(true)).enabled, Some(false));
        assert_eq!(after(ClientEvent::ServiceAbsent(false)).enabled, None);
        let lost = after(ClientEvent::BusLost("gone".into()));
        assert_eq!((lost.enabled, lost.choices, lost.icon), (None, None, OFF_ICON));
    }

    #[test]
    fn newer_services_show_as_they_are() {
        let newer = Snapshot { state: "dreaming".into(), mode: "turbo".into(), ..service(State::Running) };
        let view = known(newer);
        assert_eq!((view.headline.as_str(), view.is_alarming), ("dreaming", false));
        assert_eq!(view.label(RequestedMode::Auto), "Automatic (turbo)");
    }

    #[test]
    fn an_ejection_is_told_while_it_lasts() {
        let exit = Exit { reason: "kernel-unloaded".into(), details: [("text".into(), "SysRq-S".into())].into() };
        let told = |after: State| {
            let mut state = ClientState::default();
            state.apply(ClientEvent::Exited(exit.clone()));
            state.apply(ClientEvent::Properties(Box::new(service(after))));
            ejection(&state)
        };
        assert!(told(State::Fallback).is_some_and(|notice| notice.text.contains("SysRq-S")));
        assert_eq!(told(State::Running), None, "another engine has taken over");
    }

    #[test]
    fn notices_say_what_happened() {
        let not_there = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert!(no_app(&not_there).text.contains("Install"));
        assert!(no_autostart(&not_there).text.contains("Install"));
        let busy = refusal(&Error::Busy("Try again.".into()));
        assert_eq!((busy.title.as_str(), busy.text.as_str()), ("Not Done Yet", "Try again."));
        assert_eq!(refusal(&Error::NotRunning("It ended.".into())).title, "Not Done Yet");
        assert_eq!(refusal(&Error::AccessDenied("No.".into())).title, "Nothing Was Changed");
    }
}
