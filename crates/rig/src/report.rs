//! What a test run did: what passed, failed and was skipped, what was tried a second time, and what did not run and why.

use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

/// How many of the slowest are named at the end.
const NR_SLOWEST: usize = 10;

/// What a test is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The product.
    Product,
    /// What tests the product, and the state of the sources: lints, and unit tests of the test rig.
    Rig,
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not, or could not be found out.
    Failed(String),
    /// It does not apply here.
    Skipped(String),
}

/// One test that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    /// The test's name: "group/case".
    pub name: String,
    /// What it is about.
    pub subject: Subject,
    /// How long it took; `None` if nobody measured.
    pub took: Option<Duration>,
    /// How it ended.
    pub outcome: Outcome,
}

/// The error of a test that does not apply here. It is neither passed nor failed.
#[derive(Debug)]
struct Skipped(String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}", self.0)
    }
}

impl std::error::Error for Skipped {}

/// What a test returns as its error when it does not apply here.
#[must_use]
pub fn skipped(why: impl Into<String>) -> anyhow::Error {
    Skipped(why.into()).into()
}

/// Whether an error says that the test does not apply here.
#[must_use]
pub fn is_skipped(error: &anyhow::Error) -> bool {
    error.is::<Skipped>()
}

impl Outcome {
    /// What a test's result means.
    #[must_use]
    pub fn of(result: &Result<()>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(error) => match error.downcast_ref::<Skipped>() {
                Some(Skipped(why)) => Self::Skipped(why.clone()),
                None => Self::Failed(format!("{error:#}")),
            },
        }
    }
}

/// What a test has measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFigure {
    /// The test's name: "group/case".
    pub test: String,
    /// What was measured.
    pub name: String,
    /// The figure, in the unit that its name says.
    pub value: u64,
}

/// How many tests ended in which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub nr_passed: usize,
    /// Tests that failed.
    pub nr_failed: usize,
    /// Tests that do not apply here.
    pub nr_skipped: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nr_passed, nr_failed, nr_skipped } = self;
        write!(f, "{nr_passed} passed, {nr_failed} failed, {nr_skipped} skipped")
    }
}

#[derive(Debug, Default)]
struct Ledger {
    results: Vec<TestResult>,
    planned: Vec<String>,
    not_run: Vec<(String, String)>,
    retries: Vec<(String, String)>,
    timed: Vec<(Duration, String)>,
    figures: Vec<TestFigure>,
}

/// Collects what a run does. Threads share it, also the one that ends an interrupted run.
#[derive(Debug, Default)]
pub struct Report(Mutex<Ledger>);

impl Report {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is going to run: if no result with this name, or one that begins with it and a slash, follows, the end of the
    /// run says so.
    pub fn plan(&self, name: impl Into<String>) {
        self.ledger().planned.push(name.into());
    }

    /// This has run to its end, whatever its results are called.
    pub fn done(&self, name: &str) {
        self.ledger().planned.retain(|planned| planned != name);
    }

    /// How long something took that is no test of its own.
    pub fn time(&self, name: &str, took: Duration) {
        self.ledger().timed.push((took, name.to_owned()));
    }

    /// What a test has measured.
    pub fn measured(&self, test: &str, name: &str, value: u64) {
        let figure = TestFigure { test: test.to_owned(), name: name.to_owned(), value };
        self.ledger().figures.push(figure);
    }

    /// All figures so far.
    #[must_use]
    pub fn figures(&self) -> Vec<TestFigure> {
        self.ledger().figures.clone()
    }

    /// This will not run in this run, and why.
    pub fn leave_out(&self, name: impl Into<String>, why: impl Into<String>) {
        self.ledger().not_run.push((name.into(), why.into()));
    }

    /// Something needed a second attempt.
    pub fn retried(&self, name: &str, why: &str) {
        println!("RETRIED {name}: {why}");
        self.ledger().retries.push((name.to_owned(), why.to_owned()));
    }

    /// Counts and prints the result of a test that started then.
    pub fn note(&self, subject: Subject, name: &str, started: Instant, result: &Result<()>) {
        let took = started.elapsed();
        let outcome = Outcome::of(result);
        let seconds = took.as_secs_f64();
        match &outcome {
            Outcome::Passed => println!("ok {name} ({seconds:.1} s)"),
            Outcome::Failed(why) => println!("FAILED {name} ({seconds:.1} s): {why}"),
            Outcome::Skipped(why) => println!("skipped {name} ({seconds:.1} s): {why}"),
        }
        self.add(TestResult { name: name.to_owned(), subject, took: Some(took), outcome });
    }

    /// Counts a result that has been printed.
    pub fn add(&self, result: TestResult) {
        self.ledger().results.push(result);
    }

    /// All results so far.
    #[must_use]
    pub fn results(&self) -> Vec<TestResult> {
        self.ledger().results.clone()
    }

    /// How many tests about this ended in which way.
    #[must_use]
    pub fn counts(&self, subject: Subject) -> Counts {
        let mut counts = Counts::default();
        for result in self.ledger().results.iter().filter(|result| result.subject == subject) {
            match result.outcome {
                Outcome::Passed => counts.nr_passed += 1,
                Outcome::Failed(_) => counts.nr_failed += 1,
                Outcome::Skipped(_) => counts.nr_skipped += 1,
            }
        }
        counts
    }

    /// Whether something passed, and nothing failed or is missing.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let (product, rig) = (self.counts(Subject::Product), self.counts(Subject::Rig));
        product.nr_failed + rig.nr_failed == 0
            && product.nr_passed + rig.nr_passed > 0
            && self.ledger().missing().next().is_none()
    }

    /// The end of a run's output. Its last line counts tests of the product; failures of the rig's own count there as
    /// well, because they cast doubt on all else.
    #[must_use]
    pub fn summary(&self) -> String {
        let (mut product, rig) = (self.counts(Subject::Product), self.counts(Subject::Rig));
        product.nr_failed += rig.nr_failed;
        format!("{}lints and tests of the test rig: {rig}\n{product}\n", self.ledger().sections())
    }
}

