//! The game that computes frames, and its compositor.

use std::io::{self, Read, Write};
use std::process::ChildStdin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result};
use clap::Args;

use crate::clock::{MeasuredTime, now_ns, sleep_until};
use crate::work::{Calibration, occupy};

/// The compositor's process.
#[derive(Args)]
pub(crate) struct Compositor {
    /// CPU time for each frame
    #[arg(long)]
    work_ns: u64,
    /// Loop iterations per µs
    #[arg(long)]
    calibration: Calibration,
}

/// When a frame was due to begin, and when it was done.
pub(crate) type Done = (u64, u64);

/// The compositor's own main function: frames come as the times at which they were due to begin.
pub(crate) fn compose(options: &Compositor) -> Result<()> {
    let mut done: Vec<Done> = Vec::new();
    let mut input = io::stdin().lock();
    let mut due_ns = [0; 8];
    loop {
        match input.read_exact(&mut due_ns) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error.into()),
        }
        occupy(options.work_ns, options.calibration);
        done.push((u64::from_ne_bytes(due_ns), now_ns()));
    }
    println!("{}", serde_json::to_string(&done)?);
    Ok(())
}

/// What computes frames.
#[derive(Clone, Copy)]
pub(crate) struct Game {
    pub(crate) period_ns: u64,
    /// Of all threads together.
    pub(crate) work_ns: u64,
    pub(crate) nr_threads: u32,
    pub(crate) calibration: Calibration,
    pub(crate) window: MeasuredTime,
}

/// How late the game ran after the timer, in the window.
pub(crate) struct WakeUps {
    /// When the first frame was due to begin.
    pub(crate) first_ns: u64,
    pub(crate) delays_ns: Vec<u64>,
}

impl Game {
    /// Until the window ends: this thread leads, and helpers wait for it to begin a frame.
    pub(crate) fn play(self, compositor: &mut ChildStdin) -> Result<WakeUps> {
        let team = Team::new(self.nr_threads as usize);
        let compute = || occupy(self.work_ns / u64::from(self.nr_threads), self.calibration);
        thread::scope(|scope| {
            for _ in 1..self.nr_threads {
                thread::Builder::new().name("game-helper".into()).spawn_scoped(scope, || team.help(compute))?;
            }
            let wake_ups = self.lead(|| team.work_together(compute), compositor);
            team.dismiss();
            wake_ups.context("handing over a frame")
        })
    }

    fn lead(self, compute: impl Fn(), compositor: &mut ChildStdin) -> io::Result<WakeUps> {
        let first_ns = now_ns() + self.period_ns;
        let mut delays_ns = Vec::new();
        let mut due_ns = first_ns;
        while due_ns < self.window.end_ns {
            sleep_until(due_ns);
            if due_ns >= self.window.begin_ns {
                delays_ns.push(now_ns() - due_ns);
            }
            compute();
            compositor.write_all(&due_ns.to_ne_bytes())?;
            due_ns = next_due_ns(due_ns, self.period_ns, now_ns());
        }
        Ok(WakeUps { first_ns, delays_ns })
    }
}

/// Threads that begin and end each piece of work together.
struct Team {
    begin: Barrier,
    end: Barrier,
    is_over: AtomicBool,
}

impl Team {
    fn new(nr_threads: usize) -> Self {
        Self { begin: Barrier::new(nr_threads), end: Barrier::new(nr_threads), is_over: AtomicBool::new(false) }
    }

    fn work_together(&self, work: impl Fn()) {
        self.begin.wait();
        work();
        self.end.wait();
    }

    fn help(&self, work: impl Fn()) {
        loop {
            self.begin.wait();
            if self.is_over.load(Relaxed) {
                return;
            }
            work();
            self.end.wait();
        }
    }

    fn dismiss(&self) {
        self.is_over.store(true, Relaxed);
        self.begin.wait();
    }
}

/// The next frame that can be in time: those whose period has passed are skipped.
const fn next_due_ns(due_ns: u64, period_ns: u64, now_ns: u64) -> u64 {
    let nr_passed = now_ns.saturating_sub(due_ns) / period_ns;
    due_ns + period_ns * if nr_passed > 1 { nr_passed } else { 1 }
}

/// When frames are due to begin within the window.
pub(crate) fn periods(first_ns: u64, period_ns: u64, window: MeasuredTime) -> impl Iterator<Item = u64> {
    (first_ns..window.end_ns).step_by(period_ns as usize).filter(move |due_ns| *due_ns >= window.begin_ns)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_late_game_skips_what_cannot_be_in_time() {
        assert_eq!(next_due_ns(100, 10, 108), 110);
        assert_eq!(next_due_ns(100, 10, 119), 110);
        assert_eq!(next_due_ns(100, 10, 120), 120);
        assert_eq!(next_due_ns(100, 10, 137), 130);
    }

    #[test]
    fn frames_of_the_window_are_counted() {
        let window = MeasuredTime { begin_ns: 20, end_ns: 50 };
        assert_eq!(periods(5, 10, window).collect::<Vec<_>>(), [25, 35, 45]);
    }

    #[test]
    fn a_team_works_together_until_it_is_dismissed() {
        let (team, nr_done) = (Team::new(3), AtomicU32::new(0));
        let work = || {
            nr_done.fetch_add(1, Relaxed);
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| team.help(work));
            }
            for round in 1..=5 {
                team.work_together(work);
                assert_eq!(nr_done.load(Relaxed), 3 * round);
            }
            team.dismiss();
        });
        assert_eq!(nr_done.load(Relaxed), 15);
    }
}
