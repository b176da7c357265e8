//! A game at 60 frames a second is in time, and so is sound, whatever computes beside them.

use std::fmt;

use anyhow::{Result, ensure};
use serde::Deserialize;

use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::with_user_seat;

use crate::recording::median;
use crate::shares::{GroupFigures, beside_interactive, say_groups};

/// Of all frames.
pub(super) const MAX_MISSED_PERCENT: f64 = 1.0;
/// Each of 8 ms for the game and 1.5 ms for the compositor.
pub(super) const GAME: &str = "--rate 60 --game-ms 8 --compositor-ms 1.5";
/// Sound in pieces of 512 samples at 48,000 a second: a player hands each piece to the mixer. Of 256 samples even a real-time player
/// is late at times in these guests: it needs up to 6.3 ms where 5.3 are there, since a CPU that is interrupted notices up to 2 ms later.
const SOUND: &str = "--rate 94 --game-ms 0.4 --compositor-ms 0.2";
/// So many times as long as SCHED_FIFO in the same boot, which is 1.0 to 3.0 ms in the 99th percentile: 0.9 to 1.2 times is seen, and 1.5
/// to 1.8 with the kernel's default.
const MAX_SOUND_WAKE_TIMES: f64 = 1.4;
/// For at least 900 frames, so that one percent is more than a hiccup.
const SECONDS: u32 = 16;

#[derive(Debug, Deserialize)]
pub(super) struct FrameFigures {
    nr_frames: u64,
    nr_missed: u64,
    pub(super) missed_percent: f64,
    wake_us: FramePercentiles,
    pub(super) groups: Vec<GroupFigures>,
}

impl fmt::Display for FrameFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nr_frames, nr_missed, wake_us: FramePercentiles { p50, p95, p99 }, .. } = self;
        write!(f, "{nr_missed} of {nr_frames} frames missed; wake-up p50 {p50:.0} µs, p95 {p95:.0} µs, p99 {p99:.0} µs")
    }
}

#[derive(Debug, Deserialize)]
struct FramePercentiles {
    p50: f64,
    p95: f64,
    p99: f64,
}

/// Two hogs per CPU.
pub(super) fn beside_hogs(guest: &mut Guest) -> Result<()> {
    ensure_in_time(guest, GAME, "name=hogs,count=2/cpu").map(drop)
}

/// Sound is late after ten milliseconds, which it hardly ever is with the kernel's default either. So the wake-ups count as well. How long
/// the fastest take depends on how the emulator's turns fall together, so SCHED_FIFO is measured beside it, in turns: the median of three each.
pub(super) fn sound_beside_hogs(guest: &mut Guest) -> Result<()> {
    const HOGS: &str = "name=hogs,count=2/cpu";
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let floor_us = ensure_in_time(guest, &format!("{SOUND} --rt"), HOGS)?.wake_us.p99;
        rounds.push((floor_us, ensure_in_time(guest, SOUND, HOGS)?.wake_us.p99));
    }
    let (of_floor, of_sound): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
    let (floor_us, wake_us) = (median(of_floor), median(of_sound));
    let most_us = MAX_SOUND_WAKE_TIMES * floor_us;
    ensure!(wake_us <= most_us, "one of a hundred pieces waits for {wake_us} µs, not at most {most_us:.0} µs");
    Ok(())
}

/// The same where user space has the seat.
pub(super) fn beside_hogs_in_user_seat(guest: &mut Guest) -> Result<()> {
    with_user_seat(guest, beside_hogs)
}

/// Two hogs per CPU that are niced as far as they can be.
pub(super) fn beside_niced_hogs(guest: &mut Guest) -> Result<()> {
    ensure_in_time(guest, GAME, "name=niced,count=2/cpu,nice=19").map(drop)
}

/// Two tasks per CPU that sleep for a moment after each 4 ms of work.
pub(super) fn beside_nappers(guest: &mut Guest) -> Result<()> {
    ensure_in_time(guest, GAME, "name=nappers,count=2/cpu,work=4ms,sleep=100us").map(drop)
}

fn ensure_in_time(guest: &mut Guest, work: &str, group: &str) -> Result<FrameFigures> {
    let figures: FrameFigures = beside_interactive(guest, &format!("frames {work} --seconds {SECONDS}"), &[group])?;
    let FrameFigures { nr_frames, nr_missed, missed_percent, groups, .. } = &figures;
    say(&figures.to_string());
    say_groups(groups);
    ensure!(
        *missed_percent <= MAX_MISSED_PERCENT,
        "{nr_missed} of {nr_frames} frames missed: {missed_percent} %, not at most {MAX_MISSED_PERCENT} %"
    );
    Ok(figures)
}
