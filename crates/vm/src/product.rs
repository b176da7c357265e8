//! The one list of what an installed Scherzo consists of, and where each file goes.
//!
//! Three sources: programs that cargo builds, files of the checkout, and what a built `scherzoctl` writes about itself.
//! [`lay_out`] puts them below a directory, for this machine or for a package; [`Layout`] says under which prefix. Then
//! [`translations`] adds the languages.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::build::Workspace;
use crate::translations;

/// Where the directories of an installation are, as the installed system sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What everything else is below.
    pub prefix: PathBuf,
    /// Programs that only programs start, below the prefix. `scherzod` looks for its engine where `SCHERZO_LIBEXECDIR`
    /// pointed when it was built.
    pub libexec: PathBuf,
    /// Where zsh looks for completions, below the prefix: Debian has a place of its own.
    pub zsh_completions: PathBuf,
}

impl Default for Layout {
    fn default() -> Self {
        Self { prefix: "/usr".into(), libexec: "libexec".into(), zsh_completions: "share/zsh/site-functions".into() }
    }
}

/// A directory of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dir {
    /// The same on every system, below the prefix.
    Fixed(&'static str),
    Libexec,
    ZshCompletions,
}

const BIN: Dir = Dir::Fixed("bin");
const SHARE: Dir = Dir::Fixed("share/scherzo");
const MAN1: Dir = Dir::Fixed("share/man/man1");
const MAN8: Dir = Dir::Fixed("share/man/man8");
const UNITS: Dir = Dir::Fixed("lib/systemd/system");
const BUS_POLICY: Dir = Dir::Fixed("share/dbus-1/system.d");
const BUS_ACTIVATION: Dir = Dir::Fixed("share/dbus-1/system-services");
const BUS_INTERFACES: Dir = Dir::Fixed("share/dbus-1/interfaces");
const POLKIT_ACTIONS: Dir = Dir::Fixed("share/polkit-1/actions");
const BASH_COMPLETIONS: Dir = Dir::Fixed("share/bash-completion/completions");
const FISH_COMPLETIONS: Dir = Dir::Fixed("share/fish/vendor_completions.d");
const APPLICATIONS: Dir = Dir::Fixed("share/applications");
const ICONS: Dir = Dir::Fixed("share/icons/hicolor/scalable/apps");
const SYMBOLIC_ICONS: Dir = Dir::Fixed("share/icons/hicolor/symbolic/apps");
const METAINFO: Dir = Dir::Fixed("share/metainfo");
/// For folders that are named as there.
const SHARE_TOP: Dir = Dir::Fixed("share");
const USER_UNITS: Dir = Dir::Fixed("lib/systemd/user");
const GNOME_SHELL_EXTENSIONS: Dir = Dir::Fixed("share/gnome-shell/extensions");
const GNOME_SHELL_ICONS: Dir = Dir::Fixed("share/gnome-shell/extensions/scherzo@scherzo.org/icons");
const GNOME_SHELL_EXTENSION: Dir = Dir::Fixed("share/gnome-shell/extensions/scherzo@scherzo.org");

/// A program: its package, its name, its directory.
struct Program(&'static str, &'static str, Dir);

const PROGRAMS: &[Program] = &[
    Program("scherzo-daemon", "scherzod", Dir::Libexec),
    Program("scherzo-engine", "scherzo-engine", Dir::Libexec),
    Program("scherzo-ctl", "scherzoctl", BIN),
    Program("scherzo-bench", "scherzo-bench", BIN),
    Program("scherzo-tray", "scherzo-tray", BIN),
    Program("scherzo-app", "scherzo", BIN),
];

