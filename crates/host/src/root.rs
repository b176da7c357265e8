use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::Error;

/// Longest part of a file's content that an error repeats, in characters.
const QUOTED_CHARS: usize = 80;

/// Where the host's file system begins: `/`, or a directory of a test's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Self(PathBuf::from("/"))
    }
}

impl Root {
    /// A root at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The place of an absolute path without its leading slash, such as `proc/stat`.
    #[must_use]
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.0.join(relative)
    }

    /// The content of a small file, without the white space around it.
    pub(crate) fn read(&self, relative: &str) -> Result<String, Error> {
        let path = self.path(relative);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// As [`Self::read`]; `None` if the file does not exist.
    pub(crate) fn read_if_present(&self, relative: &str) -> Result<Option<String>, Error> {
        match self.read(relative) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A file that holds one number.
    pub(crate) fn read_number<T: FromStr>(&self, relative: &str) -> Result<T, Error> {
        let text = self.read(relative)?;
        text.parse().map_err(|_| self.unexpected(relative, &text, "a number"))
    }

    pub(crate) fn write(&self, relative: &str, text: &str) -> Result<(), Error> {
        let path = self.path(relative);
        fs::write(&path, text).map_err(|source| Error::Write { path, source })
    }

    pub(crate) fn unexpected(&self, relative: &str, found: &str, expected: &'static str) -> Error {
        Error::Content { path: self.path(relative), found: found.chars().take(QUOTED_CHARS).collect(), expected }
    }
}

/// A name that somebody else has chosen, fit for terminals, the journal and the app: without control characters, and cut.
pub(crate) fn printable(name: &str, max_chars: usize) -> String {
    let printable = |char: char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char };
    name.chars().take(max_chars).map(printable).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A root with these files in it.
    pub(crate) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(dir.path());
        (dir, root)
    }

    #[test]
    fn errors_carry_the_path() {
        let (dir, root) = tree(&[("proc/number", "many\n")]);
        let path = dir.path().join("proc");
        let missing = root.read("proc/absent").unwrap_err();
        assert!(missing.is_missing());
        assert!(missing.to_string().contains(path.join("absent").to_str().unwrap()), "{missing}");
        let bad = root.read_number::<u64>("proc/number").unwrap_err();
        assert_eq!(bad.to_string(), format!("{} holds \"many\", expected a number", path.join("number").display()));
    }
}
