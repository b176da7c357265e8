//! The threads whose lateness is measured.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::num::NonZeroU64;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use fastrand::Rng;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use crate::clock::{MeasuredTime, SECOND_NS, now_ns, sleep_until};
use crate::work::{Calibration, occupy, work};

const NR_TIMER_THREADS: u64 = 3;
const MIN_PAUSE_NS: u64 = 2_500_000;
const MAX_PAUSE_NS: u64 = 7_500_000;
/// What a timer thread does once awake.
const WORK_US: u64 = 200;
/// An audio thread fills a buffer so often, and works so long on it.
const AUDIO_PERIOD_NS: u64 = 5_000_000;
const AUDIO_WORK_NS: u64 = 1_000_000;
const RT_PRIORITY: u8 = 50;

/// What was measured, in ns, in no particular order.
#[derive(Debug, Default)]
pub(crate) struct SamplesNs {
    /// From the requested time to running.
    pub(crate) timer_wake: Vec<u64>,
    /// From the requested time to the work being done.
    pub(crate) work_done: Vec<u64>,
    /// From the write to the reader running.
    pub(crate) pipe_wake: Vec<u64>,
}

/// Makes this thread, and those it starts from now on, wake exactly when asked, and before everyone else if `rt`.
pub(crate) fn become_prompt(rt: bool) -> Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).context("timer slack")?;
    if rt {
        let priority = RT_PRIORITY.try_into().map_err(|error| anyhow!("real-time priority: {error}"))?;
        set_thread_priority_and_policy(
            thread_native_id(),
            ThreadPriority::Crossplatform(priority),
            ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
        )
        .map_err(|error| anyhow!("SCHED_FIFO was refused ({error:?}); it takes root or CAP_SYS_NICE"))?;
    }
    Ok(())
}

/// The probe while it runs.
pub(crate) struct Threads {
    timers: Vec<JoinHandle<SamplesNs>>,
    pipe: Option<Pipe>,
}

struct Pipe {
    writer: JoinHandle<io::Result<()>>,
    reader: JoinHandle<io::Result<SamplesNs>>,
}

impl Threads {
    pub(crate) fn start(window: MeasuredTime, calibration: Calibration, seed: u64) -> Result<Self> {
        let work_iterations = calibration.iterations(WORK_US);
        let timers = (0..NR_TIMER_THREADS)
            .map(|nth| {
                let pauses = Pauses::new(window, seed.wrapping_mul(1_000).wrapping_add(nth));
                named("timer").spawn(move || timer_thread(window, pauses, || work(work_iterations)))
            })
            .collect::<io::Result<_>>()?;
        let (reading_end, writing_end) = io::pipe()?;
        let pauses = Pauses::new(window, seed.wrapping_mul(1_000).wrapping_add(NR_TIMER_THREADS));
        let pipe = Pipe {
            writer: named("writer").spawn(move || writer_thread(pauses, writing_end))?,
            reader: named("reader").spawn(move || reader_thread(window, reading_end))?,
        };
        Ok(Self { timers, pipe: Some(pipe) })
    }

    /// Instead of the others one thread that must be punctual, as one that plays audio.
    pub(crate) fn start_audio(window: MeasuredTime, calibration: Calibration) -> Result<Self> {
        let first_ns = now_ns() + AUDIO_PERIOD_NS;
        let periods = (first_ns..window.end_ns).step_by(AUDIO_PERIOD_NS as usize);
        let audio =
            named("audio").spawn(move || timer_thread(window, periods, || occupy(AUDIO_WORK_NS, calibration)))?;
        Ok(Self { timers: vec![audio], pipe: None })
    }

    /// Waits for the window to end.
    pub(crate) fn join(self) -> Result<SamplesNs> {
        let mut all = SamplesNs::default();
        for timer in self.timers {
            let samples = timer.join().map_err(|_| anyhow!("a timer thread panicked"))?;
            all.timer_wake.extend(samples.timer_wake);
            all.work_done.extend(samples.work_done);
        }
        if let Some(Pipe { writer, reader }) = self.pipe {
            writer.join().map_err(|_| anyhow!("the writer thread panicked"))??;
            all.pipe_wake = reader.join().map_err(|_| anyhow!("the reader thread panicked"))??.pipe_wake;
        }
        Ok(all)
    }
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(format!("probe-{name}"))
}

