//! What the documentation names exists: pages that it links to, headings in them, files of the checkout.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose pages are read, and what is not ours in them.
const FOLDERS: &[&str] = &["", "docs", "packaging", "packaging/arch", "packaging/debian", "packaging/fedora"];
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

#[test]
fn links_and_headings_are_understood() {
    assert_eq!(links("a [b](c.md#d) ![e](f.png)"), ["c.md#d", "f.png"]);
    assert_eq!(anchors("# Who decides, the mode\n## A-b"), ["who-decides-the-mode".to_owned(), "a-b".into()].into());
}
