//! How many instructions the kernel's verifier goes through for each program. They are most of what loading takes, and there is
//! a limit past which a kernel refuses a program.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{MOMENT, engine_pid, ensure_loaded};
use scherzo_rig::shell::Shell;

/// What `cargo xtask test vm --kernels all --record` has written.
const RECORD: &str = include_str!("../../../docs/kernels.json");
/// By how much a program, and all together, may grow over the record.
const MAX_GROWTH_PERCENT: u64 = 20;
/// Begins the names of these figures in the record of a run.
pub const FIGURE_PREFIX: &str = "verified instructions: ";

/// Instructions by program.
type VerifiedCounts = BTreeMap<String, u64>;

#[derive(Deserialize)]
struct KernelsRecord {
    kernels: Vec<RecordedKernel>,
}

#[derive(Deserialize)]
struct RecordedKernel {
    release: String,
    #[serde(default)]
    verified: VerifiedCounts,
}

/// No program needs much more of the verifier than when it was last recorded.
pub(super) fn recorded(guest: &mut Guest) -> Result<()> {
    let (release, counts) = count(guest)?;
    let record: KernelsRecord = serde_json::from_str(RECORD).context("docs/kernels.json")?;
    ensure_little_growth(&counts, &expected(&record, &release)?)
}

/// Counts only, for a new record.
pub(super) fn counted(guest: &mut Guest) -> Result<()> {
    count(guest).map(drop)
}

/// The kernel, and its counts. Programs of which the kernel was told before it knew their constants would be other ones: these are
/// those that are loaded.
fn count(guest: &mut Guest) -> Result<(String, VerifiedCounts)> {
    ensure_loaded(guest)?;
    let release = guest.check("uname -r", MOMENT)?;
    let counts = read(guest)?;
    for (program, count) in &counts {
        guest.note_figure(format!("{FIGURE_PREFIX}{program}"), *count);
    }
    say(&format!("{release}: the verifier went through {} instructions of {} programs", total(&counts), counts.len()));
    Ok((release, counts))
}

/// Asks the kernel about the programs that the engine holds.
fn read(guest: &mut Guest) -> Result<VerifiedCounts> {
    let pid = engine_pid(guest)?;
    let held = guest.check(&format!("cat /proc/{pid}/fdinfo/*"), MOMENT)?;
    let programs = guest.check("bpftool --json prog show", MOMENT)?;
    let programs: Vec<Value> = serde_json::from_str(&programs).context("what bpftool prints")?;
    let name_of = |id: u64| {
        let program = programs.iter().find(|program| program["id"] == id);
        program.and_then(|program| program["name"].as_str()).map(str::to_owned)
    };
    let counts: VerifiedCounts =
        held_programs(&held).into_iter().filter_map(|(id, count)| Some((name_of(id)?, count))).collect();
    ensure!(!counts.is_empty(), "the engine holds no program:\n{held}");
    Ok(counts)
}

/// Numbers of programs, and what the verifier went through, from `/proc/PID/fdinfo`.
fn held_programs(text: &str) -> BTreeMap<u64, u64> {
    let (mut held, mut id) = (BTreeMap::new(), None::<u64>);
    for line in text.lines() {
        match line.split_once(':').map(|(key, value)| (key, value.trim().parse::<u64>().ok())) {
            Some(("prog_id", value)) => id = value,
            Some(("verified_insns", Some(count))) => held.extend(id.take().map(|id| (id, count))),
            _ => {}
        }
    }
    held
}

fn total(counts: &VerifiedCounts) -> u64 {
    counts.values().sum()
}

/// What is recorded for the kernel's series, or for the nearest before it; else for the oldest.
fn expected(record: &KernelsRecord, release: &str) -> Result<VerifiedCounts> {
    let with_counts = || record.kernels.iter().filter(|kernel| !kernel.verified.is_empty());
    let not_newer = with_counts().filter(|kernel| series(&kernel.release) <= series(release));
    let nearest = not_newer.max_by_key(|kernel| series(&kernel.release));
    let nearest = nearest.or_else(|| with_counts().min_by_key(|kernel| series(&kernel.release)));
    Ok(nearest.context("docs/kernels.json has no counts")?.verified.clone())
}

