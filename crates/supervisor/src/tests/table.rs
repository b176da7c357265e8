//! The table of transitions in `docs/service.md` is what the supervisor does.

use scherzo_model::WIRE_VERSION;
use scherzo_model::{ExitKind, FailKind};

use super::super::phase::{Cause, Ending, Loaded, Phase, Stage};
use super::super::*;
use super::{OURS, SECOND};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/service.md");
const BEGIN: &str = "<!-- The table begins; a test keeps it. -->\n";
const END: &str = "<!-- The table ends. -->\n";

type Step = (&'static str, fn(&Supervisor) -> Event);

fn request(request: Request) -> Event {
    Event::Request { id: RequestId(7), caller: Caller::default(), request }
}

fn engine(state: &Supervisor, event: EngineEvent) -> Event {
    Event::Engine { run: state.run, event }
}

fn ours() -> Event {
    Event::Kernel(Kernel::Loaded { ops: OURS.into() })
}

const TURN_ON: Step = ("a person turns it on", |_| request(Request::SetEnabled(true)));
const TURN_OFF: Step = ("a person turns it off", |_| request(Request::SetEnabled(false)));
const HELLO: Step = ("the engine says hello", |state| engine(state, EngineEvent::Hello { wire_version: WIRE_VERSION }));
const HAS_LOADED: Step = ("the engine has loaded", |state| engine(state, EngineEvent::Loaded));
const OURS_RUNS: Step = ("the kernel names ours", |_| ours());
const NOTHING_RUNS: Step = ("the kernel names none", |_| Event::Kernel(Kernel::Idle));
const EJECTED: Step = ("the engine reports an error", |state| {
    engine(state, EngineEvent::Exited { kind: ExitKind::Error, code: 1, text: String::new() })
});
const KILLED: Step = ("the engine is killed", |state| engine(state, EngineEvent::Gone(Gone::Signal(9))));
const ENDED: Step = ("the engine has ended", |state| engine(state, EngineEvent::Gone(Gone::Code(0))));

/// Everything that moves the supervisor from one phase to another, in the order of the table.
const EVENTS: &[Step] = &[
    TURN_ON,
    TURN_OFF,
    ("a person chooses a mode", |_| request(Request::SetMode(RequestedMode::Mode(Mode::Fifo)))),
    ("other slices are set", |state| {
        let mut settings = state.settings;
        settings.tunables.starvation_ms += 1;
        Event::Settings { settings, by: None }
    }),
    ("what the kernel fixes at load is set", |state| {
        let mut settings = state.settings;
        settings.tunables.partial ^= true;
        Event::Settings { settings, by: None }
    }),
    HELLO,
    ("it is of another version", |state| engine(state, EngineEvent::Hello { wire_version: WIRE_VERSION + 1 })),
    HAS_LOADED,
    ("the engine cannot load", |state| {
        engine(state, EngineEvent::Failed { kind: FailKind::Other, text: String::new() })
    }),
    ("what it prepared does not fit", |state| {
        engine(state, EngineEvent::Failed { kind: FailKind::Outdated, text: String::new() })
    }),
    EJECTED,
    ("the engine sends what makes no sense", |state| engine(state, EngineEvent::Garbled(String::new()))),
    ("the engine hangs up", |state| engine(state, EngineEvent::HungUp)),
    ENDED,
    KILLED,
    OURS_RUNS,
    NOTHING_RUNS,
    ("the kernel names another's", |_| Event::Kernel(Kernel::Loaded { ops: "lavd".into() })),
    ("its time is over", |_| Event::Tick),
    ("the service is to end", |_| Event::Shutdown),
];

/// How each phase is reached from nothing.
const PHASES: &[(&str, &[Step])] = &[
    ("off", &[]),
    ("starting", &[TURN_ON]),
    ("loading", &[TURN_ON, HELLO]),
    ("confirming", &[TURN_ON, HELLO, HAS_LOADED]),
    ("loaded", &[TURN_ON, HELLO, HAS_LOADED, OURS_RUNS]),
    ("unloading", &[TURN_ON, HELLO, HAS_LOADED, OURS_RUNS, TURN_OFF]),
    ("ending", &[TURN_ON, HELLO, HAS_LOADED, OURS_RUNS, EJECTED]),
    ("draining", &[TURN_ON, HELLO, HAS_LOADED, OURS_RUNS, EJECTED, ENDED]),
    ("waiting", &[TURN_ON, HELLO, HAS_LOADED, OURS_RUNS, EJECTED, ENDED, NOTHING_RUNS]),
];

fn at_rest() -> Supervisor {
    let start = Start {
        desired: Desired::default(),
        started_at_s: 0,
        settings: Settings::default(),
        kernel: Kernel::Idle,
        unfit: None,
        noted: false,
        boot: Boot::default(),
        build: Build::default(),
        quarantine: None,
        lifted: BTreeSet::new(),
    };
    Supervisor::new(start).0
}

fn reached(steps: &[Step]) -> Supervisor {
    let mut state = at_rest();
    for (_, event) in steps {
        let event = event(&state);
        state.step(SECOND, event);
    }
    state
}

fn name_of(state: &Supervisor) -> &'static str {
    match &state.phase {
        Phase::Idle if state.desired.enabled => "waiting",
        Phase::Idle => "off",
        Phase::Loading { stage: Stage::Starting, .. } => "starting",
        Phase::Loading { stage: Stage::Sent(_), .. } => "loading",
        Phase::Loading { stage: Stage::Confirming { .. }, .. } => "confirming",
        Phase::Loaded(Loaded { switching: Some(_), .. }) => "switching",
        Phase::Loaded(_) => "loaded",
        Phase::Ending(Ending { cause: Cause::Asked, .. }) => "unloading",
        Phase::Ending(_) => "ending",
        Phase::Draining { deadline: Some(_), .. } => "draining",
        Phase::Draining { deadline: None, .. } => "given up",
    }
}

