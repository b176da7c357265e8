//! The table of modes.

use std::fmt::Write as _;

use scherzo_model::Mode;

/// What each mode is for, does and costs.
pub(super) fn table() -> String {
    let mut text = String::from("| mode | for | what it does | what it costs |\n|---|---|---|---|\n");
    for mode in Mode::ALL {
        let [suits, effect, cost] = mode.documentation();
        let _ = writeln!(text, "| `{}` | {suits} | {effect} | {cost} |", mode.name());
    }
    text.push_str(
        "| `auto` | | Scherzo chooses among the others: programs that hold a mode, the battery, the power profile | |\n",
    );
    text
}
