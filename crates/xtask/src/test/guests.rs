//! Cases in guests.

use std::fs;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use scherzo_cases as cases;
use scherzo_cases::loader::{LOADER_GROUP, PROGRAM_DIRECTORY};
use scherzo_compare::peer::{self, BPFLAND, LOADER, Peer};
use scherzo_rig::architecture::Architecture;
use scherzo_rig::harness::{self, Group};
use scherzo_rig::kernels::GuestKernel;
use scherzo_rig::product;
use scherzo_rig::progress::say;
use scherzo_rig::report::{Report, Subject};
use scherzo_rig::rig::{Rig, announce};
use scherzo_rig::roots::System;

use super::TestOptions;

/// Whether faults are shown that were made on purpose.
pub(super) const DELIBERATE_FAULTS: &str = "guests/deliberate faults are shown";
/// Guests that run side by side: each keeps one CPU of the host busy.
const NR_PARALLEL_GUESTS: usize = 2;

/// Installs the product in guests, and runs the cases there.
pub(super) fn run(checkout: &Path, options: &TestOptions, report: &Report) -> Result<()> {
    if !options.long {
        leave_out_long_ones(report);
    }
    let groups = selected(cases::plan(options.long), options);
    let shows_faults = options.is_selected(DELIBERATE_FAULTS);
    ensure!(shows_faults || !groups.is_empty(), "no guest case is called {}", options.only);
    let (groups, others): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.machine.architecture == Architecture::default());
    if shows_faults || !groups.is_empty() {
        let has_loader = groups.iter().any(|group| group.name == LOADER_GROUP);
        let (rig, payload) = prepared(checkout, System::Small, if has_loader { &[LOADER, BPFLAND] } else { &[] })?;
        let provoke = || {
            let started = Instant::now();
            report.note(Subject::Rig, DELIBERATE_FAULTS, started, &show_deliberate_faults(&rig, &payload));
        };
        let first: &(dyn Fn() + Sync) = if shows_faults { &provoke } else { &|| {} };
        run_groups_beside(first, &rig, &payload, &groups, report, &|group| rig.kernel(group.kernel))?;
    }
    if !others.is_empty() {
        let (rig, payload) = prepared(checkout, System::Arm64, &[])?;
        run_groups(&rig, &payload, &others, report, &|group| rig.kernel(group.kernel))?;
    }
    Ok(())
}

/// Guests that can be booted, and for them the product and some peers.
fn prepared(checkout: &Path, system: System, peers: &[Peer]) -> Result<(Rig, PathBuf)> {
    let rig = Rig::prepare_with(checkout, system)?;
    announce(&rig);
    let tree = tempfile::tempdir()?;
    product::install(&rig.workspace()?, tree.path())?;
    let dir = tree.path().join(PROGRAM_DIRECTORY.trim_start_matches('/'));
    for program in peer::programs(rig.cache(), rig.build_root(), peers)? {
        fs::create_dir_all(&dir)?;
        fs::copy(&program, dir.join(program.file_name().context("a program without a name")?))?;
    }
    let payload = rig.payload(tree.path())?;
    Ok((rig, payload))
}

/// Runs faults that are made on purpose, the second boot among them, and looks for each in what the run would say.
fn show_deliberate_faults(rig: &Rig, payload: &Path) -> Result<()> {
    let group = cases::deliberate_faults();
    let (seen, is_first) = (Report::default(), AtomicBool::new(true));
    say("failures of \"deliberate faults\" are wanted; they do not count");
    harness::run(slice::from_ref(&group), 1, &seen, &|group| {
        ensure!(!is_first.swap(false, Ordering::Relaxed), "the first boot was made to fail");
        rig.boot(rig.kernel(group.kernel)?, &group.machine, payload)
    });
    let summary = seen.summary();
    for shown in cases::DELIBERATE_FAULTS_SHOWN {
        ensure!(summary.contains(shown), "the run does not say \"{}\":\n{summary}", shown.trim());
    }
    Ok(())
}

/// Names the groups, and the cases in other groups, that only the long run has.
fn leave_out_long_ones(report: &Report) {
    let usual = cases::plan(false);
    for group in cases::plan(true) {
        let known = usual.iter().find(|known| known.name == group.name);
        let is_usual = |name: &str| known.is_some_and(|known| known.cases.iter().any(|case| case.name == name));
        let names: Vec<_> = group.cases.iter().map(|case| case.name).filter(|name| !is_usual(name)).collect();
        if !names.is_empty() {
            report.leave_out(format!("{}: {}", group.name, names.join("; ")), "only with --long");
        }
    }
}

/// Those cases of the groups that are selected.
pub(super) fn selected(mut groups: Vec<Group>, options: &TestOptions) -> Vec<Group> {
    for group in &mut groups {
        let name = group.name.clone();
        group.cases.retain(|case| options.is_selected(&format!("{name}/{}", case.name)));
    }
    groups.retain(|group| !group.cases.is_empty());
    groups
}

/// Runs cases of groups. `kernel_of` finds a group's kernel.
pub(super) fn run_groups<'a>(
    rig: &'a Rig,
    payload: &Path,
    groups: &[Group],
    report: &Report,
    kernel_of: &(dyn Fn(&Group) -> Result<&'a GuestKernel> + Sync),
) -> Result<()> {
    run_groups_beside(&|| {}, rig, payload, groups, report, kernel_of)
}

/// The same, with `first` in the place of a guest until it ends.
fn run_groups_beside<'a>(
    first: &(dyn Fn() + Sync),
    rig: &'a Rig,
    payload: &Path,
    groups: &[Group],
    report: &Report,
    kernel_of: &(dyn Fn(&Group) -> Result<&'a GuestKernel> + Sync),
) -> Result<()> {
    // Determined once, before guests start side by side.
    rig.accel(rig.kernels().first().context("the guest has no kernel at all")?)?;
    let boot = |group: &Group| rig.boot(kernel_of(group)?, &group.machine, payload);
    harness::run_beside(first, groups, NR_PARALLEL_GUESTS, report, &boot);
    Ok(())
}
