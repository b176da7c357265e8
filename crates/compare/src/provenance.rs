//! Where figures come from: what a reader needs to take them again.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Stands on the page, and in the file of the single measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The last commit that changed anything that figures depend on, see [`MEASURED`]; with "-dirty" if files of these differed from it.
    pub commit: String,
    /// The day, in UTC; several if it took so long.
    pub date: String,
    /// The command.
    pub command: String,
    /// What it was measured on. In files it is QEMU's version, and null for the host itself.
    #[serde(rename = "qemu")]
    pub machine: MachineKind,
    /// The host: its processor, its number of CPUs, its memory, its kernel.
    pub host: String,
}

/// What figures depend on, as git knows it: all that is built or installed, but for what neither runs in a measurement nor decides how one is
/// made. Documents, tests and pages of figures are none of it, so a set that was published stays comparable to one that is measured after it.
const MEASURED: [&str; 15] = [
    "Cargo.lock",
    "Cargo.toml",
    "rust-toolchain.toml",
    "crates",
    "data",
    "dbus",
    ":(exclude)data/gnome-shell",
    ":(exclude)data/icons",
    ":(exclude)crates/app",
    ":(exclude)crates/cases",
    ":(exclude)crates/packaging",
    ":(exclude)crates/scenarios",
    ":(exclude)crates/sim",
    ":(exclude)crates/tray",
    ":(exclude)crates/xtask",
];

/// Between days.
pub const DAY_SEPARATOR: &str = ", ";

/// What commands run on. Figures of the one say nothing beside those of the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<String>", into = "Option<String>")]
pub enum MachineKind {
    /// Guests on the host.
    Guests {
        /// QEMU's version.
        qemu: String,
    },
    /// The host itself.
    Host,
}

impl MachineKind {
    /// Guests of the QEMU that prints this when asked for its version.
    #[must_use]
    pub fn guests(printed: &str) -> Self {
        Self::Guests { qemu: version(printed.lines().next().unwrap_or_default()).to_owned() }
    }
}

impl From<Option<String>> for MachineKind {
    fn from(qemu: Option<String>) -> Self {
        qemu.map_or(Self::Host, |qemu| Self::Guests { qemu })
    }
}

impl From<MachineKind> for Option<String> {
    fn from(machine: MachineKind) -> Self {
        match machine {
            MachineKind::Guests { qemu } => Some(qemu),
            MachineKind::Host => None,
        }
    }
}

impl fmt::Display for MachineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guests { qemu } => write!(f, "QEMU {qemu}"),
            Self::Host => f.write_str("the machine itself"),
        }
    }
}

impl Provenance {
    /// Asks git, the clock and this machine.
    pub fn find(checkout: &Path, command: String, machine: MachineKind) -> Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
        let meminfo = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
        let (nr_cpus, memory_gib) = (thread::available_parallelism()?, memory_gib(&meminfo)?);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot read the kernel's release")?;
        let processor = processor(&cpuinfo);
        Ok(Self {
            commit: commit(checkout)?,
            date: output(Command::new("date").args(["-u", "+%F"]))?,
            command,
            machine,
            host: format!("{processor}, {nr_cpus} CPUs, {memory_gib} GiB of memory, Linux {}", kernel.trim()),
        })
    }

    /// Whether figures of both may stand on one page: the same commit, the same host, and both of the host itself or of
    /// guests of the same QEMU.
    #[must_use]
    pub fn is_comparable(&self, other: &Self) -> bool {
        let Self { commit, machine, host, date: _, command: _ } = other;
        (&self.commit, &self.machine, &self.host) == (commit, machine, host)
    }

    /// Adds the days of another, in their order.
    pub fn add_days(&mut self, other: &Self) {
        let days: BTreeSet<_> = self.date.split(DAY_SEPARATOR).chain(other.date.split(DAY_SEPARATOR)).collect();
        self.date = days.into_iter().collect::<Vec<_>>().join(DAY_SEPARATOR);
    }

    /// Whether the commit says all about what was measured.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        !self.commit.ends_with("-dirty")
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, date, command, machine, host } = self;
        let place = match machine {
            MachineKind::Guests { .. } => format!("in guests of {machine} on {host}"),
            MachineKind::Host => format!("on {machine}: {host}"),
        };
        write!(f, "Measured on {date} at commit {commit} by `{command}`, {place}.")
    }
}

