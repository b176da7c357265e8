//! Arguments of reasons: the `a{sv}` beside a stable id.

use std::collections::BTreeMap;
use std::fmt;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A number.
    Number(i64),
    /// A text, in English or as the kernel gave it.
    Text(String),
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl From<i64> for Detail {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Detail {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Detail {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Arguments by name.
pub type Details = BTreeMap<String, Detail>;
