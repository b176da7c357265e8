//! A user floods the service with calls, over many connections, and reads no answer: others are answered all the same, and a
//! killed engine is back in time. With both implementations of the bus, in virtual time.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agreement::{ensure_agreement, service_report};
use scherzo_rig::guest::Guest;
use scherzo_rig::image::SCRIPTS_DIR;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, UNIT, call, ensure_loaded, journal, keep_state_in_memory, kernel, property, wait_until,
};
use scherzo_rig::shell::Shell;

/// From asking for `State` to the answer, for a user who does not flood.
const MAX_ANSWER_MS: u64 = 200;
/// From killing the engine until the service says that the next one's scheduler runs.
const MAX_BACK_MS: u64 = 1_000;
/// The service's own memory.
const MAX_PSS_KIB: u64 = 24 << 10;
const LIMIT: Duration = Duration::from_mins(4);

pub(super) fn with_dbus_daemon(guest: &mut Guest) -> Result<()> {
    ensure_bus_is(guest, "dbus-daemon")?;
    flood(guest, "dbus-daemon", "")
}

pub(super) fn with_dbus_broker(guest: &mut Guest) -> Result<()> {
    use_dbus_broker(guest)?;
    flood(guest, "dbus-broker", "")
}

/// The engine is killed beside each of the floods.
pub(super) fn each_with_kill(guest: &mut Guest) -> Result<()> {
    flood(guest, "the bus", "--kill-each")
}

fn flood(guest: &mut Guest, bus: &str, options: &str) -> Result<()> {
    keep_state_in_memory(guest)?;
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    let lines = guest.check(&format!("python3 {SCRIPTS_DIR}/floods.py {options}"), LIMIT)?;
    say(&format!("{bus}: flood, State median and longest in ms, engine back in ms, calls/s, PSS in KiB\n{lines}"));
    let measured: Vec<_> = lines
        .lines()
        .map(|line| Measured::parse(line).with_context(|| format!("it reads {line}")))
        .collect::<Result<_>>()?;
    ensure!(measured.len() > 10 && measured.iter().any(|flood| flood.back_ms.is_some()), "not all was measured");
    ensure!(measured[1..].iter().all(|flood| flood.nr_calls_per_s > 0), "there was no flood");
    let late: Vec<_> = measured.iter().filter(|flood| !flood.is_kept()).collect();
    ensure!(late.is_empty(), "too late, or too large: {late:?}{}", journal(guest));
    ensure_agreement(guest, "running", "interactive", "choice")?;
    call(guest, "SetMode", "s auto").map(drop)
}

/// One line of `floods.py`.
#[derive(Debug, PartialEq, Eq)]
struct Measured {
    name: String,
    answer_ms: u64,
    longest_ms: u64,
    back_ms: Option<u64>,
    nr_calls_per_s: u64,
    pss_kib: u64,
}

impl Measured {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [name, answer_ms, longest_ms, back_ms, nr_calls_per_s, pss_kib] = words[..] else { return None };
        Some(Self {
            name: name.to_owned(),
            answer_ms: answer_ms.parse().ok()?,
            longest_ms: longest_ms.parse().ok()?,
            back_ms: if back_ms == "-" { None } else { Some(back_ms.parse().ok()?) },
            nr_calls_per_s: nr_calls_per_s.parse().ok()?,
            pss_kib: pss_kib.parse().ok()?,
        })
    }

    fn is_kept(&self) -> bool {
        self.longest_ms <= MAX_ANSWER_MS
            && self.back_ms.is_none_or(|back_ms| back_ms <= MAX_BACK_MS)
            && self.pss_kib < MAX_PSS_KIB
    }
}

/// The system bus ends and another one begins, which ends the service: the next one says what is so, with what was chosen, and
/// without holds and subscriptions, whose programs the bus has lost.
pub(super) fn restarted_bus(guest: &mut Guest) -> Result<()> {
    let before = ensure_loaded(guest)?;
    call(guest, "SetMode", "s auto")?;
    call(guest, "SetPreemption", "b false")?;
    let automatic = service_report(guest)?;
    let hold = guest.spawn("exec scherzoctl hold -m low-power -r test -- sleep infinity")?;
    let subscriber = guest.spawn("exec scherzoctl monitor >/dev/null")?;
    ensure_agreement(guest, "running", "low-power", "hold")?;
    guest.check("systemctl restart dbus.service", MOMENT * 3)?;
    wait_until(guest, "another service has loaded it", MOMENT * 3, |shell| {
        Ok(kernel(shell)?.enable_seq > before.enable_seq && property(shell, "State").is_ok_and(|now| now == "running"))
    })?;
    ensure_agreement(guest, "running", &automatic.mode, &automatic.reason)?;
    let said = (property(guest, "Preemption")?, property(guest, "Holds")?);
    ensure!(said == ("false".into(), "0".into()), "Preemption and Holds are {said:?}");
    guest.check("scherzoctl stats", MOMENT)?;
    call(guest, "Subscribe", "")?;
    let unit = guest.check(&format!("systemctl is-active {UNIT}"), MOMENT)?;
    ensure!(unit == "active", "systemd says {unit}");
    guest.kill(&hold)?;
    guest.kill(&subscriber)?;
    call(guest, "SetPreemption", "b true").map(drop)
}

fn ensure_bus_is(guest: &mut Guest, program: &str) -> Result<()> {
    guest.check(&format!("pgrep -x {program}"), MOMENT).with_context(|| format!("the bus is not {program}")).map(drop)
}

/// Ends the system bus and what uses it, and starts dbus-broker in its place.
fn use_dbus_broker(guest: &mut Guest) -> Result<()> {
    let replace = format!(
        "systemctl stop {UNIT} polkit; systemctl stop dbus.service dbus.socket
        ln -sf /usr/lib/systemd/system/dbus-broker.service /etc/systemd/system/dbus.service
        systemctl daemon-reload && systemctl start dbus.socket dbus-broker.service
        systemctl restart systemd-logind; systemctl start {UNIT}"
    );
    guest.check(&replace, MOMENT * 6)?;
    ensure_bus_is(guest, "dbus-broker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_judged() {
        let measured = Measured::parse("GetHistory 5 200 1000 4000 9000").unwrap();
        assert!(measured.is_kept());
        assert!(!Measured { longest_ms: 201, ..Measured::parse("none 5 9 - 0 9000").unwrap() }.is_kept());
        assert!(!Measured::parse("all 5 9 1001 4000 9000").unwrap().is_kept());
        assert!(!Measured::parse("all 5 9 - 4000 24576").unwrap().is_kept());
        assert_eq!(Measured::parse("all 5 9 - x 1"), None);
    }
}
