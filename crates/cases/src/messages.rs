//! What passing messages costs, in virtual time: that clock counts instructions.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{ensure_loaded, ensure_undisturbed, ensure_unloaded, wait_for_calm};
use scherzo_rig::shell::Shell;

/// Messages between pairs, of what the kernel's default passes in the same boot. 0.78 was measured on 6.18; the aim is 0.92.
const MIN_RATIO: f64 = 0.4;
/// What messages from one to many may take, of what they take with the default. 0.72 was measured on 6.18; the best there is, a scheduler
/// that does nothing, takes 0.64.
const MAX_TIME_RATIO: f64 = 1.0;
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

/// Senders that write to one reader after another: readers that ran for each message would take half as long again.
pub(super) fn from_one_to_many(guest: &mut Guest) -> Result<()> {
    let (mut default_s, mut ours_s) = (0.0, 0.0);
    for _ in 0..NR_ROUNDS {
        ensure_unloaded(guest)?;
        default_s += groups_of_messages_s(guest)?;
        let loaded = ensure_loaded(guest)?;
        wait_for_calm(guest)?;
        ours_s += groups_of_messages_s(guest)?;
        ensure_undisturbed(guest, &loaded)?;
    }
    let ratio = ours_s / default_s;
    say(&format!("messages from one to many: {ratio:.2} of the time that the kernel's default takes"));
    ensure!(
        ratio <= MAX_TIME_RATIO,
        "messages took {ratio:.2} times as long as with the default, not {MAX_TIME_RATIO}"
    );
    Ok(())
}

/// Of two groups with ten senders and ten readers each.
fn groups_of_messages_s(guest: &mut Guest) -> Result<f64> {
    let time = guest.check("hackbench -l 600 -g 2 -f 10 | sed -n 's/^Time: //p'", Duration::from_mins(1))?;
    time.trim().parse().with_context(|| format!("hackbench printed: {time}"))
}

/// Of one pair per CPU.
fn messages_per_s(guest: &mut Guest) -> Result<f64> {
    let run =
        format!("stress-ng --switch 0 --timeout {SECONDS}s --metrics-brief --quiet --yaml /run/rates.yaml >/dev/null");
    let print = "awk '/bogo-ops-per-second-real-time/ { print $2; exit }' /run/rates.yaml";
    guest.check(&format!("{run} && {print}"), Duration::from_mins(1))?.parse().context("no rate was printed")
}