impl Ledger {
    /// What was planned and has no result.
    fn missing(&self) -> impl Iterator<Item = &String> {
        let belongs = |result: &TestResult, planned: &str| {
            result.name.strip_prefix(planned).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.planned.iter().filter(move |planned| !self.results.iter().any(|result| belongs(result, planned)))
    }

    /// Sections of the summary that are not empty.
    fn sections(&self) -> String {
        let with = |wanted: fn(&Outcome) -> Option<&String>| {
            let line = |result: &TestResult| Some(format!("{}: {}", result.name, first_line(wanted(&result.outcome)?)));
            self.results.iter().filter_map(line).collect::<Vec<_>>()
        };
        let pairs = |pairs: &[(String, String)]| {
            pairs.iter().map(|(name, why)| format!("{name}: {}", first_line(why))).collect::<Vec<_>>()
        };
        let missing = self.missing().map(|name| format!("{name}: the run ended before"));
        let not_run = [pairs(&self.not_run), missing.collect()].concat();
        let skipped = with(|outcome| if let Outcome::Skipped(why) = outcome { Some(why) } else { None });
        let failed = with(|outcome| if let Outcome::Failed(why) = outcome { Some(why) } else { None });
        [
            section("slowest", &self.slowest()),
            section("tried a second time", &pairs(&self.retries)),
            section("did not run", &not_run),
            section("skipped", &skipped),
            section("failed", &failed),
        ]
        .concat()
    }

    fn slowest(&self) -> Vec<String> {
        let tests = self.results.iter().filter_map(|result| Some((result.took?, &result.name)));
        let mut timed: Vec<_> = tests.chain(self.timed.iter().map(|(took, name)| (*took, name))).collect();
        timed.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
        timed.truncate(NR_SLOWEST);
        timed.iter().map(|(took, name)| format!("{:.1} s {name}", took.as_secs_f64())).collect()
    }
}

fn section(title: &str, lines: &[String]) -> String {
    let mut text = String::new();
    if !lines.is_empty() {
        let _ = writeln!(text, "{title} ({}):", lines.len());
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, bail};

    fn note(report: &Report, name: &str, result: &Result<()>) {
        report.note(Subject::Product, name, Instant::now(), result);
    }

    #[test]
    fn a_skipped_test_is_neither_passed_nor_failed() {
        let report = Report::default();
        note(&report, "a", &Ok(()));
        note(&report, "b", &Err(skipped("not on this kernel")));
        assert_eq!(report.counts(Subject::Product), Counts { nr_passed: 1, nr_failed: 0, nr_skipped: 1 });
        assert!(report.is_good());
        let summary = report.summary();
        assert!(summary.contains("skipped (1):\n  b: not on this kernel\n"), "{summary}");
        assert!(summary.ends_with("\n1 passed, 0 failed, 1 skipped\n"), "{summary}");
    }

    #[test]
    fn a_reason_to_skip_is_found_below_its_context() {
        let result = Err(skipped("no database")).context("packages");
        assert_eq!(Outcome::of(&result), Outcome::Skipped("no database".into()));
    }

    #[test]
    fn tests_of_the_rig_are_counted_apart_but_their_failures_are_not_hidden() {
        let report = Report::default();
        note(&report, "a", &Ok(()));
        let broken = (|| bail!("spelling\nand more"))();
        report.note(Subject::Rig, "lint/spelling", Instant::now(), &Ok(()));
        report.note(Subject::Rig, "lint/lints", Instant::now(), &broken);
        assert!(!report.is_good());
        let summary = report.summary();
        assert!(summary.contains("failed (1):\n  lint/lints: spelling\n"), "{summary}");
        assert!(summary.contains("\nlints and tests of the test rig: 1 passed, 1 failed, 0 skipped\n"), "{summary}");
        assert!(summary.ends_with("\n1 passed, 1 failed, 0 skipped\n"), "{summary}");
    }

    #[test]
    fn what_was_planned_and_has_no_result_is_named() {
        let report = Report::default();
        report.plan("newest kernel/load");
        report.plan("newest kernel/unload");
        report.plan("unit");
        report.leave_out("packages", "only with --long");
        note(&report, "newest kernel/load", &Ok(()));
        note(&report, "unit/scherzo-model/tests::a", &Ok(()));
        let summary = report.summary();
        let expected = "did not run (2):\n  packages: only with --long\n  newest kernel/unload: the run ended before\n";
        assert!(summary.contains(expected), "{summary}");
        assert!(!report.is_good(), "a test is missing");
    }

    #[test]
    fn second_attempts_are_counted() {
        let report = Report::default();
        report.retried("virtual time/boot", "the guest did not answer\n--- console ---");
        let expected = "tried a second time (1):\n  virtual time/boot: the guest did not answer\n";
        assert!(report.summary().contains(expected), "{}", report.summary());
    }

    #[test]
    fn the_slowest_come_first_and_are_ten_at_most() {
        let report = Report::default();
        for seconds in 1..=12 {
            let took = Some(Duration::from_secs(seconds));
            let (name, subject) = (format!("case {seconds}"), Subject::Product);
            report.add(TestResult { name, subject, took, outcome: Outcome::Passed });
        }
        let summary = report.summary();
        assert!(summary.starts_with("slowest (10):\n  12.0 s case 12\n  11.0 s case 11\n"), "{summary}");
        assert!(!summary.contains("case 2\n"));
    }
}
