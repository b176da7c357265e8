//! What the programs contain that is not ours, under which licences; and whether they may.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use scherzo_install::programs;
use serde_json::Value;

/// Licences whose conditions GPL-2.0-only can meet as well. Apache-2.0 alone is none of them.
const COMPATIBLE: &[&str] = &[
    "0BSD",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "GPL-2.0-only",
    "GPL-2.0-or-later",
    "ISC",
    "LGPL-2.1-only",
    "LGPL-2.1-or-later",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that are dependencies by name, while nothing of theirs is in a program, and why.
const NOT_CONTAINED: &[(&str, &str)] = &[(
    "clang-sys",
    "`scx_utils` names `bindgen`, which uses it, among its ordinary dependencies for the sake of build scripts; the engine \
     calls neither",
)];

/// Crates that are there in two versions, and why. Any other is an error: it costs space, and time to look after.
const TWICE: &[(&str, &str)] = &[
    ("syn", "half of the procedural macros have moved on; it is in no program"),
    ("zbus", "`ksni` brings an earlier one into the tray applet"),
    ("zbus_macros", "the same"),
];

/// The only place that crates come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The page; an error if a licence does not go with ours.
pub(super) fn page(checkout: &Path) -> Result<String> {
    let metadata = metadata(checkout)?;
    let mut by_licence: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut left_out = String::new();
    let contained = contained(&metadata)?;
    for (name, version, licence) in contained.clone() {
        if let Some((_, why)) = NOT_CONTAINED.iter().find(|(other, _)| *other == name) {
            writeln!(left_out, "- `{name}` ({licence}): {why}.")?;
            continue;
        }
        ensure!(is_compatible(&licence)?, "{name} {version} is under {licence}, which does not go with GPL-2.0-only");
        by_licence.entry(licence).or_default().insert(format!("{name} {version}"));
    }
    let mut page = String::from(
        "# Licences\n\n<!-- `cargo xtask docs` writes this page from what cargo knows. -->\n\n\
         Scherzo is under [GPL-2.0-only](../LICENSE), its extension for GNOME Shell under GPL-2.0-or-later, its AppStream metadata under \
         CC0-1.0. Its programs are made from these crates, \
         each under a licence whose conditions can be met together with that one; the lint tier of `cargo xtask test` fails \
         when one is not. They also use these libraries of the system: the C library, libelf, zlib, GTK and libadwaita (LGPL, \
         Zlib).\n\n| licence | crates |\n|---|---|\n",
    );
    for (licence, crates) in &by_licence {
        writeln!(page, "| {licence} | {} |", crates.iter().cloned().collect::<Vec<_>>().join(", "))?;
    }
    page += "\nDependencies in name only, of which no program contains anything:\n\n";
    page += &left_out;
    page += "\nIn two versions:\n\n";
    for (name, why) in twice(&contained)? {
        writeln!(page, "- `{name}`: {why}.")?;
    }
    Ok(page)
}

/// Crates in more than one version, with the reason that is known for each; an error if none is, or if it is out of date.
fn twice(crates: &BTreeSet<(String, String, String)>) -> Result<Vec<(&'static str, &'static str)>> {
    let mut nr_versions: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, ..) in crates {
        *nr_versions.entry(name).or_default() += 1;
    }
    nr_versions.retain(|_, nr| *nr > 1);
    let unknown = nr_versions.keys().find(|name| !TWICE.iter().any(|(known, _)| known == *name));
    ensure!(unknown.is_none(), "{} is there in two versions", unknown.unwrap_or(&""));
    let gone = TWICE.iter().find(|(name, _)| !nr_versions.contains_key(name));
    ensure!(gone.is_none(), "{} is there only once: strike it from the list", gone.map_or("", |(name, _)| name));
    Ok(TWICE.to_vec())
}

fn metadata(checkout: &Path) -> Result<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments =
        ["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform=x86_64-unknown-linux-gnu"];
    let output = Command::new(cargo).args(arguments).current_dir(checkout).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Name, version and licence of every crate from elsewhere that the programs are made from, without what only builds them.
