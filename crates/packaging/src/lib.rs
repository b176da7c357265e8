//! Packages for distributions, made in the package root from vendored sources without a network.
//!
//! The checkout is packaged as it is, including uncommitted changes. It is copied into a directory of the cache;
//! unchanged files keep their time stamps, so that the next build is incremental. All formats share the compiled
//! artefacts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use scherzo_install::PARTS;

use scherzo_rig::cache::Cache;
use scherzo_rig::image::copy_tree;
use scherzo_rig::namespace;
use scherzo_rig::progress::step;
use scherzo_rig::roots::{self, Bind, DebianRoot, run};
use scherzo_scenarios as scenarios;

/// The directory of the packages in the guests that test them, with a subdirectory for each revision.
pub const PACKAGES_DIR: &str = "/packages";
/// The directory of the scripts that use the app there.
pub const SCRIPTS_DIR: &str = "/packages/desktop";

/// The revisions that are made for guests: one to install, and one to upgrade to.
pub const REVISIONS: &[u32] = &[1, 2];
/// The test that is part of the packages.
const PACKAGE_TEST: &str = "packaging/debian/tests/smoke";

/// A script that records all files and settings of a system as `$NOTES/$1`.
pub const NOTE: &str = include_str!("../scripts/note.sh");

/// Parts of the checkout that are not sources.
const NOT_SOURCES: &[&str] = &[".git", ".ci", "target", "vendor"];

/// A kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageFormat {
    /// Debian, Ubuntu.
    Deb,
    /// Fedora.
    Rpm,
    /// Arch Linux.
    Arch,
}

impl fmt::Display for PackageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deb => "deb",
            Self::Rpm => "rpm",
            Self::Arch => "arch",
        })
    }
}

/// All that packages are made from.
#[derive(Debug)]
pub struct Maker<'a> {
    cache: &'a Cache,
    root: DebianRoot,
    vendor: PathBuf,
    source: PathBuf,
    version: String,
}

impl<'a> Maker<'a> {
    /// Makes what is not in the cache yet.
    pub fn prepare(cache: &'a Cache, checkout: &Path) -> Result<Self> {
        let root = roots::package_root(cache)?;
        let vendor = vendor(cache, checkout)?;
        let version = version(checkout)?;
        Ok(Self { cache, root, vendor, source: checkout.canonicalize()?, version })
    }

    /// The root in which packages are made and checked.
    #[must_use]
    pub fn root(&self) -> &DebianRoot {
        &self.root
    }

    /// Makes the packages of one format, and puts them into `to`. `revision` is the distribution's own number beside
    /// the version.
    pub fn make(&self, format: PackageFormat, revision: u32, to: &Path) -> Result<()> {
        fs::create_dir_all(to)?;
        let script = match format {
            PackageFormat::Deb => include_str!("../scripts/deb.sh"),
            PackageFormat::Rpm => include_str!("../scripts/rpm.sh"),
            PackageFormat::Arch => include_str!("../scripts/arch.sh"),
        };
        let environment = [("REVISION", revision.to_string())];
        let what = format!("making {format} packages");
        step(&what, || self.run(script, &environment, to)).context(what)
    }

    /// Compiles the service once more, elsewhere: it must be the same as where Debian's package is made, byte by byte.
    pub fn reproduce(&self) -> Result<()> {
        let made = tempfile::tempdir()?;
        let what = "compiling the service twice, in different directories";
        let script = include_str!("../scripts/reproducible.sh");
        step(what, || self.run(script, &[], made.path())).context(what)?;
        let read = |name: &str| fs::read_to_string(made.path().join(name)).with_context(|| format!("no {name}"));
        let (first, second) = (read("first")?, read("second")?);
        ensure!(first == second && first.lines().count() == 1, "the programs differ:\n{first}{second}");
        println!("compiled in different directories, byte by byte the same:\n{}", first.trim_end());
        Ok(())
    }

    /// Runs a script in the package root with the sources; what it makes goes to `to`.
    fn run(&self, script: &str, environment: &[(&str, String)], to: &Path) -> Result<()> {
        let _lock = self.cache.lock("package-target")?;
        let source = self.cache.path("package-source");
        let target = self.cache.path("package-target");
        fs::create_dir_all(&target)?;
        update_copy(&self.source, &source)?;
        let scratch = tempfile::tempdir()?;
        let binds = [
            Bind::new(&source, "/package/source"),
            Bind::new(&target, "/package/target"),
            Bind::new(scratch.path(), "/build"),
            Bind::new(&self.vendor, "/usr/share/scherzo-vendor"),
            Bind::new(to, "/package/out"),
        ];
        let mut command = self.root.command(&binds, "sh");
        command.args(["-euc", &format!("{BEGIN}{script}")]).envs(environment.iter().map(|(name, value)| (name, value)));
        command.env("VERSION", &self.version);
        let made = run(&mut command);
        namespace::remove(scratch.path())?;
        made
    }

