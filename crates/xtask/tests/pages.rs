//! What the documentation names exists: pages that it links to, headings in them, files of the checkout.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose pages are read, and what is not ours in them.
const FOLDERS: &[&str] = &[
    "",
    "docs",
    "docs/decisions",
    "docs/design",
    "docs/machines",
    "packaging",
    "packaging/arch",
    "packaging/debian",
    "packaging/fedora",
];
/// What paths of the checkout begin with.
const TOP: &[&str] = &["crates/", "data/", "dbus/", "docs/", "packaging/", "po/"];

fn checkout() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let entries = fs::read_dir(checkout().join(folder)).expect("the folder is there");
        let paths = entries.map(|entry| entry.expect("the folder can be read").path());
        found.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    assert!(found.len() >= 10, "only {} pages were found", found.len());
    found
}

/// The targets of a page's links and pictures.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target)).collect()
}

/// Headings as GitHub names them in links.
fn anchors(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |char: &char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_');
    titles.map(|title| title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            if link.starts_with("https://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(target.exists(), "{} links to {link}", page.display());
            if !anchor.is_empty() {
                let known = anchors(&fs::read_to_string(&target).unwrap());
                assert!(known.contains(anchor), "{} links to {link}; there are {known:?}", page.display());
            }
        }
    }
}

/// What stands between single backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with("    ")).flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn files_of_the_checkout_exist() {
    let mut nr_paths = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let is_path = |word: &&str| TOP.iter().any(|top| word.starts_with(top)) && !word.contains(['*', ' ', '<']);
        for path in code(&text).filter(is_path) {
            nr_paths += 1;
            assert!(checkout().join(path).exists(), "{} names {path}", page.display());
        }
    }
    assert!(nr_paths >= 10, "only {nr_paths} paths were found");
}

/// The statements of a page that must stay true, each in one line.
fn invariants(text: &str) -> Vec<String> {
    let begins = |line: &str| line.starts_with("- **Invariant:**");
    let mut found = Vec::<String>::new();
    let mut is_inside = false;
    for line in text.lines() {
        is_inside = begins(line) || (is_inside && line.starts_with("  "));
        match found.last_mut() {
            _ if begins(line) => found.push(line.to_owned()),
            Some(last) if is_inside => *last = format!("{last} {}", line.trim()),
            _ => {}
        }
    }
    found
}

/// What is wrong with the evidence of an invariant: files of the checkout after "Held by", and after each in parentheses
/// what is meant in it, a test or a type.
fn missing_evidence(invariant: &str) -> Option<String> {
    let Some((_, evidence)) = invariant.split_once("Held by ") else {
        return Some("nothing is said to hold it".into());
    };
    let mut file = String::new();
    let mut nr_names = 0;
    for word in code(evidence) {
        if TOP.iter().any(|top| word.starts_with(top)) || word == "Cargo.toml" {
            match fs::read_to_string(checkout().join(word)) {
                Ok(text) => file = text,
                Err(error) => return Some(format!("{word}: {error}")),
            }
        } else {
            nr_names += 1;
            let is_word = |char: char| char.is_alphanumeric() || char == '_';
            if !file.split(|char| !is_word(char)).any(|found| found == word) {
                return Some(format!("there is no {word} in the file before it"));
            }
        }
    }
    (nr_names == 0).then(|| "no test or type is named".into())
}

#[test]
fn every_invariant_names_what_holds_it() {
    let mut nr_invariants = 0;
    for page in pages() {
        for invariant in invariants(&fs::read_to_string(&page).unwrap()) {
            nr_invariants += 1;
            assert_eq!(missing_evidence(&invariant), None, "{}: {invariant}", page.display());
        }
    }
    assert!(nr_invariants >= 20, "only {nr_invariants} invariants were found");
}

#[test]
fn evidence_that_is_not_there_is_noticed() {
    let of = |evidence: &str| missing_evidence(&format!("- **Invariant:** a `b`. {evidence}"));
    assert_eq!(of("Held by `Cargo.toml` (`unsafe_code`)."), None);
    for evidence in ["", "Held by `Cargo.toml`.", "Held by `Cargo.toml` (`unsafe`).", "Held by `crates/none.rs` (`a`)."]
    {
        assert!(of(evidence).is_some(), "{evidence:?}");
    }
    let page = "- **Invariant:** one\n  goes on\n- other\n  line\n- **Invariant:** two\n";
    assert_eq!(invariants(page), ["- **Invariant:** one goes on", "- **Invariant:** two"]);
}

#[test]
fn links_and_headings_are_understood() {
    assert_eq!(links("a [b](c.md#d) ![e](f.png)"), ["c.md#d", "f.png"]);
    assert_eq!(anchors("# Who decides, the mode\n## A-b"), ["who-decides-the-mode".to_owned(), "a-b".into()].into());
}
