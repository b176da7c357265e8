//! The state of a client, as a fold over events. It uses neither the bus nor a clock.

use std::time::Duration;

use crate::Snapshot;
use crate::catalogue;
use crate::details::Details;
use crate::histogram::Waits;
use crate::stats::Stats;
use crate::types::{Reason, State};

/// Clients notify people of an ejection that lasts longer than this, see [`ClientState::lasting_exit`]. A standby engine
/// takes over much sooner.
pub const TELL_AFTER: Duration = Duration::from_secs(2);

/// Whether the service can be reached, and if not, what is in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Not known yet.
    #[default]
    Connecting,
    /// The bus cannot be reached, or was lost. It is tried again by itself.
    NoBus {
        /// The error, in English.
        problem: String,
    },
    /// The bus is there, the service is not.
    NoService {
        /// The bus could start it, if it were asked to.
        installed: bool,
    },
    /// The service is there but does not answer. It is tried again by itself.
    NoAnswer {
        /// The error, in English.
        problem: String,
    },
    /// The service answers, and the state is current.
    Up,
}

/// Statistics and histograms of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Counters since loading.
    pub stats: Stats,
    /// Waits since loading.
    pub waits: Waits,
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Seconds since 1970.
    pub time_s: u64,
    /// What happened, see [`crate::types::HistoryEvent`]; newer services may add some.
    pub event: String,
    /// Its arguments.
    pub details: Details,
}

/// A loaded scheduler ended without having been asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Why, see [`Reason`].
    pub reason: String,
    /// Its arguments.
    pub details: Details,
}

impl Exit {
    /// The reason as an English sentence; a reason of a newer service shows as its id.
    #[must_use]
    pub fn why(&self) -> String {
        let known = self.reason.parse::<Reason>();
        known.map_or_else(|_| format!("{}.", self.reason), |reason| catalogue::text(reason, &self.details))
    }
}

/// What changes the state of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// The bus cannot be reached, or was lost.
    BusLost(String),
    /// Nobody owns the service's name; whether the bus could start it.
    ServiceAbsent(bool),
    /// The service did not answer.
    ServiceSilent(String),
    /// All properties, read anew.
    Properties(Box<Snapshot>),
    /// The second's statistics.
    Statistics(Box<Reading>),
    /// The history, the oldest entry first.
    History(Vec<Entry>),
    /// The scheduler was ejected or died.
    Exited(Exit),
}

/// The state of a client.
///
/// Fold [`ClientEvent`]s into it with [`ClientState::apply`]; [`super::Client`] does so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientState {
    /// Whether the rest is current.
    pub link: Link,
    /// The properties as last read; all empty before that. Only current while the link is [`Link::Up`].
    pub service: Snapshot,
    /// The last second's statistics, while someone watches them and a scheduler is loaded.
    pub reading: Option<Box<Reading>>,
    /// The history, the oldest entry first; filled while someone watches it.
    pub history: Vec<Entry>,
    /// The last ejection that was signalled to this client.
    pub last_exit: Option<Exit>,
    /// The number of ejections signalled to this client, so that people are notified of each once.
    pub nr_exits: u64,
}

impl ClientState {
    /// Applies an event; returns whether the state has changed.
    pub fn apply(&mut self, event: ClientEvent) -> bool {
        let before = self.clone();
        match event {
            ClientEvent::BusLost(problem) => self.lose(Link::NoBus { problem }),
            ClientEvent::ServiceAbsent(installed) => self.lose(Link::NoService { installed }),
            ClientEvent::ServiceSilent(problem) => self.lose(Link::NoAnswer { problem }),
            ClientEvent::Properties(service) => {
                self.link = Link::Up;
                self.service = *service;
                if !self.is_loaded() {
                    self.reading = None;
                }
            }
            // This reading was sent before the scheduler was unloaded.
            ClientEvent::Statistics(reading) => self.reading = self.is_loaded().then_some(reading),
            ClientEvent::History(history) => self.history = history,
            ClientEvent::Exited(exit) => {
                self.last_exit = Some(exit);
                self.nr_exits += 1;
            }
        }
        *self != before
    }

    fn lose(&mut self, link: Link) {
        self.link = link;
        self.reading = None;
    }

    /// The properties, if they are current.
    #[must_use]
    pub fn current(&self) -> Option<&Snapshot> {
        (self.link == Link::Up).then_some(&self.service)
    }

