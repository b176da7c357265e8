//! Measuring on this machine itself, with the product installed for as long as it takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;

use anyhow::{Context, Result, ensure};
use scherzo_compare::contender::{Contender, PEER_DIRECTORY};
use scherzo_compare::peer::Peer;
use scherzo_compare::program::OtherProgram;
use scherzo_compare::provenance::{MachineKind, Provenance};
use scherzo_compare::queue::{BenchmarkPart, KeptResults};
use scherzo_compare::report::Publication;
use scherzo_compare::set::BenchmarkSet;
use scherzo_compare::tool::Tool;
use scherzo_compare::{self as compare, Findings, Measurable};
use scherzo_rig::cache::Cache;
use scherzo_rig::progress::say;
use scherzo_rig::shell::{Native, Shell};

use super::{Bench, BenchOptions, Ground, Lacks, chosen, verdict, write};
use crate::install::target;
use crate::native::{self, Installation, LocalShell};
use crate::test::guarded;

const PROBE: &str = "scherzo-bench";

pub(super) fn run(checkout: &Path, options: &BenchOptions) -> Result<ExitCode> {
    ensure!(
        native::has_sched_ext() || options.contenders().iter().all(|contender| contender.is_of_kernel()),
        "this machine's kernel has no sched_ext, so no scheduler can be loaded: boot one that has it, Linux 6.12 or newer, \
         choose --who default,floor, or leave --native out to measure in guests"
    );
    native::ensure_ready()?;
    let cache = Cache::open()?;
    let provenance = Provenance::find(checkout, options.command(), MachineKind::Host)?;
    let (peers, lacks) = look(options, &cache)?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
    // Not where guests' results are, which may have the same names.
    let kept = KeptResults::open(cache.path("native-benchmarks"), &provenance);
    let nr_cpus = thread::available_parallelism()?.get() as u32;
    let bench = Bench { options, kernels: vec![kernel], nr_cpus, provenance, kept, lacks };
    let publication = Visit { checkout, cache: &cache, bench: &bench, peers }.publication()?;
    write_page(&bench, &publication)?;
    Ok(verdict(&publication.missed()))
}

/// A run on this machine.
struct Visit<'a> {
    checkout: &'a Path,
    cache: &'a Cache,
    bench: &'a Bench<'a>,
    /// Where the programs of the peers are.
    peers: Vec<(Peer, PathBuf)>,
}

impl Visit<'_> {
    fn publication(&self) -> Result<Publication> {
        let seconds = self.bench.missing_seconds()?;
        let contenders = self.bench.contenders();
        if seconds == 0 || contenders.iter().all(|contender| contender.is_of_kernel()) {
            return self.without_product(seconds);
        }
        native::ensure_terminal()?;
        let tree = tempfile::tempdir()?;
        native::build_product(self.cache, self.checkout, tree.path())?;
        self.add_peers(tree.path())?;
        let installation = Installation::of(tree.path())?;
        let minutes = seconds.div_ceil(60);
        let agreed = installation.is_agreed(&format!(
            "It measures for at least {minutes} min, in which this machine should be left alone and on mains power"
        ))?;
        ensure!(agreed, "nothing was changed on this machine, and nothing measured");
        installation.during(|shell| self.measured(shell))
    }

    /// Only the probe is built, and nothing installed.
    fn without_product(&self, seconds: u32) -> Result<Publication> {
        let programs = tempfile::tempdir()?;
        if seconds > 0 {
            build_probe(self.checkout, programs.path())?;
            say(&format!(
                "measuring for at least {} min: leave this machine alone, on mains power",
                seconds.div_ceil(60)
            ));
        }
        self.measured(LocalShell::new(Some(programs.path()))?)
    }

    /// Measures what is missing. Whatever comes of it, no scheduler and no load is left behind.
    fn measured(&self, shell: LocalShell) -> Result<Publication> {
        let publication = guarded(|| self.bench.publication(&Host { shell }));
        let left = compare::leave_all(&mut Native, &self.bench.contenders());
        let left = left.context("not everything that was changed is as it was");
        publication.and_then(|publication| left.map(|()| publication))
    }

    fn add_peers(&self, tree: &Path) -> Result<()> {
        let dir = tree.join(PEER_DIRECTORY.trim_start_matches('/'));
        fs::create_dir_all(&dir)?;
        for (peer, program) in &self.peers {
            let copied = fs::copy(program, dir.join(peer.program()));
            copied.with_context(|| format!("cannot copy {}", program.display()))?;
        }
        Ok(())
    }
}

/// This machine, with all that is needed.
struct Host {
    shell: LocalShell,
}

impl Ground for Host {
    type Ready = ();

    const CLOCK: &'static str = "this machine";
    /// On one machine measurements disturb each other.
    const NR_PARALLEL: usize = 1;

    fn prepare(&self, _: &[Contender]) -> Result<()> {
        Ok(())
    }

    fn measure<M: Measurable>(&self, part: &BenchmarkPart<M>, (): &()) -> Result<Findings<M>> {
        compare::run(&mut self.shell.clone(), &part.plan, &part.kernel)
    }
}

