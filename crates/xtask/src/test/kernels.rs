//! Every kernel of the archive: what runs there, and the record of it that the documentation shows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use scherzo_cases as cases;
use scherzo_cases::verified::FIGURE_PREFIX;
use scherzo_compare::provenance::{MachineKind, Provenance};
use scherzo_rig::kernels::every::ArchivedKernel;
use scherzo_rig::product;
use scherzo_rig::progress::say;
use scherzo_rig::report::{Outcome, Report};
use scherzo_rig::rig::{Rig, announce};
use scherzo_rig::roots::System;

use super::TestOptions;
use super::guests::{run_groups, selected};
use crate::docs::kernels::{KernelRecord, KernelRecords, RECORD};

/// Installs the product in guests with every kernel that can be booted, and runs the cases there.
pub(super) fn run(checkout: &Path, options: &TestOptions, report: &Report) -> Result<()> {
    let rig = Rig::prepare_with(checkout, System::EveryKernel)?;
    announce(&rig);
    let archive = rig.archive()?;
    for ArchivedKernel { release, types, .. } in archive.iter().filter(|kernel| !kernel.is_bootable) {
        report.leave_out(cases::kernel_group_name(release), format!("the archive has its image only: {types}"));
    }
    let groups =
        selected(rig.kernels().iter().map(|kernel| cases::kernel_group(kernel, options.record)).collect(), options);
    ensure!(!groups.is_empty(), "no case for every kernel is called {}", options.only);
    // Before the build: what is built belongs to this commit.
    let qemu = rig.build_root().output(&[], "qemu-system-x86_64 --version").context("QEMU does not say its version")?;
    let command = "cargo xtask test vm --kernels all".to_owned();
    let provenance = Provenance::find(checkout, command, MachineKind::guests(&qemu))?;
    ensure!(!options.record || provenance.is_committed(), "commit before you record: results belong to a commit");
    let tree = tempfile::tempdir()?;
    product::install(&rig.workspace()?, tree.path())?;
    let of_its_name = |name: &str| {
        let found = rig.kernels().iter().find(|kernel| cases::kernel_group_name(&kernel.release) == name);
        found.with_context(|| format!("there is no {name}"))
    };
    run_groups(&rig, &rig.payload(tree.path())?, &groups, report, &|group| of_its_name(&group.name))?;
    if options.record { record(checkout, &rig, &archive, &provenance, report) } else { Ok(()) }
}

/// Writes down what the run says of the kernels on which all of their cases ran. What is recorded of others stays.
fn record(
    checkout: &Path,
    rig: &Rig,
    archive: &[ArchivedKernel],
    provenance: &Provenance,
    report: &Report,
) -> Result<()> {
    let path = checkout.join(RECORD);
    let old = fs::read_to_string(&path).with_context(|| format!("cannot read {RECORD}"))?;
    let KernelRecords { kernels: mut old } = serde_json::from_str(&old).with_context(|| RECORD.to_owned())?;
    let kernels = archive.iter().filter_map(|kernel| {
        let kept = old.iter().position(|kept| kept.release == kernel.release).map(|index| old.swap_remove(index));
        let guest = rig.kernels().iter().find(|guest| guest.release == kernel.release);
        let nr_cases = guest.map_or(0, |guest| cases::kernel_group(guest, true).cases.len());
        let new = record_of(kernel, provenance, report);
        if new.nr_passed + new.failed.len() + new.skipped.len() == nr_cases { Some(new) } else { kept }
    });
    let text = serde_json::to_string_pretty(&KernelRecords { kernels: kernels.collect() })?;
    fs::write(path, text + "\n").with_context(|| format!("cannot write {RECORD}"))?;
    say(&format!("wrote {RECORD}; `cargo xtask docs` writes the table"));
    Ok(())
}

/// What the run says of a kernel.
fn record_of(kernel: &ArchivedKernel, provenance: &Provenance, report: &Report) -> KernelRecord {
    let beginning = format!("{}/", cases::kernel_group_name(&kernel.release));
    let mut record = KernelRecord {
        provenance: provenance.clone(),
        release: kernel.release.clone(),
        types: kernel.types.clone(),
        is_bootable: kernel.is_bootable,
        nr_passed: 0,
        failed: Vec::new(),
        skipped: Vec::new(),
        verified: BTreeMap::new(),
    };
    for result in report.results() {
        let Some(case) = result.name.strip_prefix(&beginning) else { continue };
        match result.outcome {
            Outcome::Passed => record.nr_passed += 1,
            Outcome::Failed(_) => record.failed.push(case.to_owned()),
            Outcome::Skipped(_) => record.skipped.push(case.to_owned()),
        }
    }
    let figures = report.figures().into_iter().filter(|figure| figure.test.starts_with(&beginning));
    let counts = figures.filter_map(|figure| Some((figure.name.strip_prefix(FIGURE_PREFIX)?.to_owned(), figure.value)));
    record.verified = counts.collect();
    record
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use scherzo_rig::report::{Subject, skipped};

    use super::*;

    #[test]
    fn a_record_holds_what_ran_on_that_kernel_and_nothing_else() {
        let report = Report::default();
        let note = |name: &str, result| report.note(Subject::Product, name, Instant::now(), &result);
        note("kernel 6.18.15+deb13/load", Ok(()));
        note("kernel 6.18.15+deb13/unload", Err(anyhow::anyhow!("it is still there")));
        note("kernel 6.18.15+deb13/real time", Err(skipped("not here")));
        note("kernel 7.3.4+deb13/load", Ok(()));
        report.measured("kernel 6.18.15+deb13/verified", &format!("{FIGURE_PREFIX}dispatch"), 17);
        let kernel = ArchivedKernel { release: "6.18.15+deb13".into(), is_bootable: true, types: "sound".into() };
        let provenance = Provenance {
            commit: "0123456789ab".into(),
            date: "2026-11-25".into(),
            command: "cargo xtask test vm --kernels all".into(),
            machine: MachineKind::guests("10.0.2"),
            host: String::new(),
        };
        let record = record_of(&kernel, &provenance, &report);
        assert_eq!(
            (record.nr_passed, record.failed, record.skipped),
            (1, vec!["unload".into()], vec!["real time".into()])
        );
        assert_eq!(record.verified, BTreeMap::from([("dispatch".to_owned(), 17)]));
    }
}