    /// What runs, if the service can be asked and says something that this version knows.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        self.current()?.known_state()
    }

    /// Scherzo's scheduler is in the kernel now.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        matches!(self.state(), Some(State::Running | State::Degraded))
    }

    /// The last ejection, unless Scherzo has been loaded again or turned off since.
    /// Call it [`TELL_AFTER`] the exit: the properties may be older than the signal.
    #[must_use]
    pub fn lasting_exit(&self) -> Option<&Exit> {
        let is_off = self.current().is_some_and(|service| !service.enabled);
        self.last_exit.as_ref().filter(|_| !is_off && !self.is_loaded())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(state: State) -> ClientEvent {
        let enabled = state != State::Stopped;
        ClientEvent::Properties(Box::new(Snapshot { enabled, state: state.name().to_owned(), ..Snapshot::default() }))
    }

    fn reading(nr_switches: u64) -> ClientEvent {
        let stats = Stats { nr_switches, ..Stats::default() };
        ClientEvent::Statistics(Box::new(Reading { stats, waits: Waits::default() }))
    }

    fn after(events: impl IntoIterator<Item = ClientEvent>) -> ClientState {
        let mut state = ClientState::default();
        for event in events {
            state.apply(event);
        }
        state
    }

    #[test]
    fn nothing_is_claimed_before_it_is_known() {
        let state = ClientState::default();
        assert_eq!((state.link.clone(), state.current(), state.state()), (Link::Connecting, None, None));
    }

    #[test]
    fn a_lost_bus_leaves_nothing_current_and_a_return_does() {
        let mut state = after([service(State::Running), reading(7), ClientEvent::BusLost("gone".into())]);
        assert_eq!(state.link, Link::NoBus { problem: "gone".into() });
        assert_eq!((state.current(), &state.reading), (None, &None));
        assert_eq!(state.service.state, "running", "what was last seen stays readable");
        state.apply(service(State::Stopped));
        assert_eq!(state.state(), Some(State::Stopped));
    }

    #[test]
    fn a_service_that_is_absent_is_told_from_one_that_is_silent() {
        assert_eq!(after([ClientEvent::ServiceAbsent(true)]).link, Link::NoService { installed: true });
        assert_eq!(after([ClientEvent::ServiceSilent("slow".into())]).link, Link::NoAnswer { problem: "slow".into() });
    }

    #[test]
    fn statistics_end_with_the_scheduler() {
        assert!(after([service(State::Running), reading(7)]).reading.is_some());
        assert_eq!(after([service(State::Running), reading(7), service(State::Fallback)]).reading, None);
        assert_eq!(after([service(State::Stopped), reading(7)]).reading, None, "it was on its way");
    }

    #[test]
    fn each_exit_counts_once_and_outlives_a_restart_of_the_service() {
        let exit = Exit { reason: "stall".into(), details: Details::from([("text".into(), "cc1 waited".into())]) };
        let state =
            after([ClientEvent::Exited(exit.clone()), ClientEvent::ServiceAbsent(true), ClientEvent::Exited(exit)]);
        assert_eq!(state.nr_exits, 2);
        assert!(state.last_exit.unwrap().why().contains("cc1 waited"));
    }

    #[test]
    fn an_exit_lasts_until_something_has_come_of_it() {
        let exit = Exit { reason: "engine-killed".into(), details: Details::new() };
        let lasts =
            |event| after([service(State::Running), ClientEvent::Exited(exit.clone()), event]).lasting_exit().is_some();
        for state in [State::Fallback, State::Starting, State::Foreign, State::Unsupported] {
            assert!(lasts(service(state)), "{state}");
        }
        for state in [State::Running, State::Degraded, State::Stopped] {
            assert!(!lasts(service(state)), "{state}");
        }
        assert!(lasts(ClientEvent::ServiceAbsent(true)), "whoever would load it again has gone too");
        assert_eq!(after([service(State::Fallback)]).lasting_exit(), None, "nothing was witnessed");
    }

    #[test]
    fn an_event_without_news_says_so() {
        let mut state = ClientState::default();
        assert!(state.apply(service(State::Running)));
        assert!(!state.apply(service(State::Running)));
        assert!(state.apply(service(State::Degraded)));
    }

    #[test]
    fn exits_of_newer_services_show_their_id() {
        assert_eq!(Exit { reason: "moon".into(), details: Details::new() }.why(), "moon.");
    }
}
