//! The Debian roots: one that builds (and holds QEMU), one that makes packages, one that is booted as the guest, two that
//! are booted to install packages in and to try every kernel, and two with desktops.

mod contents;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use crate::architecture::Architecture;
use crate::arm64;
use crate::cache::Cache;
use crate::kernels;
use crate::namespace::{self, is_root};
use crate::progress::{say, step};
pub use crate::system::System;
use contents::{
    BUILD_PACKAGES, DEPENDENCY_PACKAGES, DESKTOP_PACKAGES, DESKTOP_SETUP, GUEST_PACKAGES, NEXT_DESKTOP_PACKAGES,
    PACKAGE_PACKAGES, PACKAGE_SETUP, PROGRAM_PACKAGES, PROGRAMS_SETUP,
};
pub(crate) use contents::{BUILD_SETUP, GUEST_SETUP};

/// Debian 13.
pub(crate) const STABLE: &str = "trixie";
/// Where the newest of everything is.
const UNSTABLE: &str = "sid";

/// Another apt may be at work on the machine: a fresh one often updates itself.
const APT_PATIENCE: &str = "DPkg::Lock::Timeout=120";

/// What a machine behind a proxy needs to reach its mirror.
const PROXY_VARIABLES: &[&str] = &["http_proxy", "https_proxy", "no_proxy"];

fn packages(system: System) -> Vec<&'static str> {
    let more = match system {
        System::Small => PROGRAM_PACKAGES,
        System::ForPackages => DEPENDENCY_PACKAGES,
        System::EveryKernel | System::Arm64 => &[],
    };
    [GUEST_PACKAGES, more].concat()
}

/// A Debian root in the cache.
#[derive(Debug, Clone)]
pub struct DebianRoot {
    dir: PathBuf,
}

/// A host path made visible inside a root.
#[derive(Debug, Clone)]
pub struct Bind {
    /// The host's path.
    pub host: PathBuf,
    /// Where the root shows it; absolute.
    pub inside: PathBuf,
}

impl Bind {
    /// `host` shown as `inside`.
    pub fn new(host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        Self { host: host.into(), inside: inside.into() }
    }
}

/// The root that builds and emulates.
pub fn build_root(cache: &Cache) -> Result<DebianRoot> {
    let dir = cache.artefact("build-root", &build_recipe(), |dir| {
        let root = debian(dir, "build root", STABLE, &[], BUILD_PACKAGES)?;
        root.shell(&[], BUILD_SETUP)
    })?;
    Ok(DebianRoot { dir })
}

/// The root that compiles for a processor and emulates it.
pub fn build_root_for(cache: &Cache, architecture: Architecture) -> Result<DebianRoot> {
    match architecture {
        Architecture::X86_64 => build_root(cache),
        Architecture::Arm64 => arm64::cross_root(cache),
    }
}

/// What [`build_root`] is made from, for artefacts that are compiled in it.
#[must_use]
pub fn build_recipe() -> String {
    format!("{BUILD_PACKAGES:?}{BUILD_SETUP}")
}

/// The root that a guest boots, with the kernels.
pub fn guest_root(cache: &Cache, system: System) -> Result<DebianRoot> {
    if system == System::Arm64 {
        return arm64::guest_root(cache);
    }
    let kind = format!("{}guest-root", system.prefix());
    let dir = cache.artefact(&kind, &guest_recipe(system), |dir| {
        let root = debian(dir, &kind, STABLE, &[], &packages(system))?;
        root.shell(&[], GUEST_SETUP)?;
        if system == System::Small {
            step("adding programs to the guest root", || root.shell(&[], PROGRAMS_SETUP))?;
        }
        let build_root = build_root(cache)?;
        let install = if system == System::EveryKernel { kernels::every::install } else { kernels::install };
        step("adding kernels to the guest root", || install(&root, &build_root))
    })?;
    Ok(DebianRoot { dir })
}

