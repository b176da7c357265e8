//! `scherzoctl stats`.

use std::collections::HashMap;
use std::fmt::Display;

use scherzo_api::histogram::Histogram;
use scherzo_api::stats::Stats;
use scherzo_i18n::{fill, gettext, gettext_noop};
use scherzo_wire::layout::Class;
use serde_json::{Map, Value, json};

use crate::cli::Format;
use crate::client::CommandClient;
use crate::failure::Failure;
use crate::openmetrics::{self, Dialect};
use crate::output::{self, Output, left, right};
use crate::patience;

pub(crate) async fn show(client: &CommandClient, output: &Output, format: Format) -> Result<(), Failure> {
    let answers = async {
        let scheduler = client.running().await?;
        Ok((scheduler.get_stats().await?, scheduler.get_wait_histogram().await?))
    };
    let (stats, histograms) = patience::read(answers).await?;
    let stats = Stats::from_wire(&stats);
    let dialect = match format {
        Format::Openmetrics => Some(Dialect::OpenMetrics),
        Format::Prometheus => Some(Dialect::Prometheus),
        Format::Table | Format::Json => None,
    };
    if let Some(dialect) = dialect {
        output::text(&openmetrics::document(&stats, &histograms, dialect));
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
    let loaded: [(&str, &dyn Display); 6] = [
        ("duration", &duration(stats.uptime_ns)),
        ("load_ms", &(stats.load_us / 1000)),
        ("online", &stats.nr_online_cpus),
        ("cpus", &stats.nr_cpus),
        ("tasks", &stats.nr_tasks),
        ("running", &stats.nr_running),
    ];
    let mut lines = vec![fill(
        &gettext(
            "Loaded for {duration}, in {load_ms} ms, on {online} of {cpus} CPUs; {tasks} tasks, {running} on a CPU.",
        ),
        &loaded,
    )];
    lines.push(format!(
        "\n{}{}{}{}",
        left(&gettext("Wait for a CPU"), 24),
        right(&gettext("median"), 12),
        // Translators: the 99th percentile.
        right(&gettext("p99"), 12),
        // Translators: how many times.
        right(&gettext("times"), 14)
    ));
    for class in Class::ALL {
        let counts = histograms.get(class.name()).map(Vec::as_slice).unwrap_or_default();
        lines.push(wait_row(class.name(), &Histogram::from_slice(counts)));
    }
    lines.push(format!("\n{}", gettext("Where tasks went")));
    lines.extend(rows(DISPATCH, stats));
    let share = left(&gettext("contended batch work sent to user space"), 42);
    lines.push(format!("  {share}{:>10.1} %", stats.user_share * 100.0));
    lines.push(format!("\n{}", gettext("The engine's own cost")));
    lines.extend(rows(ENGINE, stats));
    lines.push(format!("\n{}", gettext("What should stay at zero")));
    lines.extend(rows(FAULTS, stats));
    lines.join("\n")
}

const DISPATCH: &[(&str, &str)] = &[
    ("nr_switches", gettext_noop("put on a CPU")),
    ("nr_direct", gettext_noop("straight to an idle CPU")),
    ("nr_submitted", gettext_noop("submitted to user space")),
    ("nr_user", gettext_noop("run as user space decided")),
    ("nr_reclaimed", gettext_noop("reclaimed before it answered")),
    ("nr_as_classified", gettext_noop("queued as classified before")),
    ("nr_preempt", gettext_noop("took a CPU from other work")),
    ("nr_kernel", gettext_noop("queued by the kernel side alone")),
    ("nr_stolen", gettext_noop("taken from another LLC domain")),
    ("nr_migrated_llc", gettext_noop("moved within an LLC domain")),
    ("nr_migrated_far", gettext_noop("moved between LLC domains")),
];
const ENGINE: &[(&str, &str)] = &[
    ("engine_cpu_ns", gettext_noop("CPU time, ns")),
    ("resident_bytes", gettext_noop("memory, bytes")),
    ("nr_loops", gettext_noop("turns")),
    ("nr_records", gettext_noop("records read")),
    ("nr_max_batch", gettext_noop("largest batch")),
    ("nr_doorbells", gettext_noop("doorbells")),
];
const FAULTS: &[(&str, &str)] = &[
    ("nr_page_faults", gettext_noop("page faults of the engine")),
    ("nr_heap_ops", gettext_noop("heap operations of the engine")),
    ("nr_congested", gettext_noop("ring full")),
    ("nr_overflow", gettext_noop("no slot left")),
    ("nr_pool_overflow", gettext_noop("pool full")),
    ("nr_failed", gettext_noop("invalid dispatches")),
    ("nr_bad_records", gettext_noop("invalid records")),
    ("nr_swept", gettext_noop("reclaimed while degraded")),
    ("health", gettext_noop("health: faults, congestion, failures")),
];

fn rows<'a>(group: &'a [(&str, &str)], stats: &'a Stats) -> impl Iterator<Item = String> + 'a {
    let row = |(key, label): &(&str, &str)| {
        format!("  {}{:>14}", left(&gettext(*label), 38), stats.get(key).unwrap_or_default())
    };
    group.iter().map(row)
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
