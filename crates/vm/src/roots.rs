//! The two Debian 13 roots: one that builds (and holds QEMU), one that is booted as the guest.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::Cache;
use crate::kernels;
use crate::namespace::{self, is_root};
use crate::progress::{say, step};

/// Everything that compiles, tests and emulates.
const BUILD_PACKAGES: &[&str] = &[
    "busybox-static",
    "ca-certificates",
    "clang-19",
    "cpio",
    "dbus-bin",
    "dbus-daemon",
    "e2fsprogs",
    "gcc",
    "kmod",
    "libc6-dev",
    "libelf-dev",
    "make",
    "pkg-config",
    "qemu-system-x86",
    "xz-utils",
    "zlib1g-dev",
    "zstd",
];

/// A small system with the services that a desktop has, and the loads that the cases use.
const GUEST_PACKAGES: &[&str] = &[
    "bpftool",
    "busybox",
    "ca-certificates",
    "dbus",
    "kmod",
    "libelf1t64",
    "polkitd",
    "procps",
    "stress-ng",
    "systemd",
    "systemd-sysv",
    "udev",
    "util-linux",
    "zlib1g",
];

/// Run inside the build root once it is there: BPF builds look for plain `clang`.
const BUILD_SETUP: &str = "ln -sf clang-19 /usr/bin/clang; ln -sf llvm-strip-19 /usr/bin/llvm-strip";

/// Run inside the guest root once it is there: nothing that wakes up by itself, and one ordinary user.
const GUEST_SETUP: &str = "
    passwd -d root
    useradd --create-home --uid 1000 person
    echo scherzo-guest >/etc/hostname
    : >/etc/fstab
    for unit in serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer \
        dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service; do
        ln -sf /dev/null /etc/systemd/system/$unit
    done
    rm -rf /var/cache/apt/archives/*.deb";

/// What a machine behind a proxy needs to reach its mirror.
const PROXY_VARIABLES: &[&str] = &["http_proxy", "https_proxy", "no_proxy"];

/// A Debian root in the cache.
#[derive(Debug, Clone)]
pub struct Root {
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
pub fn build_root(cache: &Cache) -> Result<Root> {
    let recipe = format!("{BUILD_PACKAGES:?}{BUILD_SETUP}");
    let dir = cache.artefact("build-root", &recipe, |dir| {
        let root = debian(dir, "build root", BUILD_PACKAGES)?;
        root.shell(&[], BUILD_SETUP)
    })?;
    Ok(Root { dir })
}

/// The root that the guest boots, with the kernels.
pub fn guest_root(cache: &Cache) -> Result<Root> {
    let dir = cache.artefact("guest-root", &guest_recipe(), |dir| {
        let root = debian(dir, "guest root", GUEST_PACKAGES)?;
        root.shell(&[], GUEST_SETUP)?;
        step("adding kernels to the guest root", || kernels::install(&root))
    })?;
    Ok(Root { dir })
}

/// What [`guest_root`] is made from, for artefacts that depend on it.
#[must_use]
pub fn guest_recipe() -> String {
    format!("{GUEST_PACKAGES:?}{GUEST_SETUP}{}", kernels::recipe())
}

fn debian(dir: &Path, name: &str, packages: &[&str]) -> Result<Root> {
    require_mmdebstrap()?;
    let what = format!("making the {name} (Debian 13, {} packages and what they need)", packages.len());
    step(&what, || bootstrap(dir, packages))?;
    Ok(Root { dir: dir.to_owned() })
}

/// Unpacks a tar stream of mmdebstrap's rather than letting it write the directory: for ordinary users the stream comes
/// from mmdebstrap's own user namespace, and must land in the one that [`Root::command`] uses.
fn bootstrap(dir: &Path, packages: &[&str]) -> Result<()> {
    fs::create_dir_all(dir)?;
    let mut make = Command::new("mmdebstrap");
    make.args(["--variant=minbase", "--skip=output/dev", "--aptopt=Acquire::Check-Valid-Until \"false\""]);
    make.arg(format!("--mode={}", if is_root() { "root" } else { "unshare" }));
    make.arg(format!("--include={}", packages.join(","))).args(["--format=tar", "trixie", "-"]);
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

impl Root {
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
    let mut install = if sudo { Command::new("sudo") } else { Command::new("env") };
    install.args(["apt-get", "install", "-y", "--no-install-recommends"]).args(&missing);
    let status = install.stdin(Stdio::inherit()).status()?;
    ensure!(status.success(), "could not install {names}: install it yourself and run this again");
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