/// 6.18.15+deb13-cloud-amd64 → [6, 18].
fn series(release: &str) -> Vec<u32> {
    release.split('.').take(2).filter_map(|number| number.parse().ok()).collect()
}

fn ensure_little_growth(counts: &VerifiedCounts, expected: &VerifiedCounts) -> Result<()> {
    let grown = |count: u64, before: u64| count * 100 > before * (100 + MAX_GROWTH_PERCENT);
    // A new one counts in the sum.
    let known = counts.iter().filter_map(|(program, count)| Some((program.as_str(), *count, *expected.get(program)?)));
    let all = ("all programs", total(counts), total(expected));
    let too_many: Vec<_> = known
        .chain([all])
        .filter(|(_, now, before)| grown(*now, *before))
        .map(|(what, now, before)| format!("{now} of {what}, before {before}"))
        .collect();
    ensure!(
        too_many.is_empty(),
        "the verifier goes through over {MAX_GROWTH_PERCENT} % more instructions than recorded: {}",
        too_many.join("; ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(programs: &[(&str, u64)]) -> VerifiedCounts {
        programs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn programs_are_told_by_their_descriptors() {
        let held = "pos:\t0\nprog_type:\t27\nprog_id:\t41\nrun_time_ns:\t0\nverified_insns:\t18043\n\
                    pos:\t0\nmap_id:\t7\nmemlock:\t4096\nprog_id:\t42\nverified_insns:\t11\n";
        assert_eq!(held_programs(held), BTreeMap::from([(41, 18_043), (42, 11)]));
    }

    #[test]
    fn growth_past_a_fifth_fails_for_one_program_and_for_all() {
        let before = counts(&[("dispatch", 1_000), ("enqueue", 1_000)]);
        ensure_little_growth(&counts(&[("dispatch", 1_200), ("enqueue", 1_000)]), &before).unwrap();
        let one = ensure_little_growth(&counts(&[("dispatch", 1_201), ("enqueue", 900)]), &before).unwrap_err();
        assert!(one.to_string().ends_with(": 1201 of dispatch, before 1000"), "{one}");
        let new = ensure_little_growth(&counts(&[("dispatch", 1_000), ("enqueue", 1_000), ("new", 500)]), &before);
        assert!(new.unwrap_err().to_string().ends_with(": 2500 of all programs, before 2000"));
    }

    #[test]
    fn a_series_without_a_record_is_held_to_the_one_before() {
        let kernel = |release: &str, count| RecordedKernel {
            release: release.to_owned(),
            verified: if count == 0 { VerifiedCounts::new() } else { counts(&[("dispatch", count)]) },
        };
        let kernels = vec![kernel("6.16.12+deb13", 1), kernel("6.18.15+deb13", 2), kernel("7.2.12+deb13", 0)];
        let record = KernelsRecord { kernels };
        assert_eq!(expected(&record, "6.18.20+deb13").unwrap(), counts(&[("dispatch", 2)]));
        assert_eq!(expected(&record, "6.17.13+deb13").unwrap(), counts(&[("dispatch", 1)]));
        assert_eq!(expected(&record, "7.2.13+deb14").unwrap(), counts(&[("dispatch", 2)]));
        assert_eq!(expected(&record, "6.12.1").unwrap(), counts(&[("dispatch", 1)]));
        assert!(expected(&KernelsRecord { kernels: Vec::new() }, "6.18.1").is_err());
    }

    #[test]
    fn the_record_can_be_read() {
        let record: KernelsRecord = serde_json::from_str(RECORD).unwrap();
        assert!(record.kernels.iter().any(|kernel| total(&kernel.verified) > 10_000), "it has no counts");
    }
}
