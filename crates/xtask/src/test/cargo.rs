//! Tests that `cargo test` runs: what it prints, as results.

use std::io::{BufRead, BufReader, pipe};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use scherzo_rig::build::Workspace;
use scherzo_rig::progress::say;
use scherzo_rig::report::{Outcome, Report, Subject, TestResult};

/// Inputs of each kind that the fuzz tests try in the long run.
const NR_LONG_FUZZ_CASES: &str = "1000000";
/// How long the simulator's random machines run then.
const LONG_SOAK_SECONDS: &str = "14400";
/// Crates whose integration tests talk to the daemon on a private bus.
const BUS_CRATES: &[&str] = &["daemon", "ctl", "tray"];
/// Crates that are there to test, measure or build the product; none is part of it.
const RIG_CRATES: &[&str] = &["cases", "compare", "packaging", "rig", "scenarios", "test-bus", "xtask"];

/// What shares memory with BPF and other processes. The engine's allocator is not among it: it takes the C library's place, and
/// so does the sanitizer.
const SANITIZED: &[&str] = &["--package", "scherzo-wire", "--target", "x86_64-unknown-linux-gnu", "--lib", "--tests"];
/// The compiler's sanitizers come with the stable toolchain, but are not stable.
fn sanitizer() -> Vec<(&'static str, String)> {
    vec![("RUSTC_BOOTSTRAP", "1".to_owned()), ("RUSTFLAGS", "-Zsanitizer=address".to_owned())]
}

/// Parts of the evidence that need what a stable toolchain does not have. No run has them.
const OUT_OF_REACH: &[(&str, &str)] = &[
    ("Miri", "it comes with nightly toolchains only"),
    ("fuzzing guided by coverage", "it needs a nightly compiler; inputs come from seeds and the kept ones instead"),
    ("AddressSanitizer over the engine's arena", "its allocator takes the C library's place, as the sanitizer does"),
];

/// How tests make inputs by chance: the fuzz tests, and the simulator's random machines.
#[derive(Clone, Copy, Default)]
pub(super) struct Fuzzing {
    /// Whether they take their time.
    pub(super) is_long: bool,
    /// The first seed; otherwise each test chooses its own.
    pub(super) seed: Option<u64>,
}

impl Fuzzing {
    /// What tells the tests.
    fn environment(self) -> Vec<(&'static str, String)> {
        let lengths = [("SCHERZO_FUZZ_CASES", NR_LONG_FUZZ_CASES), ("SCHERZO_SOAK_SECONDS", LONG_SOAK_SECONDS)];
        let lengths = lengths.map(|(name, length)| (name, length.to_owned()));
        let seeds =
            self.seed.map(|seed| ["SCHERZO_FUZZ_SEED", "SCHERZO_SOAK_SEED"].map(|name| (name, seed.to_string())));
        self.is_long.then_some(lengths).into_iter().chain(seeds).flatten().collect()
    }
}

/// One call of `cargo test`.
struct TestRun<'a> {
    tier: &'a str,
    what: &'a str,
    arguments: &'a [&'a str],
    environment: Vec<(&'a str, String)>,
}

/// An integration test: the folder of its crate, and its name.
struct TestTarget {
    package: String,
    name: String,
}

/// All integration tests of the workspace.
pub(super) struct Tests(Vec<TestTarget>);

impl Tests {
    pub(super) fn open(checkout: &Path) -> Result<Self> {
        let mut targets = Vec::new();
        for entry in checkout.join("crates").read_dir()? {
            let entry = entry?;
            let Ok(files) = entry.path().join("tests").read_dir() else { continue };
            let package = entry.file_name().to_string_lossy().into_owned();
            let names = files.flatten().filter_map(|file| target_name(&file.path()));
            targets.extend(names.map(|name| TestTarget { package: package.clone(), name }));
        }
        Ok(Self(targets))
    }

    /// Arguments for cargo that select the integration tests that need a bus, or those that need none.
    fn select(&self, with_bus: bool) -> Vec<&str> {
        let wanted = self.0.iter().filter(|target| BUS_CRATES.contains(&&*target.package) == with_bus);
        wanted.flat_map(|target| ["--test", &target.name]).collect()
    }

    pub(super) fn unit(&self, workspace: &Workspace<'_>, fuzzing: &Fuzzing, report: &Report) -> Result<()> {
        for (name, why) in OUT_OF_REACH {
            report.leave_out(*name, *why);
        }
        let arguments = [vec!["--workspace", "--lib", "--bins"], self.select(false)].concat();
        let what = "unit and property tests";
        let environment = fuzzing.environment();
        self.run(workspace, &TestRun { tier: "unit", what, arguments: &arguments, environment }, report)?;
        let (what, arguments) = ("examples in the documentation", &["--workspace", "--doc"]);
        self.run(workspace, &TestRun { tier: "unit", what, arguments, environment: Vec::new() }, report)?;
        if fuzzing.is_long {
            let (what, arguments) = ("shared memory under AddressSanitizer", SANITIZED);
            self.run(
                workspace,
                &TestRun { tier: "AddressSanitizer", what, arguments, environment: sanitizer() },
                report,
            )
        } else {
            report.leave_out("AddressSanitizer", "only with --long");
            Ok(())
        }
    }

