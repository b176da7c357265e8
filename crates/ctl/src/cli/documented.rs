//! The documentation names what can be typed.

use std::fs;
use std::path::Path;

use clap::CommandFactory;

use super::values::ALIASES;
use super::*;

/// What the documentation calls `scherzoctl` with, up to where another command or a remark begins.
fn calls() -> Vec<Vec<String>> {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let entries = ["", "docs"].into_iter().flat_map(|folder| fs::read_dir(top.join(folder)).unwrap());
    let pages =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    let text: String = pages.map(|page| fs::read_to_string(page).unwrap()).collect();
    let is_end = |word: &&str| matches!(*word, "--" | "#" | "&&" | "|" | "and");
    let line = |call: &str| call.split(['\n', '`', '\'', ',', ')', ';']).next().unwrap_or_default().to_owned();
    let words =
        |call: &str| line(call).split_whitespace().take_while(|word| !is_end(word)).map(str::to_owned).collect();
    text.split("scherzoctl ").skip(1).map(words).collect()
}

#[test]
fn commands_in_the_documentation_exist() {
    let program = Options::command();
    let mut nr_checked = 0;
    for words in calls() {
        let mut command = &program;
        for word in &words {
            let is_global = |name: &str| program.get_arguments().any(|argument| argument.get_long() == Some(name));
            if let Some(name) = word.strip_prefix("--") {
                let known = command.get_arguments().any(|argument| argument.get_long() == Some(name));
                assert!(known || is_global(name), "the documentation names `scherzoctl {}`", words.join(" "));
            } else if let Some(next) = command.find_subcommand(word) {
                command = next;
                nr_checked += 1;
            } else {
                break;
            }
        }
    }
    assert!(nr_checked >= 20, "only {nr_checked} commands were found");
}

#[test]
fn modes_of_scxctl_are_understood_and_documented() {
    let page = include_str!("../../../../docs/scxctl.md");
    for (alias, mode) in ALIASES {
        for arguments in [&["scherzoctl", "mode", alias][..], &["scherzoctl", "hold", "-r", "why", "-m", alias]] {
            let understood = match Options::try_parse_from(arguments).unwrap().command {
                Command::Mode { mode, .. } => mode,
                Command::Hold(hold) => Some(hold.mode),
                other => panic!("{other:?}"),
            };
            assert_eq!(understood.as_deref(), Some(mode.name()), "{alias}");
        }
        let row = page.lines().find(|line| line.starts_with(&format!("| `{alias}` |"))).unwrap();
        assert!(row.contains(&format!("`{}`", mode.name())), "{row}");
    }
}

/// In examples that are set off, every word after the program is checked: the first is a command.
#[test]
fn examples_name_a_command_first() {
    let program = Options::command();
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for page in ["README.md", "docs/modes.md", "docs/configuration.md", "docs/troubleshooting.md", "docs/scxctl.md"] {
        let text = fs::read_to_string(top.join(page)).unwrap();
        for example in text.lines().filter_map(|line| line.strip_prefix("    scherzoctl ")) {
            let first = example.split_whitespace().find(|word| !word.starts_with("--")).unwrap_or_default();
            assert!(program.find_subcommand(first).is_some(), "{page} names `scherzoctl {example}`");
        }
    }
}
