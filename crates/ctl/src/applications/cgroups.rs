//! The control groups of a session: which units there are, and being told when that changes.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::sync::mpsc;

/// Where a person's applications live.
pub(crate) fn applications_of(uid: u32) -> PathBuf {
    format!("/sys/fs/cgroup/user.slice/user-{uid}.slice/user@{uid}.service/app.slice").into()
}

/// Notices that something in some directories has changed.
#[derive(Debug)]
pub(crate) struct DirectoryNotices {
    queue: Arc<OwnedFd>,
    heard: mpsc::Receiver<io::Result<()>>,
}

impl DirectoryNotices {
    /// Starts a thread that reads the notices: tokio cannot watch a foreign descriptor in safe code.
    pub(crate) fn new() -> io::Result<Self> {
        let queue = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
        let (tell, heard) = mpsc::channel(1);
        let read = Arc::clone(&queue);
        std::thread::spawn(move || {
            loop {
                let told = rustix::io::read(&read, &mut [0; 4096][..]).map(drop).map_err(io::Error::from);
                let failed = told.is_err();
                if tell.blocking_send(told).is_err() || failed {
                    return;
                }
            }
        });
        Ok(Self { queue, heard })
    }

    /// Notices of changed files in this directory come from now on; asking twice is asking once.
    pub(crate) fn watch_files(&self, directory: &Path) -> io::Result<()> {
        self.watch(directory, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::DELETE)
    }

    fn watch(&self, directory: &Path, changes: WatchFlags) -> io::Result<()> {
        Ok(inotify::add_watch(&self.queue, directory, changes | WatchFlags::ONLYDIR).map(drop)?)
    }

    /// Waits until something has changed. It does not say what: callers read the directories again.
    pub(crate) async fn changed(&mut self) -> io::Result<()> {
        self.heard.recv().await.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// All units below this slice, now and in notices to come.
    pub(crate) fn units(&self, slice: &Path) -> io::Result<BTreeSet<PathBuf>> {
        let mut units = BTreeSet::new();
        // The watch comes first, so that no unit is missed between the two calls.
        self.watch(slice, WatchFlags::CREATE | WatchFlags::DELETE)?;
        for entry in std::fs::read_dir(slice)?.flatten() {
            let path = entry.path();
            match path.extension().and_then(|kind| kind.to_str()) {
                // It may be gone by now.
                Some("slice") => units.extend(self.units(&path).unwrap_or_default()),
                Some("scope" | "service") => drop(units.insert(path)),
                _ => {}
            }
        }
        Ok(units)
    }
}

/// The executables of the processes in a unit, as far as they are our own.
pub(crate) fn executables(unit: &Path) -> BTreeSet<String> {
    let processes = std::fs::read_to_string(unit.join("cgroup.procs")).unwrap_or_default();
    let executable = |pid: &str| {
        let pid: u32 = pid.parse().ok()?;
        std::fs::read_link(format!("/proc/{pid}/exe")).ok()?.into_os_string().into_string().ok()
    };
    processes.lines().filter_map(executable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn units_are_found_in_slices_and_changes_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let slice = directory.path();
        std::fs::create_dir_all(slice.join("app-x.slice/app-y-1.scope")).unwrap();
        std::fs::create_dir(slice.join("app-z@1.service")).unwrap();
        let mut notices = DirectoryNotices::new().unwrap();
        let found = notices.units(slice).unwrap();
        assert_eq!(found, [slice.join("app-x.slice/app-y-1.scope"), slice.join("app-z@1.service")].into());
        std::fs::create_dir(slice.join("app-x.slice/app-y-2.scope")).unwrap();
        notices.changed().await.unwrap();
        assert_eq!(notices.units(slice).unwrap().len(), 3);
        std::fs::remove_dir(slice.join("app-z@1.service")).unwrap();
        notices.changed().await.unwrap();
        assert_eq!(notices.units(slice).unwrap().len(), 2);
        assert!(notices.units(&slice.join("none")).is_err());
    }

    #[test]
    fn executables_are_those_of_the_processes() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("cgroup.procs"), format!("{}\nx\n", std::process::id())).unwrap();
        let own = std::env::current_exe().unwrap().into_os_string().into_string().unwrap();
        assert_eq!(executables(directory.path()), [own].into());
    }
}
