//! Random machines for as long as is asked, also with CPUs that interrupt each other. A few by default; with `SCHERZO_SOAK_SECONDS`, as
//! `cargo xtask test --long` sets it, from a seed that the clock gives. `SCHERZO_SOAK_SEED` repeats one.

mod environment;
mod machines;

use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use environment::number;
use fastrand::Rng;
use machines::random_scenario;
use scherzo_sim::{Mode, Scenario, SimulationOptions, SimulationReport, explore_randomly, run};

/// Machines where nobody asks for more.
const FEW_MACHINES: u64 = 40;
/// Times at which priorities change by chance, in each episode.
const NR_CHANGES: usize = 3;
/// Failures that are printed as a whole.
const NR_PRINTED: usize = 5;

/// What broke on this machine; nothing if all is well.
fn fault(seed: u64) -> Option<String> {
    let mut rng = Rng::with_seed(seed);
    let text = random_scenario(&mut rng);
    let (mode, kernel_seat) = (rng.choice(Mode::ALL).unwrap_or_default(), rng.bool());
    let options = SimulationOptions { seed, mode, kernel_seat, ..SimulationOptions::default() };
    let parse = |text: &str| Scenario::parse("soak.toml", text).expect("a good scenario");
    let plain = run(&parse(&text), &options);
    if is_broken(&plain) {
        return Some(format!("seed {seed}: {:?} without interruptions\n{text}\n{plain}", plain.violations[0].rule));
    }
    let short = text.replace("duration_ms = 300", "duration_ms = 60");
    let failed = explore_randomly(&parse(&short), &options, seed, NR_CHANGES).err()?;
    let rule = failed.report.violations[0].rule;
    is_broken(&failed.report)
        .then(|| format!("seed {seed}: {rule:?}, {}\n{short}\n{}", failed.arguments(&options), failed.report))
}

/// By something else than a `KnownFault`.
fn is_broken(report: &SimulationReport) -> bool {
    report.violations.iter().any(|violation| violation.known.is_none())
}

#[test]
fn random_machines_keep_the_rules_for_as_long_as_is_asked() {
    let asked = number("SCHERZO_SOAK_SECONDS").map(Duration::from_secs);
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let first = number("SCHERZO_SOAK_SEED").unwrap_or_else(|| if asked.is_some() { clock() << 20 } else { 10_000 });
    // Not `println!()`, which says nothing before the end.
    let say = |text: &str| writeln!(std::io::stderr(), "{text}").expect("it can be printed");
    say(&format!("soak: the first seed is {first}, SCHERZO_SOAK_SEED={first} begins there again"));
    let began = Instant::now();
    let goes_on = |seed: u64| asked.map_or(seed < first + FEW_MACHINES, |asked| began.elapsed() < asked);
    let mut faults = Vec::new();
    let mut seed = first;
    while goes_on(seed) {
        if let Some(fault) = fault(seed) {
            say(&format!("soak: {}", fault.lines().next().unwrap_or_default()));
            faults.push(fault);
        }
        seed += 1;
    }
    let nr_machines = seed - first;
    say(&format!("soak: {nr_machines} machines in {} s, {} broken", began.elapsed().as_secs(), faults.len()));
    faults.truncate(NR_PRINTED);
    assert!(faults.is_empty(), "of {nr_machines} machines from seed {first}:\n{}", faults.join("\n"));
}
