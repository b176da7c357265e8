//! The tray's start at login: a desktop file in the directories of the Desktop Application Autostart Specification. The
//! same for the app, which offers it, and for the tray itself.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::durable;

/// Where the tray's desktop file is installed, among the data of all programs.
const INSTALLED: &str = "applications/org.scherzo.Tray.desktop";
/// What it is called among the files of an autostart directory.
const NAME: &str = "autostart/org.scherzo.Tray.desktop";
/// Takes back what the administrator starts for everybody.
const HIDDEN: &str = "[Desktop Entry]\nType=Application\nName=Scherzo\nHidden=true\n";

/// Whether the tray starts when this person logs in.
#[derive(Clone, Debug)]
pub struct Autostart {
    installed: PathBuf,
    own: PathBuf,
    administrators: Vec<PathBuf>,
}

impl Autostart {
    /// For this person, with a tray whose data are installed in `data_dir`; `None` for somebody without a home.
    #[must_use]
    pub fn of_this_person(data_dir: &Path) -> Option<Self> {
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let set = |name| env::var_os(name).map(PathBuf::from).and_then(absolute);
        let own = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
        let shared = env::var_os("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
        let administrators = env::split_paths(&shared).filter_map(absolute).map(|dir| dir.join(NAME)).collect();
        Some(Self { installed: data_dir.join(INSTALLED), own: own.join(NAME), administrators })
    }

    /// The person's own file, which need not be there.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.own
    }

    /// Whether it starts: the first file of all that are there decides.
    #[must_use]
    pub fn is_on(&self) -> bool {
        match fs::read_to_string(&self.own) {
            Ok(text) => starts(&text),
            Err(_) => self.is_on_for_all(),
        }
    }

    fn is_on_for_all(&self) -> bool {
        self.administrators.iter().find_map(|file| fs::read_to_string(file).ok()).is_some_and(|text| starts(&text))
    }

    /// Makes it start, or not.
    pub fn set(&self, on: bool) -> io::Result<()> {
        if on {
            return durable::replace(&self.own, &fs::read_to_string(&self.installed)?);
        }
        durable::remove(&self.own)?;
        if self.is_on_for_all() { durable::replace(&self.own, HIDDEN) } else { Ok(()) }
    }
}

/// Whether a desktop file starts anything, as sessions read it.
fn starts(text: &str) -> bool {
    let mut values = text.lines().filter_map(|line| line.split_once('='));
    !values.any(|(key, value)| {
        matches!((key.trim(), value.trim()), ("Hidden", "true") | ("X-GNOME-Autostart-enabled", "false"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn autostart(dir: &Path) -> Autostart {
        let autostart = Autostart {
            installed: dir.join("usr/share").join(INSTALLED),
            own: dir.join("config").join(NAME),
            administrators: vec![dir.join("etc").join(NAME)],
        };
        let installed = "[Desktop Entry]\nExec=scherzo-tray\n";
        for (file, text) in [(&autostart.installed, installed), (&dir.join("etc/autostart/other.desktop"), "")] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        autostart
    }

    #[test]
    fn a_session_that_reads_meanwhile_sees_the_old_file_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let autostart = autostart(dir.path());
        autostart.set(true).unwrap();
        let being_read = dir.path().join("being-read");
        fs::hard_link(autostart.file(), &being_read).unwrap();
        fs::write(&autostart.installed, "[Desktop Entry]\nExec=scherzo-tray --new\n").unwrap();
        autostart.set(true).unwrap();
        assert!(!fs::read_to_string(being_read).unwrap().contains("--new"), "the old file is left as it was");
        assert!(fs::read_to_string(autostart.file()).unwrap().contains("--new"));
    }

    #[test]
    fn the_installed_file_comes_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let autostart = autostart(dir.path());
        assert!(!autostart.is_on());
        autostart.set(false).unwrap();
        autostart.set(true).unwrap();
        assert!(autostart.is_on());
        assert!(fs::read_to_string(autostart.file()).unwrap().contains("Exec=scherzo-tray"));
        autostart.set(false).unwrap();
        assert!(!autostart.is_on() && !autostart.file().exists());
    }

    #[test]
    fn what_the_administrator_starts_for_all_can_be_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let autostart = autostart(dir.path());
        fs::write(&autostart.administrators[0], "[Desktop Entry]\nExec=scherzo-tray\n").unwrap();
        assert!(autostart.is_on());
        autostart.set(false).unwrap();
        assert!(!autostart.is_on());
        autostart.set(true).unwrap();
        assert!(autostart.is_on());
    }

    #[test]
    fn what_others_write_into_the_file_counts() {
        for line in ["Hidden=true", "Hidden = true", "X-GNOME-Autostart-enabled=false"] {
            assert!(!starts(&format!("[Desktop Entry]\nExec=scherzo-tray\n{line}\n")), "{line}");
        }
        assert!(starts("[Desktop Entry]\nExec=scherzo-tray\nX-GNOME-Autostart-enabled=true\n"));
    }

    #[test]
    fn a_tray_that_is_not_installed_is_said_to_be_missing() {
        let dir = tempfile::tempdir().unwrap();
        let autostart = autostart(dir.path());
        fs::remove_file(&autostart.installed).unwrap();
        assert_eq!(autostart.set(true).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!autostart.is_on());
    }
}
