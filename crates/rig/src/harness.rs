//! Runs cases in guests, and keeps what is known about those that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::guest::Guest;
use crate::kernels::Role;
use crate::progress::say;
use crate::qemu::GuestMachine;
use crate::report::{Report, Subject, is_skipped};

/// One thing that must hold inside a guest.
#[derive(Debug)]
pub struct Case<G = Guest> {
    /// Names it in the output.
    pub name: &'static str,
    /// Runs the case; an error is a failure, unless it is from [`crate::report::skipped`].
    pub run: fn(&mut G) -> Result<()>,
}

/// Cases that share a boot, in order.
#[derive(Debug)]
pub struct Group<G = Guest> {
    /// Names the boot in the output.
    pub name: String,
    /// The kernel.
    pub kernel: Role,
    /// The machine.
    pub machine: GuestMachine,
    /// What runs there.
    pub cases: Vec<Case<G>>,
}

// Derived, these would ask the same of the guest.
impl<G> Clone for Case<G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Case<G> {}

impl<G> Clone for Group<G> {
    fn clone(&self) -> Self {
        let Self { name, kernel, machine, cases } = self;
        Self { name: name.clone(), kernel: *kernel, machine: machine.clone(), cases: cases.clone() }
    }
}

impl<G> Group<G> {
    /// What a case is called in the output.
    #[must_use]
    pub fn full_name(&self, case: &Case<G>) -> String {
        format!("{}/{}", self.name, case.name)
    }
}

/// What the harness needs of a guest.
pub trait Keep {
    /// Fails if something went wrong in the guest that no case looks at.
    fn ensure_sound(&mut self) -> Result<()>;
    /// What cases have measured since this was asked: names and values.
    fn take_figures(&mut self) -> Vec<(String, u64)> {
        Vec::new()
    }
    /// Keeps what is known about this guest; where it is, and how to boot the same again.
    fn keep(&mut self) -> (PathBuf, String);
}

/// Makes a guest for a group.
pub type BootGuest<'a, G> = dyn Fn(&Group<G>) -> Result<G> + Sync + 'a;

/// Runs all groups, `nr_parallel` guests at a time.
pub fn run<G: Keep>(groups: &[Group<G>], nr_parallel: usize, report: &Report, boot: &BootGuest<'_, G>) {
    run_beside(&|| {}, groups, nr_parallel, report, boot);
}

/// The same, with `first` in the place of a guest until it ends.
pub fn run_beside<G: Keep>(
    first: &(dyn Fn() + Sync),
    groups: &[Group<G>],
    nr_parallel: usize,
    report: &Report,
    boot: &BootGuest<'_, G>,
) {
    for group in groups {
        for case in &group.cases {
            report.plan(group.full_name(case));
        }
    }
    let queue = Mutex::new(groups.iter());
    let run_groups = || {
        while let Some(group) = queue.lock().ok().and_then(|mut queue| queue.next()) {
            run_group(group, report, boot);
        }
    };
    thread::scope(|scope| {
        for _ in 1..nr_parallel {
            scope.spawn(run_groups);
        }
        first();
        run_groups();
    });
}

/// Runs a group's cases in one guest. A failed case leaves the guest in an unknown state, so the next one gets a fresh
/// guest.
fn run_group<G: Keep>(group: &Group<G>, report: &Report, boot: &BootGuest<'_, G>) {
    let mut guest = None;
    for case in &group.cases {
        let name = group.full_name(case);
        let started = Instant::now();
        let result = run_case(case, &mut guest, || boot_patiently(group, report, boot));
        for (figure, value) in guest.as_mut().map(Keep::take_figures).unwrap_or_default() {
            report.measured(&name, &figure, value);
        }
        if result.as_ref().is_err_and(|error| !is_skipped(error))
            && let Some(mut guest) = guest.take()
        {
            let (place, again) = guest.keep();
            say(&format!("{name}: journal and console are in {}; the same guest again: {again}", place.display()));
        }
        report.note(Subject::Product, &name, started, &result);
    }
}

