use std::io;
use std::path::PathBuf;

/// A file of the host that could not be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Writing failed.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The content is not what this program understands.
    #[error("{} holds {found:?}, expected {expected}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it holds, cut short.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
}

impl Error {
    /// True if the file does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } | Self::Write { source, .. }
            if source.kind() == io::ErrorKind::NotFound)
    }
}
