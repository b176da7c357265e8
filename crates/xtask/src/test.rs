//! `cargo xtask test`: runs the test tiers. Whatever happens, it ends with what did not run and why, and with one line,
//! "N passed, N failed, N skipped".

mod cargo;
mod guests;
mod kernels;
mod list;
mod packages;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use scherzo_rig::build::Workspace;
use scherzo_rig::cache::Cache;
use scherzo_rig::junit;
use scherzo_rig::progress::say;
use scherzo_rig::report::{Report, Subject};
use scherzo_rig::roots::{self, System};
use scherzo_scenarios::{self as scenarios, Desktops};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::lint;
use cargo::{Fuzzing, Tests};

#[derive(Args, Default)]
pub(crate) struct TestOptions {
    /// What to test; everything if nothing is named
    tiers: Vec<Tier>,
    /// Also long tests: soaks, hundreds of loads and kills
    #[arg(long)]
    long: bool,
    /// Only lints, scenarios and guest cases whose name, or "group/name", contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Run the cases for every kernel of the archive, in place of the usual ones; a run with --long of everything has both
    #[arg(long, value_enum, value_name = "WHICH")]
    kernels: Option<KernelSet>,
    /// Write what was found on those kernels into docs/kernels.json
    #[arg(long, requires = "kernels")]
    record: bool,
    /// Print what there is to run, and run nothing
    #[arg(long)]
    list: bool,
    /// The first seed of fuzz tests and random machines, as a run that failed has printed it; without it they choose one
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the results into this file as well, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KernelSet {
    /// The newest of each series that the archive has
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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

impl Tier {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl TestOptions {
    fn wants(&self, tier: Tier) -> bool {
        let is_usual = tier != Tier::Packages || self.long;
        self.tiers.contains(&tier) || (self.tiers.is_empty() && is_usual)
    }

    fn is_selected(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    fn wants_every_kernel(&self) -> bool {
        self.kernels == Some(KernelSet::All) || (self.long && self.only.is_empty())
    }

    /// Whether the cases for the usual kernels run as well.
    fn wants_usual_kernels(&self) -> bool {
        self.long || self.kernels.is_none()
    }

    fn fuzzing(&self) -> Fuzzing {
        Fuzzing { is_long: self.long, seed: self.seed }
    }
}

pub(crate) fn run(checkout: &Path, options: &TestOptions) -> Result<ExitCode> {
    if options.list {
        list::print(options);
        return Ok(ExitCode::SUCCESS);
    }
    let report = Arc::new(Report::default());
    plan(options, &report);
    end_on_signals(Arc::clone(&report), options.junit.clone())?;
    let started = Instant::now();
    let ended = guarded(|| run_tiers(checkout, options, &report));
    if ended.is_err() {
        report.note(Subject::Rig, "preparation", started, &ended);
    }
    finish(&report, options.junit.as_deref())?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Turns a panic into an error: whatever a part of the run does, its end is printed.
pub(crate) fn guarded<T>(part: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|_| bail!("it panicked; what it said stands above"))
}

/// Prints the end of the run, and writes it down.
fn finish(report: &Report, junit: Option<&Path>) -> Result<()> {
    let written = junit.map_or(Ok(()), |path| {
        let document = junit::document(&report.results())?;
        fs::write(path, document).with_context(|| format!("cannot write {}", path.display()))
    });
    print!("{}", report.summary());
    written
}

/// A run that is interrupted says how far it has come.
fn end_on_signals(report: Arc<Report>, junit: Option<PathBuf>) -> Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
            println!("interrupted by {name}");
            if let Err(error) = finish(&report, junit.as_deref()) {
                say(&format!("{error:#}"));
            }
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Notes which tiers are going to run, and why others are not.
fn plan(options: &TestOptions, report: &Report) {
    for tier in Tier::value_variants() {
        if options.wants(*tier) {
            report.plan(tier.name());
        } else if options.tiers.is_empty() {
            report.leave_out(tier.name(), "only with --long, or by name");
        } else {
            report.leave_out(tier.name(), "not among the named tiers");
        }
    }
    if !options.only.is_empty() {
        report.leave_out(format!("lints, scenarios and cases without \"{}\" in their name", options.only), "--only");
    }
}

fn run_tiers(checkout: &Path, options: &TestOptions, report: &Report) -> Result<()> {
    let cache = Cache::open()?;
    thread::scope(|scope| {
        if options.wants(Tier::Vm) {
            // Made while other tiers run; an error shows when the tier needs it.
            scope.spawn(|| roots::guest_root(&cache, System::Small));
        }
        if options.wants(Tier::Desktop) {
            scope.spawn(|| scenarios::make_roots(&cache));
        }
        let build_root = roots::build_root(&cache)?;
        let workspace = Workspace::open(&cache, &build_root, checkout)?;
        run_each(options, report, |tier| run_tier(tier, &cache, &workspace, options, report));
        Ok(())
    })
}

/// Runs the tiers that are wanted, one after the other. One that cannot be run to its end has failed, and does not keep the
/// next ones from running.
fn run_each(options: &TestOptions, report: &Report, run: impl Fn(Tier) -> Result<()>) {
    for tier in Tier::value_variants().iter().filter(|tier| options.wants(**tier)) {
        let started = Instant::now();
        let ended = guarded(|| run(*tier));
        report.done(&tier.name());
        if ended.is_err() {
            report.note(Subject::Product, &tier.name(), started, &ended);
        }
    }
}

/// An error means that the tier could not be run to its end.
fn run_tier(
    tier: Tier,
    cache: &Cache,
    workspace: &Workspace<'_>,
    options: &TestOptions,
    report: &Report,
) -> Result<()> {
    let checkout = workspace.checkout();
    match tier {
        Tier::Lint => lint::run(cache, workspace, report, &|name| options.is_selected(name)),
        Tier::Unit => Tests::open(checkout)?.unit(workspace, &options.fuzzing(), report)?,
        Tier::Bus => Tests::open(checkout)?.bus(workspace, &options.fuzzing(), report)?,
        Tier::Desktop => desktops(cache, workspace, options, report)?,
        Tier::Vm => vm(checkout, options, report)?,
        Tier::Packages => packages::run(cache, checkout, options, report)?,
    }
    Ok(())
}

/// Runs the cases for the usual kernels, for every kernel, or both.
fn vm(checkout: &Path, options: &TestOptions, report: &Report) -> Result<()> {
    if options.wants_usual_kernels() {
        guests::run(checkout, options, report)?;
    } else {
        report.leave_out("cases for the usual kernels", "--kernels all, without --long");
    }
    if options.wants_every_kernel() {
        kernels::run(checkout, options, report)?;
    } else {
        report.leave_out("cases for every kernel", "only with --kernels all or --long");
    }
    Ok(())
}

/// Runs the desktop scenarios. The pictures that they take stay in the cache.
fn desktops(cache: &Cache, workspace: &Workspace<'_>, options: &TestOptions, report: &Report) -> Result<()> {
    let mut scenarios = scenarios::SCENARIOS.to_vec();
    scenarios.retain(|scenario| options.is_selected(scenario.name));
    ensure!(!scenarios.is_empty(), "no scenario is called {}", options.only);
    let pictures = cache.path("pictures");
    say(&format!("scenarios leave pictures in {}", pictures.display()));
    Desktops::prepare(cache, workspace, &pictures)?.run(&scenarios, report);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(tiers: &[Tier]) -> TestOptions {
        TestOptions { tiers: tiers.to_vec(), only: String::new(), ..TestOptions::default() }
    }

    #[test]
    fn tiers_that_are_left_out_are_named_with_the_reason() {
        let report = Report::default();
        plan(&options(&[]), &report);
        assert!(report.summary().contains("  packages: only with --long, or by name\n"), "{}", report.summary());
        assert!(report.summary().contains("  vm: the run ended before\n"), "{}", report.summary());
        report.done("vm");
        assert!(!report.summary().contains("  vm: "), "{}", report.summary());

        let report = Report::default();
        plan(&TestOptions { only: "storm".into(), ..options(&[Tier::Vm]) }, &report);
        assert!(report.summary().contains("  lint: not among the named tiers\n"), "{}", report.summary());
        assert!(report.summary().contains("without \"storm\" in their name: --only\n"), "{}", report.summary());
    }

    #[test]
    fn a_part_that_panics_has_failed_and_the_next_ones_run() {
        let report = Report::default();
        let options = options(&[Tier::Lint, Tier::Unit, Tier::Bus]);
        plan(&options, &report);
        run_each(&options, &report, |tier| match tier {
            Tier::Lint => panic!("a number below zero"),
            Tier::Unit => bail!("the disk is full"),
            _ => {
                report.note(Subject::Product, "bus/noise", Instant::now(), &Ok(()));
                Ok(())
            }
        });
        let summary = report.summary();
        assert!(summary.contains("failed (2):\n  lint: it panicked; "), "{summary}");
        assert!(summary.contains("\n  unit: the disk is full\n"), "{summary}");
        assert!(summary.ends_with("\n1 passed, 2 failed, 0 skipped\n"), "{summary}");
        assert!(!report.is_good());
    }

    #[test]
    fn the_last_line_comes_even_if_nothing_could_be_prepared() {
        let report = Report::default();
        plan(&options(&[]), &report);
        report.note(Subject::Rig, "preparation", Instant::now(), &Err(anyhow::anyhow!("no mmdebstrap")));
        assert!(report.summary().ends_with("\n0 passed, 1 failed, 0 skipped\n"), "{}", report.summary());
        assert!(!report.is_good());
    }
}