/// Files of the checkout, and folders that are installed with all that is in them, without their own name if that ends in
/// a slash. A file may have two places, where
/// whoever reads it must be complete in itself.
const FILES: &[(&str, Dir)] = &[
    ("crates/app/data/icons/org.scherzo.Scherzo-symbolic.svg", SYMBOLIC_ICONS),
    ("crates/app/data/icons/org.scherzo.Scherzo.svg", ICONS),
    ("crates/app/data/org.scherzo.Scherzo.desktop", APPLICATIONS),
    ("crates/app/data/org.scherzo.Scherzo.metainfo.xml", METAINFO),
    ("data/gnome-shell/scherzo@scherzo.org", GNOME_SHELL_EXTENSIONS),
    ("data/icons", SHARE_TOP),
    ("data/icons/hicolor/symbolic/apps/", GNOME_SHELL_ICONS),
    ("data/org.scherzo.Scheduler1.conf", BUS_POLICY),
    ("data/org.scherzo.Scheduler1.policy", POLKIT_ACTIONS),
    ("data/org.scherzo.Scheduler1.service", BUS_ACTIVATION),
    ("data/org.scherzo.Tray.desktop", APPLICATIONS),
    ("data/scherzo-applications.service", USER_UNITS),
    ("data/scherzo.toml", SHARE),
    ("data/scherzod.8", MAN8),
    ("data/scherzod.service", UNITS),
    ("dbus/org.scherzo.Scheduler1.xml", BUS_INTERFACES),
    ("dbus/org.scherzo.Scheduler1.xml", GNOME_SHELL_EXTENSION),
];

/// The program that describes itself, with the arguments that make it do so.
const GENERATOR: (&str, &str) = ("scherzoctl", "generate");
/// What it writes: the end of a file's name, the directory, and the installed name if that is another one.
const GENERATED: &[(&str, Dir, Option<&str>)] = &[
    (".1", MAN1, None),
    ("scherzoctl.bash", BASH_COMPLETIONS, Some("scherzoctl")),
    ("_scherzoctl", Dir::ZshCompletions, None),
    ("scherzoctl.fish", FISH_COMPLETIONS, None),
];

/// Directories as they are written in the checkout's files, to be replaced by the layout's.
const DIRS_IN_FILES: &[(&str, Dir)] = &[("/usr/libexec/", Dir::Libexec), ("/usr/bin/", BIN)];

/// Packages to build, and the programs among what they build.
#[must_use]
pub fn programs() -> (Vec<&'static str>, Vec<&'static str>) {
    PROGRAMS.iter().map(|Program(package, name, _)| (*package, *name)).unzip()
}

/// Builds the checkout in the build root and lays it out under `tree` as its package would on a real system.
pub fn install(workspace: &Workspace<'_>, tree: &Path) -> Result<()> {
    let built = tempfile::tempdir()?;
    let (packages, names) = programs();
    workspace.build(&packages, &names, built.path())?;
    let generated = tempfile::tempdir()?;
    let (program, argument) = GENERATOR;
    workspace.run(&built.path().join(program), argument, generated.path())?;
    let sources = Sources { checkout: workspace.checkout(), programs: built.path(), generated: generated.path() };
    lay_out(&sources, &Layout::default(), tree)?;
    translations::install(workspace, tree)
}

/// Where the parts of an installation come from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The checkout.
    pub checkout: &'a Path,
    /// The programs of [`programs`].
    pub programs: &'a Path,
    /// What `scherzoctl generate` has written.
    pub generated: &'a Path,
}

/// Puts everything below `destination`, which stands for the installed system's `/`.
pub fn lay_out(sources: &Sources<'_>, layout: &Layout, destination: &Path) -> Result<()> {
    let to = |dir: Dir| layout.below(destination, dir);
    for Program(_, name, dir) in PROGRAMS {
        put(&fs::read(sources.programs.join(name)).context(*name)?, &to(*dir).join(name), 0o755)?;
    }
    for (source, dir) in FILES {
        layout.put_file(&sources.checkout.join(source), &to(*dir))?;
    }
    for entry in fs::read_dir(sources.generated)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a name is not UTF-8")?;
        // Shells that nobody asked for yet are left out.
        if let Some((_, dir, installed)) = GENERATED.iter().find(|(end, ..)| name.ends_with(end)) {
            put(&fs::read(&path)?, &to(*dir).join(installed.unwrap_or(name)), 0o644)?;
        }
    }
    Ok(())
}

impl Layout {
    fn below(&self, destination: &Path, dir: Dir) -> PathBuf {
        let prefix = destination.join(self.prefix.strip_prefix("/").unwrap_or(&self.prefix));
        match dir {
            Dir::Fixed(dir) => prefix.join(dir),
            Dir::Libexec => prefix.join(&self.libexec),
            Dir::ZshCompletions => prefix.join(&self.zsh_completions),
        }
    }

