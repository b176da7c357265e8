//! Whatever comes in from outside, millions of times: no panic, and what is refused changes nothing.
//!
//! Each case has a seed of its own, which follows from the first; the first is printed, and so is that of a case that fails.
//! `SCHERZO_FUZZ_SEED` sets the first, `SCHERZO_FUZZ_CASES` says how many there are: a seed and one case repeat a failure
//! that does not depend on cases before it; the printed first seed repeats all.
//!
//! `corpus/` keeps inputs that once mattered, or that reach what chance seldom does: each is tried as it is, and with changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use scherzo_api::types::{Reason, RequestedMode, State};
use scherzo_wire::message::{LoadSettings, MESSAGE_BYTES, ToDaemon, ToEngine};
use zbus::{OwnedVariant, Structure, Variant};

use crate::bus::{check_changes, parse_engine, parse_mode};
use crate::engine::event_of;
use crate::settings::{self, Settings};
use scherzo_supervisor::{
    Action, Boot, Build, Caller, Desired, EngineCommand, EngineEvent, Event, ForegroundGroup, Gone, HoldRequest,
    Kernel, Published, Reply, Request, RequestId, Run, Start, Supervisor, Tie,
};

const FEW_CASES: u64 = 10_000;
/// States are built anew after so many cases, so that limits are met but not forever.
const CASES_PER_STATE: u64 = 2_000;
const OURS: &str = "scherzo_fuzz";

/// Names the case when it panics.
struct Seeded(u64);

impl Drop for Seeded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the case's seed is {}: SCHERZO_FUZZ_SEED={0} SCHERZO_FUZZ_CASES=1 repeats it", self.0);
        }
    }
}

/// Runs cases on something that is made anew now and then.
pub(crate) fn cases<T>(make: impl Fn() -> T, case: impl Fn(&mut T, &mut Rng)) {
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse().unwrap());
    let nr_cases = number("SCHERZO_FUZZ_CASES").unwrap_or(FEW_CASES);
    let first = number("SCHERZO_FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("the first seed is {first}: SCHERZO_FUZZ_SEED={first} SCHERZO_FUZZ_CASES={nr_cases} repeats all");
    let mut subject = make();
    for number in 0..nr_cases {
        if number % CASES_PER_STATE == 0 {
            subject = make();
        }
        let seed = Seeded(first.wrapping_add(number));
        case(&mut subject, &mut Rng::with_seed(seed.0));
    }
}

/// The kept inputs of one kind, in the order of their names.
pub(crate) fn corpus(kind: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(kind);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 10, "{} holds too little", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// One of them, with a few bytes changed, taken out, or repeated.
pub(crate) fn changed(corpus: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut input = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..random.u8(1..5) {
        let from = random.usize(..=input.len());
        let to = random.usize(from..=input.len().min(from + 8));
        match random.u8(..3) {
            0 => random.fill(&mut input[from..to]),
            1 => drop(input.drain(from..to)),
            _ => drop(input.splice(from..from, input[from..to].to_vec())),
        }
    }
    input
}

/// The supervisor, its time and its engine's latest run.
struct Supervised {
    supervisor: Supervisor,
    now: Duration,
    nr_requests: u64,
    run: Run,
}

impl Supervised {
    fn new(enabled: bool) -> Self {
        let desired = Desired { enabled, ..Desired::default() };
        let (supervisor, actions) = Supervisor::new(Start {
            desired,
            started_at_s: 1_780_000_000,
            settings: Settings::default(),
            kernel: Kernel::Idle,
            unfit: None,
            noted: false,
            boot: Boot::default(),
            build: Build::default(),
            quarantine: None,
            lifted: BTreeSet::new(),
        });
        let mut supervised = Self { supervisor, now: Duration::ZERO, nr_requests: 0, run: Run(0) };
        supervised.note(&actions);
        supervised
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        let actions = self.supervisor.step(self.now, event);
        self.note(&actions);
        actions
    }

    fn note(&mut self, actions: &[Action]) {
        for action in actions {
            if let Action::Engine(EngineCommand::Spawn(run)) = action {
                self.run = *run;
            }
        }
    }

    fn engine(&mut self, event: EngineEvent) -> Vec<Action> {
        self.step(Event::Engine { run: self.run, event })
    }

    fn ask(&mut self, caller: Caller, request: Request) -> bool {
        let id = RequestId(self.nr_requests);
        self.nr_requests += 1;
        let actions = self.step(Event::Request { id, caller, request });
        actions
            .iter()
            .any(|action| matches!(action, Action::Reply { id: of, reply: Reply::Result(Err(_)) } if *of == id))
    }
}

/// What people and programs have chosen: nothing that happens by itself may change it.
fn chosen(now: &Published) -> impl PartialEq + std::fmt::Debug + use<> {
    (now.enabled, now.requested_mode, now.choice, now.settings, now.holds.clone())
}

fn word(random: &mut Rng) -> String {
    const WORDS: [&str; 16] = [
        "auto",
        "interactive",
        "fifo",
        "low-power",
        "Fifo",
        "fifo ",
        "",
        "true",
        "\0",
        "é\u{202e}",
        "base_slice_us",
        "user",
        "kernel",
        "follow_holds",
        "battery_mode",
        "\u{1b}[31m",
    ];
    match random.u8(..8) {
        0 => (0..random.usize(..40)).map(|_| random.char(..)).collect(),
        1 => "x".repeat(random.usize(..2_000)),
        2 => settings::ALL[random.usize(..settings::ALL.len())].key.to_owned(),
        _ => WORDS[random.usize(..WORDS.len())].to_owned(),
    }
}

/// Any value that a message can carry, a few levels deep.
fn value(random: &mut Rng, depth: u8) -> Variant<'static> {
    match random.u8(..if depth == 0 { 10 } else { 14 }) {
        0 => random.u8(..).into(),
        1 => random.bool().into(),
        2 => random.i16(..).into(),
        3 => random.u16(..).into(),
        4 => (random.i32(..) >> random.u8(..32)).into(),
        5 => (random.u32(..) >> random.u8(..32)).into(),
        6 => (random.i64(..) >> random.u8(..64)).into(),
        7 => (random.u64(..) >> random.u8(..64)).into(),
        8 => f64::from_bits(random.u64(..)).into(),
        9 => word(random).into(),
        10 => Variant::Variant(Box::new(value(random, depth - 1))),
        11 => (0..random.u8(..4)).map(|_| word(random)).collect::<Vec<_>>().into(),
        12 => HashMap::from([(word(random), random.u32(..))]).into(),
        _ => Structure::builder()
            .append_field(value(random, depth - 1))
            .append_field(value(random, depth - 1))
            .build()
            .map_or(0u8.into(), Variant::Structure),
    }
}