/// The root that makes packages.
pub fn package_root(cache: &Cache) -> Result<DebianRoot> {
    let dir = cache.artefact("package-root", &format!("{PACKAGE_PACKAGES:?}{PACKAGE_SETUP}"), |dir| {
        let root = debian(dir, "package root", STABLE, &[], PACKAGE_PACKAGES)?;
        step("adding a newer compiler to the package root", || root.shell(&[], PACKAGE_SETUP))
    })?;
    Ok(DebianRoot { dir })
}

/// The root with the desktops that people have today.
pub fn desktop_root(cache: &Cache) -> Result<DebianRoot> {
    desktop(cache, "desktop-root", "desktop root", STABLE, DESKTOP_PACKAGES)
}

/// The root with the newest GNOME Shell.
pub fn next_desktop_root(cache: &Cache) -> Result<DebianRoot> {
    desktop(cache, "next-desktop-root", "root of the next desktop", UNSTABLE, NEXT_DESKTOP_PACKAGES)
}

fn desktop(cache: &Cache, kind: &str, name: &str, suite: &str, packages: &[&str]) -> Result<DebianRoot> {
    let recipe = format!("{suite}{packages:?}{DESKTOP_SETUP}");
    let dir =
        cache.artefact(kind, &recipe, |dir| debian(dir, name, suite, &[], packages)?.shell(&[], DESKTOP_SETUP))?;
    Ok(DebianRoot { dir })
}

/// What [`guest_root`] is made from, for artefacts that depend on it.
#[must_use]
pub fn guest_recipe(system: System) -> String {
    let every = if system == System::EveryKernel { kernels::every::recipe() } else { String::new() };
    let programs = if system == System::Small { PROGRAMS_SETUP } else { "" };
    format!("{:?}{GUEST_SETUP}{programs}{}{every}", packages(system), kernels::recipe())
}

/// `architectures` are those of the packages, this machine's first; none is named if there is no other.
pub(crate) fn debian(
    dir: &Path,
    name: &str,
    suite: &str,
    architectures: &[Architecture],
    packages: &[&str],
) -> Result<DebianRoot> {
    require_mmdebstrap()?;
    let what = format!("making the {name} (Debian {suite}, {} packages and what they need)", packages.len());
    step(&what, || bootstrap(dir, suite, architectures, packages))?;
    Ok(DebianRoot { dir: dir.to_owned() })
}

/// Unpacks a tar stream of mmdebstrap's rather than letting it write the directory: for ordinary users the stream comes
/// from mmdebstrap's own user namespace, and must land in the one that [`DebianRoot::command`] uses.
fn bootstrap(dir: &Path, suite: &str, architectures: &[Architecture], packages: &[&str]) -> Result<()> {
    fs::create_dir_all(dir)?;
    let mut make = Command::new("mmdebstrap");
    make.args(["--variant=minbase", "--skip=output/dev", "--aptopt=Acquire::Check-Valid-Until \"false\""]);
    make.arg(format!("--mode={}", if is_root() { "root" } else { "unshare" }));
    if !architectures.is_empty() {
        let names: Vec<_> = architectures.iter().map(|architecture| architecture.name()).collect();
        make.arg(format!("--architectures={}", names.join(",")));
    }
    make.arg(format!("--include={}", packages.join(","))).args(["--format=tar", suite, "-"]);
    let mut make = make.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stream = make.stdout.take().context("no output")?;
    let mut log = make.stderr.take().context("no log")?;
    let log = std::thread::spawn(move || {
        let mut text = String::new();
        log.read_to_string(&mut text).map(|_| text)
    });
    let mut unpack = namespace::command();
    unpack.args(["tar", "-x", "--numeric-owner", "-C"]).arg(dir).stdin(stream);
    let unpacked = run(&mut unpack);
    let status = make.wait()?;
    let log = log.join().unwrap_or_else(|_| Ok(String::new()))?;
    ensure!(status.success(), "mmdebstrap failed:\n{}", tail(&log, 30));
    unpacked
}

