//! The promises about time, on a clock that only the guest's own instructions move.
//!
//! That clock has one flaw: while every CPU waits for the disk, it jumps to the next timer, however far away that is.
//! So whatever is timed on an otherwise idle guest has run once before, and the service keeps its state in memory.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::measure::{Figures, Meter};
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    call, call_command, change_modes_command, ensure_loaded, ensure_undisturbed, ensure_unloaded, keep_state_in_memory,
    statistics, wait_for_calm, with_user_seat,
};
use scherzo_rig::shell::Shell;

/// Wake-up p99 of a mostly sleeping thread, compared with the kernel default's in the same boot.
const MAX_LATENCY_RATIO: f64 = 0.4;
/// The hogs' throughput, compared likewise.
const MIN_THROUGHPUT_RATIO: f64 = 0.95;
/// The share of the tasks submitted to user space that BPF reclaims under hogs; half was measured on four CPUs.
const MIN_RECLAIMED: f64 = 0.2;
const MAX_LOADING_MS: u64 = 3_000;
const MAX_SWITCHING_MS: f64 = 50.0;
const NR_SWITCHES: u32 = 50;
const PROBE_SECONDS: u32 = 8;
/// Measured in turns; the medians are compared.
const NR_ROUNDS: usize = 3;

/// Latency and throughput under two hogs per CPU, the time to load and the time to change modes.
pub(super) fn promises(guest: &mut Guest) -> Result<()> {
    keep_state_in_memory(guest)?;
    ensure_loaded(guest)?;
    wait_for_calm(guest)?;
    switching_ms(guest)?;
    let meter = Meter::calibrate(guest, PROBE_SECONDS)?;
    let (mut default, mut ours) = (Vec::new(), Vec::new());
    let (mut loading, mut switching) = (0, 0.0_f64);
    for _ in 0..NR_ROUNDS {
        ensure_unloaded(guest)?;
        default.push(meter.measure(guest)?);
        loading = loading.max(elapsed_ms(guest, &call_command("SetEnabled", "b true"))?);
        let loaded = ensure_loaded(guest)?;
        wait_for_calm(guest)?;
        call(guest, "SetMode", "s interactive")?;
        call(guest, "SetPreemption", "b true")?;
        ours.push(meter.measure(guest)?);
        switching = switching.max(switching_ms(guest)?);
        ensure_undisturbed(guest, &loaded)?;
    }
    with_user_seat(guest, |guest| {
        meter.measure(guest)?;
        ensure_preempted_tasks_are_reclaimed(guest)
    })?;
    let (default, ours) = (Figures::median(&default)?, Figures::median(&ours)?);

    let latency = ours.wake_p99_us / default.wake_p99_us;
    let throughput = ours.throughput / default.throughput;
    say(&format!(
        "wake-up p99 {:.0} µs, the kernel default's {:.0} µs ({latency:.2}); throughput {throughput:.3}; \
         loading at most {loading} ms; a mode change at most {switching:.1} ms",
        ours.wake_p99_us, default.wake_p99_us
    ));
    ensure!(latency <= MAX_LATENCY_RATIO, "wake-up p99 is {latency:.2} of the default's, not {MAX_LATENCY_RATIO}");
    ensure!(throughput >= MIN_THROUGHPUT_RATIO, "throughput is {throughput:.3} of the default's");
    ensure!(loading <= MAX_LOADING_MS, "loading took {loading} ms");
    ensure!(switching <= MAX_SWITCHING_MS, "a mode change took {switching:.1} ms");
    Ok(())
}

/// A briefly preempted task is often reclaimed before user space answers: to finish its slice, or by a CPU without
/// work.
fn ensure_preempted_tasks_are_reclaimed(guest: &mut Guest) -> Result<()> {
    let [submitted, reclaimed] = statistics(guest, ["nr_submitted", "nr_reclaimed"])?;
    let part = reclaimed as f64 / submitted as f64;
    ensure!(
        part >= MIN_RECLAIMED,
        "of {submitted} tasks that were submitted to user space only {reclaimed} were reclaimed before it answered"
    );
    Ok(())
}

/// The longest of many mode changes, from the call to the answer, which comes when the change is in effect.
fn switching_ms(guest: &mut Guest) -> Result<f64> {
    let times = guest.check(&change_modes_command(NR_SWITCHES, Duration::ZERO), Duration::from_mins(1))?;
    let longest_us = times.split(' ').nth(1).context("no times were printed")?;
    Ok(longest_us.parse::<f64>()? / 1e3)
}

/// A command's duration on the guest's clock.
fn elapsed_ms(guest: &mut Guest, command: &str) -> Result<u64> {
    let timed =
        format!("start=$(date +%s%N); {{ {command}; }} >/dev/null && echo $((($(date +%s%N) - start) / 1000000))");
    guest.check(&timed, Duration::from_mins(1))?.parse().context("no time was printed")
}
