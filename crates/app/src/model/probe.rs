//! How late a program wakes up: a thread that asks to be woken, and looks how late it was.
//!
//! It is an ordinary thread, so that it waits as the person's programs do. Its rests vary, so that it does not run in
//! step with anything; it does almost nothing while awake.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use scherzo_api::histogram::Histogram;
use scherzo_wire::layout::NR_WAIT_BUCKETS;

const REST_US: u64 = 2_000;
const REST_VARIES_US: u64 = 2_000;
/// After a change of scheduler, before it counts.
const SETTLE: Duration = Duration::from_millis(500);

/// A measurement under way; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Probe {
    stopped: Arc<AtomicBool>,
}

impl Probe {
    /// Measures for this long, then hands over what was found.
    pub(crate) fn start(duration: Duration, done: impl FnOnce(Histogram) + Send + 'static) -> std::io::Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let probe = Self { stopped: Arc::clone(&stopped) };
        thread::Builder::new().name("scherzo-probe".to_owned()).spawn(move || {
            // Without this the kernel may add its timer slack of 50 µs to each sleep, on both sides alike.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            let found = measure(duration, &stopped);
            if !stopped.load(Ordering::Relaxed) {
                done(found);
            }
        })?;
        Ok(probe)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

fn measure(duration: Duration, stopped: &AtomicBool) -> Histogram {
    let begin = Instant::now();
    let mut found = Histogram::default();
    let mut dice = 0x9e37_79b9_7f4a_7c15;
    while begin.elapsed() < duration && !stopped.load(Ordering::Relaxed) {
        let rest = Duration::from_micros(REST_US + roll(&mut dice) % REST_VARIES_US);
        let due = Instant::now() + rest;
        thread::sleep(rest);
        if begin.elapsed() >= SETTLE.min(duration / 4) {
            found.counts[bucket(due.elapsed())] += 1;
        }
    }
    found
}

/// The bucket of a wait, see [`scherzo_api::histogram`].
fn bucket(wait: Duration) -> usize {
    let us = wait.as_micros() as u64;
    ((u64::BITS - us.leading_zeros()) as usize).min(NR_WAIT_BUCKETS - 1)
}

/// Evenly spread numbers (xorshift).
fn roll(dice: &mut u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice
}

#[cfg(test)]
mod tests {
    use scherzo_api::histogram::bounds_us;

    use super::*;

    #[test]
    fn waits_fall_into_their_buckets() {
        for us in [0, 1, 2, 3, 4, 1_000, 1_000_000] {
            let (low, high) = bounds_us(bucket(Duration::from_micros(us)));
            assert!(low <= us && high.is_none_or(|high| us < high), "{us}");
        }
        assert_eq!(bucket(Duration::from_secs(1 << 40)), NR_WAIT_BUCKETS - 1);
    }

    #[test]
    fn it_measures_for_as_long_as_it_was_told() {
        let (told, found) = std::sync::mpsc::channel();
        let _probe = Probe::start(Duration::from_millis(200), move |found| told.send(found).unwrap()).unwrap();
        assert!(found.recv_timeout(Duration::from_secs(30)).unwrap().nr_total() > 0);
    }

    #[test]
    fn a_cancelled_measurement_says_nothing() {
        let (told, found) = std::sync::mpsc::channel::<Histogram>();
        drop(Probe::start(Duration::from_hours(1), move |found| told.send(found).unwrap()).unwrap());
        assert!(found.recv_timeout(Duration::from_secs(30)).is_err(), "its thread ends and drops the sender");
    }
}
