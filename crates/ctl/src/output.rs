//! Where and how results are printed.

use std::io::{self, IsTerminal, Write};

use scherzo_api::types::State;
use serde_json::{Map, Value};

/// Version of every JSON document; grows when a field changes its meaning, not when one is added.
const SCHEMA: u64 = 1;

pub(crate) struct Output {
    pub(crate) json: bool,
    colour: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { json, colour: !json && !unwanted && io::stdout().is_terminal() }
    }

    /// Marks a word by how well things are; the word says it too.
    pub(crate) fn mark(&self, state: Option<State>, word: &str) -> String {
        let colour = match state {
            Some(State::Running) => "32",
            Some(State::Degraded | State::Starting | State::Fallback) => "33",
            Some(State::Unsupported | State::Foreign) => "31",
            Some(State::Stopped) | None => return word.to_owned(),
        };
        if self.colour { format!("\x1b[{colour}m{word}\x1b[0m") } else { word.to_owned() }
    }
}

/// Prints a line. A reader that has gone, such as `head`, is no failure.
pub(crate) fn line(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Prints a text that ends its own lines.
pub(crate) fn text(text: &str) {
    let _ = write!(io::stdout(), "{text}");
}

/// Prints a document on one line.
pub(crate) fn document(mut fields: Map<String, Value>) {
    fields.insert("schema".to_owned(), SCHEMA.into());
    line(&Value::Object(fields).to_string());
}
