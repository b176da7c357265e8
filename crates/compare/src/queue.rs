//! A benchmark as a queue of parts. Each is measured in one boot, and its result is kept at once, so that an interrupted run
//! goes on where it was. Results are used again only for the commit and host that they come from, and either for guests of the same QEMU or for
//! the host itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::provenance::Provenance;
use super::report::Comparison;
use super::set::BenchmarkSet;
use super::{ComparisonPlan, Findings, Measurable};
use scherzo_rig::cache;
use scherzo_rig::progress::say;

/// How long the measurements of a part may take by the guest's clock. In software emulation a guest's second lasts about
/// two of the host's under load, and a boot with its part shall end within 20 minutes.
const MAX_GUEST_SECONDS: u32 = 600;

/// Some loads on one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct BenchmarkPart<M: Measurable> {
    /// The set that it is of.
    pub set: BenchmarkSet,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs; virtual ones in a guest.
    pub nr_cpus: u32,
    /// What is measured.
    pub plan: ComparisonPlan<M>,
}

/// What was measured for a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct PartResult<M: Measurable> {
    /// The part.
    pub part: BenchmarkPart<M>,
    /// Where it comes from.
    pub provenance: Provenance,
    /// How long it took, boot included, by the host's clock.
    pub took_s: u64,
    /// What came of it.
    #[serde(flatten)]
    pub measured: Findings<M>,
}

impl<M: Measurable> BenchmarkPart<M> {
    /// Divides a plan into parts that are short enough, in the order of its loads. A load by itself is not divided.
    #[must_use]
    pub fn all_of(set: BenchmarkSet, kernel: &str, nr_cpus: u32, plan: &ComparisonPlan<M>) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for &load in &plan.loads {
            if let Some(last) = parts.last_mut() {
                last.plan.loads.push(load);
                if last.plan.guest_seconds() <= MAX_GUEST_SECONDS {
                    continue;
                }
                last.plan.loads.pop();
            }
            let plan = ComparisonPlan { loads: vec![load], ..plan.clone() };
            parts.push(Self { set, kernel: kernel.to_owned(), nr_cpus, plan });
        }
        parts
    }

    /// Names it in the progress: set, kernel and loads.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {} {}", self.set, self.kernel, self.plan.names())
    }
}

/// The results that are kept of earlier runs.
#[derive(Debug)]
pub struct KeptResults {
    dir: PathBuf,
    provenance: Provenance,
}

impl KeptResults {
    /// Those in this directory that have the same origin as what is measured now.
    #[must_use]
    pub fn open(dir: PathBuf, provenance: &Provenance) -> Self {
        Self { dir, provenance: provenance.clone() }
    }

    /// The result of a part, if it is there and comes from the same commit, QEMU if any, and host.
    #[must_use]
    pub fn find<M: Measurable>(&self, part: &BenchmarkPart<M>) -> Option<PartResult<M>> {
        let text = fs::read_to_string(self.path(part)).ok()?;
        // Of another version of this program, or cut off: it is measured again.
        let result: PartResult<M> = serde_json::from_str(&text).ok()?;
        let is_wanted = result.part == *part && self.provenance.is_comparable(&result.provenance);
        is_wanted.then_some(result)
    }