    /// Fails unless the packages of a format hold the same files as Debian's.
    pub fn compare(&self, format: PackageFormat, dir: &Path, debian: &Path) -> Result<()> {
        let (theirs, debians) = (self.contents(format, dir)?, self.contents(PackageFormat::Deb, debian)?);
        ensure!(!debians.is_empty(), "there are no packages in {}", debian.display());
        for part in PARTS {
            let name = part.package();
            let none = BTreeSet::new();
            let (here, there) = (theirs.get(name).unwrap_or(&none), debians.get(name).unwrap_or(&none));
            let differences: Vec<_> = here.symmetric_difference(there).collect();
            ensure!(differences.is_empty(), "{format} and deb do not agree on what is in {name}: {differences:?}");
            ensure!(!here.is_empty(), "{name} is empty");
        }
        Ok(())
    }

    /// Files of each package, under the names that Debian gives their directories.
    fn contents(&self, format: PackageFormat, dir: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let list = match format {
            PackageFormat::Deb => LIST_DEB,
            PackageFormat::Rpm => LIST_RPM,
            PackageFormat::Arch => LIST_ARCH,
        };
        let text = self.root.output(&[Bind::new(dir, "/package/made")], list)?;
        let mut contents: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in text.lines() {
            let (package, path) = line.split_once(' ').context("no path")?;
            if let Some(path) = as_in_debian(path) {
                contents.entry(package.to_owned()).or_default().insert(path);
            }
        }
        Ok(contents)
    }
}

/// Print the package's name and a path without its leading slash for each file.
const LIST_DEB: &str = "
for file in /package/made/*.deb; do
    name=$(dpkg-deb -f $file Package)
    dpkg-deb --fsys-tarfile $file | tar -t | grep -v '/$' | sed \"s,^\\./,$name ,\"
done";
const LIST_RPM: &str = "
for file in /package/made/*.rpm; do
    name=$(rpm -qp --qf '%{NAME}' $file)
    rpm -qp --qf \"[%{FILEMODES:perms} $name %{FILENAMES}\\n]\" $file | grep -v '^d' | sed 's,^[^ ]* ,,; s, /, ,'
done";
const LIST_ARCH: &str = "
for file in /package/made/*.pkg.tar.*; do
    name=$(bsdtar -xOqf $file .PKGINFO | sed -n 's/^pkgname = //p')
    bsdtar -tf $file | grep -v -e '/$' -e '^\\.' | sed \"s,^,$name ,\"
done";

/// A path as Debian has it; nothing for what each distribution adds in its own way.
fn as_in_debian(path: &str) -> Option<String> {
    let own = [
        "usr/share/doc/",
        "usr/share/licenses/",
        "usr/share/lintian/",
        "usr/lib/systemd/system-preset/",
        "usr/lib/.build-id/",
    ];
    if own.iter().any(|start| path.starts_with(start)) {
        return None;
    }
    let path = path.strip_suffix(".gz").unwrap_or(path);
    let path = path.replace("usr/lib/scherzo/", "usr/libexec/");
    Some(path.replace("zsh/site-functions", "zsh/vendor-completions"))
}

/// Installs, tests, upgrades and purges the packages of a tree in a guest's root, as far as that goes without systemd
/// and in much less time than in the guest; afterwards every file must be what it was. The root itself is not changed.
pub fn try_in_root(guest_root: &DebianRoot, tree: &Path) -> Result<()> {
    let packages = Bind::new(tree.join(PACKAGES_DIR.trim_start_matches('/')), PACKAGES_DIR);
    let mut command = guest_root.command(&[packages], "sh");
    command.args(["-euc", include_str!("../scripts/in-root.sh")]).env("NOTE", NOTE);
    run(&mut command)
}

/// Where a revision lies in a tree that is put over the guest's root.
#[must_use]
pub fn dir(tree: &Path, revision: u32) -> PathBuf {
    tree.join(PACKAGES_DIR.trim_start_matches('/')).join(revision.to_string())
}

/// Adds the test that the packages bring to such a tree, and the scripts that use the app.
pub fn add_tests(checkout: &Path, tree: &Path) -> Result<()> {
    let packages = tree.join(PACKAGES_DIR.trim_start_matches('/'));
    fs::copy(checkout.join(PACKAGE_TEST), packages.join("smoke")).context(PACKAGE_TEST)?;
    copy_tree(&checkout.join(scenarios::SCRIPTS), &tree.join(SCRIPTS_DIR.trim_start_matches('/')))
}

/// Each format builds in a directory of its own, but cargo reuses what was compiled for the first one, because
/// `packaging/cargo` keeps directory names out of the artefacts. libbpf is rebuilt: its makefile does not notice that
/// the flags for C change from format to format.
const BEGIN: &str = "
ln -sfn /usr/bin/env /usr/local/bin/rustc-for-deb
export RUSTC_WORKSPACE_WRAPPER=/usr/local/bin/rustc-for-deb
export CARGO_TARGET_DIR=/package/target SCHERZO_VENDOR=/usr/share/scherzo-vendor
rm -rf $CARGO_TARGET_DIR/release/build/libbpf-sys-*/out/obj
";

