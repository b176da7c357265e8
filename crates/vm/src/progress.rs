//! Saying what takes long while it takes long.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a step says that it is still at it when nobody watches a terminal.
const REPEAT_LOG: Duration = Duration::from_secs(20);
/// The same on a terminal, where the line is rewritten in place.
const REPEAT_TERMINAL: Duration = Duration::from_secs(1);

/// Runs `work`, printing `what` with the elapsed time while it runs and when it ends.
pub fn step<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let (done, ticks) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || tick(what, started, &ticks));
        let result = work();
        drop(done);
        result
    })
}

fn tick(what: &str, started: Instant, ticks: &mpsc::Receiver<()>) {
    let terminal = std::io::stderr().is_terminal();
    let repeat = if terminal { REPEAT_TERMINAL } else { REPEAT_LOG };
    let (start, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
    print(&format!("{start}{what} …{end}"));
    while ticks.recv_timeout(repeat) == Err(RecvTimeoutError::Timeout) {
        print(&format!("{start}{what} … {} s{end}", started.elapsed().as_secs()));
    }
    print(&format!("{start}{what}: {:.1} s\n", started.elapsed().as_secs_f64()));
}

fn print(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Progress that cannot be shown is no reason to stop.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// A single line of news.
pub fn say(text: &str) {
    print(&format!("{text}\n"));
}
