//! Messages of any shape over a real bus: each gets an answer, and what is refused changes nothing.

use fastrand::Rng;
use scherzo_api::names::{BUS_NAME, INTERFACE, OBJECT_PATH};
use zbus::{Structure, Variant};

use crate::support::{Client, Stage};

/// A message takes some thousand times as long as a case without a bus, with the looks at what has changed.
const FEW_CALLS: u64 = 300;
const PER_CALL: u64 = 1_000;
const MEMBERS: [&str; 21] = [
    "SetEnabled",
    "SetMode",
    "SetPreemption",
    "SetEngine",
    "SetForeground",
    "SetHoldForeground",
    "HoldMode",
    "OpenHold",
    "SetModeFor",
    "ReleaseMode",
    "Configure",
    "GetHistory",
    "GetStats",
    "Subscribe",
    "Unsubscribe",
    "Diagnose",
    "InspectHolds",
    "DescribeSettings",
    "GetHistorySince",
    "ResetSettings",
    "Explode",
];

fn value(random: &mut Rng) -> Variant<'static> {
    const WORDS: [&str; 8] = ["auto", "fifo", "low-power", "user", "turbo", "", "base_slice_us", "\u{202e}x"];
    match random.u8(..9) {
        0 => random.bool().into(),
        1 => random.u32(..).into(),
        2 => random.u64(..).into(),
        3 => f64::from_bits(random.u64(..)).into(),
        4 => vec!["a"; random.usize(..3)].into(),
        5 => std::collections::HashMap::from([(WORDS[random.usize(..WORDS.len())], Variant::from(random.i64(..)))])
            .into(),
        6 => "x".repeat(random.usize(..5_000)).into(),
        _ => WORDS[random.usize(..WORDS.len())].into(),
    }
}

fn body(random: &mut Rng) -> Option<Structure<'static>> {
    let mut body = Structure::builder();
    for _ in 0..random.u8(..4) {
        body = body.append_field(value(random));
    }
    body.build().ok()
}

/// What a member takes, with any content.
fn fitting(member: &str, random: &mut Rng) -> Option<Structure<'static>> {
    const MODES: [&str; 5] = ["auto", "interactive", "fifo", "low-power", "turbo"];
    let builder = Structure::builder();
    let mode = MODES[random.usize(..MODES.len())];
    let text = "\u{202e}x".repeat(random.usize(..200));
    // A choice or a hold for some seconds would end by itself in between.
    let seconds = [0, random.u32(3_600..), random.u32(3_600..700_000)][random.usize(..3)];
    let filled = match member {
        "SetMode" => builder.add_field(mode),
        "SetModeFor" => builder.add_field(mode).add_field(seconds),
        "HoldMode" => builder.add_field(mode).add_field(text.clone()).add_field(text),
        "OpenHold" => builder.add_field(mode).add_field(text.clone()).add_field(text).add_field(seconds),
        "SetHoldForeground" => builder.add_field(random.u32(..50)).add_field(["", "/", mode][random.usize(..3)]),
        "GetHistorySince" => builder.add_field(random.u64(..)),
        "ResetSettings" => builder.add_field(vec!["base_slice_us"; random.usize(..3)]),
        "SetEngine" => builder.add_field(if random.bool() { "user" } else { mode }),
        "ReleaseMode" | "GetHistory" => builder.add_field(random.u32(..50)),
        "SetEnabled" | "SetPreemption" => builder.add_field(random.bool()),
        _ => return None,
    };
    filled.build().ok()
}

/// All that people have chosen.
async fn chosen(client: &Client) -> impl PartialEq + std::fmt::Debug + use<> {
    let now = client.snapshot().await;
    let mut settings: Vec<_> = client.scheduler.settings().await.unwrap().into_iter().collect();
    settings.sort_by(|(some, _), (others, _)| some.cmp(others));
    (now.enabled, now.requested_mode, now.preemption, now.engine, now.holds, format!("{settings:?}"))
}

#[tokio::test]
async fn refused_messages_change_nothing() {
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let nr_calls = number("SCHERZO_FUZZ_CASES").map_or(FEW_CALLS, |cases| cases.div_ceil(PER_CALL));
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let seed = number("SCHERZO_FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("the seed is {seed}: SCHERZO_FUZZ_SEED={seed} repeats this");
    let mut random = Rng::with_seed(seed);
    let (mut nr_refused, mut before) = (0, chosen(&client).await);
    // A hold by descriptor ends, at some later moment, when the reply that carries the descriptor goes.
    let mut kept = Vec::new();
    for _ in 0..nr_calls {
        let member = MEMBERS[random.usize(..MEMBERS.len())];
        let call = |body| client.bus.call_method(Some(BUS_NAME), OBJECT_PATH, Some(INTERFACE), member, body);
        let fits = if random.bool() { fitting(member, &mut random) } else { None };
        let reply = match fits.or_else(|| body(&mut random)) {
            Some(body) => Some(call(&body).await),
            None => None,
        };
        let refused = matches!(reply, Some(Err(_)));
        kept.extend(reply.and_then(Result::ok));
        let after = chosen(&client).await;
        assert!(!refused || after == before, "{member} was refused and changed {before:?} to {after:?}");
        nr_refused += u32::from(refused);
        before = after;
    }
    assert!(nr_refused > 0, "nothing was refused");
}
