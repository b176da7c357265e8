//! This machine itself: what must be so before something is measured on it, and the product, installed for as long as it
//! takes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scherzo_rig::build::Workspace;
use scherzo_rig::cache::Cache;
use scherzo_rig::namespace::is_root;
use scherzo_rig::service::{STATE_DIRECTORY, UNIT};
use scherzo_rig::shell::{CommandOutput, Native, Shell};
use scherzo_rig::{product, roots};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::test::guarded;

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
const INSTALL_LIMIT: Duration = Duration::from_mins(1);
/// A person may have to type a password.
const PASSWORD_LIMIT: Duration = Duration::from_mins(5);
const RELOAD: &str =
    "systemctl daemon-reload && busctl --system call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig";

/// Whether a scheduler can be loaded.
pub(crate) fn has_sched_ext() -> bool {
    Path::new(SCHED_EXT).exists()
}

/// Fails if nobody can be asked.
pub(crate) fn ensure_terminal() -> Result<()> {
    ensure!(io::stdin().is_terminal(), "--native asks first, and there is no terminal to ask on");
    Ok(())
}

/// Fails if another scheduler is loaded, or commands cannot be run as root; a password is asked for now if one is needed.
pub(crate) fn ensure_ready() -> Result<()> {
    let read = |file| fs::read_to_string(Path::new(SCHED_EXT).join(file)).unwrap_or_default().trim().to_owned();
    ensure_unloaded(&read("state"), &read("root/ops"))?;
    ensure!(is_root() || find_program("sudo").is_some(), "root is needed: install sudo, or run this as root");
    Native.check("true", PASSWORD_LIMIT).context("commands cannot be run as root").map(drop)
}

fn ensure_unloaded(state: &str, ops: &str) -> Result<()> {
    let is_free = matches!(state, "" | "disabled");
    ensure!(is_free, "the scheduler {ops:?} is loaded on this machine: stop it first, such as with its service");
    Ok(())
}

/// Where a program is that a person would start by this name.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Builds the product, laid out under `tree`. Needs the root that builds and no guest's.
pub(crate) fn build_product(cache: &Cache, checkout: &Path, tree: &Path) -> Result<()> {
    let build_root = roots::build_root(cache)?;
    product::install(&Workspace::open(cache, &build_root, checkout)?, tree)
}

/// Runs commands on this machine until somebody interrupts the run; then it fails, for the machine to be put in order.
#[derive(Debug, Clone)]
pub(crate) struct LocalShell {
    is_interrupted: Arc<AtomicBool>,
    programs: Option<PathBuf>,
}

impl LocalShell {
    /// From now on a signal no longer ends this process. Programs in `programs` are found before others.
    pub(crate) fn new(programs: Option<&Path>) -> Result<Self> {
        let is_interrupted = Arc::default();
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&is_interrupted))?;
        }
        Ok(Self { is_interrupted, programs: programs.map(Path::to_owned) })
    }

    fn ensure_undisturbed(&self) -> Result<()> {
        ensure!(!self.is_interrupted.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }
}

impl Shell for LocalShell {
    fn run(&mut self, command: &str, limit: Duration) -> Result<CommandOutput> {
        self.ensure_undisturbed()?;
        let output = match &self.programs {
            // Sudo does not pass a path on.
            Some(dir) => Native.run(&format!("PATH='{}':$PATH\n{command}", dir.display()), limit),
            None => Native.run(command, limit),
        };
        self.ensure_undisturbed()?;
        output
    }

    fn patience(&self) -> u32 {
        Native.patience()
    }
}

/// A tree of files that is put onto this machine for a while.
#[derive(Debug)]
pub(crate) struct Installation<'a> {
    tree: &'a Path,
    files: Vec<PathBuf>,
    /// Directories that this machine does not have, and so are removed as well; a directory after those in it.
    new_directories: Vec<PathBuf>,
    has_state: bool,
}

impl<'a> Installation<'a> {
    /// Fails if Scherzo is installed already.
    pub(crate) fn of(tree: &'a Path) -> Result<Self> {
        let installation = Self::below(tree, Path::new("/"))?;
        let mut show_unit = Command::new("systemctl");
        show_unit.args(["cat", UNIT]).stdout(Stdio::null()).stderr(Stdio::null());
        let has_unit = show_unit.status().is_ok_and(|status| status.success());
        ensure!(!has_unit, "Scherzo is installed on this machine already, with {UNIT}: remove it first");
        Ok(installation)
    }

    fn below(tree: &'a Path, root: &Path) -> Result<Self> {
        let files = files_of(tree, Path::new(""))?;
        let present: Vec<_> = files.iter().map(|file| root.join(file)).filter(|file| file.exists()).collect();
        ensure!(present.is_empty(), "Scherzo is installed on this machine already: remove {present:?} first");
        let directories: BTreeSet<_> = files.iter().flat_map(|file| file.ancestors().skip(1)).collect();
        let is_new = |dir: &&Path| !root.join(dir).exists();
        let new_directories = directories.into_iter().rev().filter(is_new).map(Path::to_owned).collect();
        Ok(Self { tree, files, new_directories, has_state: Path::new(STATE_DIRECTORY).exists() })
    }