fn commit(checkout: &Path) -> Result<String> {
    let ask = |question: &[&str]| {
        let mut git = Command::new("git");
        output(git.arg("-C").arg(checkout).args(question).arg("--").args(MEASURED))
    };
    let commit = ask(&["log", "-1", "--format=%h", "--abbrev=12"])?;
    ensure!(!commit.is_empty(), "git knows no commit of what is measured in {}", checkout.display());
    let differs = !ask(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(commit + if differs { "-dirty" } else { "" })
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Of "QEMU emulator version 10.0.2 (Debian …)": what follows that word, up to the bracket.
fn version(text: &str) -> &str {
    let (_, version) = text.split_once("version ").unwrap_or(("", text));
    version.split(" (").next().unwrap_or(version).trim()
}

fn processor(cpuinfo: &str) -> &str {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    line.map_or("an unnamed processor", |(_, name)| name.trim())
}

const KIB_PER_GIB: u64 = 1 << 20;

/// Rounded, because kernels keep some of it for themselves.
fn memory_gib(meminfo: &str) -> Result<u64> {
    let number = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let kib: u64 = number.and_then(|kib| kib.trim().parse().ok()).context("/proc/meminfo tells no total")?;
    Ok((kib + KIB_PER_GIB / 2) / KIB_PER_GIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_found() {
        assert_eq!(version("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1)"), "10.0.2");
        assert_eq!(version("strange"), "strange");
        assert_eq!(processor("processor\t: 0\nmodel name\t: Some CPU @ 2.5 GHz\nflags\t: fpu\n"), "Some CPU @ 2.5 GHz");
        assert_eq!(processor(""), "an unnamed processor");
        assert_eq!(memory_gib("MemFree: 1 kB\nMemTotal:       16098304 kB\n").unwrap(), 15);
        assert!(memory_gib("MemFree: 1 kB\n").is_err());
    }

    #[test]
    fn the_commit_is_the_last_that_changed_what_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"];
            output(Command::new("git").arg("-C").arg(dir.path()).args(identity).args(arguments)).unwrap()
        };
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        git(&["init", "--quiet"]);
        write("README.md", "Scherzo");
        write("Cargo.toml", "[workspace]");
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message=one"]);
        let measured = git(&["rev-parse", "--short=12", "HEAD"]);
        write("README.md", "Scherzo, a scheduler");
        git(&["commit", "--quiet", "--all", "--message=two"]);
        fs::create_dir_all(dir.path().join("crates/app")).unwrap();
        write("crates/app/lib.rs", "");
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message=app"]);
        write("README.md", "Scherzo, the scheduler");
        assert_eq!(commit(dir.path()).unwrap(), measured);
        write("Cargo.toml", "[workspace] # changed");
        assert_eq!(commit(dir.path()).unwrap(), format!("{measured}-dirty"));
        git(&["rm", "--quiet", "--force", "Cargo.toml"]);
        git(&["commit", "--quiet", "--message=three"]);
        assert_eq!(commit(dir.path()).unwrap(), git(&["rev-parse", "--short=12", "HEAD"]));
        assert!(commit(&dir.path().join(".git")).is_err(), "not in a checkout");
    }

    #[test]
    fn what_figures_depend_on_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for name in MEASURED {
            let path = name.trim_start_matches(":(exclude)");
            assert!(root.join(path).exists(), "{path}");
        }
    }

    fn found(machine: MachineKind) -> Provenance {
        Provenance {
            commit: "abc".into(),
            date: "2026-01-02".into(),
            command: "cargo xtask bench".into(),
            machine,
            host: "a computer".into(),
        }
    }

    #[test]
    fn all_of_it_stands_in_one_sentence() {
        let begin = "Measured on 2026-01-02 at commit abc by `cargo xtask bench`,";
        let of_guests = found(MachineKind::guests("QEMU emulator version 10.0.2 (Debian 1:10.0.2)\nCopyright"));
        assert_eq!(of_guests.to_string(), format!("{begin} in guests of QEMU 10.0.2 on a computer."));
        assert_eq!(found(MachineKind::Host).to_string(), format!("{begin} on the machine itself: a computer."));
    }

    #[test]
    fn what_was_measured_in_guests_is_never_taken_for_the_machine_itself() {
        let (guests, host) = (found(MachineKind::guests("10.0.2")), found(MachineKind::Host));
        assert!(guests.is_comparable(&guests) && host.is_comparable(&host));
        assert!(!guests.is_comparable(&host) && !host.is_comparable(&guests));
    }

    #[test]
    fn files_tell_guests_by_their_qemu() {
        let text = |machine| serde_json::to_string(&found(machine)).unwrap();
        let guests = text(MachineKind::guests("10.0.2"));
        assert!(guests.contains("\"qemu\":\"10.0.2\""), "{guests}");
        assert!(text(MachineKind::Host).contains("\"qemu\":null"));
        for machine in [MachineKind::guests("10.0.2"), MachineKind::Host] {
            assert_eq!(serde_json::from_str::<Provenance>(&text(machine.clone())).unwrap().machine, machine);
        }
    }
}
