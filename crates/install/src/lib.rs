//! What an installed Scherzo consists of, and where each file goes: the one list, for packages, for the test rig and for
//! those who install by hand.
//!
//! [`files`] is the list. [`Layout`] says where directories are. [`items`] puts the two together: every file of an
//! installation with its content, which [`put`] writes below a directory; [`record`] does so for this machine, and can
//! undo it. What the languages add is made beforehand, by [`languages::compile`]: no more than `msgfmt` is needed.

mod files;
pub mod languages;
mod layout;
pub mod record;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use files::{FILES, GENERATED, PROGRAMS};
pub use files::{GENERATOR, PARTS, Part, programs};
pub use layout::Layout;

/// The end of names of files in which directories are still to be filled in.
const TEMPLATE_SUFFIX: &str = ".in";

/// Where the parts of an installation come from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The checkout.
    pub checkout: &'a Path,
    /// The programs of [`programs`].
    pub programs: &'a Path,
    /// What [`GENERATOR`] has written.
    pub generated: &'a Path,
    /// What [`languages::compile`] has written.
    pub languages: &'a Path,
}

/// A file of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The package that it belongs to.
    pub part: Part,
    /// Its absolute path on the installed system.
    pub path: PathBuf,
    /// What is in it.
    pub content: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
}

/// Everything that is installed.
pub fn items(sources: &Sources<'_>, layout: &Layout) -> Result<Vec<Item>> {
    layout.check()?;
    let mut items = Vec::new();
    for (part, name, dir) in PROGRAMS {
        let content = fs::read(sources.programs.join(name)).with_context(|| format!("{name} has not been built"))?;
        items.push(Item { part: *part, path: layout.dir(*dir).join(name), content, mode: 0o755 });
    }
    for (part, source, dir) in FILES {
        gather(sources, layout, *part, Path::new(source), &layout.dir(*dir), &mut items)?;
    }
    for name in names_in(sources.generated)? {
        // Shells that nobody asked for yet are left out.
        if let Some((part, _, dir, installed)) = GENERATED.iter().find(|(_, end, ..)| name.ends_with(end)) {
            let path = layout.dir(*dir).join(installed.unwrap_or(&name));
            items.push(Item { part: *part, path, content: fs::read(sources.generated.join(&name))?, mode: 0o644 });
        }
    }
    items.extend(languages::items(sources.languages, layout)?);
    Ok(items)
}

/// Writes files below `destination`, which stands for the installed system's `/`.
pub fn put(items: &[Item], destination: &Path) -> Result<()> {
    for item in items {
        let path = below(destination, &item.path);
        put_file(item, &path).with_context(|| format!("cannot install {}", path.display()))?;
    }
    Ok(())
}

/// A program that runs goes on with the file it was started from: the new one is another file under the same name.
fn put_file(item: &Item, path: &Path) -> Result<()> {
    let dir = path.parent().context("no parent")?;
    fs::create_dir_all(dir)?;
    let name = path.file_name().context("no name")?.to_string_lossy();
    let partial = dir.join(format!(".{name}.scherzo-new"));
    fs::write(&partial, &item.content)?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(item.mode))?;
    Ok(fs::rename(&partial, path)?)
}

/// Where an absolute path lies if `destination` stands for `/`.
fn below(destination: &Path, path: &Path) -> PathBuf {
    destination.join(path.strip_prefix("/").unwrap_or(path))
}

/// A file of the checkout, or all that is in a folder: below the folder's own name unless that ends in a slash.
fn gather(
    sources: &Sources<'_>,
    layout: &Layout,
    part: Part,
    source: &Path,
    dir: &Path,
    items: &mut Vec<Item>,
) -> Result<()> {
    let from = sources.checkout.join(source);
    let name = source.file_name().and_then(|name| name.to_str()).context("a name is not UTF-8")?;
    if from.is_dir() {
        let dir = if source.as_os_str().to_string_lossy().ends_with('/') { dir.to_owned() } else { dir.join(name) };
        for entry in names_in(&from)? {
            gather(sources, layout, part, &source.join(entry), &dir, items)?;
        }
        return Ok(());
    }
    let translated = languages::merged(sources.languages, name);
    let from = if translated.exists() { translated } else { from };
    let content = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
    let (name, content) = match name.strip_suffix(TEMPLATE_SUFFIX) {
        Some(name) => (name, fill(layout, &content).with_context(|| format!("{}", source.display()))?),
        None => (name, content),
    };
    items.push(Item { part, path: dir.join(name), content, mode: 0o644 });
    Ok(())
}

/// Puts directories where a template names them.
fn fill(layout: &Layout, template: &[u8]) -> Result<Vec<u8>> {
    let text = str::from_utf8(template)?.to_owned();
    let filled = layout
        .variables()
        .iter()
        .fold(text, |text, (name, dir)| text.replace(&format!("@{name}@"), &dir.display().to_string()));
    let left = filled.split('@').skip(1).step_by(2).find(|name| name.ends_with("dir"));
    ensure!(left.is_none(), "nothing is known to put for @{}@", left.unwrap_or_default());
    Ok(filled.into_bytes())
}

/// Names in a directory, in order.
fn names_in(dir: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        names.push(name.to_str().context("a name is not UTF-8")?.to_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests;
