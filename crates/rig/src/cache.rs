//! Where finished work is kept: outside the checkout, keyed by the recipe it was made from.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::namespace;
use crate::progress;

/// Artefacts that have not been used for this long are removed when a new one of their kind is made.
const FORGOTTEN: Duration = Duration::from_hours(30 * 24);
/// A dash and 16 hexadecimal digits.
const HASH_SUFFIX_LENGTH: usize = 17;

/// A directory of finished artefacts. Each is built under a temporary name and renamed when complete.
#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// `$SCHERZO_CACHE`, else `$XDG_CACHE_HOME/scherzo`, else `~/.cache/scherzo`.
    pub fn open() -> Result<Self> {
        Self::at(&location()?)
    }

    fn at(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create the cache {}", dir.display()))?;
        let dir = dir.canonicalize()?;
        Ok(Self { dir })
    }

    /// A path in the cache. It need not exist.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The artefact `KIND-HASH`, made by `make` in a temporary path first if it is not there yet.
    ///
    /// `recipe` is all that the artefact depends on. Runs that want the same artefact wait for each other.
    pub fn artefact(&self, kind: &str, recipe: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let path = self.artefact_path(kind, recipe);
        let _lock = self.lock(kind)?;
        if !path.exists() {
            let partial = self.path(&format!("{kind}.partial"));
            namespace::remove(&partial)?;
            make(&partial)?;
            fs::rename(&partial, &path).with_context(|| format!("cannot complete {}", path.display()))?;
            self.remove_forgotten(kind)?;
        }
        // Marks the artefact as in use.
        File::open(&path)?.set_modified(SystemTime::now())?;
        Ok(path)
    }

    /// The same artefact if it has been made.
    #[must_use]
    pub fn find(&self, kind: &str, recipe: &str) -> Option<PathBuf> {
        Some(self.artefact_path(kind, recipe)).filter(|path| path.exists())
    }

    fn artefact_path(&self, kind: &str, recipe: &str) -> PathBuf {
        self.path(&format!("{kind}-{:016x}", hash(recipe)))
    }

    /// Removes artefacts of older recipes that no checkout has used for long.
    fn remove_forgotten(&self, kind: &str) -> Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_artefact = |name: &str| name.strip_prefix(kind).is_some_and(|hash| hash.len() == HASH_SUFFIX_LENGTH);
            let unused = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
            if entry.file_name().to_str().is_some_and(is_artefact) && unused > FORGOTTEN {
                progress::say(&format!("removing {}, unused for long", entry.path().display()));
                namespace::remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Takes an exclusive lock, which lasts as long as the returned file is open. Waiting for it is reported.
    pub fn lock(&self, name: &str) -> Result<File> {
        let path = self.path(&format!("{name}.lock"));
        let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
        if file.try_lock().is_err() {
            progress::say(&format!("waiting for another run that holds {}", path.display()));
            file.lock()?;
        }
        Ok(file)
    }
}

fn location() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("SCHERZO_CACHE") {
        return Ok(dir);
    }
    match set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache"))) {
        Some(base) => Ok(base.join("scherzo")),
        None => bail!("no place for a cache: set SCHERZO_CACHE or HOME"),
    }
}

/// FNV-1a: names for artefacts that stay the same from one Rust version to the next.
#[must_use]
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artefact_is_made_once_per_recipe() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let mut made = 0;
        assert_eq!(cache.find("thing", "one"), None);
        for recipe in ["one", "one", "two"] {
            cache
                .artefact("thing", recipe, |path| {
                    made += 1;
                    Ok(fs::write(path, recipe)?)
                })
                .unwrap();
        }
        assert_eq!(made, 2);
        assert!(cache.find("thing", "one").is_some_and(|path| fs::read_to_string(path).unwrap() == "one"));
    }

    #[test]
    fn only_what_was_not_used_for_long_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let make =
            |kind: &str, recipe: &str| cache.artefact(kind, recipe, |path| Ok(fs::write(path, recipe)?)).unwrap();
        let (old, recent, other) = (make("thing", "old"), make("thing", "recent"), make("thing-else", "old"));
        for path in [&old, &other] {
            let long_ago = SystemTime::now() - 2 * FORGOTTEN;
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        make("thing", "new");
        assert_eq!([old, recent, other].map(|path| path.exists()), [false, true, true]);
    }

    #[test]
    fn a_failed_artefact_leaves_nothing_behind_that_counts() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let failed = cache.artefact("thing", "recipe", |path| {
            fs::create_dir(path)?;
            bail!("interrupted")
        });
        assert!(failed.is_err());
        let path = cache.artefact("thing", "recipe", |path| Ok(fs::write(path, "whole")?)).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "whole");
    }
}