/// Builds the program that loads and probes are of, with the toolchain of this machine, into a directory.
fn build_probe(checkout: &Path, to: &Path) -> Result<()> {
    say(&format!("building {PROBE}"));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--release", "--locked", "--package", PROBE]).current_dir(checkout);
    ensure!(build.status().context("cannot run cargo")?.success(), "the build failed");
    fs::copy(target(checkout).join("release").join(PROBE), to.join(PROBE)).context("cannot copy what was built")?;
    Ok(())
}

/// Finds the peers' programs, and what cannot be measured here.
fn look(options: &BenchOptions, cache: &Cache) -> Result<(Vec<(Peer, PathBuf)>, Lacks)> {
    let (mut peers, mut lacks) = (Vec::new(), Lacks::default());
    for contender in options.contenders() {
        if let Some(fault) = contender.find_fault(&mut Native)? {
            lacks.add_contender(contender, &fault);
        }
        let Some(peer) = contender.peer() else { continue };
        match peer.find_built(cache) {
            Some(program) => peers.push((peer, program)),
            None => match native::find_program(&peer.program()) {
                Some(program) => {
                    lacks.notes.push(format!("{contender} is {}: {}.", program.display(), version(&program)));
                    peers.push((peer, program));
                }
                None => lacks.add_contender(contender, "it is neither in PATH nor built by a run in guests"),
            },
        }
    }
    if options.wants(BenchmarkSet::Tools) {
        look_for_tools(&chosen(&options.load)?, &mut lacks, &mut Native)?;
    }
    Ok((peers, lacks))
}

fn look_for_tools(tools: &[Tool], lacks: &mut Lacks, shell: &mut dyn Shell) -> Result<()> {
    let mut programs: Vec<OtherProgram> = Vec::new();
    for program in tools.iter().flat_map(|tool| tool.programs()) {
        if programs.contains(program) {
            continue;
        }
        programs.push(*program);
        if let Some(fault) = program.find_fault(shell)? {
            let of = tools.iter().filter(|tool| tool.programs().contains(program));
            lacks.add_program(*program, &of.map(ToString::to_string).collect::<Vec<_>>().join(", "), &fault);
        }
    }
    Ok(())
}

/// What a program calls its version.
fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("it does not tell its version").to_owned()
}

/// Prints the page, and writes it with the single measurements beside it.
fn write_page(bench: &Bench, publication: &Publication) -> Result<()> {
    let processor = bench.provenance.host.split(", ").next().unwrap_or_default();
    let page =
        format!("# Benchmarks: {processor}\n\nHow it is measured: [benchmarks.md](../benchmarks.md).\n\n{publication}");
    println!("\n{page}");
    let kernel = bench.kernels.join("-");
    let path = bench.options.page.clone().unwrap_or_else(|| file_name(processor, &kernel).into());
    let raw = bench.options.json.clone().unwrap_or_else(|| path.with_extension("json"));
    ensure!(
        path != raw,
        "the page and the measurements cannot both be in {}: choose another --page or --json",
        path.display()
    );
    write(&path, &page)?;
    write(&raw, &(serde_json::to_string(publication)? + "\n"))?;
    say(&format!("wrote {} and {}; docs/machines/README.md asks for such pages", path.display(), raw.display()));
    Ok(())
}

/// Of the page, from the processor and the kernel: letters, digits and dots with single dashes between them.
fn file_name(processor: &str, kernel: &str) -> String {
    let plain = processor.replace("(R)", "").replace("(TM)", "");
    let words = format!("{plain} {kernel}").to_lowercase();
    let is_kept = |char: char| char.is_ascii_alphanumeric() || char == '.';
    let words: Vec<_> = words.split(|char| !is_kept(char)).filter(|word| !word.is_empty()).collect();
    format!("benchmarks-{}.md", words.join("-"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use scherzo_rig::shell::CommandOutput;

    use super::*;

    #[test]
    fn files_are_called_by_processor_and_kernel() {
        let name = file_name("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "6.18.44+deb13-amd64");
        assert_eq!(name, "benchmarks-intel-core-i7-8650u-cpu-1.90ghz-6.18.44-deb13-amd64.md");
    }

    /// Has no hackbench, and a perf that fails.
    struct Poor;

    impl Shell for Poor {
        fn run(&mut self, command: &str, _: Duration) -> Result<CommandOutput> {
            let fails = command == "command -v hackbench" || command.starts_with("perf ");
            Ok(CommandOutput { status: fails.into(), stderr: "not for this kernel".into(), ..CommandOutput::default() })
        }

        fn patience(&self) -> u32 {
            1
        }
    }

    #[test]
    fn tools_without_their_program_are_left_out_by_name() {
        let mut lacks = Lacks::default();
        look_for_tools(&Tool::all(), &mut lacks, &mut Poor).unwrap();
        let [hackbench, perf] = &lacks.notes[..] else { panic!("{:?}", lacks.notes) };
        assert!(
            hackbench.starts_with("Left out: hackbench, hackbench-pipes: hackbench is not installed"),
            "{hackbench}"
        );
        assert!(perf.starts_with("Left out: messaging, perf-pipe: ") && perf.contains("not for this kernel"), "{perf}");
        let has = |tool: Tool| lacks.allow(tool);
        let left_out: Vec<_> = Tool::all().into_iter().filter(|tool| !has(*tool)).collect();
        assert_eq!(left_out, [Tool::Hackbench, Tool::HackbenchPipes, Tool::Messaging, Tool::PerfPipe]);
    }
}
