//! A recording as a scenario of the simulator, in TOML.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use scherzo_host::{ThreadFacts, Topology};

use super::pages::TaskName;
use super::timeline::{TaskHistory, TaskStep};

/// Columns of the lines that list steps.
const LINE_WIDTH: usize = 120;

/// Where and how long it was recorded.
pub(crate) struct RecordedMachine {
    pub(crate) release: String,
    /// The loaded scheduler, as the kernel names it.
    pub(crate) scheduler: Option<String>,
    pub(crate) topology: Topology,
    pub(crate) duration_ns: u64,
}

/// How a task is scheduled, which those of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    nice: i32,
    policy: Option<&'static str>,
    is_kernel: bool,
    is_realtime: bool,
}

/// The whole file. `facts` has how threads are scheduled; who is not in it is as its parent.
pub(crate) fn scenario(machine: &RecordedMachine, tasks: &[TaskHistory], facts: &HashMap<i32, ThreadFacts>) -> String {
    let cpus = online(&machine.topology);
    let mut groups: BTreeMap<String, (Manner, Vec<usize>)> = BTreeMap::new();
    for (place, task) in tasks.iter().enumerate() {
        let manner = manner(task, facts_of(place, tasks, facts));
        groups.entry(group_name(&task.name, manner)).or_insert_with(|| (manner, Vec::new())).1.push(place);
    }
    let mut text = head(machine, &cpus);
    for (name, (manner, members)) in groups {
        text += &group(&name, manner);
        for place in members {
            text += &recorded_task(place, &tasks[place], manner, facts_of(place, tasks, facts), &cpus);
        }
    }
    text
}

/// The online CPUs. The simulator numbers them from 0, in this order.
fn online(topology: &Topology) -> Vec<usize> {
    (0..topology.llc_of_cpu.len()).filter(|cpu| topology.llc_of_cpu[*cpu].is_some()).collect()
}

fn head(machine: &RecordedMachine, cpus: &[usize]) -> String {
    let scheduler = machine.scheduler.as_deref().unwrap_or("the kernel's own scheduler");
    let seconds = format!("{}.{}", machine.duration_ns / 1_000_000_000, machine.duration_ns / 100_000_000 % 10);
    let about = format!("Recorded for {seconds} s on Linux {}, with {scheduler}", machine.release);
    let mut text = format!(
        "# Made by `scherzoctl record`. Names are those of threads. Replay it with `cargo xtask sim FILE`.\n\
         about = {}\nduration_ms = {}\n\n[machine]\ncpus = {}\n",
        quoted(about.as_bytes()),
        (machine.duration_ns / 1_000_000).max(1),
        cpus.len()
    );
    if machine.topology.nr_llcs > 1 || machine.topology.cores_differ() {
        let _ = writeln!(text, "cores = [{}]", cores(&machine.topology, cpus).join(", "));
    }
    text
}

/// CPUs that are alike and numbered one after the other.
fn cores(topology: &Topology, cpus: &[usize]) -> Vec<String> {
    let kind = |cpu: &usize| (topology.llc_of_cpu[*cpu].unwrap_or(0), topology.is_slow(*cpu));
    let alike = cpus.chunk_by(|one, next| kind(one) == kind(next));
    let core = |cpus: &[usize]| {
        let (llc, slow) = kind(&cpus[0]);
        format!("{{ count = {}, llc = {llc}, slow = {slow} }}", cpus.len())
    };
    alike.map(core).collect()
}

/// What is known of a task, or else of the nearest one above it: policy and CPUs are inherited.
fn facts_of<'a>(place: usize, tasks: &[TaskHistory], facts: &'a HashMap<i32, ThreadFacts>) -> Option<&'a ThreadFacts> {
    let mut above = std::iter::successors(Some(place), |place| tasks[*place].parent);
    above.find_map(|place| facts.get(&tasks[place].pid))
}

fn manner(task: &TaskHistory, facts: Option<&ThreadFacts>) -> Manner {
    const BATCH: u64 = 3;
    const IDLE: u64 = 5;
    let is_realtime = task.prio < 100;
    let policy = match facts.map(|facts| facts.policy) {
        Some(BATCH) if !is_realtime => Some("batch"),
        Some(IDLE) if !is_realtime => Some("idle"),
        _ => None,
    };
    let nice = if is_realtime { 0 } else { (task.prio - 120).clamp(-20, 19) };
    Manner { nice, policy, is_kernel: facts.is_some_and(|facts| facts.is_kernel), is_realtime }
}

