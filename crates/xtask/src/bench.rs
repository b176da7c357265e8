//! `cargo xtask bench`: Scherzo beside the kernel default, scx_rustland and real-time threads over the default.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use scherzo_compare::contender::{Contender, PEER_DIRECTORY};
use scherzo_compare::provenance::Provenance;
use scherzo_compare::queue::{self, BenchmarkPart, KeptResults, PartResult};
use scherzo_compare::report::replace_generated;
use scherzo_compare::{self as compare, ComparisonPlan, Workload, peer};
use scherzo_rig::kernels::{GuestKernel, Role};
use scherzo_rig::product;
use scherzo_rig::progress::say;
use scherzo_rig::qemu::{GuestMachine, GuestTime};
use scherzo_rig::rig::{Rig, announce};

const PAGE: &str = "docs/benchmarks.md";
const RAW: &str = "docs/benchmarks.json";
const NR_PARALLEL_GUESTS: usize = 2;

#[derive(Args)]
pub(crate) struct BenchOptions {
    /// Kernels, by the beginning of their version; without it the long-term and the newest one
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Loads: idle, hog1, hog2 (hogs per CPU), fork, pipe, audio (a punctual thread beside hog2), half; without it all
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_parser = parse_load)]
    load: Vec<Workload>,
    /// Contenders: default, rustland, scherzo, low-power, floor (the probe's threads as SCHED_FIFO), plain-floor (the same
    /// without HRTICK); without it all
    #[arg(long, value_name = "WHO", value_delimiter = ',')]
    who: Vec<Contender>,
    /// How often to measure each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long each time, in seconds of the guest's clock
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Measure everything anew. Without it, parts that an earlier run measured at this commit, with this QEMU and on this host
    /// are used again
    #[arg(long)]
    again: bool,
    /// Write the figures into docs/benchmarks.md and docs/benchmarks.json
    #[arg(long, conflicts_with_all = ["kernel", "load", "who"])]
    publish: bool,
    /// Write every measurement into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(checkout: &Path, options: &BenchOptions) -> Result<ExitCode> {
    let rig = Rig::prepare(checkout)?;
    announce(&rig);
    let qemu = rig.build_root().output(&[], "qemu-system-x86_64 --version").context("QEMU does not say its version")?;
    // Before the build: what is built belongs to this commit.
    let provenance = Provenance::find(checkout, options.command(), qemu.lines().next().unwrap_or_default())?;
    ensure!(!options.publish || provenance.is_committed(), "commit before you publish: figures belong to a commit");
    let results = results(&rig, options, &provenance)?;
    let publication = queue::publication(provenance, results)?;
    let text = publication.to_string();
    println!("\n{text}");
    let raw = serde_json::to_string(&publication)? + "\n";
    if let Some(path) = &options.json {
        fs::write(path, &raw).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if options.publish {
        publish(checkout, &text, &raw)?;
    }
    Ok(verdict(&publication.missed()))
}

/// The result of every part of the plan: those that are kept, and measured ones for the others.
fn results(rig: &Rig, options: &BenchOptions, provenance: &Provenance) -> Result<Vec<PartResult>> {
    let plan = options.plan();
    let kernels = options.kernels(rig)?;
    let parts: Vec<_> =
        kernels.iter().flat_map(|kernel| BenchmarkPart::all_of(&kernel.release, options.cpus, &plan)).collect();
    let kept = KeptResults::open(rig.cache().path("benchmarks"), provenance);
    let find = |part: &BenchmarkPart| if options.again { None } else { kept.find(part) };
    let mut found: Vec<_> = parts.iter().map(find).collect();
    let missing: Vec<_> = parts.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(part, _)| part).collect();
    say(&format!("{} of {} parts were measured before", parts.len() - missing.len(), parts.len()));
    if !missing.is_empty() {
        let payload = payload(rig, &plan)?;
        let measured =
            queue::measure(missing, NR_PARALLEL_GUESTS, &kept, |part| measure(rig, part, provenance, &payload))?;
        let mut measured = measured.into_iter();
        found.iter_mut().filter(|found| found.is_none()).for_each(|found| *found = measured.next());
    }
    Ok(found.into_iter().flatten().collect())
}

/// A disk with Scherzo, and with the peers that take part.
fn payload(rig: &Rig, plan: &ComparisonPlan) -> Result<PathBuf> {
    let tree = tempfile::tempdir()?;
    product::install(&rig.workspace()?, tree.path())?;
    let peers: Vec<_> = plan.contenders.iter().filter_map(|contender| contender.peer()).collect();
    let dir = tree.path().join(PEER_DIRECTORY.trim_start_matches('/'));
    fs::create_dir_all(&dir)?;
    for program in peer::programs(rig.cache(), rig.build_root(), &peers)? {
        let name = program.file_name().context("a program without a name")?;
        fs::copy(&program, dir.join(name)).with_context(|| format!("cannot install {}", program.display()))?;
    }
    rig.payload(tree.path())
}

