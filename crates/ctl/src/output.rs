//! Where and how results are printed.

use std::io::{self, IsTerminal, Write};

use scherzo_api::types::State;
use scherzo_i18n::{fill, gettext};
use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr;

use crate::cli::Colour;

/// Version of every JSON document; grows when a field changes its meaning, not when one is added.
const SCHEMA: u64 = 2;

pub(crate) struct Output {
    pub(crate) json: bool,
    /// A person looks, on a terminal whose cursor can be moved.
    pub(crate) can_redraw: bool,
    colour: bool,
}

impl Output {
    pub(crate) fn new(json: bool, colour: Colour) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb");
        let can_redraw = !json && !is_dumb && io::stdout().is_terminal();
        let colour = match colour {
            Colour::Auto => can_redraw && !unwanted,
            Colour::Always => !json,
            Colour::Never => false,
        };
        Self { json, can_redraw, colour }
    }

    /// Prints a message that is no failure on standard error.
    pub(crate) fn note(&self, text: &str) {
        if self.json {
            document_beside(Map::from_iter([("note".to_owned(), text.into())]));
        } else {
            remark(text);
        }
    }

    /// Colours the part of a sentence between two `*` by the state; the words alone say the same.
    pub(crate) fn mark(&self, state: Option<State>, sentence: &str) -> String {
        let colour = match state {
            Some(State::Running) => "32",
            Some(State::Degraded | State::Starting | State::Fallback) => "33",
            Some(State::Unsupported | State::Foreign) => "31",
            Some(State::Stopped) | None => return sentence.replace('*', ""),
        };
        if !self.colour {
            return sentence.replace('*', "");
        }
        sentence.replacen('*', &format!("\x1b[{colour}m"), 1).replacen('*', "\x1b[0m", 1)
    }
}

/// Fills a cell to `width` columns of the terminal, text on the left.
pub(crate) fn left(text: &str, width: usize) -> String {
    format!("{text}{}", filler(text, width))
}

/// As [`left`], text on the right.
pub(crate) fn right(text: &str, width: usize) -> String {
    format!("{}{text}", filler(text, width))
}

/// Letters of some scripts are two columns wide, so `format!` cannot do it.
fn filler(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.width()))
}

/// Prints a line.
pub(crate) fn line(text: &str) {
    end_without_reader(writeln!(io::stdout(), "{text}"));
}

/// Prints a text that ends its own lines.
pub(crate) fn text(text: &str) {
    end_without_reader(write!(io::stdout(), "{text}"));
}

/// When the reader has closed the pipe, as `head` does, the program ends successfully: `monitor` would go on for ever. Any
/// other error, such as a full disk, is a failure, since the output is incomplete.
fn end_without_reader(printed: io::Result<()>) {
    match printed.and_then(|()| io::stdout().flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            remark(&fill(&gettext("Cannot print: {error}."), &[("error", &error)]));
            std::process::exit(1);
        }
    }
}

/// Prints a message on standard error. If that is closed, this is no failure.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "scherzoctl: {text}");
}

/// Prints a document on one line.
pub(crate) fn document(fields: Map<String, Value>) {
    line(&with_schema(fields).to_string());
}

/// As [`document`], on standard error: standard output may belong to a command, or have half a document.
pub(crate) fn document_beside(fields: Map<String, Value>) {
    let _ = writeln!(io::stderr(), "{}", with_schema(fields));
}

fn with_schema(mut fields: Map<String, Value>) -> Value {
    fields.insert("schema".to_owned(), SCHEMA.into());
    fields.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_wide_as_they_look() {
        assert_eq!(left("ab", 4), "ab  ");
        assert_eq!(right("理由", 6), "  理由");
        assert_eq!(right("too long", 3), "too long");
    }

    #[test]
    fn the_marked_part_has_the_colour() {
        let plain = Output { json: false, can_redraw: false, colour: false };
        assert_eq!(plain.mark(Some(State::Running), "It *runs* now."), "It runs now.");
        let coloured = Output { json: false, can_redraw: true, colour: true };
        assert_eq!(coloured.mark(Some(State::Running), "It *runs* now."), "It \u{1b}[32mruns\u{1b}[0m now.");
    }
}
