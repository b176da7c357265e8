//! Files that are replaced as a whole, so that the old or the new content survives whatever happens, a power cut included.
//! The one way of writing them for the service and for programs of a person's.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The steps of replacing a file.
trait Disk {
    /// A file that has no name of its own yet.
    type New;
    /// Creates a file beside `path`, writes the text, and waits until the disk has it.
    fn write_and_sync(&mut self, path: &Path, text: &str) -> io::Result<Self::New>;
    fn rename(&mut self, new: Self::New, path: &Path) -> io::Result<()>;
    /// Waits until the disk has the directory's entries.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;
}

struct FileSystem;

impl Disk for FileSystem {
    /// Removed when it is dropped.
    type New = NamedTempFile;

    fn write_and_sync(&mut self, path: &Path, text: &str) -> io::Result<NamedTempFile> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new-");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&name);
        // As the umask has it, unless there is a file that has been given other permissions.
        let mut new = builder.permissions(Permissions::from_mode(0o666)).tempfile_in(directory_of(path))?;
        if let Ok(about) = fs::metadata(path) {
            new.as_file().set_permissions(about.permissions())?;
        }
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        Ok(new)
    }

    fn rename(&mut self, new: NamedTempFile, path: &Path) -> io::Result<()> {
        new.persist(path).map(drop).map_err(|error| error.error)
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Replaces a file, or creates it and the directories above it. Once this returns, the new content survives a power cut: a
/// rename alone would be known to the disk seconds later. A symbolic link stays one, and what it points to is replaced.
///
/// # Errors
///
/// Those of the file system. The old content is still there, unless only the directory could not be synchronised.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = target_of(path);
    fs::create_dir_all(directory_of(&path))?;
    replace_on(&mut FileSystem, &path, text)
}

/// The same, but a symbolic link is replaced itself: for root, where others may have made one.
///
/// # Errors
///
/// Those of [`replace`].
pub fn replace_link(path: &Path, text: &str) -> io::Result<()> {
    replace_on(&mut FileSystem, path, text)
}

fn replace_on(disk: &mut impl Disk, path: &Path, text: &str) -> io::Result<()> {
    let new = disk.write_and_sync(path, text)?;
    disk.rename(new, path)?;
    disk.sync_directory(directory_of(path))
}

/// Removes a file if it is there. Once this returns, it does not come back after a power cut.
///
/// # Errors
///
/// Those of the file system.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => FileSystem.sync_directory(directory_of(path)),
    }
}

/// Where the links lead that a person has made, to a checkout of their own settings for example.
fn target_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
        type New = &'static str;

        fn write_and_sync(&mut self, path: &Path, text: &str) -> io::Result<&'static str> {
            self.note(format!("write {text} beside {} and sync it", path.display()))?;
            Ok("the new file")
        }

        fn rename(&mut self, new: &'static str, path: &Path) -> io::Result<()> {
            self.note(format!("rename {new} to {}", path.display()))
        }

        fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
            self.note(format!("sync {}", path.display()))
        }
    }

    /// A disk whose power may be cut: names that have changed since the directory was synchronised are as before then. It
    /// keeps contents, of which none is seen before it is synchronised.
    #[derive(Default)]
    struct UnsafeDisk {
        names: BTreeMap<PathBuf, String>,
        durable: BTreeMap<PathBuf, String>,
        ignores_directories: bool,
    }

    impl UnsafeDisk {
        fn after_power_cut(&self, path: &str) -> Option<&str> {
            self.durable.get(Path::new(path)).map(String::as_str)
        }
    }

    impl Disk for UnsafeDisk {
        type New = String;

        fn write_and_sync(&mut self, _: &Path, text: &str) -> io::Result<String> {
            Ok(text.to_owned())
        }

        fn rename(&mut self, new: String, path: &Path) -> io::Result<()> {
            self.names.insert(path.to_owned(), new);
            Ok(())
        }

        fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
            let entries =
                self.names.iter().filter(|(name, _)| !self.ignores_directories && name.parent() == Some(path));
            self.durable.extend(entries.map(|(name, text)| (name.clone(), text.clone())));
            Ok(())
        }
    }

    #[test]
    fn what_was_replaced_survives_a_power_cut_because_the_directory_is_synchronised() {
        let after = |ignores_directories| {
            let mut disk = UnsafeDisk::default();
            replace_on(&mut disk, Path::new("/d/boots.toml"), "off watch").unwrap();
            disk.ignores_directories = ignores_directories;
            replace_on(&mut disk, Path::new("/d/boots.toml"), "on watch").unwrap();
            disk.after_power_cut("/d/boots.toml").map(str::to_owned)
        };
        assert_eq!(after(false).as_deref(), Some("on watch"));
        assert_eq!(after(true).as_deref(), Some("off watch"), "the start that froze would not be known");
    }

    const STEPS: [&str; 3] =
        ["write x beside /d/state.toml and sync it", "rename the new file to /d/state.toml", "sync /d"];

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

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
    fn files_are_created_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/state.toml");
        replace(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(path.parent().unwrap()), ["state.toml"]);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn what_fails_leaves_the_old_content_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.toml");
        // Nothing is renamed to where a directory is.
        fs::create_dir(&path).unwrap();
        replace(&path, "new").unwrap_err();
        assert_eq!(names(dir.path()), ["state.toml"]);
    }

    #[test]
    fn links_and_permissions_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        replace(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let [target, link] = ["target", "link"].map(|name| directory.path().join(name));
        fs::write(&target, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace_link(&link, "ours").unwrap();
        assert!(!link.is_symlink());
        assert_eq!(fs::read_to_string(&link).unwrap(), "ours");
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
    }
}
