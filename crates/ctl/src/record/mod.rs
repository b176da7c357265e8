//! `scherzoctl record`: what tasks do on this machine, as a scenario for the simulator.

mod format;
mod instance;
mod pages;
mod scenario;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use scherzo_api::durable;
use scherzo_host::{Root, SchedExt, ThreadFacts, thread, threads, topology};
use scherzo_i18n::{fill, gettext, ngettext};
use serde_json::{Map, json};
use tokio::time::{MissedTickBehavior, interval};

use self::instance::TraceInstance;
use self::pages::TraceEvent;
use self::scenario::RecordedMachine;
use self::timeline::{RecordLimits, TaskTimeline};
use crate::cli::RecordOptions;
use crate::failure::{Failure, Kind};
use crate::output::{self, Output};
use crate::signals;

/// How often the kernel's buffers are emptied.
const READ_PERIOD: Duration = Duration::from_millis(50);
/// Events may be written a little later than they happened.
const SETTLING_NS: u64 = 1_000_000;
const LIMITS: RecordLimits = RecordLimits { nr_tasks: 4_096, nr_steps: 200_000 };
/// The engine is not recorded: the simulator has its own.
const ENGINE: &[u8] = b"scherzo-engine";

/// What was recorded.
struct Recording {
    timeline: TaskTimeline,
    facts: HashMap<i32, ThreadFacts>,
    duration_ns: u64,
    nr_lost: u64,
}

pub(crate) async fn run(output: &Output, options: &RecordOptions) -> Result<(), Failure> {
    if !geteuid().is_root() {
        let sentence = gettext("Only root may record: `sudo scherzoctl record`, or `pkexec scherzoctl record`.");
        return Err(Failure::new(Kind::NotAuthorized, sentence));
    }
    ensure_may_write(options)?;
    let root = Root::default();
    let about = |error: scherzo_host::Error| Failure::new(Kind::Failure, error.to_string());
    let topology = topology(&root).map_err(about)?;
    let release = scherzo_host::release(&root).map_err(about)?;
    let scheduler = SchedExt::read(&root).ok().flatten().and_then(|kernel| kernel.ops);
    let recording = record(&root, options.seconds).await?;
    let machine = RecordedMachine { release, scheduler, topology, duration_ns: recording.duration_ns };
    let text = scenario::scenario(&machine, &recording.timeline.tasks, &recording.facts);
    ensure_may_write(options)?;
    durable::replace_link(&options.output, &text).map_err(|error| cannot_write(&options.output, &error))?;
    recording.tell(output, &options.output);
    Ok(())
}

