//! The project's source files, and which of their lines hold code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Where sources are.
const FOLDERS: &[&str] = &["crates", "data", "packaging"];
/// What `cargo xtask codegen` writes into the head of a file.
const GENERATED_MARK: &str = "`cargo xtask codegen` writes this file";
/// Lines of the head in which the mark is looked for.
const NR_HEAD_LINES: usize = 5;

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// Rust.
    Rust,
    /// C, which is BPF and the wire header.
    C,
    /// JavaScript.
    JavaScript,
    /// Python and shell: comments begin with `#`.
    Script,
}

/// A source file.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// Where it is, from the top of the checkout.
    pub(super) path: String,
    pub(super) language: Language,
    pub(super) text: String,
}

impl SourceFile {
    /// Whether the file is written by a program.
    pub(super) fn is_generated(&self) -> bool {
        self.text.lines().take(NR_HEAD_LINES).any(|line| line.contains(GENERATED_MARK))
    }

    /// Numbers of the lines that hold code, from 1: not the blank ones, and not those that hold nothing but comments.
    pub(super) fn code_lines(&self) -> Result<BTreeSet<usize>> {
        match self.language {
            Language::Rust => rust_lines(&self.text).with_context(|| format!("cannot read {}", self.path)),
            Language::C | Language::JavaScript => Ok(filled_lines(&without_comments(&self.text))),
            Language::Script => Ok(filled_lines(&without_hash_lines(&self.text))),
        }
    }
}

/// All source files of a checkout, sorted by path.
pub(super) fn sources(checkout: &Path) -> Result<Vec<SourceFile>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        collect(checkout, Path::new(folder), &mut found)?;
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(checkout: &Path, folder: &Path, found: &mut Vec<SourceFile>) -> Result<()> {
    let entries = checkout.join(folder).read_dir().with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(checkout, &path, found)?;
        } else if let Some(language) = language(&path) {
            let text = fs::read_to_string(entry.path()).with_context(|| format!("cannot read {}", path.display()))?;
            found.push(SourceFile { path: path.display().to_string(), language, text });
        }
    }
    Ok(())
}

fn language(path: &Path) -> Option<Language> {
    match path.extension()?.to_str()? {
        "rs" => Some(Language::Rust),
        "c" | "h" => Some(Language::C),
        "js" => Some(Language::JavaScript),
        "py" | "sh" => Some(Language::Script),
        _ => None,
    }
}

fn filled_lines(text: &str) -> BTreeSet<usize> {
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(index, _)| index + 1).collect()
}

/// The compiler's tokens know best where code is: comments are none, and doc comments are attributes.
fn rust_lines(text: &str) -> Result<BTreeSet<usize>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut lines = BTreeSet::new();
    add_lines(tokens, &mut lines);
    Ok(lines)
}

fn add_lines(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == '#'
        {
            // The `!` of inner attributes is on the same line.
            let _ = tokens.next_if(|next| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '!'));
            if tokens.next_if(is_doc_attribute).is_some() {
                continue;
            }
        }
        match token {
            TokenTree::Group(group) => {
                lines.extend([group.span_open().start().line, group.span_close().end().line]);
                add_lines(group.stream(), lines);
            }
            other => lines.extend(other.span().start().line..=other.span().end().line),
        }
    }
}

fn is_doc_attribute(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket && matches!(first, Some(TokenTree::Ident(ident)) if ident == "doc")
}

/// C or JavaScript with blanks in place of comments and of what strings hold. Lines stay where they are.
pub(super) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, is_comment) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
            '/' if rest.starts_with("/*") => (rest.find("*/").map_or(rest.len(), |at| at + 2), true),
            '"' | '\'' | '`' => (string_length(rest, first), false),
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        let (skipped, after) = rest.split_at(length);
        out.extend(skipped.chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
        if !is_comment {
            // A string counts as code on the line where it ends.
            out.pop();
            out.push(first);
        }
        rest = after;
    }
    out
}

/// How long the string is that `text` begins with, its quotes included.
fn string_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        if char == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    text.len()
}

fn without_hash_lines(text: &str) -> String {
    let line = |line: &'_ str| if line.trim_start().starts_with('#') { String::new() } else { line.to_owned() };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nr_lines(language: Language, text: &str) -> usize {
        SourceFile { path: String::new(), language, text: text.into() }.code_lines().unwrap().len()
    }

    #[test]
    fn comments_and_blank_lines_of_rust_are_not_code() {
        let text =
            "//! Head.\n\n/// Doc.\n#[must_use]\nfn a() { // why\n    /* more\n    */\n    b(\"x\n\n//y\");\n}\n";
        assert_eq!(nr_lines(Language::Rust, text), 6, "the string of three lines is code, and the attribute");
    }

    #[test]
    fn comments_and_blank_lines_of_c_are_not_code() {
        let text = "/*\n * Head.\n */\n\nint a(void) /* why */\n{\n\t// more\n\treturn b(\"/*\") + '\"';\n}\n";
        assert_eq!(nr_lines(Language::C, text), 4);
    }

    #[test]
    fn comments_of_scripts_are_not_code() {
        assert_eq!(nr_lines(Language::Script, "#!/bin/sh\n  # why\n\necho '# not one'\n"), 1);
    }

    #[test]
    fn generated_files_say_so_in_their_head() {
        let source = |text: &str| SourceFile { path: String::new(), language: Language::C, text: text.into() };
        assert!(source("/* `cargo xtask codegen` writes this file. */\n").is_generated());
        assert!(!source(&format!("{}/* `cargo xtask codegen` writes this file. */\n", "\n".repeat(5))).is_generated());
    }

    #[test]
    fn the_sources_of_this_checkout_are_found() {
        let found = sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).unwrap();
        for language in [Language::Rust, Language::C, Language::JavaScript, Language::Script] {
            assert!(found.iter().any(|source| source.language == language), "nothing is in {language:?}");
        }
    }
}
