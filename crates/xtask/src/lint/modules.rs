//! Which file of a crate needs which: by `use`, and by paths in code.
//!
//! A name that a module passes on (`pub use`) is followed to the file that defines it: passing on is no dependency of
//! the module that does it, unless it uses the name itself. Neither is `mod name;`. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

use super::cycles::Graph;

/// How often a name may be passed on before it is given up.
const MAX_HOPS: usize = 8;

/// The names of a path, such as `crate`, `core` and `State`.
type PathNames = Vec<String>;

/// A name that a `use` brings in; none for `*`.
#[derive(Debug)]
struct Import {
    path: PathNames,
    name: Option<String>,
    is_passed_on: bool,
}

#[derive(Debug, Default)]
struct Module {
    file: String,
    imports: Vec<Import>,
    /// Paths of at least two names in code.
    paths: BTreeSet<PathNames>,
    /// All words in code.
    words: BTreeSet<String>,
}

/// The modules below a crate's root, by their paths.
#[derive(Debug, Default)]
struct ModuleTree(BTreeMap<PathNames, Module>);

/// The files of a crate, each with those that it needs, named from the crate's `src`.
pub(super) fn graph(package: &Path) -> Result<Graph> {
    let src = package.join("src");
    let mut graph = Graph::new();
    for root in ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().filter(|path| path.exists()) {
        let mut tree = ModuleTree::default();
        tree.read(&src, &root, PathNames::new())?;
        tree.add_to(&mut graph);
    }
    Ok(graph)
}

impl ModuleTree {
    /// Reads a file and those of its modules.
    fn read(&mut self, src: &Path, file: &Path, path: PathNames) -> Result<()> {
        let what = || format!("cannot read {}", file.display());
        let parsed = syn::parse_file(&fs::read_to_string(file).with_context(what)?).with_context(what)?;
        let name = file.strip_prefix(src)?.display().to_string();
        self.add(src, &folder_of(file), name, path, parsed.items)
    }

    fn add(&mut self, src: &Path, folder: &Path, file: String, path: PathNames, items: Vec<Item>) -> Result<()> {
        let mut module = Module { file, ..Module::default() };
        for item in items {
            match item {
                Item::Use(item) if !is_test(&item.attrs) => {
                    let is_passed_on = !matches!(item.vis, Visibility::Inherited);
                    add_imports(&item.tree, &PathNames::new(), is_passed_on, &mut module.imports);
                }
                Item::Mod(item) if !is_test(&item.attrs) => self.add_child(src, folder, &module.file, &path, item)?,
                Item::Use(_) | Item::Mod(_) => {}
                other => add_tokens(other.to_token_stream(), &mut module),
            }
        }
        self.0.insert(path, module);
        Ok(())
    }

    fn add_child(&mut self, src: &Path, folder: &Path, file: &str, parent: &[String], item: ItemMod) -> Result<()> {
        let name = item.ident.to_string();
        let path = [parent, std::slice::from_ref(&name)].concat();
        if let Some((_, items)) = item.content {
            return self.add(src, &folder.join(&name), file.to_owned(), path, items);
        }
        let in_folder = folder.join(&name).join("mod.rs");
        let beside = folder.join(format!("{name}.rs"));
        self.read(src, if in_folder.exists() { &in_folder } else { &beside }, path)
    }

    fn add_to(&self, graph: &mut Graph) {
        for (path, module) in &self.0 {
            let needed = self.needed(path, module);
            let other = needed.into_iter().filter(|file| *file != module.file).map(str::to_owned);
            graph.entry(module.file.clone()).or_default().extend(other);
        }
    }

    /// The files that a module needs.
    fn needed<'a>(&'a self, path: &'a [String], module: &'a Module) -> BTreeSet<&'a str> {
        let is_used = |import: &&Import| {
            !import.is_passed_on || import.name.as_ref().is_some_and(|name| module.words.contains(name))
        };
        let imported = module.imports.iter().filter(is_used).map(|import| &import.path);
        imported.chain(&module.paths).filter_map(|names| self.resolve(path, names, 0)).collect()
    }

    /// The file that defines what a path names in a module; none if that is in another crate.
    fn resolve(&self, module: &[String], names: &[String], nr_hops: usize) -> Option<&str> {
        let (mut here, mut rest) = self.start(module, names, nr_hops)?;
        while let [name, after @ ..] = rest.as_slice() {
            let child = [here.as_slice(), std::slice::from_ref(name)].concat();
            if self.0.contains_key(&child) {
                (here, rest) = (child, after.to_vec());
            } else if let Some(import) = self.import(&here, name).filter(|_| nr_hops < MAX_HOPS) {
                let path = [import.path.as_slice(), after].concat();
                return self.resolve(&here, &path, nr_hops + 1).or_else(|| self.file(&here));
            } else {
                break;
            }
        }
        self.file(&here)
    }

    /// The module that a path starts from, and the names that follow.
    fn start(&self, module: &[String], names: &[String], nr_hops: usize) -> Option<(PathNames, PathNames)> {
        let first = names.first()?;
        let mut here = module.to_vec();
        match first.as_str() {
            "crate" => Some((PathNames::new(), names[1..].to_vec())),
            "self" => Some((here, names[1..].to_vec())),
            "super" => {
                let nr_up = names.iter().take_while(|name| *name == "super").count();
                here.truncate(here.len().checked_sub(nr_up)?);
                Some((here, names[nr_up..].to_vec()))
            }
            _ => {
                let is_child = self.0.contains_key(&[module, std::slice::from_ref(first)].concat());
                let is_imported = nr_hops < MAX_HOPS && self.import(module, first).is_some();
                (is_child || is_imported).then(|| (here, names.to_vec()))
            }
        }
    }

    fn import(&self, module: &[String], name: &str) -> Option<&Import> {
        let imports = &self.0.get(module)?.imports;
        // `use name;` brings in what it starts with: it leads nowhere else.
        imports.iter().find(|import| {
            import.name.as_deref() == Some(name) && import.path.first().is_some_and(|first| first != name)
        })
    }

    fn file(&self, module: &[String]) -> Option<&str> {
        self.0.get(module).map(|module| module.file.as_str())
    }
}

