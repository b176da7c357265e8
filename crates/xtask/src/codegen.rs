//! `cargo xtask codegen`: the files that repeat what `scherzo-model` says, because what reads them cannot read Rust.
//! Documents are brought up to date with them, see [`docs`].

mod contract;
mod extension;
mod header;
mod policies;
mod settings;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::docs;

#[derive(Args)]
pub(crate) struct CodegenOptions {
    /// Change nothing; fail if a file is stale
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(checkout: &Path, options: &CodegenOptions) -> Result<ExitCode> {
    if options.check {
        check(checkout)?;
    } else {
        for (file, text) in files_with_contract(checkout)? {
            write(&checkout.join(file), &text)?;
        }
        docs::write(checkout)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if a file is not what the model says.
pub(crate) fn check(checkout: &Path) -> Result<()> {
    for (file, text) in files_with_contract(checkout)? {
        let committed = fs::read_to_string(checkout.join(file)).with_context(|| format!("cannot read {file}"))?;
        ensure!(committed == text, "{file} is stale: run `cargo xtask codegen`");
    }
    Ok(())
}

/// Leaves a file alone that is right, so that cargo does not build again what includes it.
fn write(file: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|present| present == text) {
        return Ok(());
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Each file with the text that it should have, also the one that is written by hand but for its lists of modes.
fn files_with_contract(checkout: &Path) -> Result<Vec<(&'static str, String)>> {
    const CONTRACT: &str = "dbus/org.scherzo.Scheduler1.xml";
    let present = fs::read_to_string(checkout.join(CONTRACT)).with_context(|| format!("cannot read {CONTRACT}"))?;
    let mut files = files();
    files.push((CONTRACT, contract::text(&present)));
    Ok(files)
}

/// Each file that is generated as a whole.
pub(crate) fn files() -> Vec<(&'static str, String)> {
    vec![
        ("crates/wire/include/scherzo_model.h", header::text()),
        ("crates/ctl/src/policies.rs", policies::text()),
        ("data/scherzo.toml", settings::text()),
        ("data/gnome-shell/scherzo@scherzo.org/modes.js", extension::text()),
    ]
}

/// Words in lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let nr_chars = lines.last().map_or(0, |line| line.chars().count());
        if nr_chars > 0 && nr_chars + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_what_the_model_says() {
        check(&crate::checkout().unwrap()).unwrap();
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
    }
}