fn contained(metadata: &Value) -> Result<BTreeSet<(String, String, String)>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<_, _> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let is_code = |dep: &Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    let edges: BTreeMap<_, Vec<_>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            (
                text(&node["id"]),
                list(&node["deps"]).iter().filter(|dep| is_code(dep)).map(|dep| text(&dep["pkg"])).collect(),
            )
        })
        .collect();
    let ours = programs().0;
    let is_program = |id: &&String| ours.contains(&packages[*id]["name"].as_str().unwrap_or_default());
    let mut waiting: Vec<_> = packages.keys().filter(is_program).cloned().collect();
    ensure!(waiting.len() == ours.len(), "cargo does not know all of {}", ours.join(", "));
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if seen.insert(id.clone()) {
            waiting.extend(edges[&id].iter().cloned());
        }
    }
    let foreign = seen.iter().map(|id| &packages[id]).filter(|package| !package["source"].is_null());
    let stranger = foreign.clone().find(|package| package["source"] != REGISTRY);
    ensure!(
        stranger.is_none(),
        "{} does not come from crates.io",
        stranger.map_or(&Value::Null, |crate_| &crate_["name"])
    );
    Ok(foreign.map(|package| (text(&package["name"]), text(&package["version"]), text(&package["license"]))).collect())
}

/// Whether an SPDX expression can be met with compatible licences only. Older crates write a slash for OR.
fn is_compatible(expression: &str) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let answer = alternatives(&mut rest)?;
    ensure!(rest.is_empty(), "cannot read the licence {expression}");
    Ok(answer)
}

fn alternatives(words: &mut &[&str]) -> Result<bool> {
    let mut answer = conjunction(words)?;
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        answer |= conjunction(words)?;
    }
    Ok(answer)
}

fn conjunction(words: &mut &[&str]) -> Result<bool> {
    let mut answer = single(words)?;
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        answer &= single(words)?;
    }
    Ok(answer)
}

fn single(words: &mut &[&str]) -> Result<bool> {
    match **words {
        ["(", ..] => {
            *words = &words[1..];
            let answer = alternatives(words)?;
            ensure!(words.first() == Some(&")"), "a bracket is not closed");
            *words = &words[1..];
            Ok(answer)
        }
        [name, "WITH", exception, ..] => {
            *words = &words[3..];
            Ok(COMPATIBLE.contains(&format!("{name} WITH {exception}").as_str()))
        }
        [name, ..] => {
            *words = &words[1..];
            Ok(COMPATIBLE.contains(&name))
        }
        [] => bail!("a licence is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_version_needs_a_reason() {
        let crates = |names: &[&str]| {
            let numbered = names.iter().enumerate();
            numbered.map(|(nr, name)| ((*name).to_owned(), nr.to_string(), String::new())).collect::<BTreeSet<_>>()
        };
        let known = ["syn", "syn", "zbus", "zbus", "zbus_macros", "zbus_macros", "other"];
        assert_eq!(twice(&crates(&known)).unwrap(), TWICE);
        assert!(twice(&crates(&[&known[..], &["other"]].concat())).is_err());
        assert!(twice(&crates(&known[1..])).is_err());
    }

    /// The file for cargo-deny, which looks at more: also at what only builds and tests.
    #[test]
    fn cargo_deny_is_told_the_same() {
        let file = std::fs::read_to_string(crate::checkout().unwrap().join("deny.toml")).unwrap();
        let file: toml::Table = file.parse().unwrap();
        let list = |table: &str, key: &str| file[table][key].as_array().unwrap().clone();
        let allowed = list("licenses", "allow");
        assert_eq!(allowed.iter().map(|name| name.as_str().unwrap()).collect::<Vec<_>>(), COMPATIBLE);
        let names = |entries: Vec<toml::Value>| -> BTreeSet<String> {
            let name = |entry: &toml::Value| entry["crate"].as_str().unwrap().split('@').next().unwrap().to_owned();
            entries.iter().map(name).collect()
        };
        let excepted = names(list("licenses", "exceptions"));
        assert!(NOT_CONTAINED.iter().all(|(name, _)| excepted.contains(*name)), "{excepted:?}");
        let skipped = names(list("bans", "skip"));
        assert!(TWICE.iter().all(|(name, _)| skipped.contains(*name)), "{skipped:?}");
    }

    #[test]
    fn an_expression_is_met_if_one_of_its_ways_is() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "Apache-2.0/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
        ] {
            assert!(is_compatible(good).unwrap(), "{good}");
        }
        for bad in ["Apache-2.0", "MIT AND Apache-2.0", "GPL-3.0-only", "(MIT AND MPL-2.0) OR GPL-3.0-or-later"] {
            assert!(!is_compatible(bad).unwrap(), "{bad}");
        }
        assert!(is_compatible("").is_err() && is_compatible("(MIT").is_err() && is_compatible("MIT MIT").is_err());
    }
}
