//! What is measured together, and has a section of the page.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::peer::RUSTLAND;

/// A set of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BenchmarkSet {
    /// Our own probe: `interactive` and `low-power`, the floors, and one peer.
    Core,
    /// The same loads with all peers.
    Peers,
    /// What others wrote, with all peers.
    Tools,
}

impl BenchmarkSet {
    /// Every set, in the order of the page.
    pub const ALL: [Self; 3] = [Self::Core, Self::Peers, Self::Tools];

    /// Who is measured unless somebody is chosen, in the order of the tables.
    #[must_use]
    pub fn contenders(self) -> Vec<Contender> {
        let takes_part = |contender: &Contender| match contender {
            Contender::Default | Contender::Scherzo => true,
            Contender::Peer(peer) => self != Self::Core || *peer == RUSTLAND,
            Contender::LowPower | Contender::Floor | Contender::PlainFloor => self == Self::Core,
        };
        Contender::ALL.into_iter().filter(takes_part).collect()
    }

    /// Rounds unless a number is chosen.
    #[must_use]
    pub const fn nr_rounds(self) -> u32 {
        match self {
            Self::Core | Self::Peers => 5,
            Self::Tools => 3,
        }
    }

    /// Seconds of a measurement that has no end of its own, unless a number is chosen.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        match self {
            Self::Core | Self::Peers => 10,
            // At 60 a second three rounds have 900 frames.
            Self::Tools => 5,
        }
    }

    /// Begins the headings of its tables; nothing for the first.
    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::Core => "",
            Self::Peers => "Peers: ",
            Self::Tools => "Tools: ",
        }
    }
}

impl fmt::Display for BenchmarkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Core => "core",
            Self::Peers => "peers",
            Self::Tools => "tools",
        })
    }
}

impl FromStr for BenchmarkSet {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|set| set.to_string() == name);
        found.ok_or_else(|| format!("one of {}", Self::ALL.map(|set| set.to_string()).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_has_its_contenders() {
        let ids = |set: BenchmarkSet| set.contenders().into_iter().map(Contender::id).collect::<Vec<_>>();
        assert_eq!(ids(BenchmarkSet::Core), ["default", "rustland", "scherzo", "low-power", "floor", "plain-floor"]);
        let with_peers = ["default", "rustland", "bpfland", "lavd", "cosmos", "scherzo"];
        assert_eq!(ids(BenchmarkSet::Peers), with_peers);
        assert_eq!(ids(BenchmarkSet::Tools), with_peers);
        assert!(BenchmarkSet::ALL.into_iter().all(|set| set.to_string().parse() == Ok(set)));
        assert_eq!("all".parse::<BenchmarkSet>().unwrap_err(), "one of core, peers, tools");
    }
}
