//! How long functions are, in lines of code: comments and blank lines are not counted.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use proc_macro2::{Span, TokenStream, TokenTree};

use super::sources::{Language, SourceFile, without_comments};

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// File and line.
    pub(super) place: String,
    pub(super) nr_lines: usize,
}

/// All functions of a file; none in languages that are not measured.
pub(super) fn functions(source: &SourceFile) -> Result<Vec<Function>> {
    let spans = match source.language {
        Language::Rust => rust_functions(&source.text).with_context(|| format!("cannot read {}", source.path))?,
        Language::C => c_functions(&source.text),
        Language::JavaScript | Language::Script => return Ok(Vec::new()),
    };
    let code = source.code_lines()?;
    Ok(spans.into_iter().map(|lines| function(&source.path, &code, lines)).collect())
}

fn function(path: &str, code: &BTreeSet<usize>, (first, last): (usize, usize)) -> Function {
    Function { place: format!("{path}:{first}"), nr_lines: code.range(first..=last).count() }
}

/// First and last lines of Rust functions, wherever they stand: in modules, blocks of `impl`, other functions and
/// macros.
fn rust_functions(text: &str) -> Result<Vec<(usize, usize)>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut found = Vec::new();
    add_functions(tokens, &mut found);
    Ok(found)
}

/// `fn NAME`, and then the first braces before a semicolon. A type such as `fn(u8)` has no name.
fn add_functions(tokens: TokenStream, found: &mut Vec<(usize, usize)>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut begun: Option<Span> = None;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if ident == "fn" && matches!(tokens.get(index + 1), Some(TokenTree::Ident(_))) => {
                begun = Some(ident.span());
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => begun = None,
            TokenTree::Group(group) => {
                if group.delimiter() == proc_macro2::Delimiter::Brace
                    && let Some(span) = begun.take()
                {
                    found.push((span.start().line, group.span_close().end().line));
                }
                add_functions(group.stream(), found);
            }
            _ => {}
        }
    }
}

/// First and last lines of C functions: braces at the top level after a closing parenthesis, as in `int f(void) {` and
/// `int BPF_STRUCT_OPS(f) {`, from where the statement begins.
fn c_functions(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let (mut depth, mut begun, mut first) = (0_u32, None, None);
    let mut last_char = ' ';
    for (number, line) in code_of_c(text).lines().enumerate().map(|(index, line)| (index + 1, line)) {
        for char in line.chars().filter(|char| !char.is_whitespace()) {
            if depth == 0 {
                first.get_or_insert(number);
            }
            match char {
                '{' if depth == 0 && last_char == ')' => (depth, begun) = (1, first),
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && matches!(char, ';' | '}') {
                found.extend(begun.take().map(|begun| (begun, number)));
                first = None;
            }
            last_char = char;
        }
    }
    found
}

/// C without comments and without the preprocessor's lines.
fn code_of_c(text: &str) -> String {
    let mut continues = false;
    let without = without_comments(text);
    let keep = |line: &str| {
        let is_directive = continues || line.trim_start().starts_with('#');
        continues = is_directive && line.ends_with('\\');
        if is_directive { String::new() } else { line.to_owned() }
    };
    without.lines().map(keep).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(language: Language, text: &str) -> Vec<usize> {
        let source = SourceFile { path: "a".into(), language, text: text.into() };
        functions(&source).unwrap().iter().map(|function| function.nr_lines).collect()
    }

    #[test]
    fn rust_functions_are_found_wherever_they_are() {
        let text = "impl A {\n    fn a(f: fn(u8)) -> u8 {\n        // why\n\n        1\n    }\n}\ntrait T { fn t(); }\n\
                    macro! { fn m() {} }\nfn o() {\n    fn i() {\n    }\n}\n";
        assert_eq!(lengths(Language::Rust, text), [3, 1, 4, 2]);
    }

    #[test]
    fn c_functions_are_found_and_tables_are_none() {
        let text = "#define X(a) \\\n\t{ a; }\nstruct s {\n\tint a;\n};\nstatic int t[] = {\n\t1,\n};\n/* Doc. */\nstatic int\nf(int a)\n{\n\
                    \tif (a) {\n\t\treturn 1;\n\t}\n\n\treturn 0;\n}\ns32 BPF_STRUCT_OPS(g, int a) { return a; }\n";
        assert_eq!(lengths(Language::C, text), [8, 1]);
    }

    #[test]
    fn a_function_is_named_by_its_place() {
        let source = SourceFile { path: "a.rs".into(), language: Language::Rust, text: "\n\nfn f() {}\n".into() };
        assert_eq!(functions(&source).unwrap(), [Function { place: "a.rs:3".into(), nr_lines: 1 }]);
    }
}
