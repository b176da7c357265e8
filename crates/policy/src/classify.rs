//! Interactive or batch.
//!
//! A task that often sleeps of its own will waits for something outside: a person, a device, a frame. So the measure is
//! voluntary context switches per second, smoothed per task (each sample counts half), against a threshold that
//! follows the samples of all tasks, as scx_bpfland did before it gave up classes. Two marks around the threshold keep
//! a task near it from changing class at every sample.
//!
//! A task that wakes rarely and then runs briefly is interactive whatever the threshold. An editor that somebody types in,
//! a bus or a service sleeps most of the time and runs for microseconds. Beside programs that sleep thousands of times a
//! second, which drive the threshold to its upper bound, it would count as batch because it wakes only a few times.
//!
//! The rate says nothing about a task that has not been sampled yet: if it was woken explicitly it counts as interactive, if
//! not (it was forked, or is new to us) as batch. And the rate is slow to notice that a task has begun to compute:
//! one that has run for a whole base slice without sleeping is batch until it sleeps, and if it was never sampled
//! until its first sample.
//!
//! Rates are in voluntary switches per 1000 s ("milli"), integers throughout.

use crate::dispatched::Class;
use crate::time::advance;

/// Bounds of the threshold: at 1 per second nearly everything is interactive, past 10 too little would be.
const THRESHOLD_MILLI: core::ops::RangeInclusive<u64> = 1_000..=10_000;
/// The newest sample's share of the threshold is one over this.
const THRESHOLD_INERTIA: u64 = 16;
/// More voluntary switches in one sample cannot be.
const MAX_SWITCHES: u64 = 1_000_000;
/// A sample this many intervals long tells little about now.
const STALE_INTERVALS: u64 = 10;
/// A task that ran less than one part in this many of a stale sample was mostly away.
const AWAY_PARTS: u64 = 8;
/// A task that sleeps again sooner than this wakes lightly. At a rate below the threshold's upper bound that is less
/// than 2 % of a CPU.
const LIGHT_BURST_NS: u64 = 2_000_000;

/// The moving threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold {
    milli: u64,
}

impl Default for Threshold {
    fn default() -> Self {
        Self { milli: *THRESHOLD_MILLI.end() }
    }
}

impl Threshold {
    pub(crate) const fn milli(self) -> u64 {
        self.milli
    }

    fn follow(&mut self, sample_milli: u64) {
        let sample_milli = sample_milli.clamp(*THRESHOLD_MILLI.start(), *THRESHOLD_MILLI.end());
        self.milli = (self.milli * (THRESHOLD_INERTIA - 1) + sample_milli) / THRESHOLD_INERTIA;
    }

    /// The class for a rate, given the class so far.
    const fn classify(self, rate_milli: u64, class: Class) -> Class {
        let mark_milli = match class {
            Class::Interactive => self.milli * 3 / 4,
            Class::Batch => self.milli * 5 / 4,
            Class::Unknown | Class::Kernel => self.milli,
        };
        if rate_milli >= mark_milli { Class::Interactive } else { Class::Batch }
    }
}

/// The counters of a task at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sighting {
    pub(crate) now_ns: u64,
    pub(crate) nr_voluntary_switches: u64,
    pub(crate) sum_exec_ns: u64,
}

/// How often a task sleeps and how long it runs in between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tempo {
    since: Sighting,
    rate_milli: u64,
    mean_burst_ns: u64,
    sampled: bool,
    class: Class,
}

impl Tempo {
    /// Of a task never seen before.
    pub(crate) fn new(sighting: Sighting, woken: bool) -> Self {
        let class = if woken { Class::Interactive } else { Class::Batch };
        Self { since: sighting, class, ..Self::default() }
    }

    pub(crate) const fn rate_milli(&self) -> u64 {
        self.rate_milli
    }

    pub(crate) const fn mean_burst_ns(&self) -> u64 {
        self.mean_burst_ns
    }

