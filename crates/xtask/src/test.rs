//! `cargo xtask test`: runs the test tiers and ends with one line, "N passed, N failed".

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use scherzo_cases as cases;
use scherzo_packaging::{self as packaging, Maker, PackageFormat};
use scherzo_rig::build::Workspace;
use scherzo_rig::cache::Cache;
use scherzo_rig::harness::{self, Score};
use scherzo_rig::progress::say;
use scherzo_rig::rig::{Rig, announce};
use scherzo_rig::roots::System;
use scherzo_rig::{product, roots};
use scherzo_scenarios::{self as scenarios, Desktops};

use crate::{deny, lint};

/// Inputs of each kind that the fuzz tests try in the long run.
const NR_LONG_FUZZ_CASES: &str = "1000000";
/// Crates whose integration tests talk to the daemon on a private bus.
const BUS_CRATES: &[&str] = &["daemon", "ctl", "tray"];
/// Guests that run side by side: each keeps one CPU of the host busy.
const NR_PARALLEL_GUESTS: usize = 2;

#[derive(Args)]
pub(crate) struct TestOptions {
    /// What to test; everything if nothing is named
    tiers: Vec<Tier>,
    /// Also long tests: soaks, hundreds of loads and kills
    #[arg(long)]
    long: bool,
    /// Only lints, scenarios and guest cases whose name, or "group/name", contains this
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tier {
    /// Formatting and lints
    Lint,
    /// Unit and property tests
    Unit,
    /// The real daemon on a private bus, with a simulated engine
    Bus,
    /// App, tray and GNOME Shell extension, used on desktops without a display
    Desktop,
    /// The product, installed in guests with several kernels
    Vm,
    /// Packages, made and then installed, upgraded and removed in guests; only with --long, or by name
    Packages,
}

impl TestOptions {
    fn wants(&self, tier: Tier) -> bool {
        let is_usual = tier != Tier::Packages || self.long;
        self.tiers.contains(&tier) || (self.tiers.is_empty() && is_usual)
    }
}

pub(crate) fn run(checkout: &Path, options: &TestOptions) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let score = thread::scope(|scope| {
        if options.wants(Tier::Vm) {
            // Made while other tiers run; an error shows when the tier needs it.
            scope.spawn(|| roots::guest_root(&cache, System::Small));
        }
        if options.wants(Tier::Desktop) {
            scope.spawn(|| scenarios::make_roots(&cache));
        }
        run_tiers(&cache, checkout, options)
    })?;
    println!("{} passed, {} failed", score.nr_passed, score.nr_failed);
    Ok(if score.nr_failed == 0 && score.nr_passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_tiers(cache: &Cache, checkout: &Path, options: &TestOptions) -> Result<Score> {
    let build_root = roots::build_root(cache)?;
    let workspace = Workspace::open(cache, &build_root, checkout)?;
    let (unit_targets, bus_targets) = integration_tests(checkout)?;
    let mut score = Score::default();
    if options.wants(Tier::Lint) {
        score = score.plus(lint::run(cache, &workspace, &options.only));
    }
    if options.wants(Tier::Unit) {
        let mut arguments = vec!["--lib", "--bins"];
        arguments.extend(select(&unit_targets));
        score = score.plus(cargo_test(&workspace, "unit and property tests", &arguments, options.long)?);
        score = score.plus(cargo_test(&workspace, "examples in the documentation", &["--doc"], options.long)?);
    }
    if options.wants(Tier::Bus) {
        ensure!(!bus_targets.is_empty(), "there are no private-bus tests in {}", BUS_CRATES.join(", "));
        score = score.plus(cargo_test(&workspace, "private-bus tests", &select(&bus_targets), options.long)?);
    }
    if options.wants(Tier::Desktop) {
        score = score.plus(desktops(cache, &workspace, options)?);
    }
    if options.wants(Tier::Vm) {
        score = score.plus(guests(checkout, options)?);
    }
    if options.wants(Tier::Packages) {
        score = score.plus(packages(cache, checkout, options)?);
    }
    Ok(score)
}

/// Names of integration tests: those that need no bus, and those that do.
fn integration_tests(checkout: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let (mut unit, mut bus) = (Vec::new(), Vec::new());
    for package in checkout.join("crates").read_dir()? {
        let package = package?.path();
        let Ok(files) = package.join("tests").read_dir() else { continue };
        let needs_bus = BUS_CRATES.iter().any(|name| package.ends_with(name));
        let names = files.flatten().filter_map(|file| target_name(&file.path()));
        if needs_bus { &mut bus } else { &mut unit }.extend(names);
    }
    Ok((unit, bus))
}

/// A file, or a directory with a `main.rs`, is a target of its own.
fn target_name(path: &Path) -> Option<String> {
    let is_target = path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists();
    is_target.then(|| path.file_stem()?.to_str().map(str::to_owned)).flatten()
}

fn select(targets: &[String]) -> Vec<&str> {
    targets.iter().flat_map(|target| ["--test", target]).collect()
}

/// Runs `cargo test`, adding up the results that it prints. A build that fails counts as one failure.
fn cargo_test(workspace: &Workspace<'_>, what: &str, targets: &[&str], long: bool) -> Result<Score> {
    say(&format!("running {what}"));
    let _lock = workspace.lock()?;
    let started = Instant::now();
    let mut arguments = vec!["test", "--offline", "--locked", "--workspace", "--no-fail-fast"];
    arguments.extend(targets);
    let mut cargo = workspace.cargo(&arguments)?;
    if long {
        cargo.env("SCHERZO_FUZZ_CASES", NR_LONG_FUZZ_CASES);
    }
    let mut child = cargo.stdout(Stdio::piped()).spawn()?;
    let mut score = Score::default();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        score = score.plus(parse_result(&line).unwrap_or_default());
        println!("{line}");
    }
    let status = child.wait()?;
    if !status.success() && score.nr_failed == 0 {
        score.note(what, started, &Err(anyhow::anyhow!("cargo test ended with {status}")));
    }
    Ok(score)
}

/// `test result: ok. 12 passed; 0 failed; 1 ignored; …`. Ignored tests count as failed.
fn parse_result(line: &str) -> Option<Score> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |what: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(what));
        part.and_then(|number| number.trim().parse::<usize>().ok())
    };
    Some(Score { nr_passed: count("passed")?, nr_failed: count("failed")? + count("ignored")? })
}