/// The sources of all crates that the lock file names.
fn vendor(cache: &Cache, checkout: &Path) -> Result<PathBuf> {
    let lock = fs::read_to_string(checkout.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    cache.artefact("vendor", &foreign(&lock), |dir| {
        let mut vendor = Command::new("cargo");
        vendor.args(["vendor", "--quiet", "--locked", "--versioned-dirs"]).arg(dir).current_dir(checkout);
        step("fetching the sources of all dependencies", || run(&mut vendor))
    })
}

/// The entries of a lock file for external crates. Those of the workspace change more often and are not vendored.
fn foreign(lock: &str) -> String {
    lock.split("\n\n").filter(|entry| entry.contains("\nsource = ")).collect::<Vec<_>>().join("\n\n")
}

/// The version in the workspace's manifest.
fn version(checkout: &Path) -> Result<String> {
    let manifest = fs::read_to_string(checkout.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).context("Cargo.toml names no version")
}

/// Makes `to` a copy of the sources in `from`, leaving alone what is the same already.
fn update_copy(from: &Path, to: &Path) -> Result<()> {
    let copied = copy(from, to, NOT_SOURCES).with_context(|| format!("cannot copy {}", from.display()))?;
    ensure!(copied > 0, "there are no sources in {}", from.display());
    Ok(())
}

fn copy(from: &Path, to: &Path, without: &[&str]) -> Result<usize> {
    fs::create_dir_all(to)?;
    let mut names = BTreeSet::new();
    let mut nr_files = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, target) = (entry.file_name(), to.join(entry.file_name()));
        if without.iter().any(|other| name == *other) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            nr_files += copy(&entry.path(), &target, &[])?;
        } else {
            let content = fs::read(entry.path())?;
            if fs::read(&target).ok() != Some(content) {
                fs::copy(entry.path(), &target)?;
            }
            nr_files += 1;
        }
        names.insert(name);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !names.contains(&entry.file_name()) {
            namespace::remove(&entry.path())?;
        }
    }
    Ok(nr_files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_and_leaves_alone_what_is_the_same() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for file in ["same", "changed", "gone"] {
            fs::write(from.path().join(file), file).unwrap();
        }
        fs::create_dir_all(from.path().join("target")).unwrap();
        update_copy(from.path(), to.path()).unwrap();
        let modified = |file: &str| fs::metadata(to.path().join(file)).unwrap().modified().unwrap();
        let before = modified("same");
        fs::write(from.path().join("changed"), "other").unwrap();
        fs::remove_file(from.path().join("gone")).unwrap();
        update_copy(from.path(), to.path()).unwrap();
        assert_eq!(fs::read_to_string(to.path().join("changed")).unwrap(), "other");
        assert_eq!(modified("same"), before);
        assert!(!to.path().join("gone").exists() && !to.path().join("target").exists());
    }

    #[test]
    fn vendored_sources_do_not_depend_on_our_own_crates() {
        let lock = "version = 4\n\n[[package]]\nname = \"own\"\n\n[[package]]\nname = \"other\"\nsource = \"x\"\n";
        assert_eq!(foreign(lock), "[[package]]\nname = \"other\"\nsource = \"x\"\n");
    }

    #[test]
    fn each_distributions_own_directories_are_compared_with_debians() {
        assert_eq!(as_in_debian("usr/lib/scherzo/scherzod").unwrap(), "usr/libexec/scherzod");
        assert_eq!(as_in_debian("usr/share/man/man8/scherzod.8.gz").unwrap(), "usr/share/man/man8/scherzod.8");
        assert_eq!(as_in_debian("usr/share/doc/scherzo/copyright"), None);
    }

    #[test]
    fn the_version_is_the_workspaces_everywhere() {
        let checkout = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let version = version(checkout).unwrap();
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        for (file, line) in [
            ("packaging/debian/changelog", format!("scherzo ({version}-")),
            ("packaging/fedora/scherzo.spec", format!("\nVersion:        {version}\n")),
            ("packaging/arch/PKGBUILD", format!("\npkgver={version}\n")),
        ] {
            let text = fs::read_to_string(checkout.join(file)).unwrap();
            assert!(text.contains(&line), "{file} names another version than {version}");
        }
    }
}