    /// The class right now, for a task that has run for `burst_ns` since it last slept.
    pub(crate) fn class_now(&mut self, burst_ns: u64, base_slice_ns: u64) -> Class {
        if burst_ns < base_slice_ns {
            return self.class;
        }
        if !self.sampled {
            self.class = Class::Batch;
        }
        Class::Batch
    }

    /// Takes a sample if the last one is at least `interval_ns` old.
    pub(crate) fn sample(&mut self, sighting: Sighting, interval_ns: u64, threshold: &mut Threshold) {
        let window_ns = advance(sighting.now_ns, self.since.now_ns);
        if window_ns == 0 {
            // Also where time went backwards: a start in the future would never be reached.
            self.since = sighting;
        }
        if window_ns < interval_ns {
            return;
        }
        let nr_switches = advance(sighting.nr_voluntary_switches, self.since.nr_voluntary_switches).min(MAX_SWITCHES);
        let exec_ns = advance(sighting.sum_exec_ns, self.since.sum_exec_ns);
        self.since = sighting;
        // Someone was away, not at the machine: coming back should not find a sluggish editor.
        if window_ns / STALE_INTERVALS > interval_ns && exec_ns < window_ns / AWAY_PARTS {
            return;
        }
        self.take_in(nr_switches, exec_ns, window_ns, threshold);
    }