    /// Tells what is installed and `what` is done with it, and asks whether to go on.
    pub(crate) fn is_agreed(&self, what: &str) -> Result<bool> {
        println!("This installs on this machine:");
        for file in &self.files {
            println!("  /{}", file.display());
        }
        print!("{what}, and removes the files again. Go on? [y/N] ");
        io::stdout().flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Installs, does something, and removes everything, also if one of both has failed or was interrupted.
    pub(crate) fn during<T>(&self, work: impl FnOnce(LocalShell) -> Result<T>) -> Result<T> {
        let shell = LocalShell::new(None)?;
        // A terminal that is closed has whoever prints on it panic.
        let outcome = guarded(|| self.install().and_then(|()| work(shell)));
        let removed = Native.check(&self.removal(), INSTALL_LIMIT);
        let removed = removed.context("not everything that was installed is removed");
        outcome.and_then(|value| removed.map(|_| value))
    }

    fn install(&self) -> Result<()> {
        let tree = self.tree.to_str().context("the temporary directory's name is not UTF-8")?;
        let copy = format!("cd '{tree}' && tar -c --owner=0 --group=0 . | tar -x -C / --no-overwrite-dir");
        Native.check(&format!("{copy} && {RELOAD}"), INSTALL_LIMIT).map(drop)
    }

    fn removal(&self) -> String {
        let list =
            |paths: &[PathBuf]| paths.iter().map(|path| format!("'/{}'", path.display())).collect::<Vec<_>>().join(" ");
        let state = if self.has_state { String::new() } else { format!("rm -rf {STATE_DIRECTORY}; ") };
        let files = format!("rm -f {}; ", list(&self.files));
        let directories = match &self.new_directories[..] {
            [] => String::new(),
            new => format!("rmdir --ignore-fail-on-non-empty {} 2>/dev/null; ", list(new)),
        };
        format!("systemctl stop {UNIT}; {state}{files}{directories}{RELOAD}")
    }
}

/// All files below a directory, relative to it.
fn files_of(tree: &Path, below: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in tree.join(below).read_dir()? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files.extend(files_of(tree, &path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of these files.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for file in files {
            let path = tree.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        tree
    }

    #[test]
    fn what_is_removed_is_what_was_not_there() {
        let product = tree(&["usr/bin/scherzoctl", "usr/share/scherzo/icons/one.svg"]);
        let system = tree(&["usr/bin/true", "usr/share/man/true.1"]);
        let mut installation = Installation::below(product.path(), system.path()).unwrap();
        installation.files.sort();
        assert_eq!(installation.files, ["usr/bin/scherzoctl", "usr/share/scherzo/icons/one.svg"].map(PathBuf::from));
        let new = ["usr/share/scherzo/icons", "usr/share/scherzo"].map(PathBuf::from);
        assert_eq!(installation.new_directories, new);
        let removal = |has_state| {
            Installation { has_state, ..Installation::below(product.path(), system.path()).unwrap() }.removal()
        };
        assert!(removal(false).contains("rm -rf /var/lib/scherzo; "), "{}", removal(false));
        assert!(!removal(true).contains("/var/lib"), "{}", removal(true));
        for path in installation.files.iter().chain(&new) {
            assert!(removal(true).contains(&format!(" '/{}'", path.display())), "{}", removal(true));
        }
    }

    #[test]
    fn nothing_is_installed_over_what_is_there() {
        let product = tree(&["usr/bin/scherzoctl"]);
        let error = Installation::below(product.path(), product.path()).unwrap_err().to_string();
        assert!(error.starts_with("Scherzo is installed on this machine already"), "{error}");
    }

    #[test]
    fn a_scheduler_that_is_loaded_is_named() {
        for state in ["", "disabled"] {
            ensure_unloaded(state, "").unwrap();
        }
        let error = ensure_unloaded("enabled", "lavd").unwrap_err().to_string();
        assert!(error.starts_with("the scheduler \"lavd\" is loaded"), "{error}");
    }

    #[test]
    fn an_interrupted_shell_runs_nothing_more() {
        let shell = LocalShell { is_interrupted: Arc::default(), programs: None };
        shell.is_interrupted.store(true, Ordering::Relaxed);
        let error = shell.clone().run("true", INSTALL_LIMIT).unwrap_err().to_string();
        assert_eq!(error, "interrupted");
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find_program("sh").is_some_and(|program| program.ends_with("sh") && program.is_absolute()));
        assert_eq!(find_program("no-such-program"), None);
    }
}
