//! Tables of the statistics.

use std::fmt::Write as _;

use scherzo_model::statistics::{ALL, RENAMED, USER_SHARE, find};

/// What `scherzoctl stats --json` prints.
pub(super) fn json_table() -> String {
    let mut text = String::from("| field | type | meaning |\n|---|---|---|\n");
    let whole = ALL.iter().map(|statistic| (statistic.key, statistic.text));
    for (key, meaning) in whole.chain([USER_SHARE]) {
        let _ = writeln!(text, "| `stats.{key}` | number | {meaning} |");
    }
    text.push_str(
        "| `wait_log2_us.*[]` | number | For each class (new, interactive, batch, kernel) how many waits fell into each \
         bucket: below 1 µs, below 2 µs, below 4 µs and so on; the last holds all that were longer. |\n",
    );
    text
}

/// What was renamed, for clients of the version before.
pub(super) fn renamed_table() -> String {
    let mut text = String::from("| old name | new name | meaning |\n|---|---|---|\n");
    for (old, new) in RENAMED {
        let meaning = find(new).map_or("", |statistic| statistic.text);
        let _ = writeln!(text, "| `{old}` | `{new}` | {meaning} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_every_statistic() {
        assert_eq!(json_table().lines().count(), 2 + ALL.len() + 2);
        assert!(renamed_table().contains("| `nr_custody` | `nr_in_flight` | In-flight tasks"));
    }
}