impl DebianRoot {
    /// A root that has been made.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The root's directory on the host.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command that runs `program` inside the root with a clean environment.
    ///
    /// It ends, with everything that it started, when the thread that spawns it ends: spawn from a thread that stays.
    #[must_use]
    pub fn command(&self, binds: &[Bind], program: &str) -> Command {
        let mut command = namespace::command();
        command.args(["sh", "-euc", &self.entry(binds), "sh", program]);
        command.env_clear();
        command.envs([
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", "/root"),
            ("LANG", "C.UTF-8"),
        ]);
        command.envs(PROXY_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command
    }

    /// Runs a shell script inside, for its effect.
    pub fn shell(&self, binds: &[Bind], script: &str) -> Result<()> {
        run(self.command(binds, "sh").args(["-euc", script]))
    }

    /// Runs a shell script inside, for its output.
    pub fn output(&self, binds: &[Bind], script: &str) -> Result<String> {
        output(self.command(binds, "sh").args(["-euc", script]))
    }

    /// Mounts what a program needs, all of it in this process's own namespace, and becomes the program.
    fn entry(&self, binds: &[Bind]) -> String {
        let system = "mkdir -p dev; mount -t proc proc proc; mount --rbind /dev dev; mount --rbind /sys sys; \
                      mount -t tmpfs tmpfs tmp; mount -t tmpfs tmpfs run";
        let bind = |Bind { host, inside }: &Bind| {
            let inside = quote(inside);
            let make = if host.is_dir() {
                format!("mkdir -p .{inside}")
            } else {
                format!("mkdir -p $(dirname .{inside}); touch .{inside}")
            };
            format!("{make}; mount --rbind {} .{inside}", quote(host))
        };
        let enter = format!("cd {}", quote(&self.dir));
        let become_it = "exec chroot . \"$@\"".to_owned();
        let lines = [enter, system.to_owned()].into_iter().chain(binds.iter().map(bind)).chain([become_it]);
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Single quotes for the shell.
fn quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Runs to the end; the error holds the end of what was printed.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String> {
    if command.get_program() == "setpriv" {
        command.stderr(Stdio::piped());
    }
    let output = command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} ({}):\n{}{}", describe(command), output.status, tail(&stdout, 20), tail(&stderr, 20));
    }
    Ok(stdout)
}

fn describe(command: &Command) -> String {
    let last = command.get_args().last().map(|arg| arg.display().to_string()).unwrap_or_default();
    format!("failed: {} …", last.trim().lines().next().unwrap_or_default())
}

/// The last `nr_lines` of a text.
#[must_use]
pub fn tail(text: &str, nr_lines: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(nr_lines)..].iter().fold(String::new(), |all, line| all + line + "\n")
}

/// Installs mmdebstrap where that is Debian's way and we may; names it where not.
fn require_mmdebstrap() -> Result<()> {
    // Several roots are made at a time: who comes second finds it installed.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut wanted = vec![("mmdebstrap", "mmdebstrap")];
    if !is_root() {
        wanted.push(("newuidmap", "uidmap"));
    }
    let missing: Vec<_> =
        wanted.into_iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    let sudo = !is_root();
    let can_install = is_installed("apt-get") && (!sudo || is_installed("sudo"));
    ensure!(can_install, "missing on this machine: {names}. Install it with your package manager and run this again.");
    say(&format!("installing {names} on this machine (the only thing this needs beyond the Rust toolchain)"));
    let apt_get = |arguments: &[&str]| -> Result<bool> {
        let mut command = if sudo { Command::new("sudo") } else { Command::new("env") };
        command.args(["apt-get", "-o", APT_PATIENCE]).args(arguments);
        Ok(command.stdin(Stdio::inherit()).status()?.success())
    };
    let install = [&["install", "-y", "--no-install-recommends"], &missing[..]].concat();
    // Package lists that are older than the archive name files that are gone.
    let installed = apt_get(&install)? || (apt_get(&["update"])? && apt_get(&install)?);
    ensure!(installed, "could not install {names}: install it yourself and run this again");
    Ok(())
}

fn is_installed(program: &str) -> bool {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&dirs).any(|dir| dir.join(program).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(quote(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }

    #[test]
    fn a_tail_is_at_most_what_there_is() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc\n");
        assert_eq!(tail("a", 5), "a\n");
    }
}
