//! A user floods the service with calls, over many connections, and reads no answer: others are answered all the same, and a
//! killed engine is back in time. In virtual time.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agreement::ensure_agreement;
use crate::system_bus::boot_with_broker;
use scherzo_rig::guest::Guest;
use scherzo_rig::image::SCRIPTS_DIR;
use scherzo_rig::progress::say;
use scherzo_rig::service::{call, ensure_loaded, journal, keep_state_in_memory, wait_for_calm};
use scherzo_rig::shell::Shell;

/// From asking for `State` to the answer, half of the times, for a user who does not flood. Where the bus itself takes longer, it is
/// so many quarters of the time that the answer of [`CONTROL`] takes.
const MAX_ANSWER_MS: u64 = 200;
const QUARTERS_WITH_DAEMON: u64 = 4;
const QUARTERS_WITH_BROKER: u64 = 6;
/// Half as long again, on either bus, beside floods whose answers are longer than what dbus-daemon reads in a round: what it has begun
/// to read stands before other answers until its end.
const LONG_ANSWERS: [&str; 1] = ["Introspect"];
const QUARTERS_BESIDE_LONG: u64 = 6;
/// From killing the engine until the next one's scheduler runs.
const MAX_BACK_MS: u64 = 1_000;
/// The service's own memory.
const MAX_PSS_KIB: u64 = 24 << 10;
const LIMIT: Duration = Duration::from_mins(8);

/// What the bus costs by itself: a program that is flooded as well, throws away what comes, and answers nothing but the other user's
/// question. dbus-daemon refuses what comes beyond 128 open calls itself, and passes a question and its answer on in four rounds of that.
/// dbus-broker takes in several times as much from eight connections as it hands to one, in the order in which it came.
const CONTROL: &str = "Sink";

/// The engine is killed beside each flood.
pub(super) fn with_daemon(guest: &mut Guest) -> Result<()> {
    flood_each(guest, QUARTERS_WITH_DAEMON)
}

/// The same after a boot with the other implementation of the bus.
pub(super) fn with_broker(guest: &mut Guest) -> Result<()> {
    boot_with_broker(guest)?;
    flood_each(guest, QUARTERS_WITH_BROKER)
}

fn flood_each(guest: &mut Guest, quarters_of_control: u64) -> Result<()> {
    keep_state_in_memory(guest)?;
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    wait_for_calm(guest)?;
    let lines = guest.check(&format!("python3 {SCRIPTS_DIR}/floods.py --kill-each"), LIMIT)?;
    say(&format!("flood, State median and longest in ms, engine back in ms, calls/s, PSS in KiB\n{lines}"));
    let measured: Option<Vec<_>> = lines.lines().map(Measured::parse).collect();
    let measured = measured.with_context(|| format!("it reads {lines}"))?;
    let control = measured.iter().find(|flood| flood.name == CONTROL).context("there was no control")?;
    let max_answer_ms = |name| max_answer_ms(name, control.answer_ms, quarters_of_control);
    let is_flood = |flood: &&Measured| flood.name != "none" && flood.name != CONTROL;
    ensure!(measured.iter().filter(is_flood).all(|flood| flood.nr_calls_per_s > 0), "there was no flood");
    let late: Vec<_> =
        measured.iter().filter(is_flood).filter(|flood| !flood.is_kept(max_answer_ms(&flood.name))).collect();
    let max_ms = max_answer_ms(CONTROL);
    ensure!(late.is_empty(), "State after more than {max_ms} ms, or else: {late:?}{}", journal(guest));
    ensure_agreement(guest, "running", "interactive", "choice")?;
    call(guest, "SetMode", "s auto").map(drop)
}

/// For the flood of that name, on a bus where the control takes so long.
fn max_answer_ms(name: &str, control_ms: u64, quarters_of_control: u64) -> u64 {
    let is_long = LONG_ANSWERS.contains(&name);
    let quarters = if is_long { quarters_of_control.max(QUARTERS_BESIDE_LONG) } else { quarters_of_control };
    MAX_ANSWER_MS.max(control_ms * quarters / 4)
}

/// One line of `floods.py`.
#[derive(Debug, PartialEq, Eq)]
struct Measured {
    name: String,
    answer_ms: u64,
    longest_ms: u64,
    back_ms: u64,
    nr_calls_per_s: u64,
    pss_kib: u64,
}

impl Measured {
    fn parse(line: &str) -> Option<Self> {
        let (name, numbers) = line.split_once(' ')?;
        let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
        let [answer_ms, longest_ms, back_ms, nr_calls_per_s, pss_kib] = numbers.ok()?.try_into().ok()?;
        Some(Self { name: name.to_owned(), answer_ms, longest_ms, back_ms, nr_calls_per_s, pss_kib })
    }

    fn is_kept(&self, max_answer_ms: u64) -> bool {
        self.answer_ms <= max_answer_ms && self.back_ms <= MAX_BACK_MS && self.pss_kib < MAX_PSS_KIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_judged() {
        let measured = Measured::parse("GetHistory 200 300 1000 4000 9000").unwrap();
        assert!(measured.is_kept(MAX_ANSWER_MS) && measured.is_kept(300));
        assert!(!Measured { answer_ms: 201, ..measured }.is_kept(MAX_ANSWER_MS));
        assert!(!Measured::parse("all 5 9 1001 4000 9000").unwrap().is_kept(300));
        assert!(!Measured::parse("all 5 9 900 4000 24576").unwrap().is_kept(300));
        assert_eq!(Measured::parse("all 5 9 - 4000 9000"), None);
    }

    #[test]
    fn what_is_allowed_is_what_the_bus_takes_by_itself() {
        assert_eq!(max_answer_ms("GetStats", 100, QUARTERS_WITH_DAEMON), MAX_ANSWER_MS);
        assert_eq!(max_answer_ms("GetStats", 660, QUARTERS_WITH_DAEMON), 660);
        assert_eq!(max_answer_ms("Introspect", 660, QUARTERS_WITH_DAEMON), 990);
        assert_eq!(max_answer_ms("Introspect", 1000, QUARTERS_WITH_BROKER), 1500);
    }

    /// The script lies in the rig; a method that comes later is flooded as well.
    #[test]
    fn every_method_is_flooded() {
        let script = include_str!("../../rig/guest/floods.py");
        let interface = include_str!("../../../dbus/org.scherzo.Scheduler1.xml");
        let methods: Vec<_> =
            interface.split("<method name=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(methods.len() > 15, "{methods:?}");
        for method in methods {
            assert!(script.contains(&format!("    \"{method}\": ")), "{method} is missing in floods.py");
        }
    }
}