/// Its name tells a group from all others. Threads of the kernel are in brackets, without what follows a slash.
fn group_name(name: &TaskName, manner: Manner) -> String {
    let end = |byte: u8| byte == 0 || manner.is_kernel && byte == b'/';
    let name = name.split(|byte| end(*byte)).next().unwrap_or_default().escape_ascii().to_string();
    let mut name = if manner.is_kernel { format!("[{name}]") } else { name };
    if manner.nice != 0 {
        let _ = write!(name, ", nice {}", manner.nice);
    }
    if manner.is_realtime {
        name += ", real-time";
    }
    name + &manner.policy.map(|policy| format!(", {policy}")).unwrap_or_default()
}

fn group(name: &str, manner: Manner) -> String {
    let mut text = format!("\n[[group]]\nname = {}\nkind = \"recorded\"\n", quoted(name.as_bytes()));
    if manner.nice != 0 {
        let _ = writeln!(text, "nice = {}", manner.nice);
    }
    if let Some(policy) = manner.policy {
        let _ = writeln!(text, "policy = \"{policy}\"");
    }
    for (key, holds) in [("kthread", manner.is_kernel), ("realtime", manner.is_realtime)] {
        if holds {
            let _ = writeln!(text, "{key} = true");
        }
    }
    text
}

/// A string of TOML. Bytes that are no printable ASCII are escaped once more, as the name has been.
fn quoted(bytes: &[u8]) -> String {
    let printable = |byte: &u8| match *byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        other => format!("\\\\x{other:02x}"),
    };
    format!("\"{}\"", bytes.iter().map(printable).collect::<String>())
}

fn recorded_task(
    place: usize,
    task: &TaskHistory,
    manner: Manner,
    facts: Option<&ThreadFacts>,
    cpus: &[usize],
) -> String {
    let mut text = format!("[[group.task]]\nid = {place}\n");
    let allowed = if manner.is_realtime { Some(vec![real_time_cpu(task, cpus)]) } else { allowed(facts, cpus) };
    if let Some(allowed) = allowed {
        let _ = writeln!(text, "cpus = {allowed:?}");
    }
    text + "steps = [" + &steps(&task.steps) + "\n]\n"
}

/// In lines that are not too long.
fn steps(steps: &[TaskStep]) -> String {
    let mut text = String::new();
    let mut width = LINE_WIDTH;
    for step in steps.iter().map(|step| step_text(*step)) {
        width += step.len() + 2;
        if width > LINE_WIDTH {
            text += if text.is_empty() { "\n  " } else { ",\n  " };
            width = step.len();
        } else {
            text += ", ";
        }
        text += &step;
    }
    text
}

/// Real-time tasks are emulated on one CPU: the one where this one ran most.
fn real_time_cpu(task: &TaskHistory, cpus: &[usize]) -> usize {
    task.usual_cpu().and_then(|cpu| cpus.iter().position(|online| *online == cpu)).unwrap_or(0)
}

/// Where a task may run, as the simulator numbers CPUs; `None` if that is everywhere.
fn allowed(facts: Option<&ThreadFacts>, cpus: &[usize]) -> Option<Vec<usize>> {
    let allowed = &facts?.cpus;
    let places: Vec<usize> = (0..cpus.len()).filter(|place| allowed.contains(&cpus[*place])).collect();
    (!places.is_empty() && places.len() < cpus.len()).then_some(places)
}

fn step_text(step: TaskStep) -> String {
    match step {
        TaskStep::RunUs(us) => format!("{{ run_us = {us} }}"),
        TaskStep::SleepUs(us) => format!("{{ sleep_us = {us} }}"),
        TaskStep::Wait => "\"wait\"".to_owned(),
        TaskStep::Wake(place) => format!("{{ wake = {place} }}"),
        TaskStep::Fork(place) => format!("{{ fork = {place} }}"),
        TaskStep::Compute => "\"compute\"".to_owned(),
        TaskStep::Exit => "\"exit\"".to_owned(),
    }
}
