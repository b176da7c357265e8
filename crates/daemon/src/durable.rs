//! Files that are replaced as a whole, so that the old or the new content survives whatever happens, a power cut included.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The steps of replacing a file.
trait Disk {
    /// Creates the file or empties it, writes the text, and waits until the disk has it.
    fn write_and_sync(&mut self, path: &Path, text: &str) -> io::Result<()>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Waits until the disk has the directory's entries.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;
}

struct FileSystem;

impl Disk for FileSystem {
    fn write_and_sync(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Replaces a file, or creates it and the directories above it. Once this returns, the new content survives a power cut: a
/// rename alone would be known to the disk seconds later.
///
/// # Errors
///
/// Those of the file system. The old content is still there, unless only the directory could not be synchronised.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    replace_on(&mut FileSystem, path, text)
}

fn replace_on(disk: &mut impl Disk, path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    disk.write_and_sync(&new, text)?;
    disk.rename(&new, path)?;
    path.parent().map_or(Ok(()), |directory| disk.sync_directory(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes what is done, and fails at the step with this number.
    #[derive(Default)]
    struct Record {
        steps: Vec<String>,
        fails_at: Option<usize>,
    }

    impl Record {
        fn note(&mut self, step: String) -> io::Result<()> {
            if self.fails_at == Some(self.steps.len()) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.steps.push(step);
            Ok(())
        }
    }

    impl Disk for Record {
        fn write_and_sync(&mut self, path: &Path, text: &str) -> io::Result<()> {
            self.note(format!("write {} to {} and sync it", text, path.display()))
        }

        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            self.note(format!("rename {} to {}", from.display(), to.display()))
        }

        fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
            self.note(format!("sync {}", path.display()))
        }
    }

    const STEPS: [&str; 3] = ["write x to /d/state.new and sync it", "rename /d/state.new to /d/state.toml", "sync /d"];

    #[test]
    fn the_content_is_safe_before_the_name_and_the_name_before_it_returns() {
        let mut disk = Record::default();
        replace_on(&mut disk, Path::new("/d/state.toml"), "x").unwrap();
        assert_eq!(disk.steps, STEPS);
    }

    #[test]
    fn nothing_is_renamed_that_is_not_on_the_disk() {
        for nr_steps in 0..STEPS.len() {
            let mut disk = Record { fails_at: Some(nr_steps), ..Record::default() };
            replace_on(&mut disk, Path::new("/d/state.toml"), "x").unwrap_err();
            assert_eq!(disk.steps, STEPS[..nr_steps]);
        }
    }

    #[test]
    fn files_are_created_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/state.toml");
        replace(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
