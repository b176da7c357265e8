//! Sizes and cycles: printed with every run, and held to what the project has promised itself.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use super::functions::{Function, functions};
use super::sources::{Language, SourceFile, sources};

/// Lines of code that a file may have.
const MAX_FILE_LINES: usize = 400;

/// Most lines of code of a function, at the median and the 90th percentile.
struct LengthLimits {
    median: usize,
    p90: usize,
}

const RUST: LengthLimits = LengthLimits { median: 8, p90: 20 };
const BPF: LengthLimits = LengthLimits { median: 27, p90: 27 };

/// The distribution of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lengths {
    nr: usize,
    median: usize,
    p90: usize,
    max: usize,
}

impl Lengths {
    fn of(mut lengths: Vec<usize>) -> Self {
        lengths.sort_unstable();
        let nr = lengths.len();
        let at = |percent: usize| lengths.get((nr * percent / 100).min(nr.saturating_sub(1))).copied().unwrap_or(0);
        Self { nr, median: at(50), p90: at(90), max: at(100) }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nr, median, p90, max } = self;
        write!(f, "{nr}, median {median} lines, 90th percentile {p90}, longest {max}")
    }
}

/// Prints how long files and functions are; an error if they are too long.
pub(super) fn check(checkout: &Path) -> Result<()> {
    let sources = sources(checkout)?;
    let mut mistakes = files(&sources)?;
    let rust = of_functions("Rust functions", &sources, |source| source.language == Language::Rust)?;
    let bpf = of_functions("BPF functions", &sources, |source| source.path.contains("/bpf/"))?;
    for (what, spread, limits) in [("Rust", rust, RUST), ("BPF", bpf, BPF)] {
        if spread.median > limits.median || spread.p90 > limits.p90 {
            let LengthLimits { median, p90 } = limits;
            mistakes.push(format!(
                "{what} functions are too long: at most {median} lines at the median, {p90} at the 90th percentile"
            ));
        }
    }
    if !mistakes.is_empty() {
        bail!("{}", mistakes.join("; "));
    }
    Ok(())
}

/// Prints how long files are, and returns what to say about those that are too long.
fn files(sources: &[SourceFile]) -> Result<Vec<String>> {
    let mut lengths = Vec::new();
    let mut too_long = Vec::new();
    for source in sources.iter().filter(|source| !source.is_generated()) {
        let nr_lines = source.code_lines()?.len();
        lengths.push(nr_lines);
        if nr_lines > MAX_FILE_LINES {
            let mistake = format!("{} has {nr_lines} lines of code; {MAX_FILE_LINES} are allowed", source.path);
            println!("{mistake}");
            too_long.push(mistake);
        }
    }
    let nr_generated = sources.len() - lengths.len();
    println!("files: {}; and {nr_generated} that are generated", Lengths::of(lengths));
    Ok(too_long)
}

fn of_functions(what: &str, sources: &[SourceFile], is_meant: impl Fn(&SourceFile) -> bool) -> Result<Lengths> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| is_meant(source) && !source.is_generated()) {
        found.extend(functions(source)?);
    }
    let spread = Lengths::of(found.iter().map(|function| function.nr_lines).collect());
    let longest = found.iter().max_by_key(|function| function.nr_lines);
    println!("{what}: {spread} ({})", longest.map_or("none", |Function { place, .. }| place));
    Ok(spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_of_sorted_lengths() {
        let spread = Lengths::of((1..=100).rev().collect());
        assert_eq!(spread, Lengths { nr: 100, median: 51, p90: 91, max: 100 });
        assert_eq!(Lengths::of(Vec::new()).max, 0);
    }

    #[test]
    fn files_that_are_too_long_are_named_unless_they_are_generated() {
        let source = |path: &str, head: &str| SourceFile {
            path: path.into(),
            language: Language::C,
            text: format!("{head}\n{}", "int a;\n".repeat(MAX_FILE_LINES + 1)),
        };
        let found =
            files(&[source("a.h", ""), source("b.h", "/* `cargo xtask codegen` writes this file. */")]).unwrap();
        assert_eq!(found, ["a.h has 401 lines of code; 400 are allowed"]);
    }
}
