//! Where directories are.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// The prefixes below which systemd and D-Bus look for units and services.
const SEARCHED: [&str; 2] = ["/usr", "/usr/local"];

/// Where the directories of an installation are, as the installed system sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What programs that people start are below.
    pub prefix: PathBuf,
    /// Programs that only programs start.
    pub libexec: PathBuf,
    /// What does not depend on the processor.
    pub data: PathBuf,
    /// What belongs to the administrator.
    pub sysconf: PathBuf,
    /// Where zsh looks for completions: Debian has a place of its own.
    pub zsh_completions: PathBuf,
}

/// A directory of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dir {
    Bin,
    Libexec,
    /// Below the directory for data.
    Data(&'static str),
    Zsh,
    /// The four that the system must find, whatever the prefix is.
    Units,
    UserUnits,
    BusActivation,
    BusPolicy,
    PolkitActions,
}

impl Default for Layout {
    /// As distributions install.
    fn default() -> Self {
        Self::below("/usr")
    }
}

impl Layout {
    /// The usual directories below a prefix.
    #[must_use]
    pub fn below(prefix: impl Into<PathBuf>) -> Self {
        let prefix = prefix.into();
        let data = prefix.join("share");
        let zsh_completions = data.join("zsh/site-functions");
        Self { libexec: prefix.join("libexec"), sysconf: "/etc".into(), data, zsh_completions, prefix }
    }

    /// Programs and units name each other by absolute paths.
    pub(crate) fn check(&self) -> Result<()> {
        for dir in [&self.prefix, &self.libexec, &self.data, &self.sysconf, &self.zsh_completions] {
            ensure!(dir.is_absolute(), "{} is not an absolute path", dir.display());
        }
        Ok(())
    }

    /// What templates may name.
    pub(crate) fn variables(&self) -> [(&'static str, PathBuf); 4] {
        [
            ("bindir", self.dir(Dir::Bin)),
            ("libexecdir", self.libexec.clone()),
            ("datadir", self.data.clone()),
            ("sysconfdir", self.sysconf.clone()),
        ]
    }

    pub(crate) fn dir(&self, dir: Dir) -> PathBuf {
        let found = if SEARCHED.iter().any(|prefix| self.prefix == Path::new(prefix)) {
            &self.prefix
        } else {
            Path::new("/usr/local")
        };
        match dir {
            Dir::Bin => self.prefix.join("bin"),
            Dir::Libexec => self.libexec.clone(),
            // No slash at the end.
            Dir::Data("") => self.data.clone(),
            Dir::Data(dir) => self.data.join(dir),
            Dir::Zsh => self.zsh_completions.clone(),
            Dir::Units => found.join("lib/systemd/system"),
            Dir::UserUnits => found.join("lib/systemd/user"),
            Dir::BusActivation => found.join("share/dbus-1/system-services"),
            // The bus looks in these two places only, polkit's older versions in this one only.
            Dir::BusPolicy if self.is_system() => PathBuf::from("/usr/share/dbus-1/system.d"),
            Dir::BusPolicy => self.sysconf.join("dbus-1/system.d"),
            Dir::PolkitActions => PathBuf::from("/usr/share/polkit-1/actions"),
        }
    }

    fn is_system(&self) -> bool {
        self.prefix == Path::new("/usr")
    }
}
