//! `cargo xtask bench`: Scherzo beside the kernel default, its peers, and real-time threads over the default.

mod guests;
mod host;
mod published;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use scherzo_compare::contender::Contender;
use scherzo_compare::program::OtherProgram;
use scherzo_compare::provenance::{DAY_SEPARATOR, Provenance};
use scherzo_compare::queue::{self, BenchmarkPart, KeptResults, PartResult};
use scherzo_compare::report::{Comparison, Publication};
use scherzo_compare::set::BenchmarkSet;
use scherzo_compare::tool::Tool;
use scherzo_compare::workload::Workload;
use scherzo_compare::{ComparisonPlan, Findings, Measurable};
use scherzo_rig::progress::say;

#[derive(Args)]
pub(crate) struct BenchOptions {
    /// Measure on this machine itself, which takes hours; asks before it installs Scherzo, and removes it at the end
    #[arg(long, conflicts_with_all = ["kernel", "cpus", "publish"])]
    native: bool,
    /// With --native: write the page into this file; without it into one in this directory that is called by processor and kernel
    #[arg(long, value_name = "FILE", requires = "native")]
    page: Option<PathBuf>,
    /// What to measure: core (interactive, low-power, scx_rustland and the floors by our own probe), peers (the same loads with
    /// scx_rustland, scx_bpfland, scx_lavd and scx_cosmos), tools (hackbench, perf bench, stress-ng, cyclictest, starting
    /// programs, and frames of a game, with the same peers). Without it core; with --native all, unless --load is given
    #[arg(long, value_name = "SET")]
    set: Option<BenchmarkSet>,
    /// Kernels, by the beginning of their version; without it the long-term and the newest one
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Loads: idle, hog1, hog2 (hogs per CPU), fork, pipe, audio (a punctual thread beside hog2), half. With "--set tools":
    /// hackbench, hackbench-pipes, messaging, perf-pipe, switch, start, start-apart, cyclictest, requests, build, audio-hog2,
    /// shares-nice, frames-60x8+1.5-hog2 and so on, of which the beginning is enough, such as frames or shares. Without
    /// it all
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    load: Vec<String>,
    /// Contenders: default, rustland, bpfland, lavd, cosmos, scherzo, low-power, floor (what is measured as SCHED_FIFO),
    /// plain-floor (the same without HRTICK); without it all of the set
    #[arg(long, value_name = "WHO", value_delimiter = ',')]
    who: Vec<Contender>,
    /// How often to measure each; without it 5 times, and 3 of the tools
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// How long each time, in seconds of the guest's clock, if it has no end of its own; without it 10, and 5 of the tools
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: Option<u32>,
    /// Virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Measure everything anew. Without it, parts that an earlier run measured at this commit, with this QEMU and on this host
    /// are used again
    #[arg(long)]
    again: bool,
    /// Measure all sets, or with --set one, write the figures into docs/benchmarks.md and docs/benchmarks.json, and draw the pictures
    /// beside them; README.md gets a picture and three figures if it has the marks of a generated part. Sets that were published
    /// before stay if nothing that was measured has changed since then
    #[arg(long, conflicts_with_all = ["kernel", "load", "who"])]
    publish: bool,
    /// Write every measurement into this file; with --native it is beside the page otherwise
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(checkout: &Path, options: &BenchOptions) -> Result<ExitCode> {
    options.ensure_sound()?;
    if options.native { host::run(checkout, options) } else { guests::run(checkout, options) }
}

/// Where parts are measured.
trait Ground: Sync {
    /// What is made once for the parts of a set.
    type Ready: Sync;

    /// Whose clock tells how long a measurement takes.
    const CLOCK: &'static str;

    /// How many parts are measured at a time.
    const NR_PARALLEL: usize;

    /// Makes ready for parts with these contenders.
    fn prepare(&self, contenders: &[Contender]) -> Result<Self::Ready>;

