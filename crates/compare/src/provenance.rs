//! Where figures come from: what a reader needs to take them again.

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
    /// The commit that was measured; with "-dirty" if files differed from it.
    pub commit: String,
    /// The day, in UTC; several if it took so long.
    pub date: String,
    /// The command.
    pub command: String,
    /// QEMU's version.
    pub qemu: String,
    /// The host: its processor, its number of CPUs, its kernel.
    pub host: String,
}

impl Provenance {
    /// Asks git, the clock and this machine; `qemu` is the first line of what `--version` prints.
    pub fn find(checkout: &Path, command: String, qemu: &str) -> Result<Self> {
        let mut git = Command::new("git");
        git.arg("-C").arg(checkout).args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
        let nr_cpus = thread::available_parallelism()?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot read the kernel's release")?;
        Ok(Self {
            commit: output(&mut git)?,
            date: output(Command::new("date").args(["-u", "+%F"]))?,
            command,
            qemu: version(qemu).to_owned(),
            host: format!("{}, {nr_cpus} CPUs, Linux {}", processor(&cpuinfo), kernel.trim()),
        })
    }

    /// Whether figures of both may stand on one page: the same commit, the same QEMU, the same host.
    #[must_use]
    pub fn is_comparable(&self, other: &Self) -> bool {
        let Self { commit, qemu, host, date: _, command: _ } = other;
        (&self.commit, &self.qemu, &self.host) == (commit, qemu, host)
    }

    /// Whether the commit says all about what was measured.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        !self.commit.ends_with("-dirty")
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, date, command, qemu, host } = self;
        write!(f, "Measured on {date} at commit {commit} by `{command}`, in guests of QEMU {qemu} on {host}.")
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_found() {
        assert_eq!(version("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1)"), "10.0.2");
        assert_eq!(version("strange"), "strange");
        assert_eq!(processor("processor\t: 0\nmodel name\t: Some CPU @ 2.5 GHz\nflags\t: fpu\n"), "Some CPU @ 2.5 GHz");
        assert_eq!(processor(""), "an unnamed processor");
    }

    #[test]
    fn all_of_it_stands_in_one_sentence() {
        let found = Provenance {
            commit: "abc".into(),
            date: "2026-01-02".into(),
            command: "cargo xtask bench".into(),
            qemu: "10.0.2".into(),
            host: "a computer".into(),
        };
        let expected =
            "Measured on 2026-01-02 at commit abc by `cargo xtask bench`, in guests of QEMU 10.0.2 on a computer.";
        assert_eq!(found.to_string(), expected);
    }
}
