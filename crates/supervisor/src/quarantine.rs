//! A kernel and a version of Scherzo that do not work together.

use scherzo_catalogue::types::Reason;

use super::event::Fault;

/// What runs on what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Release of the kernel.
    pub kernel: String,
    /// Version of Scherzo.
    pub version: String,
}

/// Nothing is loaded while this build is the one that runs, until someone turns Scherzo on anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// What did not work.
    pub build: Build,
    /// The last failure.
    pub cause: Fault,
}

impl Quarantine {
    /// Why nothing runs.
    #[must_use]
    pub fn to_fault(&self) -> Fault {
        let mut details = self.cause.details.clone();
        let Build { kernel, version } = &self.build;
        for (name, text) in [("kernel", kernel.as_str()), ("version", version), ("cause", self.cause.reason.name())] {
            details.insert(name.to_owned(), text.into());
        }
        Fault { reason: Reason::Quarantined, details }
    }
}
