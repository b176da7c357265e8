//! The modes as the GNOME Shell extension knows them.

use std::fmt::Write as _;

use scherzo_model::Mode;

const HEAD: &str = "\
// SPDX-License-Identifier: GPL-2.0-or-later
// `cargo xtask codegen` writes this file from crates/model: change that.

import {gettext as _} from 'resource:///org/gnome/shell/extensions/extension.js';

";

/// The whole file.
pub(super) fn text() -> String {
    let names = Mode::ALL.map(|mode| quoted(mode.name())).join(", ");
    let mut text = format!("{HEAD}/** What modes are called on D-Bus. */\nexport const NAMES = [{names}];\n");
    let titles = Mode::ALL.map(|mode| (mode, format!("_({})", quoted(mode.title()))));
    function(&mut text, "What a mode is called; its name if it is one of a newer service.", "title", &titles, "mode");
    let short = Mode::ALL.into_iter().filter_map(|mode| Some((mode, quoted(mode.short_title()?))));
    let short: Vec<_> = short.collect();
    function(&mut text, "As title, where there is little room.", "shortTitle", &short, "title(mode)");
    text
}

/// A function of a mode's name, with what it returns for some modes and for all others.
fn function(text: &mut String, what: &str, name: &str, values: &[(Mode, String)], otherwise: &str) {
    let _ = write!(text, "\n/**\n * {what}\n *\n * @param {{string}} mode - as the service calls it\n */\n");
    let _ = write!(text, "export function {name}(mode) {{\n    switch (mode) {{\n");
    for (mode, value) in values {
        let _ = write!(text, "    case {}:\n        return {value};\n", quoted(mode.name()));
    }
    let _ = write!(text, "    default:\n        return {otherwise};\n    }}\n}}\n");
}

/// As JavaScript; names and titles have no control characters.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_an_icon() {
        let icons = crate::checkout().unwrap().join("data/icons/hicolor/symbolic/apps");
        for mode in Mode::ALL {
            let icon = icons.join(format!("scherzo-{}-symbolic.svg", mode.name()));
            assert!(icon.exists(), "{}", icon.display());
        }
    }

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quoted("the kernel's"), r"'the kernel\'s'");
    }
}
