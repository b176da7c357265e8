//! The settings as tables, out of the commented file that is installed.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};

/// A table for each group of settings. In the file a paragraph that ends without a setting opens a group; what stands
/// before a setting describes it.
pub(super) fn tables(file: &str) -> Result<String> {
    let mut text = String::new();
    let mut comment = Vec::new();
    let mut nr_settings = 0;
    // The first paragraph is about the file itself.
    for line in file.split_once("\n\n").context("nothing but an introduction")?.1.lines() {
        let content = line.trim_start_matches('#').trim();
        match setting(line) {
            Some((key, value)) => {
                ensure!(!comment.is_empty(), "{key} is not described");
                writeln!(text, "| `{key}` | `{value}` | {} |", sentence(&comment))?;
                nr_settings += 1;
                comment.clear();
            }
            None if content.is_empty() => {
                if !comment.is_empty() {
                    writeln!(text, "\n{}\n\n| setting | default | meaning |\n|---|---|---|", comment.join(" "))?;
                }
                comment.clear();
            }
            None => comment.push(content),
        }
    }
    ensure!(nr_settings > 0, "there are no settings");
    Ok(text)
}

/// `#key = value`.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.strip_prefix('#')?.split_once(" = ")?;
    key.chars().all(|char| char.is_ascii_lowercase() || char == '_').then_some((key, value))
}

fn sentence(comment: &[&str]) -> String {
    comment.join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_become_tables() {
        let file = "# About the file.\n\n# One group.\n\n# What it does.\n#key_us = 5\n# Another,\n# longer.\n#other = \"x\"\n";
        let expected = "\nOne group.\n\n| setting | default | meaning |\n|---|---|---|\n| `key_us` | `5` | What it does. |\n\
                        | `other` | `\"x\"` | Another, longer. |\n";
        assert_eq!(tables(file).unwrap(), expected);
        assert!(tables("# a\n\n#key = 1\n").is_err());
    }
}