/// Wake-up times until the window ends, each a pause after it is asked for.
struct Pauses {
    rng: Rng,
    end_ns: u64,
}

impl Pauses {
    fn new(window: MeasuredTime, seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), end_ns: window.end_ns }
    }
}

impl Iterator for Pauses {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at_ns = now_ns() + self.rng.u64(MIN_PAUSE_NS..=MAX_PAUSE_NS);
        (at_ns < self.end_ns).then_some(at_ns)
    }
}

fn timer_thread(window: MeasuredTime, times_ns: impl Iterator<Item = u64>, work: impl Fn()) -> SamplesNs {
    let mut samples = SamplesNs { timer_wake: room(window), work_done: room(window), pipe_wake: Vec::new() };
    for at_ns in times_ns {
        sleep_until(at_ns);
        let woken_ns = now_ns();
        work();
        let done_ns = now_ns();
        if at_ns >= window.begin_ns {
            samples.timer_wake.push(woken_ns - at_ns);
            samples.work_done.push(done_ns - at_ns);
        }
    }
    samples
}

fn writer_thread(pauses: Pauses, mut pipe: PipeWriter) -> io::Result<()> {
    for at_ns in pauses {
        sleep_until(at_ns);
        pipe.write_all(&now_ns().to_ne_bytes())?;
    }
    Ok(())
}

fn reader_thread(window: MeasuredTime, mut pipe: PipeReader) -> io::Result<SamplesNs> {
    let mut samples = SamplesNs { pipe_wake: room(window), ..SamplesNs::default() };
    let mut sent_ns = [0; 8];
    loop {
        match pipe.read_exact(&mut sent_ns) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(samples),
            Err(error) => return Err(error),
        }
        let woken_ns = now_ns();
        let sent_ns = u64::from_ne_bytes(sent_ns);
        if sent_ns >= window.begin_ns {
            samples.pipe_wake.push(woken_ns.saturating_sub(sent_ns));
        }
    }
}

/// Room for every sample that the window can bring, already paged in: filled once and emptied again.
fn room(window: MeasuredTime) -> Vec<u64> {
    let nr_samples = window.duration_ns().max(SECOND_NS) / MIN_PAUSE_NS + 1;
    let mut samples = vec![u64::MAX; nr_samples as usize];
    samples.clear();
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_reports_within_the_window() {
        let window = MeasuredTime { begin_ns: now_ns() + 20_000_000, end_ns: now_ns() + 320_000_000 };
        let samples = Threads::start(window, "1".parse().unwrap(), 7).unwrap().join().unwrap();
        assert_eq!(samples.timer_wake.len(), samples.work_done.len());
        assert!((30..=360).contains(&samples.timer_wake.len()), "{}", samples.timer_wake.len());
        assert!((10..=120).contains(&samples.pipe_wake.len()), "{}", samples.pipe_wake.len());
        assert!(samples.timer_wake.iter().zip(&samples.work_done).all(|(wake, done)| wake <= done));
    }

    #[test]
    fn an_audio_thread_keeps_its_period() {
        let window = MeasuredTime { begin_ns: now_ns() + 20_000_000, end_ns: now_ns() + 320_000_000 };
        let samples = Threads::start_audio(window, "1".parse().unwrap()).unwrap().join().unwrap();
        assert!((55..=61).contains(&samples.timer_wake.len()), "{}", samples.timer_wake.len());
        assert!(samples.pipe_wake.is_empty());
    }

    #[test]
    fn pauses_are_equal_for_equal_seeds() {
        let window = MeasuredTime { begin_ns: 0, end_ns: u64::MAX };
        let draw = |seed| Pauses::new(window, seed).rng.u64(..);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