/// Told before anything is recorded.
fn ensure_may_write(options: &RecordOptions) -> Result<(), Failure> {
    let file = &options.output;
    if !options.force && file.symlink_metadata().is_ok() {
        let sentence = gettext("{file} is there already; --force replaces it.");
        return Err(Failure::new(Kind::Failure, fill(&sentence, &[("file", &file.display())])));
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if file.is_dir() {
        return Err(cannot_write(file, &io::ErrorKind::IsADirectory.into()));
    }
    directory.metadata().map(drop).map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    let sentence = gettext("Cannot write {file}: {error}.");
    Failure::new(Kind::Failure, fill(&sentence, &[("file", &file.display()), ("error", error)]))
}

/// Until the time is over, a signal comes, or there is too much.
async fn record(root: &Root, seconds: u64) -> Result<Recording, Failure> {
    let mut signals = signals::listen()?;
    let mut instance = TraceInstance::create()?;
    let mut facts = threads(root);
    let engines = facts.iter().filter(|(_, facts)| facts.name == ENGINE).map(|(tid, _)| *tid);
    let ignored = engines.chain([std::process::id().cast_signed()]);
    let start_ns = now_ns();
    let mut reader = TraceReader {
        timeline: TaskTimeline::begin(start_ns, LIMITS, ignored),
        waiting: Vec::new(),
        end_ns: start_ns + seconds * 1_000_000_000,
    };
    instance.switch(true)?;
    let mut ticks = interval(READ_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut progress = RecordProgress::new(start_ns, seconds);
    while !reader.is_over() {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = signals.recv() => break,
        }
        let until_ns = now_ns() - SETTLING_NS;
        instance.read(&mut reader.waiting)?;
        reader.take_until(until_ns);
        if progress.tell(&reader.timeline) {
            refresh(root, &reader.timeline, &mut facts);
        }
    }
    drop(progress);
    instance.switch(false)?;
    let end_ns = now_ns();
    instance.read(&mut reader.waiting)?;
    reader.take_until(u64::MAX);
    refresh(root, &reader.timeline, &mut facts);
    let end_ns = reader.finish(end_ns);
    Ok(Recording { timeline: reader.timeline, facts, duration_ns: end_ns - start_ns, nr_lost: instance.nr_lost() })
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Tasks say on their own what they ask for, often right after they were forked.
fn refresh(root: &Root, timeline: &TaskTimeline, facts: &mut HashMap<i32, ThreadFacts>) {
    for task in timeline.tasks.iter().filter(|task| task.is_alive() && task.parent.is_some()) {
        facts.extend(thread(root, task.pid).map(|found| (task.pid, found)));
    }
}

/// Brings the events of all CPUs into one order.
struct TraceReader {
    timeline: TaskTimeline,
    waiting: Vec<TraceEvent>,
    /// What happens later is not recorded.
    end_ns: u64,
}

impl TraceReader {
    fn is_over(&self) -> bool {
        self.timeline.is_full() || now_ns() >= self.end_ns
    }

    /// Everything that happened up to then has been read.
    fn take_until(&mut self, until_ns: u64) {
        self.waiting.sort_by_key(|event| event.at_ns);
        let nr_ready = self.waiting.partition_point(|event| event.at_ns <= until_ns);
        for event in self.waiting.drain(..nr_ready) {
            if self.timeline.is_full() {
                self.end_ns = self.end_ns.min(event.at_ns);
            }
            if event.at_ns < self.end_ns {
                self.timeline.add(&event);
            }
        }
    }

    /// The end of the recording, if it is not over before `now_ns`.
    fn finish(&mut self, now_ns: u64) -> u64 {
        self.end_ns = self.end_ns.min(now_ns);
        self.timeline.finish(self.end_ns);
        self.end_ns
    }
}

/// A line on a person's terminal that is written anew each second.
struct RecordProgress {
    start_ns: u64,
    seconds: u64,
    told_s: Option<u64>,
    is_seen: bool,
}

impl RecordProgress {
    fn new(start_ns: u64, seconds: u64) -> Self {
        Self { start_ns, seconds, told_s: None, is_seen: io::stderr().is_terminal() }
    }

    /// Whether another second is over.
    fn tell(&mut self, timeline: &TaskTimeline) -> bool {
        let second = (now_ns() - self.start_ns) / 1_000_000_000;
        if self.told_s == Some(second) {
            return false;
        }
        self.told_s = Some(second);
        if self.is_seen {
            let (nr_tasks, nr_switches) = (timeline.tasks.len(), timeline.nr_switches);
            let sentence =
                gettext("Recording: {second} of {seconds} s, {tasks} tasks, {switches} switches. Ctrl-C ends it.");
            let line = fill(
                &sentence,
                &[("second", &second), ("seconds", &self.seconds), ("tasks", &nr_tasks), ("switches", &nr_switches)],
            );
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
        }
        true
    }
}

impl Drop for RecordProgress {
    fn drop(&mut self) {
        if self.is_seen {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Recording {
    /// What came of it, and what is missing.
    fn tell(&self, output: &Output, file: &Path) {
        let (nr_tasks, nr_switches) = (self.timeline.tasks.len(), self.timeline.nr_switches);
        let nr_left_out = self.timeline.nr_left_out;
        let shown = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        if output.json {
            let recording = json!({
                "file": shown.to_string_lossy(), "duration_ns": self.duration_ns, "nr_tasks": nr_tasks,
                "nr_switches": nr_switches, "nr_lost": self.nr_lost, "nr_left_out": nr_left_out,
                "is_full": self.timeline.is_full(),
            });
            output::document(Map::from_iter([("recording".to_owned(), recording)]));
            return;
        }
        let seconds = format!("{}.{}", self.duration_ns / 1_000_000_000, self.duration_ns / 100_000_000 % 10);
        let sentence = gettext("Recorded {tasks} tasks and {switches} switches in {seconds} s: {file}");
        output::line(&fill(
            &sentence,
            &[("tasks", &nr_tasks), ("switches", &nr_switches), ("seconds", &seconds), ("file", &shown.display())],
        ));
        self.tell_missing(output);
        let sentence = gettext("In Scherzo's source code `cargo xtask sim {file}` replays it.");
        output::line(&fill(&sentence, &[("file", &shown.display())]));
    }

    fn tell_missing(&self, output: &Output) {
        if self.nr_lost > 0 {
            let sentence = ngettext(
                "{number} event was lost: what some tasks did is incomplete.",
                "{number} events were lost: what some tasks did is incomplete.",
                u32::try_from(self.nr_lost).unwrap_or(u32::MAX),
            );
            output.note(&fill(&sentence, &[("number", &self.nr_lost)]));
        }
        if self.timeline.nr_left_out > 0 {
            let sentence = ngettext(
                "{number} task was left out, as {most} were recorded already.",
                "{number} tasks were left out, as {most} were recorded already.",
                u32::try_from(self.timeline.nr_left_out).unwrap_or(u32::MAX),
            );
            output.note(&fill(&sentence, &[("number", &self.timeline.nr_left_out), ("most", &LIMITS.nr_tasks)]));
        }
        if self.timeline.is_full() {
            output.note(&gettext("It ended early, because too much happened for one recording."));
        }
    }
}
