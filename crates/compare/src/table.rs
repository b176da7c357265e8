//! Tables in Markdown that read well in a terminal too.

use super::summary::Spread;

/// A figure with half its spread, where it was measured more than once; empty for none.
pub(super) fn cell(spread: Option<Spread>) -> String {
    match spread {
        None => String::new(),
        Some(spread) if spread.half() == 0.0 => number(spread.middle),
        Some(spread) => format!("{} ±{}", number(spread.middle), number(spread.half())),
    }
}

/// A Markdown table whose columns are as wide as their widest cell; the first row is the head.
pub(super) fn align(rows: &[Vec<String>]) -> String {
    let nr_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..nr_columns).map(|column| width(column).unwrap_or(0).max(2)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("| {cell:<width$} "),
            _ => format!("| {cell:>width$} "),
        });
        cells.collect::<String>() + "|"
    };
    let mark = |column: usize| if column == 0 { "-" } else { ":" };
    let rule = widths.iter().enumerate().map(|(column, width)| format!("|{}{}", "-".repeat(width + 1), mark(column)));
    let mut lines: Vec<_> = rows.iter().map(line).collect();
    lines.insert(1.min(lines.len()), rule.collect::<String>() + "|");
    lines.join("\n")
}

/// Prints as many digits as are significant.
pub(super) fn number(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