    /// Measures a part.
    fn measure<M: Measurable>(&self, part: &BenchmarkPart<M>, ready: &Self::Ready) -> Result<Findings<M>>;
}

/// What cannot be measured, for want of something.
#[derive(Default)]
struct Lacks {
    contenders: Vec<Contender>,
    programs: Vec<OtherProgram>,
    /// For the page.
    notes: Vec<String>,
}

impl Lacks {
    fn add_contender(&mut self, contender: Contender, why: &str) {
        self.contenders.push(contender);
        self.note(&format!("Left out: {contender}: {why}."));
    }

    /// Those of these names need the program.
    fn add_program(&mut self, program: OtherProgram, names: &str, why: &str) {
        self.programs.push(program);
        self.note(&format!("Left out: {names}: {why}."));
    }

    fn note(&mut self, text: &str) {
        say(text);
        self.notes.push(text.to_owned());
    }

    fn allow<M: Measurable>(&self, load: M) -> bool {
        load.programs().iter().all(|program| !self.programs.contains(program))
    }

    fn allow_contender(&self, contender: Contender) -> bool {
        !self.contenders.contains(&contender)
    }
}

/// A run of the command.
struct Bench<'a> {
    options: &'a BenchOptions,
    /// Releases of the kernels.
    kernels: Vec<String>,
    nr_cpus: u32,
    provenance: Provenance,
    kept: KeptResults,
    lacks: Lacks,
}

impl Bench<'_> {
    /// Everything that is asked for, with the days on which it was measured.
    fn publication<G: Ground>(&self, ground: &G) -> Result<Publication> {
        let mut days = BTreeSet::new();
        // A set that fails leaves the others alone.
        let core = self.comparisons(ground, BenchmarkSet::Core, &mut days);
        let peers = self.comparisons(ground, BenchmarkSet::Peers, &mut days);
        let tools = self.comparisons(ground, BenchmarkSet::Tools, &mut days);
        let date = days.into_iter().collect::<Vec<_>>().join(DAY_SEPARATOR);
        let provenance = Provenance { date, ..self.provenance.clone() };
        let notes = self.lacks.notes.clone();
        Ok(Publication { provenance, notes, core: core?, peers: peers?, tools: tools? })
    }

    /// Of one set; nothing if it is not asked for.
    fn comparisons<G: Ground, M: Measurable>(
        &self,
        ground: &G,
        set: BenchmarkSet,
        days: &mut BTreeSet<String>,
    ) -> Result<Vec<Comparison<M>>> {
        if !self.options.wants(set) {
            return Ok(Vec::new());
        }
        queue::comparisons(&self.provenance, self.results(ground, set)?, days)
    }

    /// The result of every part of the plan: those that are kept, and measured ones for the others.
    fn results<G: Ground, M: Measurable>(&self, ground: &G, set: BenchmarkSet) -> Result<Vec<PartResult<M>>> {
        let plan = self.plan(set)?;
        let parts = self.parts(set, &plan);
        let mut found: Vec<_> = parts.iter().map(|part| self.find(part)).collect();
        let missing: Vec<_> =
            parts.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(part, _)| part).collect();
        say(&format!("{set}: {} of {} parts were measured before", parts.len() - missing.len(), parts.len()));
        if !missing.is_empty() {
            let ready = ground.prepare(&plan.contenders)?;
            let measure = |part: &BenchmarkPart<M>| self.measure(ground, part, &ready);
            let mut measured = queue::measure(missing, G::NR_PARALLEL, &self.kept, measure)?.into_iter();
            found.iter_mut().filter(|found| found.is_none()).for_each(|found| *found = measured.next());
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// What is asked for, as far as it can be measured.
    fn plan<M: Measurable>(&self, set: BenchmarkSet) -> Result<ComparisonPlan<M>> {
        let mut plan = self.options.plan::<M>(set)?;
        plan.contenders.retain(|contender| self.lacks.allow_contender(*contender));
        let has_somebody = |load: &M| plan.contenders.iter().any(|contender| load.has(*contender));
        plan.loads.retain(|load| self.lacks.allow(*load) && has_somebody(load));
        Ok(plan)
    }

    /// All contenders that are measured.
    fn contenders(&self) -> Vec<Contender> {
        let contenders = self.options.contenders().into_iter();
        contenders.filter(|contender| self.lacks.allow_contender(*contender)).collect()
    }

    /// How long all parts take of which no result is kept; fails if there is nothing to measure at all.
    fn missing_seconds(&self) -> Result<u32> {
        let of_probe = [BenchmarkSet::Core, BenchmarkSet::Peers].map(|set| self.missing_of::<Workload>(set));
        let missing = of_probe.into_iter().chain([self.missing_of::<Tool>(BenchmarkSet::Tools)]);
        let missing: Vec<_> = missing.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        ensure!(!missing.is_empty(), "nothing that is asked for can be measured on this machine");
        Ok(missing.iter().sum())
    }

    /// Seconds for each part of a set; 0 for those of which a result is kept.
    fn missing_of<M: Measurable>(&self, set: BenchmarkSet) -> Result<Vec<u32>> {
        if !self.options.wants(set) {
            return Ok(Vec::new());
        }
        let plan = self.plan::<M>(set)?;
        let seconds = |part: &BenchmarkPart<M>| self.find(part).map_or(part.plan.guest_seconds(), |_| 0);
        Ok(self.parts(set, &plan).iter().map(seconds).collect())
    }

    fn parts<M: Measurable>(&self, set: BenchmarkSet, plan: &ComparisonPlan<M>) -> Vec<BenchmarkPart<M>> {
        self.kernels.iter().flat_map(|kernel| BenchmarkPart::all_of(set, kernel, self.nr_cpus, plan)).collect()
    }

    /// What is kept of a part, unless everything is measured anew.
    fn find<M: Measurable>(&self, part: &BenchmarkPart<M>) -> Option<PartResult<M>> {
        if self.options.again { None } else { self.kept.find(part) }
    }

    fn measure<G: Ground, M: Measurable>(
        &self,
        ground: &G,
        part: &BenchmarkPart<M>,
        ready: &G::Ready,
    ) -> Result<PartResult<M>> {
        let seconds = part.plan.guest_seconds();
        say(&format!("{}: measuring takes {seconds} s by the clock of {}", part.name(), G::CLOCK));
        let begin = Instant::now();
        let measured = ground.measure(part, ready)?;
        let took_s = begin.elapsed().as_secs();
        say(&format!("{}: took {took_s} s", part.name()));
        Ok(PartResult { part: part.clone(), provenance: self.provenance.clone(), took_s, measured })
    }
}

