//! State that the app keeps in key files of the user. A file that cannot be read or written is ignored.

use std::path::PathBuf;

use gtk::glib;

const GROUP: &str = "window";
/// Set once Scherzo has been turned on: the introductory page is not shown any more.
pub(crate) const SEEN_ON: &str = "seen-on";

/// One key file.
#[derive(Debug)]
pub(crate) struct WindowState {
    path: PathBuf,
    file: glib::KeyFile,
}

impl WindowState {
    /// Reads the person's file of that name.
    pub(crate) fn load(name: &str) -> Self {
        // As g_get_user_state_dir, which needs a newer GLib than the oldest that is supported.
        let usual = || glib::home_dir().join(".local").join("state");
        let directory = std::env::var_os("XDG_STATE_HOME").map_or_else(usual, PathBuf::from);
        Self::at(directory.join("scherzo").join(name))
    }

    fn at(path: PathBuf) -> Self {
        let file = glib::KeyFile::new();
        // There is none at first.
        let _ = file.load_from_file(&path, glib::KeyFileFlags::NONE);
        Self { path, file }
    }

    /// Width and height in pixels.
    pub(crate) fn size(&self) -> (i32, i32) {
        let number = |key, usual| self.file.integer(GROUP, key).unwrap_or(usual);
        (number("width", 760).max(360), number("height", 780).max(294))
    }

    /// A switch; off unless it was set.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.file.boolean(GROUP, key).unwrap_or(false)
    }

    /// Remembers the size.
    pub(crate) fn set_size(&self, (width, height): (i32, i32), maximized: bool) {
        if !maximized {
            self.file.set_integer(GROUP, "width", width);
            self.file.set_integer(GROUP, "height", height);
        }
        self.set_flag("maximized", maximized);
    }

    /// Remembers a switch.
    pub(crate) fn set_flag(&self, key: &str, on: bool) {
        self.file.set_boolean(GROUP, key, on);
        self.save();
    }

    fn save(&self) {
        let made = self.path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let saved = made.map(|()| self.file.save_to_file(&self.path));
        if !matches!(saved, Ok(Ok(()))) {
            glib::g_warning!("scherzo", "cannot write {}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_remembered_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new").join("window.ini");
        let state = WindowState::at(path.clone());
        assert_eq!((state.size(), state.flag("seen-on")), ((760, 780), false));
        state.set_size((400, 500), false);
        state.set_size((1920, 1080), true);
        state.set_flag("seen-on", true);
        let state = WindowState::at(path);
        assert_eq!((state.size(), state.flag("maximized"), state.flag("seen-on")), ((400, 500), true, true));
    }

    #[test]
    fn nonsense_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("window.ini");
        std::fs::write(&path, "[window]\nwidth=-5\nheight=many\n").unwrap();
        assert_eq!(WindowState::at(path).size(), (360, 780));
    }
}
