//! What a rule is, and what it is for.

use std::collections::BTreeMap;
use std::fmt;

use scherzo_api::types::RequestedMode;
use scherzo_i18n::{fill, gettext};

/// What an application asks for while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationRule {
    /// The mode, or that there is no rule.
    pub mode: RequestedMode,
    /// Its control group is in front.
    pub foreground: bool,
}

impl ApplicationRule {
    /// What has no mode of its own is no rule, and puts nothing in front.
    pub(crate) fn is_consistent(self) -> bool {
        !self.foreground || self.mode != RequestedMode::Auto
    }
}

impl From<RequestedMode> for ApplicationRule {
    fn from(mode: RequestedMode) -> Self {
        Self { mode, foreground: false }
    }
}

/// What is asked for, by desktop id (without `.desktop`) or path of the executable.
pub type ApplicationRules = BTreeMap<String, ApplicationRule>;

/// Why a rule could not be changed: a sentence for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// What was asked for makes no sense.
    Usage(String),
    /// It could not be done.
    Failed(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(sentence) | Self::Failed(sentence)) = self;
        f.write_str(sentence)
    }
}

impl std::error::Error for Problem {}

/// A desktop id without its ending, or an absolute path.
pub(crate) fn key_of(application: &str) -> Result<String, Problem> {
    let key = application.strip_suffix(".desktop").unwrap_or(application);
    let is_path = key.starts_with('/');
    if key.is_empty() || key.contains(char::is_control) || key.contains('/') && !is_path {
        let sentence = gettext("\"{application}\" is neither a desktop id nor the absolute path of an executable.");
        return Err(Problem::Usage(fill(&sentence, &[("application", &application)])));
    }
    Ok(key.to_owned())
}
