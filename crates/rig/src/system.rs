//! Which guests there are.

use crate::architecture::Architecture;

/// Which guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// The small one that most cases run in.
    Small,
    /// With everything that packages of Scherzo depend on.
    ForPackages,
    /// The small one, with every kernel of the archive.
    EveryKernel,
    /// A small one of another processor.
    Arm64,
}

impl System {
    /// Begins the names of its artefacts.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Small => "",
            Self::ForPackages => "package-",
            Self::EveryKernel => "every-kernel-",
            Self::Arm64 => "arm64-",
        }
    }

    /// Its processor.
    #[must_use]
    pub fn architecture(self) -> Architecture {
        if self == Self::Arm64 { Architecture::Arm64 } else { Architecture::X86_64 }
    }
}
