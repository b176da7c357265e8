//! Where something is wrong in a scenario, and why.

use std::fmt::Display;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing that is wrong: where, and why.
pub(super) struct ScenarioError(pub(super) Range<usize>, pub(super) String);

pub(super) fn in_range<T: PartialOrd + Display + Copy>(
    key: &str,
    value: &Spanned<T>,
    low: T,
    high: T,
) -> Result<(), ScenarioError> {
    let number = value.get_ref();
    if *number < low || *number > high {
        return Err(ScenarioError(value.span(), format!("{key} is {number}, allowed is {low} to {high}")));
    }
    Ok(())
}

/// A value that no file names.
pub(super) fn assumed<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// The file names it.
pub(super) fn is_named<T>(value: &Spanned<T>) -> bool {
    !value.span().is_empty()
}

pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

/// The key of the value that is there. What the parser says of a value of the wrong type does not name it.
pub(super) fn key_at(text: &str, at: usize) -> Option<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    key_in(table.get_ref(), at)
}

/// In tables within it first: a value within an array has the key of the innermost table.
fn key_in(table: &DeTable, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let within = match value.get_ref() {
            DeValue::Table(inner) => return key_in(inner, at),
            DeValue::Array(values) => values.iter().find_map(|value| match value.get_ref() {
                DeValue::Table(inner) => key_in(inner, at),
                _ => None,
            }),
            _ => None,
        };
        within.or_else(|| value.span().contains(&at).then(|| key.get_ref().to_string()))
    })
}
