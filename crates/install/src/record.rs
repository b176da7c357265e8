//! Installing on this machine with a record of it, so that it can be undone without the checkout it came from.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::layout::{Dir, Layout};
use crate::{Item, below, put};

/// The record's name, in the directory for data: a line for each file, then, with a slash at the end, for each directory
/// that was not there before.
const RECORD: &str = "installed-files";

/// Where the record is.
#[must_use]
pub fn path(layout: &Layout) -> PathBuf {
    layout.dir(Dir::Data("scherzo")).join(RECORD)
}

/// Installs files, and removes those of an earlier installation that are no longer among them.
pub fn install(items: &[Item], layout: &Layout, destination: &Path) -> Result<()> {
    let record = path(layout);
    let earlier = read(&below(destination, &record))?;
    let mut files: BTreeSet<String> = items.iter().map(|item| item.path.display().to_string()).collect();
    files.insert(record.display().to_string());
    let made = missing_dirs(&files, destination);
    put(items, destination)?;
    let dirs: BTreeSet<_> = made.into_iter().chain(earlier.iter().filter(|line| is_dir(line)).cloned()).collect();
    let lines: Vec<_> = files.iter().chain(&dirs).cloned().collect();
    let target = below(destination, &record);
    fs::write(&target, lines.join("\n") + "\n").with_context(|| format!("cannot write {}", target.display()))?;
    for file in earlier.iter().filter(|line| !is_dir(line) && !files.contains(*line)) {
        remove(&below(destination, Path::new(file)))?;
    }
    Ok(())
}

/// Removes what [`install`] has put there, and the directories that it made, as far as they are empty. Gives the number of
/// files.
pub fn uninstall(layout: &Layout, destination: &Path) -> Result<usize> {
    let record = below(destination, &path(layout));
    let lines = read(&record)?;
    let (dirs, files): (Vec<_>, Vec<_>) = lines.iter().partition(|line| is_dir(line));
    for file in &files {
        remove(&below(destination, Path::new(file)))?;
    }
    // The longest come before those that they are in.
    for dir in dirs.iter().rev() {
        // Others may have put something there since.
        let _ = fs::remove_dir(below(destination, Path::new(dir)));
    }
    Ok(files.len())
}

fn read(record: &Path) -> Result<Vec<String>> {
    match fs::read_to_string(record) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", record.display())),
    }
}

fn is_dir(line: &str) -> bool {
    line.ends_with('/')
}

/// Directories that will have to be made, each with a slash at its end.
fn missing_dirs(files: &BTreeSet<String>, destination: &Path) -> BTreeSet<String> {
    let dirs = files.iter().flat_map(|file| Path::new(file).ancestors().skip(1));
    let missing = dirs.filter(|dir| !below(destination, dir).exists());
    missing.map(|dir| format!("{}/", dir.display())).collect()
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}