    /// Copies a file, or a folder's content, into a directory. Units name programs by their path: those follow.
    fn put_file(&self, source: &Path, dir: &Path) -> Result<()> {
        let target = dir.join(source.file_name().context("no file name")?);
        if source.is_dir() {
            let target = if source.as_os_str().as_bytes().ends_with(b"/") { dir } else { &target };
            for entry in fs::read_dir(source)? {
                self.put_file(&entry?.path(), target)?;
            }
            return Ok(());
        }
        let content = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
        let Ok(text) = str::from_utf8(&content) else { return put(&content, &target, 0o644) };
        let text = DIRS_IN_FILES.iter().fold(text.to_owned(), |text, (written, dir)| {
            text.replace(written, &format!("{}/", self.below(Path::new("/"), *dir).display()))
        });
        put(text.as_bytes(), &target, 0o644)
    }
}

fn put(content: &[u8], to: &Path, mode: u32) -> Result<()> {
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
        fs::write(to, content)?;
        fs::set_permissions(to, fs::Permissions::from_mode(mode))
    };
    write().with_context(|| format!("cannot install {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    /// Stand-ins for what is built, and the checkout's own files.
    fn laid_out(layout: &Layout) -> tempfile::TempDir {
        let (programs_dir, generated, tree) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in programs().1 {
            fs::write(programs_dir.path().join(name), name).unwrap();
        }
        for name in ["scherzoctl.1", "scherzoctl-run.1", "scherzoctl.bash", "_scherzoctl", "scherzoctl.elv"] {
            fs::write(generated.path().join(name), name).unwrap();
        }
        let sources = Sources { checkout: checkout(), programs: programs_dir.path(), generated: generated.path() };
        lay_out(&sources, layout, tree.path()).unwrap();
        tree
    }

    #[test]
    fn files_go_where_the_system_looks() {
        let tree = laid_out(&Layout::default());
        for file in [
            "usr/bin/scherzoctl",
            "usr/libexec/scherzod",
            "usr/lib/systemd/system/scherzod.service",
            "usr/share/dbus-1/system-services/org.scherzo.Scheduler1.service",
            "usr/share/man/man1/scherzoctl-run.1",
            "usr/share/man/man8/scherzod.8",
            "usr/share/bash-completion/completions/scherzoctl",
            "usr/share/zsh/site-functions/_scherzoctl",
            "usr/share/gnome-shell/extensions/scherzo@scherzo.org/metadata.json",
            "usr/share/icons/hicolor/symbolic/apps/scherzo-off-symbolic.svg",
            "usr/share/gnome-shell/extensions/scherzo@scherzo.org/org.scherzo.Scheduler1.xml",
        ] {
            assert!(tree.path().join(file).is_file(), "{file}");
        }
        let mode = |file: &str| fs::metadata(tree.path().join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("usr/bin/scherzoctl"), mode("usr/share/scherzo/scherzo.toml")), (0o755, 0o644));
    }

    #[test]
    fn another_prefix_moves_everything_and_units_follow() {
        let layout = Layout { prefix: "/opt/scherzo".into(), libexec: "lib/scherzo".into(), ..Layout::default() };
        let tree = laid_out(&layout);
        let top: Vec<_> = fs::read_dir(tree.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(top, ["opt"]);
        let unit = fs::read_to_string(tree.path().join("opt/scherzo/lib/systemd/system/scherzod.service")).unwrap();
        assert!(unit.contains("ExecStart=/opt/scherzo/lib/scherzo/scherzod\n"), "{unit}");
        assert!(tree.path().join("opt/scherzo/lib/scherzo/scherzo-engine").is_file());
    }

    #[test]
    fn nothing_is_forgotten() {
        for folder in ["data", "dbus"] {
            for entry in fs::read_dir(checkout().join(folder)).unwrap() {
                let path = format!("{folder}/{}", entry.unwrap().file_name().display());
                let listed = FILES.iter().any(|(file, _)| *file == path || file.starts_with(&format!("{path}/")));
                assert!(listed, "{path} has no place in an installation: name one in product.rs");
            }
        }
    }
}
