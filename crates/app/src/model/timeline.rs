//! The last five minutes, from readings that come about once per second while someone looks.

use std::collections::VecDeque;
use std::fmt::Write;

use scherzo_api::client::Reading;
use scherzo_api::histogram::Waits;
use scherzo_api::stats::Stats;
use scherzo_i18n::gettext;
use scherzo_wire::layout::Class;

use super::format;
use super::plot::{Hue, Plot, Point, Series, Stroke};

/// How far back it goes.
pub(crate) const SPAN_S: f64 = 300.0;
/// Readings further apart make no second: the page was hidden in between.
const GAP_S: f64 = 3.5;

/// One second, from two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// When, on a monotonic clock.
    at_s: f64,
    /// When, in seconds since 1970.
    time_s: u64,
    /// Part of all online CPUs' time spent in tasks, 0 to 1.
    cpu_share: f64,
    /// Dispatched by BPF onto a CPU at once, per second.
    direct_per_s: f64,
    /// Dispatched as user space decided, per second.
    user_per_s: f64,
    /// Queued by BPF itself, per second.
    kernel_per_s: f64,
    /// Tasks waiting for a decision.
    nr_waiting: u64,
    /// Part of one CPU that the engine takes, 0 to 1.
    engine_share: f64,
    /// What the engine keeps in memory.
    engine_bytes: u64,
    waits: Waits,
    /// As they were at the end of this second.
    stats: Stats,
}

/// The seconds that were seen.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    last: Option<(f64, Reading)>,
    samples: VecDeque<Sample>,
}

impl Timeline {
    /// Adds a reading taken at `at_s` on a monotonic clock, `time_s` seconds since 1970.
    pub(crate) fn push(&mut self, at_s: f64, time_s: u64, reading: &Reading) {
        if let Some((before_s, before)) = self.last.replace((at_s, reading.clone()))
            && at_s - before_s <= GAP_S
            && reading.stats.uptime_ns > before.stats.uptime_ns
        {
            self.samples.push_back(Sample::between(at_s, time_s, &before, reading));
        }
        while self.samples.front().is_some_and(|oldest| at_s - oldest.at_s > SPAN_S) {
            self.samples.pop_front();
        }
    }

    /// Whether there are no seconds.
    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Waits of all seconds that were seen.
    pub(crate) fn waits(&self) -> Waits {
        self.samples.iter().fold(Waits::default(), |sum, sample| sum.plus(&sample.waits))
    }

    /// Time spent in tasks.
    pub(crate) fn cpu(&self) -> Plot {
        let lines = vec![self.series(gettext("Processor use"), Hue::Blue, Stroke::Solid, |sample| sample.cpu_share)];
        Plot::new(gettext("Processor Use"), SPAN_S, 1.0, format::percent, lines)
    }

    /// Who dispatched.
    pub(crate) fn dispatches(&self) -> Plot {
        let lines = vec![
            self.series(gettext("At once"), Hue::Blue, Stroke::Solid, |sample| sample.direct_per_s),
            self.series(gettext("By the engine"), Hue::Orange, Stroke::Dashed, |sample| sample.user_per_s),
            self.series(gettext("By the kernel part"), Hue::Purple, Stroke::Dotted, |sample| sample.kernel_per_s),
        ];
        Plot::new(gettext("Tasks Started"), SPAN_S, 10.0, format::per_second, lines)
    }

    /// Tasks waiting for a decision.
    pub(crate) fn queue(&self) -> Plot {
        let waiting = |sample: &Sample| sample.nr_waiting as f64;
        let lines = vec![self.series(gettext("Tasks waiting"), Hue::Green, Stroke::Solid, waiting)];
        Plot::new(gettext("Queue Length"), SPAN_S, 10.0, format::short, lines)
    }

    /// What the engine itself takes.
    pub(crate) fn engine(&self) -> Plot {
        let share = |sample: &Sample| sample.engine_share;
        let lines = vec![self.series(gettext("Of one processor"), Hue::Orange, Stroke::Solid, share)];
        Plot::new(gettext("Cost of the Engine"), SPAN_S, 0.02, format::percent, lines)
    }

    /// What the engine keeps in memory now.
    pub(crate) fn engine_bytes(&self) -> u64 {
        self.samples.back().map_or(0, |sample| sample.engine_bytes)
    }

    fn series(&self, name: String, hue: Hue, stroke: Stroke, value: impl Fn(&Sample) -> f64) -> Series {
        let now_s = self.samples.back().map_or(0.0, |sample| sample.at_s);
        let point = |sample: &Sample| Point { age_s: now_s - sample.at_s, value: value(sample) };
        Series { name, hue, stroke, points: self.samples.iter().map(point).collect() }
    }

