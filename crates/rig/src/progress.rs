//! Progress messages. Whole lines, because several steps may run side by side.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a running step is reported.
const REPEAT: Duration = Duration::from_secs(15);

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
    say(&format!("{what} …"));
    while ticks.recv_timeout(REPEAT) == Err(RecvTimeoutError::Timeout) {
        say(&format!("{what} … {} s", started.elapsed().as_secs()));
    }
    say(&format!("{what}: {:.1} s", started.elapsed().as_secs_f64()));
}

/// Prints one line.
pub fn say(text: &str) {
    eprintln!("{text}");
}
