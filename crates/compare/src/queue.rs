//! A benchmark as a queue of parts. Each is measured in one boot, and its result is kept at once, so that an interrupted run
//! goes on where it was. Results are used again only for the commit, QEMU and host that they come from.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::ComparisonPlan;
use super::provenance::Provenance;
use super::report::{Comparison, Publication};
use super::sample::Measurement;
use scherzo_rig::progress::say;

/// How long the measurements of a part may take by the guest's clock. In software emulation a guest's second lasts about
/// two of the host's under load, and a boot with its part shall end within 20 minutes.
const MAX_GUEST_SECONDS: u32 = 600;

/// Some loads on one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkPart {
    /// The kernel's release.
    pub kernel: String,
    /// Virtual CPUs.
    pub nr_cpus: u32,
    /// What is measured.
    pub plan: ComparisonPlan,
}

/// What was measured for a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartResult {
    /// The part.
    pub part: BenchmarkPart,
    /// Where it comes from.
    pub provenance: Provenance,
    /// How long it took, boot included, by the host's clock.
    pub took_s: u64,
    /// Every measurement.
    pub samples: Vec<Measurement>,
}

impl BenchmarkPart {
    /// Divides a plan into parts that are short enough, in the order of its loads. A load by itself is not divided.
    #[must_use]
    pub fn all_of(kernel: &str, nr_cpus: u32, plan: &ComparisonPlan) -> Vec<Self> {
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
            parts.push(Self { kernel: kernel.to_owned(), nr_cpus, plan });
        }
        parts
    }

    /// Names it in the progress: kernel and loads.
    #[must_use]
    pub fn name(&self) -> String {
        let loads: Vec<_> = self.plan.loads.iter().map(ToString::to_string).collect();
        format!("{} {}", self.kernel, loads.join("+"))
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

    /// The result of a part, if it is there and comes from the same commit, QEMU and host.
    #[must_use]
    pub fn find(&self, part: &BenchmarkPart) -> Option<PartResult> {
        let text = fs::read_to_string(self.path(part)).ok()?;
        // Of another version of this program, or cut off: it is measured again.
        let result: PartResult = serde_json::from_str(&text).ok()?;
        let is_wanted = result.part == *part && self.provenance.is_comparable(&result.provenance);
        is_wanted.then_some(result)
    }

    /// Keeps a result, unless files differed from their commit: nobody could tell what it belongs to.
    pub fn keep(&self, result: &PartResult) -> Result<()> {
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
    fn path(&self, part: &BenchmarkPart) -> PathBuf {
        let BenchmarkPart { nr_cpus, plan, .. } = part;
        let ComparisonPlan { nr_rounds, seconds, contenders, .. } = plan;
        let name = part.name().replace(' ', "-");
        let count = contenders.len();
        self.dir.join(&self.provenance.commit).join(format!("{name}-{nr_cpus}-{count}x{nr_rounds}x{seconds}.json"))
    }
}

/// Measures parts, `nr_parallel` at a time, and keeps each result as soon as it is there. A part that fails leaves the
/// others alone.
pub fn measure(
    parts: Vec<&BenchmarkPart>,
    nr_parallel: usize,
    kept: &KeptResults,
    measure: impl Fn(&BenchmarkPart) -> Result<PartResult> + Sync,
) -> Result<Vec<PartResult>> {
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

/// Puts results together for publication, by kernel in the order in which they come; fails if they are not of the same
/// commit, QEMU and host.
pub fn publication(provenance: Provenance, results: Vec<PartResult>) -> Result<Publication> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    let mut days = BTreeSet::new();
    for PartResult { part, provenance: origin, samples, .. } in results {
        ensure!(
            provenance.is_comparable(&origin),
            "{} was measured elsewhere, or at another commit: {origin} {provenance}",
            part.name()
        );
        days.insert(origin.date);
        let BenchmarkPart { kernel, nr_cpus, plan } = part;
        match comparisons.iter_mut().find(|known| known.kernel == kernel) {
            Some(known) => {
                known.plan.loads.extend(plan.loads);
                known.samples.extend(samples);
            }
            None => comparisons.push(Comparison { kernel, nr_cpus, plan, samples }),
        }
    }
    let date = days.into_iter().collect::<Vec<_>>().join(", ");
    Ok(Publication { provenance: Provenance { date, ..provenance }, comparisons })
}

#[cfg(test)]
mod tests {
    use super::super::Workload;
    use super::super::contender::Contender;
    use super::super::summary::tests::sample;
    use super::*;
    use anyhow::bail;

    fn origin(commit: &str, date: &str) -> Provenance {
        Provenance {
            commit: commit.into(),
            date: date.into(),
            command: "cargo xtask bench".into(),
            qemu: "10".into(),
            host: "a computer".into(),
        }
    }

    fn plan(loads: &[Workload], seconds: u32) -> ComparisonPlan {
        let contenders = vec![Contender::Default, Contender::Scherzo];
        ComparisonPlan { loads: loads.to_vec(), contenders, nr_rounds: 5, seconds }
    }

    fn result(load: Workload, provenance: Provenance) -> PartResult {
        let part = BenchmarkPart { kernel: "6.18".into(), nr_cpus: 4, plan: plan(&[load], 10) };
        PartResult { part, provenance, took_s: 60, samples: vec![sample(Contender::Scherzo, load, 0, 10.0, 1.0)] }
    }

    #[test]
    fn parts_are_short_and_have_every_load_once_in_order() {
        let whole = plan(&Workload::ALL, 10);
        let parts = BenchmarkPart::all_of("6.18", 4, &whole);
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|part| part.plan.guest_seconds() <= MAX_GUEST_SECONDS), "{parts:?}");
        assert_eq!(parts.iter().flat_map(|part| part.plan.loads.clone()).collect::<Vec<_>>(), Workload::ALL);
        assert_eq!(BenchmarkPart::all_of("6.18", 4, &plan(&Workload::ALL, 1)).len(), 1);
        let long = BenchmarkPart::all_of("6.18", 4, &plan(&[Workload::Hog1, Workload::Hog2], 600));
        assert_eq!(long.iter().map(BenchmarkPart::name).collect::<Vec<_>>(), ["6.18 hog1", "6.18 hog2"]);
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
        assert_eq!(kept(&Provenance { qemu: "11".into(), ..today.clone() }).find(part), None);
        assert_eq!(kept(&Provenance { host: "another".into(), ..today.clone() }).find(part), None);
        let longer = BenchmarkPart { plan: plan(&[Workload::Hog1], 20), ..part.clone() };
        assert_eq!(kept(&today).find(&longer), None);
        let others = ComparisonPlan { contenders: vec![Contender::Default, Contender::Floor], ..part.plan.clone() };
        assert_eq!(kept(&today).find(&BenchmarkPart { plan: others, ..part.clone() }), None);
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
        let only_fork = |part: &BenchmarkPart| if *part == fork.part { Ok(fork.clone()) } else { bail!("it hangs") };
        let error = format!("{:#}", measure(parts.clone(), 1, &kept, only_fork).unwrap_err());
        assert!(error.ends_with("cannot measure 6.18 hog1: it hangs"), "{error}");
        assert_eq!((kept.find(&hog.part), kept.find(&fork.part)), (None, Some(fork.clone())));
        let both = |part: &BenchmarkPart| Ok(if *part == hog.part { hog.clone() } else { fork.clone() });
        assert_eq!(measure(parts, 2, &kept, both).unwrap(), [hog, fork]);
    }

    #[test]
    fn only_results_of_one_commit_are_published_together() {
        let now = origin("abc", "2026-01-02");
        let of =
            |commit| vec![result(Workload::Hog1, now.clone()), result(Workload::Fork, origin(commit, "2026-01-01"))];
        let published = publication(now.clone(), of("abc")).unwrap();
        assert_eq!(published.provenance.date, "2026-01-01, 2026-01-02");
        let [comparison] = &published.comparisons[..] else { panic!("{published:?}") };
        assert_eq!((&comparison.plan.loads[..], comparison.samples.len()), (&[Workload::Hog1, Workload::Fork][..], 2));
        let error = publication(now.clone(), of("def")).unwrap_err().to_string();
        assert!(error.starts_with("6.18 fork was measured elsewhere, or at another commit"), "{error}");
    }
}