    /// One line per second. Column names are stable and not translated; waits are those of that second. At the end is
    /// every statistic, by the name that it has in JSON, as it was then: so one that is new is there as well.
    pub(crate) fn csv(&self) -> String {
        let mut text =
            "time_s,cpu_share,direct_per_s,user_per_s,kernel_per_s,nr_waiting,engine_share,engine_bytes".to_owned();
        for class in Class::ALL {
            // Writing to a string cannot fail.
            let _ = write!(text, ",nr_waits_{0},wait_{0}_p50_us,wait_{0}_p99_us", class.name());
        }
        for key in Stats::KEYS {
            let _ = write!(text, ",stats.{key}");
        }
        text.push('\n');
        for sample in &self.samples {
            sample.write_csv(&mut text);
        }
        text
    }
}

impl Sample {
    fn between(at_s: f64, time_s: u64, before: &Reading, now: &Reading) -> Self {
        let seconds = (now.stats.uptime_ns - before.stats.uptime_ns) as f64 / 1e9;
        let rate = |read: fn(&Stats) -> u64| read(&now.stats).saturating_sub(read(&before.stats)) as f64 / seconds;
        let nr_cpus = now.stats.nr_online_cpus.max(1) as f64;
        Self {
            at_s,
            time_s,
            cpu_share: (rate(|stats| stats.busy_ns + stats.higher_class_ns) / 1e9 / nr_cpus).min(1.0),
            direct_per_s: rate(|stats| stats.nr_direct + stats.nr_preempt),
            user_per_s: rate(|stats| stats.nr_user),
            kernel_per_s: rate(|stats| stats.nr_kernel),
            nr_waiting: now.stats.nr_in_flight + now.stats.nr_pooled,
            engine_share: rate(|stats| stats.engine_cpu_ns) / 1e9,
            engine_bytes: now.stats.process_resident_bytes.max(now.stats.resident_bytes),
            waits: now.waits.since(&before.waits),
            stats: now.stats.clone(),
        }
    }

    fn write_csv(&self, text: &mut String) {
        let Self { time_s, cpu_share, direct_per_s, user_per_s, kernel_per_s, nr_waiting, engine_share, .. } = self;
        let _ = write!(
            text,
            "{time_s},{cpu_share:.4},{direct_per_s:.1},{user_per_s:.1},{kernel_per_s:.1},{nr_waiting},{engine_share:.5},{}",
            self.engine_bytes
        );
        for class in Class::ALL {
            let waits = self.waits.of(class);
            let _ = write!(text, ",{},{},{}", waits.nr_total(), waits.percentile_us(500), waits.percentile_us(990));
        }
        for key in Stats::KEYS {
            let _ = write!(text, ",{}", self.stats.get(key).unwrap_or_default());
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn reading(second: u64, nr_direct: u64) -> Reading {
        let stats = Stats {
            uptime_ns: second * 1_000_000_000,
            nr_online_cpus: 4,
            busy_ns: second * 2_000_000_000,
            nr_direct,
            ..Stats::default()
        };
        let waits = Waits::from_wire(&HashMap::from([("batch".to_owned(), vec![0, nr_direct])]));
        Reading { stats, waits }
    }

    fn at(seconds: &[u64]) -> Timeline {
        let mut timeline = Timeline::default();
        for second in seconds {
            timeline.push(*second as f64, 1_700_000_000 + second, &reading(*second, second * 100));
        }
        timeline
    }

    #[test]
    fn a_second_is_the_difference_of_two_readings() {
        let timeline = at(&[1, 2]);
        assert_eq!(timeline.cpu().describe(0), "50 %");
        assert!(timeline.dispatches().describe(0).contains("100 per second"));
        assert_eq!(timeline.waits().of(Class::Batch).nr_total(), 100);
        assert!(at(&[1]).is_empty());
    }

    #[test]
    fn hidden_time_and_a_new_scheduler_are_no_second() {
        assert_eq!(at(&[1, 2, 60, 61]).samples.len(), 2);
        let mut timeline = at(&[5, 6]);
        timeline.push(7.0, 0, &reading(0, 0));
        assert_eq!(timeline.samples.len(), 1);
    }

    #[test]
    fn five_minutes_are_kept() {
        let timeline = at(&(0..1000).collect::<Vec<_>>());
        assert_eq!(timeline.samples.len(), 301);
        assert!(timeline.queue().series[0].points.iter().all(|point| point.age_s <= SPAN_S));
    }

    #[test]
    fn every_line_of_the_file_has_every_column() {
        let csv = at(&[1, 2, 3]).csv();
        let columns: Vec<_> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [20 + Stats::KEYS.len(); 3]);
        assert!(csv.lines().nth(1).is_some_and(|line| line.starts_with("1700000002,0.5000,100.0,")), "{csv}");
    }

    #[test]
    fn every_statistic_is_in_the_file() {
        let csv = at(&[1, 2]).csv();
        let lines: Vec<Vec<_>> = csv.lines().map(|line| line.split(',').collect()).collect();
        for key in Stats::KEYS {
            assert!(lines[0].contains(&format!("stats.{key}").as_str()), "{key}");
        }
        let column = lines[0].iter().position(|name| *name == "stats.nr_direct").unwrap();
        assert_eq!(lines[1][column], "200");
    }
}