/// Runs the desktop scenarios. The pictures that they take stay in the cache.
fn desktops(cache: &Cache, workspace: &Workspace<'_>, options: &TestOptions) -> Result<Score> {
    let mut scenarios = scenarios::SCENARIOS.to_vec();
    scenarios.retain(|scenario| scenario.name.contains(&options.only));
    ensure!(!scenarios.is_empty(), "no scenario is called {}", options.only);
    let pictures = cache.path("pictures");
    say(&format!("scenarios leave pictures in {}", pictures.display()));
    Ok(Desktops::prepare(cache, workspace, &pictures)?.run(&scenarios))
}

fn guests(checkout: &Path, options: &TestOptions) -> Result<Score> {
    let rig = Rig::prepare(checkout)?;
    announce(&rig);
    let tree = tempfile::tempdir()?;
    product::install(&rig.workspace()?, tree.path())?;
    run_groups(&rig, &rig.payload(tree.path())?, cases::plan(options.long), options)
}

/// Checks that packages of all formats hold the same files, and tests those of Debian in guests.
fn packages(cache: &Cache, checkout: &Path, options: &TestOptions) -> Result<Score> {
    let maker = Maker::prepare(cache, checkout)?;
    let made = tempfile::tempdir()?;
    let mut score = Score::default();
    let mut note = |name: &str, work: &dyn Fn() -> Result<()>| {
        let started = Instant::now();
        let result = work();
        score.note(name, started, &result);
        result.is_ok()
    };
    note("packages/dependencies, by cargo-deny", &|| deny::check(cache, checkout));
    let tree = tempfile::tempdir()?;
    let revisions = || {
        packaging::REVISIONS
            .iter()
            .try_for_each(|&revision| maker.make(PackageFormat::Deb, revision, &packaging::dir(tree.path(), revision)))
    };
    let can_install = note("packages/deb, without an error of lintian", &revisions);
    let others = [PackageFormat::Rpm, PackageFormat::Arch];
    note("packages/rpm and arch hold what deb does", &|| {
        others.iter().try_for_each(|format| maker.make(*format, 1, &made.path().join(format.to_string())))?;
        others.iter().try_for_each(|format| {
            maker.compare(*format, &made.path().join(format.to_string()), &packaging::dir(tree.path(), 1))
        })
    });
    if can_install {
        packaging::add_tests(checkout, tree.path())?;
        note("packages/installed, tested, upgraded and purged in a root", &|| {
            packaging::try_in_root(&roots::guest_root(cache, System::ForPackages)?, tree.path())
        });
        let rig = Rig::prepare_with(checkout, System::ForPackages)?;
        announce(&rig);
        score = score.plus(run_groups(&rig, &rig.payload(tree.path())?, cases::package_plan(), options)?);
    }
    let started = Instant::now();
    score.note("packages/the service is made the same again", started, &maker.reproduce());
    Ok(score)
}

fn run_groups(rig: &Rig, payload: &Path, mut groups: Vec<harness::Group>, options: &TestOptions) -> Result<Score> {
    for group in &mut groups {
        group.cases.retain(|case| format!("{}/{}", group.name, case.name).contains(&options.only));
    }
    groups.retain(|group| !group.cases.is_empty());
    ensure!(!groups.is_empty(), "no guest case is called {}", options.only);
    // Determined once, before guests start side by side.
    rig.accel(rig.kernels().first().context("the guest has no kernel at all")?)?;
    let boot = |group: &harness::Group| rig.boot(rig.kernel(group.role)?, &group.machine, payload);
    Ok(harness::run(&groups, NR_PARALLEL_GUESTS, &boot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_cargo_test_are_added_up() {
        let line = "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.00s";
        assert_eq!(parse_result(line), Some(Score { nr_passed: 12, nr_failed: 3 }));
        assert_eq!(parse_result("test tests::something ... ok"), None);
    }

    #[test]
    fn targets_are_files_and_directories_with_a_main() {
        assert_eq!(target_name(Path::new("tests/layout.rs")), Some("layout".into()));
        assert_eq!(target_name(Path::new("tests/common")), None);
    }
}