    pub(super) fn bus(&self, workspace: &Workspace<'_>, fuzzing: &Fuzzing, report: &Report) -> Result<()> {
        let targets = self.select(true);
        ensure!(!targets.is_empty(), "there are no private-bus tests in {}", BUS_CRATES.join(", "));
        let arguments = &[vec!["--workspace"], targets].concat();
        let what = "private-bus tests";
        self.run(workspace, &TestRun { tier: "bus", what, arguments, environment: fuzzing.environment() }, report)
    }

    /// Runs `cargo test`, and notes the results that it prints. A build that fails is one failure.
    fn run(&self, workspace: &Workspace<'_>, run: &TestRun<'_>, report: &Report) -> Result<()> {
        let TestRun { tier, what, arguments, environment } = run;
        say(&format!("running {what}"));
        let _lock = workspace.lock()?;
        let started = Instant::now();
        let mut cargo =
            workspace.cargo(&[&["test", "--offline", "--locked", "--no-fail-fast"], *arguments].concat())?;
        cargo.envs(environment.iter().map(|(name, value)| (name, value)));
        // One pipe for both: cargo names on one what the other is about.
        let (output, both) = pipe()?;
        let mut child = cargo.stdout(both.try_clone()?).stderr(both).spawn()?;
        drop(cargo);
        let mut reader =
            Reader { tier, rig: &|suite| self.is_of_the_rig(suite), suite: String::new(), open: Vec::new() };
        let mut has_failed = false;
        for line in BufReader::new(output).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            for result in reader.read(&line, report) {
                has_failed |= matches!(result.outcome, Outcome::Failed(_));
                report.add(result);
            }
        }
        let status = child.wait()?;
        if !status.success() && !has_failed {
            let failed = Err(anyhow!("cargo test ended with {status}"));
            report.note(Subject::Product, &format!("{tier}/{what}"), started, &failed);
        }
        Ok(())
    }

    /// Whether a test program belongs to the rig: an integration test of one of its crates, or the crate itself.
    fn is_of_the_rig(&self, suite: &str) -> bool {
        let is_crate =
            RIG_CRATES.iter().any(|name| suite == *name || suite == format!("scherzo_{}", name.replace('-', "_")));
        let is_program = suite == "scherzo_guest_agent";
        is_crate
            || is_program
            || self.0.iter().any(|target| target.name == suite && RIG_CRATES.contains(&&*target.package))
    }
}

/// A file, or a directory with a `main.rs`, is a target of its own.
fn target_name(path: &Path) -> Option<String> {
    let is_target = path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists();
    is_target.then(|| path.file_stem()?.to_str().map(str::to_owned)).flatten()
}

/// Follows what `cargo test` prints.
struct Reader<'a> {
    tier: &'a str,
    rig: &'a dyn Fn(&str) -> bool,
    /// The program whose tests run.
    suite: String,
    /// Its results, until it says how many there are.
    open: Vec<TestResult>,
}

impl Reader<'_> {
    /// The results of a test program, once its last line is read.
    fn read(&mut self, line: &str, report: &Report) -> Vec<TestResult> {
        if let Some(suite) = suite(line) {
            self.suite = suite;
        } else if let Some((name, outcome)) = single(line) {
            let result = self.result(name, outcome);
            self.open.push(result);
        } else if let Some(totals) = totals(line) {
            report.time(&format!("{}/{}", self.tier, self.suite), totals.took);
            return self.close(&totals);
        }
        Vec::new()
    }

    fn result(&self, name: &str, outcome: Outcome) -> TestResult {
        let subject = if (self.rig)(&self.suite) { Subject::Rig } else { Subject::Product };
        TestResult { name: format!("{}/{}::{name}", self.tier, self.suite), subject, took: None, outcome }
    }

    /// A test may print into the line that names another: what is counted and not named is added.
    fn close(&mut self, totals: &TestTotals) -> Vec<TestResult> {
        let mut results = std::mem::take(&mut self.open);
        let nr_named = |results: &[TestResult], passed: bool| {
            results.iter().filter(|result| (result.outcome == Outcome::Passed) == passed).count()
        };
        for _ in nr_named(&results, true)..totals.nr_passed {
            results.push(self.result("(not named)", Outcome::Passed));
        }
        for _ in nr_named(&results, false)..totals.nr_failed {
            results.push(self.result("(not named)", Outcome::Failed("see above".into())));
        }
        results
    }
}