/// What is done to engine and host; telling clients goes without saying.
fn deed(action: &Action) -> Option<&'static str> {
    Some(match action {
        Action::Engine(EngineCommand::Spawn(_)) => "start",
        Action::Engine(EngineCommand::Load(..)) => "load",
        Action::Engine(EngineCommand::Switch { .. }) => "switch",
        Action::Engine(EngineCommand::Unload(_)) => "unload",
        Action::Engine(EngineCommand::Kill(_)) => "kill",
        Action::Files(FileAction::RestoreSettings) => "restore",
        Action::Files(FileAction::RevertSettings(_)) => "revert",
        Action::Bus(BusAction::TellExit(_)) => "tell",
        Action::Exit => "end",
        _ => return None,
    })
}

fn cell(steps: &[Step], (name, event): &Step) -> String {
    let mut state = reached(steps);
    let before = name_of(&state);
    // What has a deadline of its own waits for that one; what is asked now happens now.
    let now = if *name == "its time is over" { last_deadline(&state) } else { SECOND };
    let event = event(&state);
    let actions = state.step(now, event);
    let deeds: Vec<_> = actions.iter().filter_map(deed).collect();
    let after = name_of(&state);
    match (after == before, deeds.is_empty()) {
        (true, true) => "·".to_owned(),
        (true, false) => deeds.join(", "),
        (false, true) => format!("**{after}**"),
        (false, false) => format!("**{after}**: {}", deeds.join(", ")),
    }
}

/// When the phase itself ends by time, later than any look at the kernel.
fn last_deadline(state: &Supervisor) -> Time {
    match &state.phase {
        Phase::Loading { deadline, .. } | Phase::Draining { deadline: Some(deadline), .. } => *deadline,
        _ => state.next_wakeup().unwrap_or(SECOND),
    }
}

fn table() -> String {
    let names: Vec<_> = PHASES.iter().map(|(name, _)| *name).collect();
    let head = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let row = |event: &Step| {
        let cells: Vec<_> = PHASES.iter().map(|(_, steps)| cell(steps, event)).collect();
        format!("| {} | {} |\n", event.0, cells.join(" | "))
    };
    head + &EVENTS.iter().map(row).collect::<String>()
}

#[test]
fn phases_are_reached_as_the_table_says() {
    for (name, steps) in PHASES {
        assert_eq!(name_of(&reached(steps)), *name);
    }
}

#[test]
fn the_documented_table_is_what_happens() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a table");
    let (documented, after) = rest.split_once(END).expect("the table ends");
    let real = table();
    if std::env::var_os("SCHERZO_WRITE_DOCS").is_some() {
        return std::fs::write(PAGE, [before, BEGIN, &real, END, after].concat()).unwrap();
    }
    assert!(documented == real, "docs/service.md is out of date; SCHERZO_WRITE_DOCS=1 corrects it:\n{real}");
}
