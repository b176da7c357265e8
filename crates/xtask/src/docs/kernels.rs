//! The table of the kernels that were tried, from the record of that run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use scherzo_compare::provenance::Provenance;
use serde::{Deserialize, Serialize};

/// Where the record is kept.
pub(crate) const RECORD: &str = "docs/kernels.json";

/// What `cargo xtask test vm --kernels all --record` writes. Runs of some kernels leave the others as they were.
#[derive(Serialize, Deserialize)]
pub(crate) struct KernelRecords {
    pub(crate) kernels: Vec<KernelRecord>,
}

/// What is known about a kernel.
#[derive(Serialize, Deserialize)]
pub(crate) struct KernelRecord {
    pub(crate) release: String,
    /// When, at which commit and on what.
    pub(crate) provenance: Provenance,
    /// What its type information says, in words.
    pub(crate) types: String,
    /// Whether the archive had its modules.
    pub(crate) is_bootable: bool,
    pub(crate) nr_passed: usize,
    pub(crate) failed: Vec<String>,
    pub(crate) skipped: Vec<String>,
    /// Instructions that the verifier went through, by program.
    pub(crate) verified: BTreeMap<String, u64>,
}

/// A row for each kernel.
pub(super) fn table(record: &str) -> Result<String> {
    let KernelRecords { kernels } = serde_json::from_str(record).context(RECORD)?;
    let mut text = String::from(
        "| kernel of Debian | type information | cases | verified instructions | found |\n|---|---|---|---|---|\n",
    );
    for kernel in &kernels {
        let verified: u64 = kernel.verified.values().sum();
        let verified = if verified == 0 { String::new() } else { verified.to_string() };
        let types = kernel.types.strip_prefix("its type information ").unwrap_or(&kernel.types);
        let Provenance { commit, date, machine, .. } = &kernel.provenance;
        let found = format!("{date}, {commit}, {machine}");
        let _ = writeln!(text, "| {} | {types} | {} | {verified} | {found} |", kernel.release, kernel.cases());
    }
    Ok(text)
}

impl KernelRecord {
    fn cases(&self) -> String {
        if !self.is_bootable {
            return "not booted: the archive no longer has its modules".to_owned();
        }
        if self.nr_passed == 0 && self.failed.is_empty() && self.skipped.is_empty() {
            return "none yet; the instructions were counted by hand".to_owned();
        }
        let named = |what: &str, names: &[String]| {
            if names.is_empty() { String::new() } else { format!("; {what}: {}", names.join(", ")) }
        };
        let (failed, skipped) = (named("**failed**", &self.failed), named("skipped", &self.skipped));
        format!("{} passed{failed}{skipped}", self.nr_passed)
    }
}

#[cfg(test)]
mod tests {
    use scherzo_compare::provenance::MachineKind;

    use super::*;

    #[test]
    fn a_row_says_what_failed_and_what_was_not_booted() {
        let provenance = Provenance {
            commit: "0123456789ab".into(),
            date: "2026-11-25".into(),
            command: "cargo xtask test vm --kernels all".into(),
            machine: MachineKind::guests("10.0.2"),
            host: String::new(),
        };
        let kernel = |is_bootable, failed: &[&str]| KernelRecord {
            provenance: provenance.clone(),
            release: "7.3.4+deb13".into(),
            types: "its type information is malformed".into(),
            is_bootable,
            nr_passed: 3,
            failed: failed.iter().map(|name| (*name).to_owned()).collect(),
            skipped: Vec::new(),
            verified: BTreeMap::from([("dispatch".to_owned(), 18_000), ("enqueue".to_owned(), 2_000)]),
        };
        let run = KernelRecords { kernels: vec![kernel(true, &["unload"]), kernel(false, &[])] };
        let text = table(&serde_json::to_string(&run).unwrap()).unwrap();
        assert!(
            text.contains(
                "| 7.3.4+deb13 | is malformed | 3 passed; **failed**: unload | 20000 | 2026-11-25, 0123456789ab"
            ),
            "{text}"
        );
        assert!(text.contains("| not booted: the archive no longer has its modules |"), "{text}");
    }
}
