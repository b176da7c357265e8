//! The loads beside which `scherzo-bench probe` measures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The load on the machine during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Nothing.
    Idle,
    /// One CPU hog per CPU.
    Hog1,
    /// Two CPU hogs per CPU.
    Hog2,
    /// A storm of short processes.
    Fork,
    /// Bytes passed back and forth through pipes.
    Pipe,
    /// Two CPU hogs per CPU, and instead of the usual probe one thread that works 1 ms every 5 ms.
    Audio,
    /// As much work as half of the CPUs can do.
    Half,
}

impl Workload {
    /// Every load, in the order in which they are measured.
    pub const ALL: [Self; 7] = [Self::Idle, Self::Hog1, Self::Hog2, Self::Fork, Self::Pipe, Self::Audio, Self::Half];

    /// Options of `scherzo-bench probe`.
    pub(super) const fn options(self) -> &'static str {
        match self {
            Self::Idle => "--load idle",
            Self::Hog1 => "--load hogs --hogs-per-cpu 1",
            Self::Hog2 => "--load hogs --hogs-per-cpu 2",
            Self::Fork => "--load fork",
            Self::Pipe => "--load pipe",
            Self::Audio => "--load hogs --hogs-per-cpu 2 --audio",
            Self::Half => "--load half",
        }
    }

    /// What its throughput counts, per second.
    #[must_use]
    pub const fn unit(self) -> Option<&'static str> {
        match self {
            Self::Idle => None,
            Self::Hog1 | Self::Hog2 | Self::Audio | Self::Half => Some("units of work/s"),
            Self::Fork => Some("processes/s"),
            Self::Pipe => Some("round trips/s"),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Hog1 => "hog1",
            Self::Hog2 => "hog2",
            Self::Fork => "fork",
            Self::Pipe => "pipe",
            Self::Audio => "audio",
            Self::Half => "half",
        })
    }
}