fn changes(random: &mut Rng) -> HashMap<String, OwnedVariant> {
    let pair = |random: &mut Rng| (word(random), OwnedVariant::try_from(value(random, 2)).unwrap());
    (0..random.u8(..4)).map(|_| pair(random)).collect()
}

/// For how long something is to last: too long in some cases, and never over while a case lasts.
const SECONDS: std::ops::Range<u32> = 3_600..1_000_000;

fn foreground(random: &mut Rng) -> Option<ForegroundGroup> {
    random.bool().then(|| ForegroundGroup { path: word(random), cgroup: random.u64(..) })
}

/// A call as the interface would handle it. True if it was refused.
fn call(supervised: &mut Supervised, random: &mut Rng) -> bool {
    let caller = Caller { name: format!(":1.{}", random.u8(..4)), uid: random.bool().then(|| random.u32(..)) };
    let request = match random.u8(..17) {
        0 => Request::SetEnabled(random.bool()),
        1 => Request::SetPreemption(random.bool()),
        2 => Request::GetStats,
        3 => Request::GetWaitHistogram,
        4 => Request::Subscribe,
        5 => Request::Unsubscribe,
        6 => Request::GetHistory(random.u32(..)),
        7 => Request::ReleaseMode(random.u32(..) >> random.u8(..32)),
        10 => match parse_engine(&word(random)) {
            Ok(seat) => Request::SetEngine(seat),
            Err(_) => return true,
        },
        11 => match parse_mode(&word(random)) {
            Ok(RequestedMode::Mode(mode)) => Request::SetModeFor(mode, random.u32(SECONDS)),
            _ => return true,
        },
        12 => Request::SetForeground(foreground(random)),
        13 => Request::SetHoldForeground(random.u32(..) >> random.u8(..32), foreground(random)),
        8 => return check_changes(&changes(random)).is_err(),
        9 => match parse_mode(&word(random)) {
            Ok(mode) => Request::SetMode(mode),
            Err(_) => return true,
        },
        _ => match parse_mode(&word(random)) {
            Ok(RequestedMode::Mode(mode)) => {
                let tie = if random.bool() { Tie::Connection } else { Tie::Descriptor };
                let seconds = random.bool().then(|| random.u32(SECONDS));
                Request::HoldMode(HoldRequest { mode, reason: word(random), application: word(random), tie, seconds })
            }
            _ => return true,
        },
    };
    supervised.ask(caller, request)
}

#[test]
fn arguments_from_the_bus() {
    cases(
        || Supervised::new(false),
        |supervised, random| {
            let before = chosen(&supervised.supervisor.view());
            supervised.now += Duration::from_millis(random.u64(..50));
            if call(supervised, random) {
                assert_eq!(chosen(&supervised.supervisor.view()), before, "a refused call changed something");
            }
        },
    );
}