/// `     Running unittests src/lib.rs (/target/debug/deps/scherzo_rig-0123456789abcdef)` or `   Doc-tests scherzo_api`.
fn suite(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(name.to_owned());
    }
    let path = line.strip_prefix("Running ")?.rsplit_once('(')?.1.strip_suffix(')')?;
    let (name, _) = path.rsplit('/').next()?.rsplit_once('-')?;
    Some(name.to_owned())
}

/// `test report::tests::a ... ok`. Ignored tests count as failed.
fn single(line: &str) -> Option<(&str, Outcome)> {
    let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match end {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed("see above".into()),
        ignored if ignored.starts_with("ignored") => Outcome::Failed("it is marked to be ignored".into()),
        _ => return None,
    };
    Some((name, outcome))
}

/// What a test program says at its end.
#[derive(Debug, PartialEq)]
struct TestTotals {
    nr_passed: usize,
    nr_failed: usize,
    took: Duration,
}

/// `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.50s`.
fn totals(line: &str) -> Option<TestTotals> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |what: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(what));
        part.and_then(|number| number.trim().parse::<usize>().ok())
    };
    let seconds = line.rsplit_once("finished in ").and_then(|(_, rest)| rest.strip_suffix('s')?.parse().ok());
    Some(TestTotals {
        nr_passed: count("passed")?,
        nr_failed: count("failed")? + count("ignored")?,
        took: Duration::from_secs_f64(seconds.unwrap_or(0.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scherzo_rig::report::Counts;

    const OUTPUT: &str = "   Compiling scherzo-rig v0.1.0 (/src/crates/rig)
     Running unittests src/lib.rs (/target/debug/deps/scherzo_rig-0f7159eff8d80a92)
running 2 tests
test report::tests::a ... ok
something that a test prints test report::tests::b ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s
     Running tests/bus/main.rs (/target/debug/deps/bus-0f7159eff8d80a92)
test noise::c ... FAILED
test noise::d - should panic ... ok
test noise::e ... ignored, takes long
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
   Doc-tests scherzo_api
test crates/api/src/lib.rs - f (line 3) ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.31s
";

    #[test]
    fn results_of_cargo_test_are_counted_and_named() {
        let report = Report::default();
        let rig = |suite: &str| suite == "scherzo_rig";
        let mut reader = Reader { tier: "unit", rig: &rig, suite: String::new(), open: Vec::new() };
        OUTPUT.lines().flat_map(|line| reader.read(line, &report)).for_each(|result| report.add(result));
        assert_eq!(report.counts(Subject::Rig), Counts { nr_passed: 2, nr_failed: 0, nr_skipped: 0 });
        assert_eq!(report.counts(Subject::Product), Counts { nr_passed: 2, nr_failed: 2, nr_skipped: 0 });
        let names: Vec<_> = report.results().into_iter().map(|result| result.name).collect();
        assert_eq!(
            names[..3],
            ["unit/scherzo_rig::report::tests::a", "unit/scherzo_rig::(not named)", "unit/bus::noise::c"]
        );
        assert!(report.summary().starts_with("slowest (3):\n  1.5 s unit/scherzo_rig\n"), "{}", report.summary());
    }

    #[test]
    fn a_seed_is_handed_to_the_tests_that_print_it() {
        let names = |fuzzing: Fuzzing| fuzzing.environment().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(Fuzzing::default().environment(), []);
        let fuzzing = Fuzzing { is_long: false, seed: Some(17) };
        let seed = "17".to_owned();
        assert_eq!(fuzzing.environment(), [("SCHERZO_FUZZ_SEED", seed.clone()), ("SCHERZO_SOAK_SEED", seed)]);
        let all = ["SCHERZO_FUZZ_CASES", "SCHERZO_SOAK_SECONDS", "SCHERZO_FUZZ_SEED", "SCHERZO_SOAK_SEED"];
        assert_eq!(names(Fuzzing { is_long: true, ..fuzzing }), all);
    }

    #[test]
    fn targets_are_files_and_directories_with_a_main() {
        assert_eq!(target_name(Path::new("tests/layout.rs")), Some("layout".into()));
        assert_eq!(target_name(Path::new("tests/common")), None);
    }

    #[test]
    fn crates_of_the_rig_exist_and_their_tests_are_known() {
        let checkout = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        for name in RIG_CRATES.iter().chain(BUS_CRATES) {
            assert!(checkout.join("crates").join(name).is_dir(), "{name}");
        }
        let tests = Tests::open(checkout).unwrap();
        assert!(["scherzo_rig", "xtask", "edges", "scherzo_test_bus"].iter().all(|suite| tests.is_of_the_rig(suite)));
        assert!(!["scherzo_policy", "bus", "scherzo_ctl"].iter().any(|suite| tests.is_of_the_rig(suite)));
    }
}
