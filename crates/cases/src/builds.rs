//! A game while a program is built: compilers start by the dozen, read, compute, and write to assemblers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{call, ensure_loaded, ensure_undisturbed, ensure_unloaded, wait_for_calm};
use scherzo_rig::shell::Shell;

use crate::frames::{FrameFigures, GAME, MAX_MISSED_PERCENT};

/// For at least 900 frames.
const SECONDS: u32 = 16;
/// How long the build may take, of what it takes with the kernel's default.
const MAX_RATIO: f64 = 1.15;
const LIMIT: Duration = Duration::from_mins(5);
/// Reads the compiler from the disk, so that whoever is first does not wait for it.
const PREPARE: &str = "rm -rf /run/built; cp -r /usr/src/lua /run/built; make -s -C /run/built/src lapi.o";
const BUILD: &str = "make -s -j8 -C /run/built/src a >/dev/null";

/// Moves the memory of all programs about, as the kernel does when it needs large pages: each of them waits for its pages then.
const COMPACT: &str = "while sleep 0.3; do echo 1 >/proc/sys/vm/compact_memory; done";

/// The game is in time while eight compilers run, and wait for their memory now and then. It waits for its own memory as well, behind whoever
/// moves that about and has lost its CPU to a compiler: how many frames that makes late is measured with a real-time game.
pub(super) fn game(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    wait_for_calm(guest)?;
    guest.check("test -w /proc/sys/vm/compact_memory", LIMIT)?;
    let floor = game_beside_moved_memory(guest, "--rt")?;
    say(&format!("as a real-time task: {floor}"));
    let frames = game_beside_moved_memory(guest, "")?;
    say(&frames.to_string());
    ensure_undisturbed(guest, &loaded)?;
    let (missed, most) = (frames.missed_percent, floor.missed_percent + MAX_MISSED_PERCENT);
    ensure!(missed <= most, "{missed} % of the frames missed, not at most {most} %");
    Ok(())
}

fn game_beside_moved_memory(guest: &mut Guest, option: &str) -> Result<FrameFigures> {
    guest.check(PREPARE, LIMIT)?;
    let build = guest.spawn(BUILD)?;
    let compaction = guest.spawn(COMPACT)?;
    let printed = guest.check(&format!("scherzo-bench frames {GAME} --seconds {SECONDS} --json {option}"), LIMIT)?;
    let is_building = guest.run("pgrep -x cc1 >/dev/null", LIMIT)?.status == 0;
    guest.kill(&compaction)?;
    guest.kill(&build)?;
    ensure!(is_building, "the build was over before the game");
    serde_json::from_str(&printed).with_context(|| format!("it printed: {printed}"))
}

/// The build is about as fast as with the kernel's default, which serves the game worse.
pub(super) fn build(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let default = game_beside_build(guest, "default")?;
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    wait_for_calm(guest)?;
    let ours = game_beside_build(guest, "Scherzo")?;
    ensure_undisturbed(guest, &loaded)?;
    ensure_in_time(&ours.frames)?;
    let ratio = ours.build_ms / default.build_ms;
    say(&format!("the build takes {ratio:.2} times as long as with the default"));
    ensure!(ratio <= MAX_RATIO, "the build took {ratio:.2} times as long as with the default, not {MAX_RATIO}");
    Ok(())
}

/// The frames of a game, and how long the build took that it began with.
struct BuildOutcome {
    frames: FrameFigures,
    build_ms: f64,
}

/// The build goes on alone when the game has ended.
fn game_beside_build(guest: &mut Guest, who: &str) -> Result<BuildOutcome> {
    let command = format!(
        "{PREPARE}; begin=$(date +%s%N); \
         {{ {BUILD}; echo $((($(date +%s%N) - begin) / 1000000)) >/run/build-ms; }} & \
         scherzo-bench frames {GAME} --seconds {SECONDS} --json; wait $!; cat /run/build-ms"
    );
    let printed = guest.check(&command, LIMIT)?;
    let (frames, build_ms) = printed.trim().rsplit_once('\n').with_context(|| format!("it printed: {printed}"))?;
    let frames: FrameFigures = serde_json::from_str(frames).with_context(|| format!("it printed: {printed}"))?;
    let build_ms: f64 = build_ms.parse().context("how long the build took")?;
    say(&format!("{who}: {frames}; the build took {build_ms:.0} ms"));
    Ok(BuildOutcome { frames, build_ms })
}

fn ensure_in_time(frames: &FrameFigures) -> Result<()> {
    let missed = frames.missed_percent;
    ensure!(missed <= MAX_MISSED_PERCENT, "{missed} % of the frames missed, not at most {MAX_MISSED_PERCENT} %");
    Ok(())
}
