//! One sentence on standard error, and a stable exit code.

use std::process::ExitCode;

use scherzo_api::Error;
use scherzo_i18n::{gettext, known};
use scherzo_rules::Problem;

use crate::output;

pub(crate) const FAILURE: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const UNREACHABLE: u8 = 3;
const NOT_AUTHORIZED: u8 = 4;
const NOT_SUPPORTED: u8 = 5;
const CONFLICT: u8 = 6;
const NOT_RUNNING: u8 = 7;
const LOAD_FAILED: u8 = 8;
const BUSY: u8 = 9;

/// Why the command did not do what it should.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: u8,
    /// `None` if everything has been said.
    sentence: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, sentence: impl Into<String>) -> Self {
        Self { code, sentence: Some(sentence.into()) }
    }

    /// The output has said it already.
    pub(crate) fn told(code: u8) -> Self {
        Self { code, sentence: None }
    }

    pub(crate) fn unreachable() -> Self {
        Self::new(
            UNREACHABLE,
            gettext("The Scherzo service is not running. Start it with `sudo systemctl start scherzod`."),
        )
    }

    pub(crate) fn sentence(&self) -> Option<&str> {
        self.sentence.as_deref()
    }

    pub(crate) fn report(self) -> ExitCode {
        if let Some(sentence) = self.sentence {
            output::remark(&sentence);
        }
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if error.is_unreachable() {
            return Self::unreachable();
        }
        let code = match &error {
            Error::Bus(_) | Error::LimitReached(_) | Error::NoSuchHold(_) => FAILURE,
            Error::InvalidMode(_) | Error::InvalidArgs(_) | Error::InvalidSetting(_) => USAGE,
            Error::AccessDenied(_) | Error::InteractiveAuthorizationRequired(_) => NOT_AUTHORIZED,
            Error::NotSupported(_) => NOT_SUPPORTED,
            Error::Conflict(_) => CONFLICT,
            Error::NotRunning(_) => NOT_RUNNING,
            Error::LoadFailed(_) => LOAD_FAILED,
            Error::Busy(_) => BUSY,
        };
        // Those of the service's sentences that never vary are known to translators.
        Self::new(code, known(&error.to_string()))
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let code = if matches!(problem, Problem::Usage(_)) { USAGE } else { FAILURE };
        Self::new(code, problem.to_string())
    }
}

impl From<zbus::Error> for Failure {
    fn from(error: zbus::Error) -> Self {
        Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_errors() {
        let code = |error: Error| Failure::from(error).code;
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
    }
}