/// Noise, a message, or a message with a few bytes changed.
fn packet(random: &mut Rng) -> Vec<u8> {
    let mut packet = match random.u8(..8) {
        0 => (0..random.usize(..2 * MESSAGE_BYTES)).map(|_| random.u8(..)).collect(),
        1 => ToDaemon::Hello { wire_version: random.u32(..3) }.encode().to_vec(),
        2 => ToDaemon::Loaded { nr_cpus: random.u32(..), load_us: random.u64(..) }.encode().to_vec(),
        3 => ToDaemon::Done { seq: random.u32(..8) }.encode().to_vec(),
        4 => {
            ToEngine::Load(LoadSettings { base_slice_us: random.u32(..), ..LoadSettings::default() }).encode().to_vec()
        }
        5 => ToEngine::Prepare(LoadSettings { min_slice_us: random.u32(..), ..LoadSettings::default() })
            .encode()
            .to_vec(),
        6 => ToDaemon::Prepared.encode().to_vec(),
        _ => event_with_text(random),
    };
    for _ in 0..random.u8(..4) {
        if let Some(byte) = random.choice(packet.iter_mut()) {
            *byte = random.u8(..);
        }
    }
    packet
}

fn event_with_text(random: &mut Rng) -> Vec<u8> {
    use scherzo_wire::message::{ExitKind, FailKind};
    let text = word(random);
    let message = if random.bool() {
        ToDaemon::Failed { kind: FailKind::Other, text }
    } else {
        ToDaemon::Exited { kind: ExitKind::Stall, code: random.i64(..), text }
    };
    message.encode().to_vec()
}

/// The service hears this from its engine; a kernel and a process around it that follow.
fn hear(supervised: &mut Supervised, packet: &[u8], random: &mut Rng) {
    let before = supervised.supervisor.view();
    match ToDaemon::decode(packet) {
        Ok(message) => {
            assert_eq!(ToDaemon::decode(&message.encode()).as_ref(), Ok(&message), "it does not survive");
            if let Some(event) = event_of(message) {
                supervised.engine(event);
            }
        }
        Err(error) => {
            supervised.engine(EngineEvent::Garbled(error.to_string()));
            let Published { state, why, .. } = supervised.supervisor.view();
            let is_on_its_way_out = why.reason == Reason::Leftover;
            assert!(state != State::Running || is_on_its_way_out, "an engine that babbles is believed");
        }
    }
    if random.u8(..4) == 0 {
        supervised.step(Event::Kernel(Kernel::Loaded { ops: OURS.into() }));
    }
    if random.u8(..4) == 0 {
        supervised.step(Event::Kernel(Kernel::Idle));
        supervised.engine(EngineEvent::Gone(Gone::Signal(9)));
        supervised.now += Duration::from_secs(random.u64(..400));
        supervised.step(Event::Tick);
    }
    let chosen = |now: &Published| (now.requested_mode, now.choice, now.settings, now.holds.clone());
    assert_eq!(chosen(&supervised.supervisor.view()), chosen(&before), "the engine changed what people chose");
}

#[test]
fn messages_of_an_engine() {
    cases(
        || Supervised::new(true),
        |supervised, random| {
            let packet = packet(random);
            hear(supervised, &packet, random);
            if let Ok(ToEngine::Load(settings) | ToEngine::Prepare(settings)) = ToEngine::decode(&packet)
                && settings.validate().is_ok()
            {
                assert!((250..=20_000).contains(&settings.base_slice_us), "out of range: {settings:?}");
            }
        },
    );
}

/// A message as it was kept, without the zeros at its end.
fn padded(mut kept: Vec<u8>) -> Vec<u8> {
    kept.resize(kept.len().max(MESSAGE_BYTES), 0);
    kept
}

#[test]
fn kept_messages() {
    let corpus: Vec<_> = corpus("messages").into_iter().map(padded).collect();
    let decoded: Vec<_> = corpus.iter().map(|packet| ToDaemon::decode(packet)).collect();
    let kinds: HashSet<_> = decoded.iter().flatten().map(std::mem::discriminant).collect();
    let errors: HashSet<_> = decoded.iter().filter_map(|message| message.as_ref().err()).map(|error| error.0).collect();
    assert!(kinds.len() == 6 && errors.len() >= 6, "they do not reach enough: {errors:?}");
    for packet in &corpus {
        hear(&mut Supervised::new(true), packet, &mut Rng::with_seed(0));
    }
    cases(
        || Supervised::new(true),
        |supervised, random| {
            let mut packet = changed(&corpus, random);
            if random.u8(..8) > 0 {
                packet.resize(MESSAGE_BYTES, 0);
            }
            hear(supervised, &packet, random);
        },
    );
}

/// `key = value` of a configuration file, with both good and bad ones.
pub(crate) fn line(random: &mut Rng) -> String {
    let key =
        if random.u8(..4) == 0 { word(random) } else { settings::ALL[random.usize(..settings::ALL.len())].key.into() };
    let value = match random.u8(..6) {
        0 => random.bool().to_string(),
        1 => format!("\"{}\"", word(random)),
        2 => (random.i64(..) >> random.u8(..64)).to_string(),
        3 => format!("[{}, {{ a = {} }}]", random.u8(..), random.bool()),
        4 => word(random),
        _ => random.u32(..2_000).to_string(),
    };
    format!("{key} = {value}")
}