/// A missed promise makes the command fail.
fn verdict(missed: &[String]) -> ExitCode {
    for promise in missed {
        say(&format!("NOT MET: {promise}"));
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

impl BenchOptions {
    fn wants(&self, set: BenchmarkSet) -> bool {
        let wants_all = self.publish || (self.native && self.load.is_empty());
        self.set.map_or(wants_all || set == BenchmarkSet::Core, |wanted| wanted == set)
    }

    fn contenders_of(&self, set: BenchmarkSet) -> Vec<Contender> {
        if self.who.is_empty() { set.contenders() } else { self.who.clone() }
    }

    /// Those of all sets that are asked for, each once, in the order of the tables.
    fn contenders(&self) -> Vec<Contender> {
        let sets = BenchmarkSet::ALL.into_iter().filter(|set| self.wants(*set));
        let wanted: Vec<_> = sets.flat_map(|set| self.contenders_of(set)).collect();
        Contender::ALL.into_iter().filter(|contender| wanted.contains(contender)).collect()
    }

    fn plan<M: Measurable>(&self, set: BenchmarkSet) -> Result<ComparisonPlan<M>> {
        let contenders = self.contenders_of(set);
        let (nr_rounds, seconds) = (self.rounds.unwrap_or(set.nr_rounds()), self.seconds.unwrap_or(set.seconds()));
        Ok(ComparisonPlan { loads: chosen(&self.load)?, contenders, nr_rounds, seconds })
    }

    /// Fails before anything is built if a load has no such name.
    fn ensure_sound(&self) -> Result<()> {
        match self.set.unwrap_or(BenchmarkSet::Core) {
            BenchmarkSet::Core | BenchmarkSet::Peers => chosen::<Workload>(&self.load).map(drop),
            BenchmarkSet::Tools => chosen::<Tool>(&self.load).map(drop),
        }
    }

    /// The command that measures the same again.
    fn command(&self) -> String {
        let Self { set, rounds, seconds, cpus, .. } = self;
        let number = |number: &Option<u32>| number.iter().map(u32::to_string).collect::<Vec<_>>();
        let contenders = self.who.iter().map(|who| who.id().to_owned()).collect::<Vec<_>>();
        let lists = [
            ("kernel", &self.kernel),
            ("load", &self.load),
            ("who", &contenders),
            ("rounds", &number(rounds)),
            ("seconds", &number(seconds)),
        ];
        let given = lists.iter().filter(|(_, values)| !values.is_empty());
        let set = match set {
            // A page is made again by measuring all that it has.
            _ if self.publish => None,
            set if self.native => *set,
            set => Some(set.unwrap_or(BenchmarkSet::Core)),
        };
        let chosen = [("publish", self.publish), ("native", self.native)].into_iter().filter(|(_, is_given)| *is_given);
        let begin = chosen.fold("cargo xtask bench".to_owned(), |begin, (option, _)| format!("{begin} --{option}"));
        let begin = set.iter().fold(begin, |begin, set| format!("{begin} --set {set}"));
        let command =
            given.fold(begin, |command, (option, values)| format!("{command} --{option} {}", values.join(",")));
        if self.native { command } else { format!("{command} --cpus {cpus}") }
    }
}

/// The loads or tools of these names, or, where none is called so, of names that begin so; all if there are no names.
fn chosen<M: Measurable>(names: &[String]) -> Result<Vec<M>> {
    let all = M::all();
    if names.is_empty() {
        return Ok(all);
    }
    let mut chosen = Vec::new();
    for name in names {
        let called =
            |is: &dyn Fn(&str) -> bool| all.iter().copied().filter(|one| is(&one.to_string())).collect::<Vec<_>>();
        let exactly = called(&|full| full == name);
        let found = if exactly.is_empty() { called(&|full| full.starts_with(&format!("{name}-"))) } else { exactly };
        if found.is_empty() {
            let known: Vec<_> = all.iter().map(ToString::to_string).collect();
            bail!("{name:?} is none of {}", known.join(", "));
        }
        chosen.extend(found);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use scherzo_compare::provenance::MachineKind;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: BenchOptions,
    }

    fn options(arguments: &str) -> BenchOptions {
        let words = ["bench"].into_iter().chain(arguments.split_whitespace());
        Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).options
    }

    #[test]
    fn every_load_and_tool_can_be_named_and_groups_by_their_beginning() {
        for load in Workload::ALL {
            assert_eq!(chosen::<Workload>(&[load.to_string()]).unwrap(), [load]);
        }
        let tools = |names: &str| options(&format!("--set tools --load {names}")).plan::<Tool>(BenchmarkSet::Tools);
        assert_eq!(tools("hackbench").unwrap().loads, [Tool::Hackbench]);
        assert_eq!(tools("frames").unwrap().loads.len(), 8);
        assert_eq!(tools("start,shares").unwrap().loads.len(), 7);
        let error = options("--load hogs").ensure_sound().unwrap_err().to_string();
        assert!(error.starts_with("\"hogs\" is none of idle, hog1"), "{error}");
        assert!(options("--set peers --load hackbench").ensure_sound().is_err());
        assert!(options("--set tools --load hog1").ensure_sound().is_err());
        assert_eq!(chosen::<Tool>(&[]).unwrap(), Tool::all());
    }

    #[test]
    fn a_set_has_its_own_rounds_and_seconds_unless_they_are_chosen() {
        let plan = |arguments: &str, set| {
            let plan = options(arguments).plan::<Tool>(set).unwrap();
            (plan.contenders.len(), plan.nr_rounds, plan.seconds)
        };
        assert_eq!(plan("", BenchmarkSet::Core), (6, 5, 10));
        assert_eq!(plan("", BenchmarkSet::Peers), (6, 5, 10));
        assert_eq!(plan("", BenchmarkSet::Tools), (6, 3, 5));
        assert_eq!(plan("--who lavd,cosmos --rounds 1 --seconds 2", BenchmarkSet::Tools), (2, 1, 2));
    }

    #[test]
    fn all_sets_are_published_unless_one_is_chosen() {
        let wanted = |arguments: &str| BenchmarkSet::ALL.map(|set| options(arguments).wants(set));
        assert_eq!(wanted(""), [true, false, false]);
        assert_eq!(wanted("--set tools"), [false, false, true]);
        assert_eq!(wanted("--publish"), [true, true, true]);
        assert_eq!(wanted("--native"), [true, true, true]);
        assert_eq!(wanted("--native --set peers"), [false, true, false]);
        assert_eq!(wanted("--native --load hog1"), [true, false, false]);
        assert_eq!(wanted("--publish --set peers"), [false, true, false]);
        let command = |arguments: &str| options(arguments).command();
        assert_eq!(command("--publish --set peers"), command("--publish"));
        assert!(Cli::try_parse_from(["bench", "--publish", "--load", "hog1"]).is_err());
    }

    #[test]
    fn a_machine_of_its_own_has_its_kernel_and_cpus_and_is_not_published() {
        for other in ["--kernel=6.18", "--cpus=4", "--publish"] {
            assert!(Cli::try_parse_from(["bench", "--native", other]).is_err(), "{other}");
        }
        assert!(Cli::try_parse_from(["bench", "--page", "here.md"]).is_err());
    }

    #[test]
    fn all_contenders_are_those_of_every_set_that_is_wanted() {
        let ids = |arguments: &str| options(arguments).contenders().into_iter().map(Contender::id).collect::<Vec<_>>();
        let all = Contender::ALL.map(Contender::id);
        assert_eq!(ids("--native"), all);
        assert_eq!(ids("--native --who floor,default"), ["default", "floor"]);
        assert!(!ids("--native --set core").contains(&"lavd"));
    }

    #[test]
    fn what_is_kept_need_not_be_measured_and_what_is_lacking_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let provenance = Provenance {
            commit: "abc".into(),
            date: "2026-01-02".into(),
            command: "cargo xtask bench".into(),
            machine: MachineKind::Host,
            host: "a computer".into(),
        };
        let options = options("--native --load hog1,idle --who default,scherzo --rounds 2 --seconds 8");
        let kept = KeptResults::open(dir.path().to_owned(), &provenance);
        let kernels = vec!["6.18".into()];
        let mut bench = Bench { options: &options, kernels, nr_cpus: 2, provenance, kept, lacks: Lacks::default() };
        assert_eq!(bench.missing_seconds().unwrap(), 2 * 2 * 2 * (8 + 2));
        let plan = bench.plan::<Workload>(BenchmarkSet::Core).unwrap();
        for part in bench.parts(BenchmarkSet::Core, &plan) {
            let measured = Findings { samples: Vec::new(), left_out: Vec::new() };
            bench.kept.keep(&PartResult { part, provenance: bench.provenance.clone(), took_s: 1, measured }).unwrap();
        }
        assert_eq!(bench.missing_seconds().unwrap(), 0);
        bench.lacks.add_contender(Contender::Scherzo, "it is not there");
        assert_eq!(bench.missing_seconds().unwrap(), 2 * 2 * (8 + 2), "others are measured anew without it");
        bench.lacks.add_contender(Contender::Default, "nor is this");
        assert_eq!(bench.contenders(), []);
        assert!(bench.missing_seconds().is_err());
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
        let told = |arguments: &str| options(arguments).command();
        let chosen =
            "--set tools --kernel 6.18 --load start,frames --who lavd,low-power --rounds 5 --seconds 10 --cpus 2";
        assert_eq!(told(&format!("{chosen} --again --json /tmp/raw.json")), format!("cargo xtask bench {chosen}"));
        assert_eq!(told("--publish"), "cargo xtask bench --publish --cpus 4");
        assert_eq!(told(""), "cargo xtask bench --set core --cpus 4");
        assert_eq!(told("--native --again --page here.md"), "cargo xtask bench --native");
        let native = "--native --set tools --load hackbench --who default,floor --rounds 1";
        assert_eq!(told(native), format!("cargo xtask bench {native}"));
    }
}