/// Emulated kernels sometimes hang before their first process, which is no fault of what is tested: such a guest is made
/// once more, and the report says so.
fn boot_patiently<G>(group: &Group<G>, report: &Report, boot: &BootGuest<'_, G>) -> Result<G> {
    boot(group).or_else(|error| {
        report.retried(&group.name, &format!("it was booted a second time, since {error:#}"));
        boot(group)
    })
}

fn run_case<G: Keep>(case: &Case<G>, guest: &mut Option<G>, boot: impl FnOnce() -> Result<G>) -> Result<()> {
    let guest = match guest {
        Some(guest) => guest,
        None => guest.insert(unless_panicking("the boot", boot)?),
    };
    let result = unless_panicking("the case", || (case.run)(guest));
    match &result {
        Err(error) if !is_skipped(error) => {}
        _ => guest.ensure_sound()?,
    }
    result
}

/// Turns a panic into an error, so that it fails one case only.
fn unless_panicking<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| bail!("{what} panicked; what it said stands above"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use anyhow::{bail, ensure};

    use super::*;
    use crate::kernel_log;
    use crate::report::{Counts, skipped};
    use crate::shell::{CommandOutput, Shell};

    /// A guest of which nothing can be kept. It has what `dmesg` prints, and how that ends.
    struct Fake(CommandOutput);

    impl Fake {
        fn quiet() -> Self {
            Self(CommandOutput::default())
        }
    }

    impl Shell for Fake {
        fn run(&mut self, command: &str, _limit: Duration) -> Result<CommandOutput> {
            ensure!(command == "dmesg", "only the kernel's log is read here, not {command}");
            Ok(self.0.clone())
        }

        fn patience(&self) -> u32 {
            1
        }
    }

    impl Keep for Fake {
        fn ensure_sound(&mut self) -> Result<()> {
            kernel_log::ensure_quiet(self)
        }

        fn keep(&mut self) -> (PathBuf, String) {
            ("/tmp/kept".into(), "cargo xtask guest".into())
        }
    }

    type FakeCase = (&'static str, fn(&mut Fake) -> Result<()>);

    fn group(cases: &[FakeCase]) -> Group<Fake> {
        let cases = cases.iter().map(|(name, run)| Case { name, run: *run }).collect();
        Group { name: "group".into(), kernel: Role::Lts, machine: GuestMachine::default(), cases }
    }

    #[test]
    fn a_skipped_case_is_counted_as_skipped_and_its_guest_goes_on() {
        let no_deadline_server = |_: &mut Fake| Err(skipped("no deadline server"));
        let report = Report::default();
        let nr_boots = AtomicUsize::new(0);
        run(&[group(&[("real time", no_deadline_server), ("next", |_| Ok(()))])], 1, &report, &|_| {
            nr_boots.fetch_add(1, Ordering::Relaxed);
            Ok(Fake::quiet())
        });
        assert_eq!(report.counts(Subject::Product), Counts { nr_passed: 1, nr_failed: 0, nr_skipped: 1 });
        assert!(report.summary().contains("group/real time: no deadline server"), "{}", report.summary());
        assert_eq!(nr_boots.into_inner(), 1);
    }

    /// What a run says of two cases that hold in a guest with such a log. Each gets a guest of its own if the one before failed.
    fn summary_with(log: &CommandOutput) -> String {
        let report = Report::default();
        let cases: [FakeCase; 2] = [("holds", |_| Ok(())), ("skipped", |_| Err(skipped("not here")))];
        run(&[group(&cases)], 1, &report, &|_| Ok(Fake(log.clone())));
        assert!(!report.is_good());
        report.summary()
    }

    #[test]
    fn a_warning_of_the_kernel_fails_its_case() {
        let line = "[    5.000000] WARNING: CPU: 1 PID: 99 at kernel/sched/ext.c:1234 scx_ops_enqueue+0x12/0x34";
        let summary = summary_with(&CommandOutput { stdout: line.to_owned(), ..CommandOutput::default() });
        assert!(summary.contains("group/holds: the kernel complained:"), "{summary}");
        assert!(summary.ends_with("\n0 passed, 2 failed, 0 skipped\n"), "{summary}");
    }

    #[test]
    fn a_kernel_log_that_cannot_be_read_fails_its_case() {
        let stderr = "dmesg: read kernel buffer failed: Operation not permitted".to_owned();
        let summary = summary_with(&CommandOutput { status: 1, stderr, ..CommandOutput::default() });
        assert!(summary.contains("group/holds: the kernel's log cannot be read"), "{summary}");
        assert!(summary.ends_with("\n0 passed, 2 failed, 0 skipped\n"), "{summary}");
    }

    #[test]
    fn a_case_that_panics_fails_and_the_others_run() {
        let report = Report::default();
        let cases: [FakeCase; 2] = [("panics", |_| panic!("a number below zero")), ("next", |_| Ok(()))];
        run(&[group(&cases)], 1, &report, &|_| Ok(Fake::quiet()));
        assert_eq!(report.counts(Subject::Product), Counts { nr_passed: 1, nr_failed: 1, nr_skipped: 0 });
    }

    #[test]
    fn a_boot_that_panics_fails_its_cases_only() {
        let report = Report::default();
        let groups = [group(&[("a", |_| Ok(()))]), Group { name: "other".into(), ..group(&[("b", |_| Ok(()))]) }];
        run(&groups, 1, &report, &|group| if group.name == "other" { Ok(Fake::quiet()) } else { panic!("no agent") });
        assert_eq!(report.counts(Subject::Product), Counts { nr_passed: 1, nr_failed: 1, nr_skipped: 0 });
        assert!(report.summary().contains("group/a: the boot panicked"), "{}", report.summary());
    }

    #[test]
    fn what_runs_first_takes_the_place_of_one_guest() {
        let (report, is_over) = (Report::default(), AtomicBool::new(false));
        let first = || {
            while report.counts(Subject::Product).nr_passed == 0 {
                thread::yield_now();
            }
            is_over.store(true, Ordering::Relaxed);
        };
        run_beside(&first, &[group(&[("beside it", |_| Ok(()))])], 2, &report, &|_| Ok(Fake::quiet()));
        assert!(report.is_good() && is_over.load(Ordering::Relaxed));
        let boot =
            |_: &Group<Fake>| if is_over.load(Ordering::Relaxed) { Ok(Fake::quiet()) } else { bail!("too early") };
        is_over.store(false, Ordering::Relaxed);
        let first = || is_over.store(true, Ordering::Relaxed);
        run_beside(&first, &[group(&[("after it", |_| Ok(()))])], 1, &report, &boot);
        assert!(report.is_good(), "{}", report.summary());
    }

    #[test]
    fn a_second_boot_is_counted_and_a_third_is_not_tried() {
        let report = Report::default();
        let nr_boots = AtomicUsize::new(0);
        run(&[group(&[("case", |_| Ok(()))])], 1, &report, &|_| {
            ensure!(nr_boots.fetch_add(1, Ordering::Relaxed) == 1, "it hangs");
            Ok(Fake::quiet())
        });
        assert!(report.is_good());
        let expected = "tried a second time (1):\n  group: it was booted a second time, since it hangs\n";
        assert!(report.summary().contains(expected), "{}", report.summary());
        assert_eq!(nr_boots.into_inner(), 2);
    }

    #[test]
    fn a_guest_that_does_not_boot_fails_every_case() {
        let groups = [group(&[("a", |_| Ok(())), ("b", |_| Ok(()))]), group(&[("c", |_| Ok(()))])];
        let report = Report::default();
        run(&groups, 2, &report, &|_| bail!("no machine"));
        assert_eq!(report.counts(Subject::Product), Counts { nr_passed: 0, nr_failed: 3, nr_skipped: 0 });
    }
}
