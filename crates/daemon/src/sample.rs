//! Statistics from the shared pages, read without a system call.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use scherzo_api::histogram::Histogram;
use scherzo_api::stats::Stats;
use scherzo_host::Root;
use scherzo_wire::layout::{Class, ControlPage, Counter, CpuStats, NR_WAIT_BUCKETS};
use scherzo_wire::page::Mapping;

/// More possible CPUs than any kernel has.
const MAX_CPUS: u32 = 1 << 16;

/// The pages of one loaded scheduler.
#[derive(Debug)]
pub struct SharedPages {
    control: Mapping<ControlPage>,
    cpus: Mapping<CpuStats>,
    /// Time the engine took to load.
    pub load_us: u64,
    /// Its process, unless simulated.
    pub pid: Option<u32>,
}

impl SharedPages {
    /// Maps what came with the engine's message.
    pub fn map(fds: &[OwnedFd], nr_cpus: u32, load_us: u64, pid: Option<u32>) -> std::io::Result<Self> {
        let [control, cpus] = fds else { return Err(std::io::Error::other("the message carries no pages")) };
        if !(1..=MAX_CPUS).contains(&nr_cpus) {
            return Err(std::io::Error::other(format!("{nr_cpus} CPUs make no sense")));
        }
        Ok(Self {
            control: Mapping::read_only(control, 1)?,
            cpus: Mapping::read_only(cpus, nr_cpus as usize)?,
            load_us,
            pid,
        })
    }

    fn control(&self) -> &ControlPage {
        &self.control.as_slice()[0]
    }

    /// BPF schedules alone.
    #[must_use]
    pub fn degraded(&self) -> bool {
        self.control().degraded_seq.load(Relaxed) % 2 == 1
    }

    /// The wait histogram of one class over all CPUs.
    #[must_use]
    pub fn histogram(&self, class: Class) -> Histogram {
        let mut counts = [0; NR_WAIT_BUCKETS];
        for cpu in self.cpus.as_slice() {
            for (sum, count) in counts.iter_mut().zip(&cpu.wait[class as usize]) {
                *sum += count.load(Relaxed);
            }
        }
        Histogram { counts }
    }

    /// All histograms, by the class's name.
    #[must_use]
    pub fn histograms(&self) -> HashMap<String, Vec<u64>> {
        Class::ALL.into_iter().map(|class| (class.name().to_owned(), self.histogram(class).counts.to_vec())).collect()
    }

    /// Everything `GetStats` tells. What the host does not say reads 0.
    #[must_use]
    pub fn stats(&self, root: &Root, uptime: Duration) -> Stats {
        let mut stats = Stats {
            uptime_ns: uptime.as_nanos() as u64,
            load_us: self.load_us,
            nr_cpus: self.cpus.as_slice().len() as u64,
            idle_ns: scherzo_host::idle_ns(root).unwrap_or_default(),
            ..Stats::default()
        };
        self.add_control(&mut stats);
        self.add_cpus(&mut stats);
        self.add_waits(&mut stats);
        self.add_process(root, &mut stats);
        stats.health = health(&stats);
        stats
    }

    fn add_control(&self, stats: &mut Stats) {
        let page = self.control();
        copy_control(page, stats);
        stats.fifo_by_itself = u64::from(page.fifo_since_ns.read() != 0);
    }

    fn add_cpus(&self, stats: &mut Stats) {
        for cpu in self.cpus.as_slice() {
            for (counter, name) in Counter::ALL {
                if let Some(sum) = stats.get_mut(name) {
                    *sum += cpu.counters[counter as usize].load(Relaxed);
                }
            }
            stats.busy_ns += cpu.busy_ns.load(Relaxed);
            stats.higher_class_ns += cpu.higher_class_ns.load(Relaxed);
            stats.nr_idle_entries += cpu.nr_idle_entries.load(Relaxed);
        }
        stats.user_share = match stats.nr_contended_batch {
            0 => 1.0,
            contended => (stats.nr_submitted_batch as f64 / contended as f64).min(1.0),
        };
    }

    fn add_waits(&self, stats: &mut Stats) {
        for class in Class::ALL {
            let histogram = self.histogram(class);
            for (name, per_mille) in [("p50", 500), ("p99", 990)] {
                if let Some(field) = stats.get_mut(&format!("wait_{}_{name}_us", class.name())) {
                    *field = histogram.percentile_us(per_mille);
                }
            }
        }
    }

    fn add_process(&self, root: &Root, stats: &mut Stats) {
        let process = self.pid.and_then(|pid| scherzo_host::process_stats(root, pid).ok()).unwrap_or_default();
        stats.process_resident_bytes = process.resident_bytes;
        stats.process_cpu_ns = process.cpu_ns;
        stats.process_nr_page_faults = process.nr_minor_faults + process.nr_major_faults;
    }
}

/// A word of the control page.
trait PageWord {
    fn read(&self) -> u64;
}

impl PageWord for AtomicU64 {
    fn read(&self) -> u64 {
        self.load(Relaxed)
    }
}

impl PageWord for AtomicI64 {
    /// Gauges are kept without locks and may read below zero for a moment.
    fn read(&self) -> u64 {
        self.load(Relaxed).max(0) as u64
    }
}

macro_rules! control_statistics {
    (
        per_cpu $per_cpu:tt
        control { $($key:ident, $kind:ident, $text:literal, $word:ident;)+ }
        service $service:tt
    ) => {
        /// Every statistic that is a word of the control page.
        fn copy_control(page: &ControlPage, stats: &mut Stats) {
            $(stats.$key = page.$word.read();)+
        }
    };
}

scherzo_model::for_each_statistic!(control_statistics);

/// Whatever costs order or time and never happens on a healthy system, as the ancestors sum it.
fn health(stats: &Stats) -> u64 {
    let congested = stats.nr_congested + stats.nr_overflow + stats.nr_pool_overflow;
    stats.nr_page_faults + stats.nr_heap_ops + congested + stats.nr_failed + stats.nr_bad_records
}

/// The counters of a scheduler that has ended, in one line for the log.
#[must_use]
pub fn final_statistics(stats: &Stats) -> String {
    let counters = Stats::KEYS.iter().filter(|key| key.starts_with("nr_") || **key == "health");
    let counted = counters.filter_map(|key| Some((key, stats.get(key).filter(|count| *count > 0)?)));
    let words: Vec<_> = counted.map(|(key, count)| format!("{key}={count}")).collect();
    let seconds = stats.uptime_ns / 1_000_000_000;
    format!("it ran for {seconds} s, its engine for {} ms: {}", stats.engine_cpu_ns / 1_000_000, words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_sums_what_should_not_happen() {
        let well = Stats { nr_user: 7, nr_swept: 1, ..Stats::default() };
        assert_eq!(health(&well), 0);
        let ill = Stats { nr_page_faults: 1, nr_congested: 10, nr_failed: 100, nr_bad_records: 1000, ..well };
        assert_eq!(health(&ill), 1111);
    }

    #[test]
    fn the_final_statistics_tell_what_happened_and_not_what_did_not() {
        let stats = Stats { uptime_ns: 61_000_000_000, engine_cpu_ns: 5_000_000, nr_user: 7, ..Stats::default() };
        assert_eq!(final_statistics(&stats), "it ran for 61 s, its engine for 5 ms: nr_user=7");
    }
}
