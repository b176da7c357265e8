//! Cases in guests.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use scherzo_cases as cases;
use scherzo_rig::harness::{self, Group};
use scherzo_rig::product;
use scherzo_rig::report::Report;
use scherzo_rig::rig::{Rig, announce};

use super::TestOptions;

/// Guests that run side by side: each keeps one CPU of the host busy.
const NR_PARALLEL_GUESTS: usize = 2;

/// Installs the product in guests, and runs the cases there.
pub(super) fn run(checkout: &Path, options: &TestOptions, report: &Report) -> Result<()> {
    if !options.long {
        leave_out_long_ones(report);
    }
    let rig = Rig::prepare(checkout)?;
    announce(&rig);
    let tree = tempfile::tempdir()?;
    product::install(&rig.workspace()?, tree.path())?;
    run_groups(&rig, &rig.payload(tree.path())?, cases::plan(options.long), options, report)
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

/// Runs those cases of the groups that are selected.
pub(super) fn run_groups(
    rig: &Rig,
    payload: &Path,
    mut groups: Vec<Group>,
    options: &TestOptions,
    report: &Report,
) -> Result<()> {
    for group in &mut groups {
        let name = group.name.clone();
        group.cases.retain(|case| options.is_selected(&format!("{name}/{}", case.name)));
    }
    groups.retain(|group| !group.cases.is_empty());
    ensure!(!groups.is_empty(), "no guest case is called {}", options.only);
    // Determined once, before guests start side by side.
    rig.accel(rig.kernels().first().context("the guest has no kernel at all")?)?;
    let boot = |group: &Group| rig.boot(rig.kernel(group.kernel)?, &group.machine, payload);
    harness::run(&groups, NR_PARALLEL_GUESTS, report, &boot);
    Ok(())
}
