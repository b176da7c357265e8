//! `cargo xtask docs`: the pages and tables that are written out of what they describe.

mod interface;
pub(crate) mod kernels;
mod licences;
mod modes;
mod settings;
mod statistics;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;

/// Around what is generated on a page that people write.
const BEGIN: &str = "<!-- `cargo xtask docs` writes from here -->";
const END: &str = "<!-- to here -->";

#[derive(Args)]
pub(crate) struct Options {
    /// Change nothing; fail if a page is stale
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(checkout: &Path, options: &Options) -> Result<ExitCode> {
    if options.check {
        check(checkout)?;
    } else {
        write(checkout)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Brings every page up to date.
pub(crate) fn write(checkout: &Path) -> Result<()> {
    for (page, text) in pages(checkout)? {
        fs::write(checkout.join(page), text)?;
    }
    Ok(())
}

/// Fails if a page is not what its sources say.
pub(crate) fn check(checkout: &Path) -> Result<()> {
    for (page, text) in pages(checkout)? {
        let committed = fs::read_to_string(checkout.join(page)).with_context(|| format!("cannot read {page}"))?;
        ensure!(committed == text, "{page} is stale: run `cargo xtask docs`");
    }
    Ok(())
}

/// Each generated page with the text that it should have.
fn pages(checkout: &Path) -> Result<Vec<(&'static str, String)>> {
    const SETTINGS: &str = "docs/configuration.md";
    const MODES: &str = "docs/modes.md";
    const JSON: &str = "docs/json.md";
    const KERNELS: &str = "docs/kernels.md";
    let read = |path: &str| fs::read_to_string(checkout.join(path)).with_context(|| format!("cannot read {path}"));
    Ok(vec![
        ("docs/dbus.md", interface::page(&read("dbus/org.scherzo.Scheduler1.xml")?)?),
        (SETTINGS, between(&read(SETTINGS)?, &settings::tables(&read("data/scherzo.toml")?)?)?),
        (MODES, between(&read(MODES)?, &modes::table())?),
        (JSON, between(&read(JSON)?, &statistics::json_table())?),
        (KERNELS, between(&read(KERNELS)?, &kernels::table(&read(kernels::RECORD)?)?)?),
        ("docs/licences.md", licences::page(checkout)?),
    ])
}

/// A page with other text between the marks.
fn between(page: &str, text: &str) -> Result<String> {
    let (head, rest) = page.split_once(BEGIN).context("the page has no mark where the generated part begins")?;
    let (_, tail) = rest.split_once(END).context("the page has no mark where the generated part ends")?;
    Ok(format!("{head}{BEGIN}\n\n{}\n\n{END}{tail}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(between(&page, "new").unwrap(), format!("a\n{BEGIN}\n\nnew\n\n{END}\nb\n"));
        assert!(between("a", "new").is_err());
    }
}