/// Boots a guest for a part. On their virtual clocks guests do not disturb each other.
fn measure(rig: &Rig, part: &BenchmarkPart, provenance: &Provenance, payload: &Path) -> Result<PartResult> {
    say(&format!("{}: measuring takes {} s of the guest's clock", part.name(), part.plan.guest_seconds()));
    let begin = Instant::now();
    let machine = GuestMachine { nr_cpus: part.nr_cpus, time: GuestTime::Virtual, ..GuestMachine::default() };
    let mut guest = rig.boot_patiently(rig.kernel_by_prefix(&part.kernel)?, &machine, payload)?;
    let samples = compare::run(&mut guest, &part.plan, &part.kernel)?;
    let took_s = begin.elapsed().as_secs();
    say(&format!("{}: took {took_s} s", part.name()));
    Ok(PartResult { part: part.clone(), provenance: provenance.clone(), took_s, samples })
}

/// A missed promise makes the command fail.
fn verdict(missed: &[String]) -> ExitCode {
    for promise in missed {
        say(&format!("NOT MET: {promise}"));
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn publish(checkout: &Path, text: &str, raw: &str) -> Result<()> {
    let page = checkout.join(PAGE);
    let old = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    fs::write(&page, replace_generated(&old, text)?)?;
    fs::write(checkout.join(RAW), raw)?;
    say(&format!("wrote {PAGE} and {RAW}"));
    Ok(())
}

impl BenchOptions {
    fn plan(&self) -> ComparisonPlan {
        let all_if_empty =
            |chosen: &[Workload]| if chosen.is_empty() { Workload::ALL.to_vec() } else { chosen.to_vec() };
        let contenders = if self.who.is_empty() { Contender::ALL.to_vec() } else { self.who.clone() };
        ComparisonPlan { loads: all_if_empty(&self.load), contenders, nr_rounds: self.rounds, seconds: self.seconds }
    }

    /// The command that measures the same again.
    fn command(&self) -> String {
        let Self { rounds, seconds, cpus, .. } = self;
        let loads = self.load.iter().map(Workload::to_string).collect::<Vec<_>>();
        let contenders = self.who.iter().map(|&who| who.id().to_owned()).collect::<Vec<_>>();
        let lists = [("kernel", &self.kernel), ("load", &loads), ("who", &contenders)];
        let chosen = lists.iter().filter(|(_, values)| !values.is_empty());
        let begin = chosen.fold("cargo xtask bench".to_owned(), |command, (option, values)| {
            format!("{command} --{option} {}", values.join(","))
        });
        format!("{begin} --rounds {rounds} --seconds {seconds} --cpus {cpus}")
    }

    fn kernels<'a>(&self, rig: &'a Rig) -> Result<Vec<&'a GuestKernel>> {
        if self.kernel.is_empty() {
            return [Role::Lts, Role::Newest].into_iter().map(|role| rig.kernel(role)).collect();
        }
        self.kernel.iter().map(|prefix| rig.kernel_by_prefix(prefix)).collect()
    }
}

fn parse_load(name: &str) -> Result<Workload, String> {
    let all = Workload::ALL.map(|load| load.to_string());
    let found = Workload::ALL.into_iter().find(|load| load.to_string() == name);
    found.ok_or_else(|| format!("one of {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_can_be_named() {
        for load in Workload::ALL {
            assert_eq!(parse_load(&load.to_string()), Ok(load));
        }
        assert!(parse_load("hogs").unwrap_err().contains("hog1"));
    }

    #[test]
    fn a_missed_promise_makes_the_command_fail() {
        let codes = [verdict(&[]), verdict(&["6.18: hog1: throughput is low".into()])];
        assert_eq!(
            codes.map(|code| format!("{code:?}")),
            [ExitCode::SUCCESS, ExitCode::FAILURE].map(|c| format!("{c:?}"))
        );
    }

    #[test]
    fn the_command_is_told_without_what_only_this_machine_has() {
        let options = BenchOptions {
            kernel: vec!["6.18".into()],
            load: vec![Workload::Hog1, Workload::Fork],
            who: vec![Contender::LowPower],
            rounds: 5,
            seconds: 10,
            cpus: 4,
            again: false,
            publish: false,
            json: Some("/tmp/raw.json".into()),
        };
        let expected =
            "cargo xtask bench --kernel 6.18 --load hog1,fork --who low-power --rounds 5 --seconds 10 --cpus 4";
        assert_eq!(options.command(), expected);
    }
}
