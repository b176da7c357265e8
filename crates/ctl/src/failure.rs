//! Why a command failed: one sentence or one JSON document on standard error, and a stable exit code.

use std::process::ExitCode;

use scherzo_api::Error;
use scherzo_i18n::{gettext, known};
use scherzo_rules::Problem;
use serde_json::{Map, Value, json};

use crate::output::{self, Output};

/// What kind of failure it is. Exit code and id are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Failure,
    Usage,
    /// Nobody offers the service.
    Unreachable,
    NotAuthorized,
    NotSupported,
    /// Another scheduler is loaded.
    Conflict,
    /// The scheduler is not loaded.
    NotRunning,
    LoadFailed,
    Busy,
    /// The service runs and does not answer.
    NoAnswer,
    /// The scheduler was ejected, or could not be loaded, and the kernel's own runs.
    FellBack,
    /// A command cannot be started. This code and the next one are those of shells.
    CannotRun,
    NotFound,
}

impl Kind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::NotAuthorized => 4,
            Self::NotSupported => 5,
            Self::Conflict => 6,
            Self::NotRunning => 7,
            Self::LoadFailed => 8,
            Self::Busy => 9,
            Self::NoAnswer => 10,
            Self::FellBack => 11,
            Self::CannotRun => 126,
            Self::NotFound => 127,
        }
    }

    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::NotAuthorized => "not-authorized",
            Self::NotSupported => "not-supported",
            Self::Conflict => "conflict",
            Self::NotRunning => "not-running",
            Self::LoadFailed => "load-failed",
            Self::Busy => "busy",
            Self::NoAnswer => "no-answer",
            Self::FellBack => "fell-back",
            Self::CannotRun => "cannot-run",
            Self::NotFound => "not-found",
        }
    }
}

/// Why the command did not do what it should.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    kind: Kind,
    sentence: String,
    /// The output has said it already.
    is_told: bool,
}

impl Failure {
    pub(crate) fn new(kind: Kind, sentence: impl Into<String>) -> Self {
        Self { kind, sentence: sentence.into(), is_told: false }
    }

    /// The output has said it already.
    pub(crate) fn told(kind: Kind) -> Self {
        Self { is_told: true, ..Self::new(kind, "") }
    }

    pub(crate) fn unreachable() -> Self {
        Self::new(
            Kind::Unreachable,
            gettext("The Scherzo service is not running. Start it with `sudo systemctl start scherzod`."),
        )
    }

    pub(crate) fn no_answer() -> Self {
        Self::new(
            Kind::NoAnswer,
            gettext(
                "The Scherzo service is running but does not answer. `sudo systemctl restart scherzod` restarts it.",
            ),
        )
    }

    /// This failure, which the output has said already.
    pub(crate) fn without_words(self) -> Self {
        Self { is_told: true, ..self }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn sentence(&self) -> &str {
        &self.sentence
    }

    /// What JSON documents call `error`.
    pub(crate) fn document(&self) -> Value {
        json!({"id": self.kind.id(), "exit_code": self.kind.code(), "text": self.sentence})
    }

    /// Says it, unless that has been done.
    pub(crate) fn report(&self, output: &Output) -> ExitCode {
        if self.is_told {
        } else if output.json {
            output::document_beside(Map::from_iter([("error".to_owned(), self.document())]));
        } else {
            output::remark(&self.sentence);
        }
        ExitCode::from(self.kind.code())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if error.is_unreachable() {
            return Self::unreachable();
        }
        let kind = match &error {
            Error::Bus(_) | Error::LimitReached(_) | Error::NoSuchHold(_) | Error::NotStored(_) => Kind::Failure,
            Error::InvalidMode(_) | Error::InvalidArgs(_) | Error::InvalidSetting(_) => Kind::Usage,
            Error::AccessDenied(_) | Error::InteractiveAuthorizationRequired(_) => Kind::NotAuthorized,
            Error::NotSupported(_) => Kind::NotSupported,
            Error::Conflict(_) => Kind::Conflict,
            Error::NotRunning(_) => Kind::NotRunning,
            Error::LoadFailed(_) => Kind::LoadFailed,
            Error::Busy(_) => Kind::Busy,
            Error::NoAnswer(_) => return Self::no_answer(),
        };
        // The service's constant sentences are in the translators' template.
        Self::new(kind, known(&error.to_string()))
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let kind = if matches!(problem, Problem::Usage(_)) { Kind::Usage } else { Kind::Failure };
        Self::new(kind, problem.to_string())
    }
}

impl From<zbus::Error> for Failure {
    fn from(error: zbus::Error) -> Self {
        Error::from(error).into()
    }
}

/// Of this program's own.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Kind::Failure, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_errors() {
        let code = |error: Error| Failure::from(error).kind.code();
        assert_eq!(code(Error::InvalidMode(String::new())), 2);
        assert_eq!(code(Error::AccessDenied(String::new())), 4);
        assert_eq!(code(Error::NotSupported(String::new())), 5);
        assert_eq!(code(Error::Conflict(String::new())), 6);
        assert_eq!(code(Error::NotRunning(String::new())), 7);
    }

    #[test]
    fn a_missing_service_has_its_own_code() {
        let missing = zbus::fdo::Error::ServiceUnknown("no".into());
        assert_eq!(Failure::from(zbus::Error::FDO(Box::new(missing))), Failure::unreachable());
        assert_ne!(Failure::unreachable().kind.code(), Failure::no_answer().kind.code());
    }
}
