//! The processors that guests have, and what depends on them: programs, devices, and where results of a compiler lie.

use std::str::FromStr;

use anyhow::{Context, Result};

/// A kind of processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Architecture {
    /// What builds, and what most guests have.
    #[default]
    X86_64,
    /// 64-bit ARM, compiled for elsewhere and emulated.
    Arm64,
}

impl Architecture {
    const NAMES: &[(Self, &str)] = &[(Self::X86_64, "amd64"), (Self::Arm64, "arm64")];

    /// What Debian and `cargo xtask guest --architecture` call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(architecture, _)| *architecture == self).map_or("", |(_, name)| name)
    }

    /// Whether it is the one of this machine: only then can guests run on the host's processor.
    #[must_use]
    pub fn is_of_host(self) -> bool {
        match self {
            Self::X86_64 => cfg!(target_arch = "x86_64"),
            Self::Arm64 => cfg!(target_arch = "aarch64"),
        }
    }

    /// The emulator.
    #[must_use]
    pub fn emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Arm64 => "qemu-system-aarch64",
        }
    }

    /// The machine that is emulated.
    #[must_use]
    pub fn machine(self) -> &'static str {
        match self {
            Self::X86_64 => "q35",
            Self::Arm64 => "virt,gic-version=3",
        }
    }

    /// The processor that is emulated. For ARM not the newest one: authenticating pointers costs an emulator much time.
    #[must_use]
    pub fn emulated_processor(self) -> &'static str {
        match self {
            Self::X86_64 => "max",
            Self::Arm64 => "cortex-a76",
        }
    }

    /// The kernel's name of the serial console.
    #[must_use]
    pub fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Arm64 => "ttyAMA0",
        }
    }

    /// The compiler for C in the root that compiles for it.
    #[must_use]
    pub fn c_compiler(self) -> &'static str {
        match self {
            Self::X86_64 => "clang",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// The compiler's name for it where it has to be named.
    #[must_use]
    pub fn cross_target(self) -> Option<&'static str> {
        match self {
            Self::X86_64 => None,
            Self::Arm64 => Some("aarch64-unknown-linux-gnu"),
        }
    }

    /// What starts one of its programs in the root that compiles for it.
    #[must_use]
    pub fn program_emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "",
            Self::Arm64 => "qemu-aarch64 ",
        }
    }
}

impl FromStr for Architecture {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(architecture, _)| *architecture).context("amd64 or arm64")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for architecture in [Architecture::X86_64, Architecture::Arm64] {
            assert_eq!(architecture.name().parse::<Architecture>().unwrap(), architecture);
        }
        assert!("arm".parse::<Architecture>().is_err());
    }
}