/// Where the files of a file's modules are.
fn folder_of(file: &Path) -> PathBuf {
    let is_top = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
    if is_top { file.with_file_name("") } else { file.with_extension("") }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let tokens = attribute.meta.to_token_stream().to_string();
        attribute.path().is_ident("cfg") && tokens.contains("test") && !tokens.contains("not")
    })
}

fn add_imports(tree: &UseTree, before: &[String], is_passed_on: bool, imports: &mut Vec<Import>) {
    let with = |name: &dyn ToString| [before, &[name.to_string()]].concat();
    let mut add = |path: PathNames, name: Option<String>| imports.push(Import { path, name, is_passed_on });
    match tree {
        UseTree::Path(path) => add_imports(&path.tree, &with(&path.ident), is_passed_on, imports),
        UseTree::Name(name) if name.ident == "self" => add(before.to_vec(), before.last().cloned()),
        UseTree::Name(name) => add(with(&name.ident), Some(name.ident.to_string())),
        UseTree::Rename(name) => add(with(&name.ident), Some(name.rename.to_string())),
        UseTree::Glob(_) => add(before.to_vec(), None),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| add_imports(tree, before, is_passed_on, imports));
        }
    }
}

/// Notes the words and paths of code, macros included.
fn add_tokens(tokens: TokenStream, module: &mut Module) {
    let mut path = PathNames::new();
    let mut nr_colons = 0;
    let mut is_visibility = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                if nr_colons != 2 {
                    end_path(&mut path, module);
                }
                is_visibility = word == "pub";
                module.words.insert(word.clone());
                path.push(word);
                nr_colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => nr_colons += 1,
            // `pub(in super::super)` needs nothing of what it names.
            TokenTree::Group(_) if is_visibility => is_visibility = false,
            other => {
                end_path(&mut path, module);
                nr_colons = 0;
                if let TokenTree::Group(group) = other {
                    add_tokens(group.stream(), module);
                }
            }
        }
    }
    end_path(&mut path, module);
}

fn end_path(path: &mut PathNames, module: &mut Module) {
    let names = std::mem::take(path);
    if names.len() > 1 {
        module.paths.insert(names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graph of a crate with these files, as "from: to to".
    fn graph_of(files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join("src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let graph = graph(dir.path()).unwrap();
        let line = |(from, to): (&String, &BTreeSet<String>)| {
            format!("{from}: {}", to.iter().cloned().collect::<Vec<_>>().join(" "))
        };
        graph.iter().filter(|(_, to)| !to.is_empty()).map(line).collect()
    }

    #[test]
    fn imports_and_paths_in_code_and_macros_count() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::{self, B as C}; use std::fs;"),
            ("b.rs", "fn f() { crate::c::f(); }"),
            ("c/mod.rs", "mod e; fn f() { say!(\"{}\", super::d::f()) }"),
            ("c/e.rs", "use super::f; use super::super::a;"),
            ("d.rs", "use crate::b; fn f() { b::f() }"),
        ];
        let expected = ["a.rs: b.rs", "b.rs: c/mod.rs", "c/e.rs: a.rs c/mod.rs", "c/mod.rs: d.rs", "d.rs: b.rs"];
        assert_eq!(graph_of(&files), expected);
    }

    #[test]
    fn what_is_passed_on_is_needed_from_where_it_is_defined() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::B; fn f(b: B) {}"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
            ("c.rs", "fn f() { crate::B::new() }"),
        ];
        assert_eq!(graph_of(&files), ["b.rs: a.rs", "c.rs: b.rs", "lib.rs: b.rs"]);
    }

    #[test]
    fn tests_and_visibility_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
            (
                "a.rs",
                "pub(in crate::b) fn f() {} #[cfg(test)] mod tests { use crate::b::f; } #[cfg(not(test))] use crate::b;",
            ),
            ("b.rs", "mod inner { use super::super::a::f; }"),
        ];
        assert_eq!(graph_of(&files), ["a.rs: b.rs", "b.rs: a.rs"]);
    }
}
