//! What passing messages costs, in virtual time: that clock counts instructions.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{ensure_loaded, ensure_undisturbed, ensure_unloaded, wait_for_calm};
use scherzo_rig::shell::Shell;

/// Messages between pairs, of what the kernel's default passes in the same boot. 0.70 was measured on 6.18; the aim is 0.92.
const MIN_RATIO: f64 = 0.4;
/// Measured in turns.
const NR_ROUNDS: usize = 2;
const SECONDS: u32 = 1;

/// Pairs whose tasks wait for each other after each message of a byte.
pub(super) fn between_pairs(guest: &mut Guest) -> Result<()> {
    let (mut default, mut ours) = (0.0, 0.0);
    for _ in 0..NR_ROUNDS {
        ensure_unloaded(guest)?;
        default += messages_per_s(guest)?;
        let loaded = ensure_loaded(guest)?;
        wait_for_calm(guest)?;
        ours += messages_per_s(guest)?;
        ensure_undisturbed(guest, &loaded)?;
    }
    let ratio = ours / default;
    say(&format!("messages between pairs: {ratio:.2} of what the kernel's default passes"));
    ensure!(ratio >= MIN_RATIO, "messages are passed {ratio:.2} times as fast as with the default, not {MIN_RATIO}");
    Ok(())
}

/// Of one pair per CPU.
fn messages_per_s(guest: &mut Guest) -> Result<f64> {
    let run =
        format!("stress-ng --switch 0 --timeout {SECONDS}s --metrics-brief --quiet --yaml /run/rates.yaml >/dev/null");
    let print = "awk '/bogo-ops-per-second-real-time/ { print $2; exit }' /run/rates.yaml";
    guest.check(&format!("{run} && {print}"), Duration::from_mins(1))?.parse().context("no rate was printed")
}
