//! Runs inside the guest: without arguments as a service that runs commands for the host (`scherzo_rig::agent`), with
//! `change-modes N PAUSE_MS` or `change-seats N PAUSE_MS` as a client that changes these (`scherzo_rig::storm`).

use std::time::Duration;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => scherzo_rig::agent::serve(),
        ["change-modes", number, pause_ms] => {
            scherzo_rig::storm::change_modes(number.parse()?, Duration::from_millis(pause_ms.parse()?))
        }
        ["change-seats", number, pause_ms] => {
            scherzo_rig::storm::change_seats(number.parse()?, Duration::from_millis(pause_ms.parse()?))
        }
        _ => bail!("usage: scherzo-guest-agent [change-modes|change-seats N PAUSE_MS]"),
    }
}