    /// Keeps a result, unless files differed from their commit: nobody could tell what it belongs to.
    pub fn keep<M: Measurable>(&self, result: &PartResult<M>) -> Result<()> {
        if !result.provenance.is_committed() {
            return Ok(());
        }
        let path = self.path(&result.part);
        let dir = path.parent().context("no parent")?;
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let partial = path.with_extension("partial");
        fs::write(&partial, serde_json::to_string(result)?)
            .and_then(|()| fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// A file for each part of each commit.
    fn path<M: Measurable>(&self, part: &BenchmarkPart<M>) -> PathBuf {
        let BenchmarkPart { nr_cpus, plan, .. } = part;
        let ComparisonPlan { nr_rounds, seconds, contenders, .. } = plan;
        let dir = self.dir.join(&self.provenance.commit);
        let count = contenders.len();
        // The names of all loads may be longer than a file's may be.
        let loads = cache::hash(&plan.names());
        let name = format!("{}-{}-{loads:016x}-{nr_cpus}-{count}x{nr_rounds}x{seconds}.json", part.set, part.kernel);
        dir.join(name)
    }
}

/// Measures parts, `nr_parallel` at a time, and keeps each result as soon as it is there. A part that fails leaves the
/// others alone.
pub fn measure<M: Measurable>(
    parts: Vec<&BenchmarkPart<M>>,
    nr_parallel: usize,
    kept: &KeptResults,
    measure: impl Fn(&BenchmarkPart<M>) -> Result<PartResult<M>> + Sync,
) -> Result<Vec<PartResult<M>>> {
    let nr_parts = parts.len();
    let queue = Mutex::new(parts.into_iter().enumerate());
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..nr_parallel {
            scope.spawn(|| {
                while let Some((place, part)) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                    let outcome = measure(part)
                        .and_then(|result| kept.keep(&result).map(|()| result))
                        .with_context(|| format!("cannot measure {}", part.name()));
                    if let Err(error) = &outcome {
                        say(&format!("{error:#}"));
                    }
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((place, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(place, _)| *place);
    let results: Result<Vec<_>> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    results
        .with_context(|| format!("not all of {nr_parts} parts were measured; the same command goes on with the others"))
}

/// Puts results of a set together, by kernel in the order in which they come; fails if they are not of the same commit, QEMU
/// if any, and host. The days on which they were measured are added.
pub fn comparisons<M: Measurable>(
    provenance: &Provenance,
    results: Vec<PartResult<M>>,
    days: &mut BTreeSet<String>,
) -> Result<Vec<Comparison<M>>> {
    let mut comparisons: Vec<Comparison<M>> = Vec::new();
    for PartResult { part, provenance: origin, measured, .. } in results {
        ensure!(
            provenance.is_comparable(&origin),
            "{} was measured elsewhere, or at another commit: {origin} {provenance}",
            part.name()
        );
        days.insert(origin.date);
        let BenchmarkPart { set, kernel, nr_cpus, plan } = part;
        match comparisons.iter_mut().find(|known| known.kernel == kernel) {
            Some(known) => {
                known.plan.loads.extend(plan.loads);
                known.measured.samples.extend(measured.samples);
                known.measured.left_out.extend(measured.left_out);
            }
            None => comparisons.push(Comparison { set, kernel, nr_cpus, plan, measured }),
        }
    }
    Ok(comparisons)
}

#[cfg(test)]
mod tests {
    use super::super::contender::Contender;
    use super::super::provenance::MachineKind;
    use super::super::summary::tests::sample;
    use super::super::tool::Tool;
    use super::super::workload::Workload;
    use super::*;
    use anyhow::bail;

    fn origin(commit: &str, date: &str) -> Provenance {
        Provenance {
            commit: commit.into(),
            date: date.into(),
            command: "cargo xtask bench".into(),
            machine: MachineKind::guests("10"),
            host: "a computer".into(),
        }
    }

    fn plan(loads: &[Workload], seconds: u32) -> ComparisonPlan<Workload> {
        let contenders = vec![Contender::Default, Contender::Scherzo];
        ComparisonPlan { loads: loads.to_vec(), contenders, nr_rounds: 5, seconds }
    }

    fn result(load: Workload, provenance: Provenance) -> PartResult<Workload> {
        let part =
            BenchmarkPart { set: BenchmarkSet::Core, kernel: "6.18".into(), nr_cpus: 4, plan: plan(&[load], 10) };
        let samples = vec![sample(Contender::Scherzo, load, 0, 10.0, 1.0)];
        PartResult { part, provenance, took_s: 60, measured: Findings { samples, left_out: Vec::new() } }
    }

    #[test]
    fn parts_are_short_and_have_every_load_once_in_order() {
        let whole = plan(&Workload::ALL, 10);
        let parts = BenchmarkPart::all_of(BenchmarkSet::Core, "6.18", 4, &whole);
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|part| part.plan.guest_seconds() <= MAX_GUEST_SECONDS), "{parts:?}");
        assert_eq!(parts.iter().flat_map(|part| part.plan.loads.clone()).collect::<Vec<_>>(), Workload::ALL);
        assert_eq!(BenchmarkPart::all_of(BenchmarkSet::Core, "6.18", 4, &plan(&Workload::ALL, 1)).len(), 1);
        let long = BenchmarkPart::all_of(BenchmarkSet::Core, "6.18", 4, &plan(&[Workload::Hog1, Workload::Hog2], 600));
        assert_eq!(long.iter().map(BenchmarkPart::name).collect::<Vec<_>>(), ["core 6.18 hog1", "core 6.18 hog2"]);
    }

    #[test]
    fn the_tools_are_divided_too() {
        let contenders = BenchmarkSet::Tools.contenders();
        let whole = ComparisonPlan { loads: Tool::all(), contenders, nr_rounds: 3, seconds: 8 };
        let parts = BenchmarkPart::all_of(BenchmarkSet::Tools, "6.18", 4, &whole);
        assert!(parts.iter().all(|part| part.plan.guest_seconds() <= MAX_GUEST_SECONDS), "{parts:?}");
        assert_eq!(parts.iter().flat_map(|part| part.plan.loads.clone()).collect::<Vec<_>>(), Tool::all());
    }

    #[test]
    fn a_result_is_found_again_by_the_same_part_of_the_same_commit_and_qemu() {
        let dir = tempfile::tempdir().unwrap();
        let kept = |provenance: &Provenance| KeptResults::open(dir.path().to_owned(), provenance);
        let of_yesterday = result(Workload::Hog1, origin("abc", "2026-01-01"));
        kept(&of_yesterday.provenance).keep(&of_yesterday).unwrap();
        let part = &of_yesterday.part;
        let today = origin("abc", "2026-01-02");
        assert_eq!(kept(&today).find(part).as_ref(), Some(&of_yesterday));
        assert_eq!(kept(&origin("def", "2026-01-02")).find(part), None);
        for machine in [MachineKind::guests("11"), MachineKind::Host] {
            assert_eq!(kept(&Provenance { machine, ..today.clone() }).find(part), None);
        }
        assert_eq!(kept(&Provenance { host: "another".into(), ..today.clone() }).find(part), None);
        let longer = BenchmarkPart { plan: plan(&[Workload::Hog1], 20), ..part.clone() };
        assert_eq!(kept(&today).find(&longer), None);
        let others = ComparisonPlan { contenders: vec![Contender::Default, Contender::Floor], ..part.plan.clone() };
        assert_eq!(kept(&today).find(&BenchmarkPart { plan: others, ..part.clone() }), None);
        assert_eq!(kept(&today).find(&BenchmarkPart { set: BenchmarkSet::Peers, ..part.clone() }), None);
    }

    #[test]
    fn what_was_not_committed_is_not_kept_and_a_damaged_result_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let unclear = result(Workload::Hog1, origin("abc-dirty", "2026-01-01"));
        let kept = KeptResults::open(dir.path().to_owned(), &unclear.provenance);
        kept.keep(&unclear).unwrap();
        assert_eq!(kept.find(&unclear.part), None);
        let clear = result(Workload::Hog1, origin("abc", "2026-01-01"));
        let kept = KeptResults::open(dir.path().to_owned(), &clear.provenance);
        kept.keep(&clear).unwrap();
        fs::write(kept.path(&clear.part), "{\"part\":").unwrap();
        assert_eq!(kept.find(&clear.part), None);
    }

    #[test]
    fn a_part_that_fails_leaves_the_others_and_an_interrupted_run_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let now = origin("abc", "2026-01-02");
        let kept = KeptResults::open(dir.path().to_owned(), &now);
        let [hog, fork] = [Workload::Hog1, Workload::Fork].map(|load| result(load, now.clone()));
        let parts = vec![&hog.part, &fork.part];
        let only_fork = |part: &BenchmarkPart<_>| if *part == fork.part { Ok(fork.clone()) } else { bail!("it hangs") };
        let error = format!("{:#}", measure(parts.clone(), 1, &kept, only_fork).unwrap_err());
        assert!(error.ends_with("cannot measure core 6.18 hog1: it hangs"), "{error}");
        assert_eq!((kept.find(&hog.part), kept.find(&fork.part)), (None, Some(fork.clone())));
        let both = |part: &BenchmarkPart<_>| Ok(if *part == hog.part { hog.clone() } else { fork.clone() });
        assert_eq!(measure(parts, 2, &kept, both).unwrap(), [hog, fork]);
    }

    #[test]
    fn only_results_of_one_commit_are_published_together() {
        let now = origin("abc", "2026-01-02");
        let of =
            |commit| vec![result(Workload::Hog1, now.clone()), result(Workload::Fork, origin(commit, "2026-01-01"))];
        let mut days = BTreeSet::new();
        let published = comparisons(&now, of("abc"), &mut days).unwrap();
        assert_eq!(days.into_iter().collect::<Vec<_>>(), ["2026-01-01", "2026-01-02"]);
        let [comparison] = &published[..] else { panic!("{published:?}") };
        let nr_samples = comparison.measured.samples.len();
        assert_eq!((&comparison.plan.loads[..], nr_samples), (&[Workload::Hog1, Workload::Fork][..], 2));
        let error = comparisons(&now, of("def"), &mut BTreeSet::new()).unwrap_err().to_string();
        assert!(error.starts_with("core 6.18 fork was measured elsewhere, or at another commit"), "{error}");
    }
}
