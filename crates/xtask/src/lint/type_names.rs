//! One type name, one meaning: a name is defined in one file of the workspace only. What tests define is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::sources::{Language, SourceFile, sources};

/// Names that may be defined more than once, and why. Two types in one file are a widget and its private half, as GTK wants it.
const ALLOWED: &[(&str, &str)] = &[
    ("Arguments", "the command line of a program, by custom"),
    ("Command", "the subcommands of a program, by custom"),
    ("Options", "the options of a program, by custom"),
    ("Error", "the error of a library, by custom"),
];

/// Each name, and the files that define it.
type Definitions = BTreeMap<String, BTreeSet<String>>;

/// Prints how many names there are; an error if one is defined in more than one file.
pub(super) fn check(checkout: &Path) -> Result<()> {
    let definitions = definitions(&sources(checkout)?)?;
    println!("type names: {}, of which {} may be defined more than once", definitions.len(), ALLOWED.len());
    let mistakes = mistakes(&definitions);
    ensure!(mistakes.is_empty(), "{}", mistakes.join("; "));
    Ok(())
}

fn mistakes(definitions: &Definitions) -> Vec<String> {
    let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == name);
    let twice = definitions.iter().filter(|(name, files)| files.len() > 1 && !is_allowed(name)).map(|(name, files)| {
        let files: Vec<_> = files.iter().map(String::as_str).collect();
        format!("{name} is defined in {}: one type name, one meaning", files.join(" and "))
    });
    let once = ALLOWED.iter().filter(|(name, _)| definitions.get(*name).is_none_or(|files| files.len() < 2));
    twice.chain(once.map(|(name, _)| format!("{name} need not be allowed any more"))).collect()
}

fn definitions(sources: &[SourceFile]) -> Result<Definitions> {
    let mut found = Definitions::new();
    for source in sources.iter().filter(|source| source.language == Language::Rust && !is_test(&source.path)) {
        let tokens: TokenStream =
            source.text.parse().map_err(|error| anyhow::anyhow!("{error}")).context(source.path.clone())?;
        let mut names = Vec::new();
        add_types(tokens, false, &mut names);
        for name in names {
            found.entry(name).or_default().insert(source.path.clone());
        }
    }
    Ok(found)
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

/// Names that follow `struct`, `enum`, `union`, `trait` and `type`, but neither associated types nor what `#[cfg(test)]` hides.
fn add_types(tokens: TokenStream, is_associated: bool, names: &mut Vec<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let (mut is_hidden, mut has_associated) = (false, false);
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) => {
                let word = word.to_string();
                has_associated |= word == "impl" || word == "trait";
                let begins = matches!(word.as_str(), "struct" | "enum" | "union" | "trait")
                    || (word == "type" && !is_associated);
                if let Some(TokenTree::Ident(name)) = tokens.get(index + 1)
                    && begins
                    && !is_hidden
                {
                    names.push(name.to_string());
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => (is_hidden, has_associated) = (false, false),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                if !is_hidden {
                    add_types(group.stream(), has_associated, names);
                }
                (is_hidden, has_associated) = (false, false);
            }
            TokenTree::Group(group) => is_hidden |= group.stream().to_string().replace(' ', "") == "cfg(test)",
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Definitions {
        let source = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).into(),
            language: Language::Rust,
            text: (*text).into(),
        };
        definitions(&files.iter().map(source).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn types_are_found_wherever_they_are_and_not_what_belongs_to_a_trait_or_a_test() {
        let text = "struct A; mod m { pub enum B { C } } trait D { type E; } impl D for A { type E = u8; }\
                    fn f() { union G { a: u8 } } type H = u8; #[cfg(test)] mod tests { struct I; } struct J { a: u8 }";
        let names: Vec<_> = found(&[("a.rs", text)]).into_keys().collect();
        assert_eq!(names, ["A", "B", "D", "G", "H", "J"]);
    }

    #[test]
    fn a_name_in_two_files_is_a_mistake_unless_it_is_allowed() {
        let allowed = ALLOWED
            .iter()
            .flat_map(|(name, _)| [format!("struct {name};"), format!("mod imp {{ struct {name}; }} struct {name};")]);
        let texts: Vec<_> = allowed.collect();
        let paths: Vec<_> = (0..texts.len()).map(|number| format!("{number}.rs")).collect();
        let mut files: Vec<_> = paths.iter().zip(&texts).map(|(path, text)| (path.as_str(), text.as_str())).collect();
        files.extend([
            ("x.rs", "struct K;"),
            ("y.rs", "mod imp { struct L; } struct L;"),
            ("crates/a/src/tests.rs", "struct K;"),
        ]);
        assert_eq!(mistakes(&found(&files)), [""; 0]);
        files.push(("z.rs", "enum K {}"));
        assert_eq!(mistakes(&found(&files)), ["K is defined in x.rs and z.rs: one type name, one meaning"]);
        assert_eq!(
            mistakes(&found(&files[1..])),
            ["K is defined in x.rs and z.rs: one type name, one meaning", "Arguments need not be allowed any more"]
        );
    }

    #[test]
    fn this_checkout_keeps_to_it() {
        check(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).unwrap();
    }
}
