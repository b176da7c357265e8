//! `scherzoctl stats`.

use std::collections::HashMap;

use scherzo_api::histogram::Histogram;
use scherzo_api::stats::Stats;
use scherzo_wire::layout::Class;
use serde_json::{Map, Value, json};

use crate::cli::Format;
use crate::client::Client;
use crate::failure::Failure;
use crate::openmetrics;
use crate::output::{self, Output};

pub(crate) async fn show(client: &Client, output: &Output, format: Format) -> Result<(), Failure> {
    if !client.is_served().await? {
        return Err(Failure::unreachable());
    }
    let scheduler = client.scheduler().await?;
    let stats = Stats::from_wire(&scheduler.get_stats().await?);
    let histograms = scheduler.get_wait_histogram().await?;
    if format == Format::Openmetrics {
        output::text(&openmetrics::document(&stats, &histograms));
    } else if output.json || format == Format::Json {
        let waits: HashMap<_, _> = histograms.into_iter().collect();
        output::document(Map::from_iter([
            ("stats".to_owned(), Value::Object(numbers(&stats))),
            ("wait_log2_us".to_owned(), json!(waits)),
        ]));
    } else {
        output::line(&table(&stats, &histograms));
    }
    Ok(())
}

/// Every statistic by its key.
pub(crate) fn numbers(stats: &Stats) -> Map<String, Value> {
    let number = |key: &&str| ((*key).to_owned(), json!(stats.get(key).unwrap_or_default()));
    let mut numbers: Map<String, Value> = Stats::KEYS.iter().map(number).collect();
    numbers.insert("user_share".to_owned(), json!(stats.user_share));
    numbers
}

fn table(stats: &Stats, histograms: &HashMap<String, Vec<u64>>) -> String {
    let mut lines = vec![format!(
        "Loaded for {}, in {} ms, on {} of {} CPUs; {} tasks, {} on a CPU.",
        duration(stats.uptime_ns),
        stats.load_us / 1000,
        stats.nr_online_cpus,
        stats.nr_cpus,
        stats.nr_tasks,
        stats.nr_running
    )];
    lines.push(format!("\n{:24}{:>12}{:>12}{:>14}", "Wait for a CPU", "median", "p99", "times"));
    for class in Class::ALL {
        let counts = histograms.get(class.name()).map(Vec::as_slice).unwrap_or_default();
        lines.push(wait_row(class.name(), &Histogram::from_slice(counts)));
    }
    lines.push("\nWhere tasks went".to_owned());
    lines.extend(rows(DISPATCH, stats));
    lines.push(format!("{:40}{:>14.1} %", "  contended batch work decided by user space", stats.user_share * 100.0));
    lines.push("\nThe engine's own cost".to_owned());
    lines.extend(rows(ENGINE, stats));
    lines.push("\nWhat should stay at zero".to_owned());
    lines.extend(rows(FAULTS, stats));
    lines.join("\n")
}

const DISPATCH: &[(&str, &str)] = &[
    ("nr_switches", "put on a CPU"),
    ("nr_direct", "straight to an idle CPU"),
    ("nr_handed", "handed to user space"),
    ("nr_user", "run as user space decided"),
    ("nr_preempt", "took a CPU from batch work"),
    ("nr_kernel", "queued by the kernel side alone"),
    ("nr_stolen", "taken from another domain"),
    ("nr_migrated_llc", "moved within a domain"),
    ("nr_migrated_far", "moved between domains"),
];
const ENGINE: &[(&str, &str)] = &[
    ("engine_cpu_ns", "CPU time, ns"),
    ("resident_bytes", "memory, bytes"),
    ("nr_loops", "turns"),
    ("nr_records", "records read"),
    ("nr_max_batch", "largest batch"),
    ("nr_doorbells", "doorbells"),
];
const FAULTS: &[(&str, &str)] = &[
    ("nr_page_faults", "page faults of the engine"),
    ("nr_heap_ops", "heap operations of the engine"),
    ("nr_congested", "ring full"),
    ("nr_overflow", "no slot left"),
    ("nr_pool_overflow", "pool full"),
    ("nr_failed", "senseless decisions"),
    ("nr_bad_records", "senseless records"),
    ("nr_swept", "taken back while degraded"),
];

fn rows<'a>(group: &'a [(&str, &str)], stats: &'a Stats) -> impl Iterator<Item = String> + 'a {
    group.iter().map(|(key, label)| format!("  {label:38}{:>14}", stats.get(key).unwrap_or_default()))
}

fn wait_row(class: &str, histogram: &Histogram) -> String {
    let [median, p99] = [500, 990].map(|per_mille| micros(histogram.percentile_us(per_mille)));
    format!("  {class:22}{median:>12}{p99:>12}{:>14}", histogram.nr_total())
}

/// `850 µs`, `12.3 ms`, `4.5 s`.
pub(crate) fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_statistic() {
        for (key, _) in DISPATCH.iter().chain(ENGINE).chain(FAULTS) {
            assert!(Stats::KEYS.contains(key), "{key}");
        }
    }

    #[test]
    fn times_are_readable() {
        assert_eq!([0, 850, 12_345, 4_500_000].map(micros), ["0 µs", "850 µs", "12.3 ms", "4.5 s"]);
        assert_eq!(duration(3_725_000_000_000), "1 h 2 min");
    }

    #[test]
    fn the_table_names_every_class() {
        let text = table(&Stats::default(), &HashMap::from([("batch".to_owned(), vec![0, 0, 0, 4])]));
        assert!(Class::ALL.iter().all(|class| text.contains(class.name())), "{text}");
        assert!(text.contains("8 µs"), "{text}");
    }
}
