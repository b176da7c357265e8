//! The packages: made, compared, and used in guests.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use scherzo_cases as cases;
use scherzo_packaging::{self as packaging, Maker, PackageFormat};
use scherzo_rig::cache::Cache;
use scherzo_rig::report::{Report, Subject};
use scherzo_rig::rig::{Rig, announce};
use scherzo_rig::roots::{self, System};

use super::TestOptions;
use super::guests::{run_groups, selected};
use crate::deny;

/// Checks that packages of all formats hold the same files, and tests those of Debian in guests.
pub(super) fn run(cache: &Cache, checkout: &Path, options: &TestOptions, report: &Report) -> Result<()> {
    let maker = Maker::prepare(cache, checkout)?;
    let made = tempfile::tempdir()?;
    let note = |name: &str, work: &dyn Fn() -> Result<()>| {
        let started = Instant::now();
        let result = work();
        report.note(Subject::Product, &format!("packages/{name}"), started, &result);
        result.is_ok()
    };
    note("dependencies, by cargo-deny", &|| deny::check(cache, checkout));
    note("known faults of dependencies", &|| deny::check_advisories(cache, checkout));
    let tree = tempfile::tempdir()?;
    let revisions = || {
        packaging::REVISIONS
            .iter()
            .try_for_each(|&revision| maker.make(PackageFormat::Deb, revision, &packaging::dir(tree.path(), revision)))
    };
    let can_install = note("deb, without an error of lintian", &revisions);
    let others = [PackageFormat::Rpm, PackageFormat::Arch];
    note("rpm and arch hold what deb does", &|| {
        others.iter().try_for_each(|format| maker.make(*format, 1, &made.path().join(format.to_string())))?;
        others.iter().try_for_each(|format| {
            maker.compare(*format, &made.path().join(format.to_string()), &packaging::dir(tree.path(), 1))
        })
    });
    if can_install {
        packaging::add_tests(checkout, tree.path())?;
        note("installed, tested, upgraded and purged in a root", &|| {
            packaging::try_in_root(&roots::guest_root(cache, System::ForPackages)?, tree.path())
        });
        let rig = Rig::prepare_with(checkout, System::ForPackages)?;
        announce(&rig);
        let groups = selected(cases::package_plan(), options);
        ensure!(!groups.is_empty(), "no guest case is called {}", options.only);
        let payload = rig.payload(tree.path())?;
        run_groups(&rig, &payload, &groups, report, &|group| rig.kernel(group.kernel))?;
    } else {
        report.leave_out("packages in guests", "they could not be made");
    }
    note("the service is made the same again", &|| maker.reproduce());
    Ok(())
}