    fn take_in(&mut self, nr_switches: u64, exec_ns: u64, window_ns: u64, threshold: &mut Threshold) {
        let rate_milli = nr_switches * 1_000_000_000_000 / window_ns;
        let burst_ns = exec_ns / nr_switches.max(1);
        if self.sampled {
            self.rate_milli = u64::midpoint(self.rate_milli, rate_milli);
            self.mean_burst_ns = u64::midpoint(self.mean_burst_ns, burst_ns);
        } else {
            self.rate_milli = rate_milli;
            self.mean_burst_ns = burst_ns;
        }
        let class = if self.sampled { self.class } else { Class::Unknown };
        let light = nr_switches > 0 && self.mean_burst_ns < LIGHT_BURST_NS;
        self.class = if light { Class::Interactive } else { threshold.classify(self.rate_milli, class) };
        self.sampled = true;
        threshold.follow(rate_milli);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const BASE: u64 = 5 * MS;

    /// A task that, per 100 ms, sleeps `nr_sleeps` times and runs for `exec_ms`.
    struct Life {
        tempo: Tempo,
        threshold: Threshold,
        seen: Sighting,
    }

    impl Life {
        fn new(woken: bool) -> Self {
            let seen = Sighting { now_ns: u64::MAX - 150 * MS, ..Sighting::default() };
            Self { tempo: Tempo::new(seen, woken), threshold: Threshold::default(), seen }
        }

        fn live(&mut self, duration_ms: u64, nr_sleeps: u64, exec_ms: u64) -> Class {
            self.seen.now_ns = self.seen.now_ns.wrapping_add(duration_ms * MS);
            self.seen.nr_voluntary_switches += nr_sleeps;
            self.seen.sum_exec_ns += exec_ms * MS;
            self.tempo.sample(self.seen, 100 * MS, &mut self.threshold);
            self.tempo.class_now(0, BASE)
        }
    }

    #[test]
    fn the_first_class_is_told_by_the_wake_up() {
        assert_eq!(Life::new(true).live(99, 0, 99), Class::Interactive);
        assert_eq!(Life::new(false).live(99, 99, 1), Class::Batch);
    }

    #[test]
    fn habits_decide_after_the_first_sample() {
        assert_eq!(Life::new(false).live(100, 20, 4), Class::Interactive);
        assert_eq!(Life::new(true).live(100, 0, 100), Class::Batch);
    }

    #[test]
    fn a_whole_base_slice_in_one_go_is_batch_until_the_next_sleep() {
        let mut known = Life::new(true);
        known.live(100, 20, 4);
        assert_eq!(known.tempo.class_now(BASE, BASE), Class::Batch);
        assert_eq!(known.tempo.class_now(0, BASE), Class::Interactive);
        let mut unknown = Life::new(true);
        assert_eq!(unknown.tempo.class_now(BASE - 1, BASE), Class::Interactive);
        assert_eq!(unknown.tempo.class_now(BASE, BASE), Class::Batch);
        assert_eq!(unknown.tempo.class_now(0, BASE), Class::Batch, "until it has been sampled");
    }

    #[test]
    fn a_hog_that_used_to_sleep_is_found_out_within_a_second() {
        let mut life = Life::new(true);
        for _ in 0..20 {
            assert_eq!(life.live(100, 10, 5), Class::Interactive);
        }
        let nr_samples = (0..50).take_while(|_| life.live(100, 0, 100) == Class::Interactive).count();
        assert!(nr_samples < 10, "{nr_samples}");
    }

    #[test]
    fn near_the_threshold_the_class_holds() {
        let mut life = Life::new(true);
        life.live(100, 1, 10);
        let class = life.tempo.class_now(0, BASE);
        for round in 0..40 {
            let duration_ms = if round % 2 == 0 { 95 + 10 } else { 110 };
            assert_eq!(life.live(duration_ms, 1, 10), class, "round {round}");
        }
    }

    #[test]
    fn who_wakes_seldom_and_lightly_is_interactive_beside_the_busiest_sleepers() {
        let mut editor = Life::new(false);
        for round in 0..20 {
            editor.threshold = Threshold::default();
            assert_eq!(editor.live(300, 1, 1), Class::Interactive, "three times a second, round {round}");
        }
    }

    #[test]
    fn seldom_with_long_work_or_without_a_sleep_is_batch() {
        assert_eq!(Life::new(true).live(300, 1, 5), Class::Batch, "5 ms at a time");
        assert_eq!(Life::new(true).live(300, 0, 1), Class::Batch, "waited all along and never slept");
    }

    #[test]
    fn a_light_task_that_begins_to_work_is_found_out_within_a_second() {
        let mut life = Life::new(true);
        assert_eq!(life.live(300, 1, 1), Class::Interactive);
        let nr_samples = (0..10).take_while(|_| life.live(300, 1, 60) == Class::Interactive).count();
        assert!(nr_samples < 3, "{nr_samples}");
    }

    #[test]
    fn coming_back_from_a_long_pause_is_no_offence() {
        let mut life = Life::new(true);
        life.live(100, 20, 4);
        for _ in 0..20 {
            assert_eq!(life.live(60_000, 1, 10), Class::Interactive);
        }
        assert_eq!(life.live(60_000, 1, 60_000), Class::Interactive, "one sample of two");
        for _ in 0..8 {
            life.live(60_000, 1, 60_000);
        }
        assert_eq!(life.tempo.class_now(0, BASE), Class::Batch);
    }

    #[test]
    fn the_threshold_follows_everyone_within_bounds() {
        let mut life = Life::new(true);
        for _ in 0..200 {
            life.live(100, 0, 100);
        }
        assert!((1_000..1_100).contains(&life.threshold.milli()), "{}", life.threshold.milli());
        for _ in 0..200 {
            life.live(100, 1_000_000_000, 1);
        }
        assert!((9_900..=10_000).contains(&life.threshold.milli()), "{}", life.threshold.milli());
    }

    #[test]
    fn counters_and_time_that_shrink_do_no_harm() {
        let mut life = Life::new(true);
        life.live(100, 20, 4);
        let honest = life.seen;
        life.seen = Sighting { now_ns: honest.now_ns.wrapping_sub(1 << 50), nr_voluntary_switches: 0, sum_exec_ns: 0 };
        life.live(0, 0, 0);
        life.seen = honest;
        life.live(0, 0, 0);
        assert_eq!(life.live(100, 0, 100), Class::Interactive, "sampled again: one sample of two");
        assert_eq!((0..8).map(|_| life.live(100, 0, 100)).last(), Some(Class::Batch));
    }
}
