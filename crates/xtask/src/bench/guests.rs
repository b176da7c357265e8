//! Measuring in guests: one boot for each part, on virtual clocks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use scherzo_compare::contender::{Contender, PEER_DIRECTORY};
use scherzo_compare::provenance::{MachineKind, Provenance};
use scherzo_compare::queue::{BenchmarkPart, KeptResults};
use scherzo_compare::{self as compare, Findings, Measurable, peer};
use scherzo_rig::kernels::{GuestKernel, Role};
use scherzo_rig::product;
use scherzo_rig::qemu::{GuestMachine, GuestTime};
use scherzo_rig::rig::{Rig, announce};

use super::published::{self, PublishedFiles};
use super::{Bench, BenchOptions, Ground, Lacks, verdict, write};

const NR_PARALLEL_GUESTS: usize = 2;

pub(super) fn run(checkout: &Path, options: &BenchOptions) -> Result<ExitCode> {
    let rig = Rig::prepare(checkout)?;
    announce(&rig);
    let qemu = rig.build_root().output(&[], "qemu-system-x86_64 --version").context("QEMU does not say its version")?;
    // Before the build: what is built belongs to this commit.
    let provenance = Provenance::find(checkout, options.command(), MachineKind::guests(&qemu))?;
    ensure!(!options.publish || provenance.is_committed(), "commit before you publish: figures belong to a commit");
    let kept = KeptResults::open(rig.cache().path("benchmarks"), &provenance);
    let kernels = kernels(options, &rig)?.into_iter().map(|kernel| kernel.release.clone()).collect();
    let lacks = Lacks::default();
    let bench = Bench { options, kernels, nr_cpus: options.cpus, provenance, kept, lacks };
    let publication = bench.publication(&Guests { rig: &rig })?;
    println!("\n{publication}");
    if let Some(path) = &options.json {
        write(path, &(serde_json::to_string(&publication)? + "\n"))?;
    }
    let missed = publication.missed();
    if options.publish {
        let publication = publication.beside(published::earlier(checkout));
        PublishedFiles::new(&publication)?.write(checkout)?;
    }
    Ok(verdict(&missed))
}

fn kernels<'a>(options: &BenchOptions, rig: &'a Rig) -> Result<Vec<&'a GuestKernel>> {
    if options.kernel.is_empty() {
        return [Role::Lts, Role::Newest].into_iter().map(|role| rig.kernel(role)).collect();
    }
    options.kernel.iter().map(|prefix| rig.kernel_by_prefix(prefix)).collect()
}

struct Guests<'a> {
    rig: &'a Rig,
}

impl Ground for Guests<'_> {
    /// A disk with Scherzo, and with the peers that take part.
    type Ready = PathBuf;

    const CLOCK: &'static str = "the guest";
    const NR_PARALLEL: usize = NR_PARALLEL_GUESTS;

    fn prepare(&self, contenders: &[Contender]) -> Result<PathBuf> {
        let rig = self.rig;
        let tree = tempfile::tempdir()?;
        product::install(&rig.workspace()?, tree.path())?;
        let peers: Vec<_> = contenders.iter().filter_map(|contender| contender.peer()).collect();
        let dir = tree.path().join(PEER_DIRECTORY.trim_start_matches('/'));
        fs::create_dir_all(&dir)?;
        for program in peer::programs(rig.cache(), rig.build_root(), &peers)? {
            let name = program.file_name().context("a program without a name")?;
            fs::copy(&program, dir.join(name)).with_context(|| format!("cannot install {}", program.display()))?;
        }
        rig.payload(tree.path())
    }

    /// Boots a guest. On their virtual clocks guests do not disturb each other.
    fn measure<M: Measurable>(&self, part: &BenchmarkPart<M>, payload: &PathBuf) -> Result<Findings<M>> {
        let rig = self.rig;
        let machine = GuestMachine { nr_cpus: part.nr_cpus, time: GuestTime::Virtual, ..GuestMachine::default() };
        let mut guest = rig.boot_patiently(rig.kernel_by_prefix(&part.kernel)?, &machine, payload)?;
        compare::run(&mut guest, &part.plan, &part.kernel)
    }
}
