//! Statistics as metrics: OpenMetrics text, and the older text format of Prometheus, which is what the textfile collector
//! of its node exporter reads. They differ in how the type of a counter is told, and in what a histogram must have.

use std::collections::HashMap;
use std::fmt::Write as _;

use scherzo_api::stats::Stats;
use scherzo_model::statistics::{self, RENAMED, Statistic, StatisticKind, StatisticUnit};

const NS_PER_S: f64 = 1e9;
const US_PER_S: f64 = 1e6;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenMetrics,
    Prometheus,
}

/// The whole text.
pub(crate) fn document(stats: &Stats, histograms: &HashMap<String, Vec<u64>>, dialect: Dialect) -> String {
    let mut text = String::new();
    // The histograms say more than the percentiles.
    let shown = statistics::ALL.iter().filter(|statistic| !statistic.key.starts_with("wait_"));
    for statistic in shown {
        metric(&mut text, statistic, statistic.key, stats, dialect);
    }
    // Renamed metrics keep their old names for one release.
    for (old, new) in RENAMED {
        if let Some(statistic) = statistics::find(new) {
            metric(&mut text, statistic, old, stats, dialect);
        }
    }
    gauge(&mut text, "scherzo_user_share_ratio", stats.user_share);
    waits(&mut text, histograms, dialect);
    if dialect == Dialect::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

/// One statistic under a name of its own. Writing into a string cannot fail.
fn metric(text: &mut String, statistic: &Statistic, key: &str, stats: &Stats, dialect: Dialect) {
    let (name, value) = in_base_units(key, statistic.unit(), stats.get(statistic.key).unwrap_or_default());
    if statistic.kind == StatisticKind::Gauge {
        gauge(text, &name, value);
        return;
    }
    let family = match dialect {
        Dialect::OpenMetrics => name.clone(),
        Dialect::Prometheus => format!("{name}_total"),
    };
    let _ = writeln!(text, "# TYPE {family} counter\n{name}_total {value}");
}

fn gauge(text: &mut String, name: &str, value: f64) {
    let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
}

/// Metrics are in seconds and bytes, and say so in their names.
fn in_base_units(key: &str, unit: StatisticUnit, value: u64) -> (String, f64) {
    let value = value as f64;
    let seconds = |suffix| format!("scherzo_{}_seconds", key.strip_suffix(suffix).unwrap_or(key));
    match unit {
        StatisticUnit::Nanoseconds => (seconds("_ns"), value / NS_PER_S),
        StatisticUnit::Microseconds => (seconds("_us"), value / US_PER_S),
        StatisticUnit::Bytes | StatisticUnit::Count => (format!("scherzo_{}", key.replace("nr_", "")), value),
    }
}

fn waits(text: &mut String, histograms: &HashMap<String, Vec<u64>>, dialect: Dialect) {
    text.push_str("# TYPE scherzo_wait_seconds histogram\n");
    let mut classes: Vec<_> = histograms.iter().collect();
    classes.sort();
    for (class, counts) in classes {
        let mut nr_so_far = 0;
        for (bucket, count) in counts.iter().enumerate() {
            nr_so_far += count;
            let is_last = bucket + 1 == counts.len();
            // Bucket b ends at 2^b µs; the last one has no end.
            let end = if is_last { "+Inf".to_owned() } else { (2f64.powi(bucket as i32) / US_PER_S).to_string() };
            let _ = writeln!(text, "scherzo_wait_seconds_bucket{{class=\"{class}\",le=\"{end}\"}} {nr_so_far}");
        }
        // OpenMetrics requires a sum for histograms, and the sum of the waits is not known.
        if dialect == Dialect::Prometheus {
            let _ = writeln!(text, "scherzo_wait_seconds_count{{class=\"{class}\"}} {nr_so_far}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_metrics_have_both_names() {
        let stats = Stats { nr_submitted: 7, nr_in_flight: 2, ..Stats::default() };
        let text = document(&stats, &HashMap::new(), Dialect::OpenMetrics);
        for line in ["scherzo_submitted_total 7", "scherzo_handed_total 7", "scherzo_in_flight 2", "scherzo_custody 2"]
        {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
        assert!(text.contains("# TYPE scherzo_custody gauge\n"), "{text}");
    }

    #[test]
    fn units_are_base_units() {
        let stats = Stats { nr_switches: 7, uptime_ns: 1_500_000_000, ..Stats::default() };
        let text = document(&stats, &HashMap::new(), Dialect::OpenMetrics);
        assert!(text.contains("# TYPE scherzo_switches counter\nscherzo_switches_total 7\n"), "{text}");
        assert!(text.contains("# TYPE scherzo_uptime_seconds gauge\nscherzo_uptime_seconds 1.5\n"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn buckets_add_up() {
        let text =
            document(&Stats::default(), &HashMap::from([("batch".to_owned(), vec![1, 2, 3])]), Dialect::OpenMetrics);
        for line in ["le=\"0.000001\"} 1", "le=\"0.000002\"} 3", "le=\"+Inf\"} 6"] {
            assert!(text.contains(&format!("scherzo_wait_seconds_bucket{{class=\"batch\",{line}\n")), "{text}");
        }
    }

    #[test]
    fn the_older_format_names_counters_in_full_and_counts_waits() {
        let stats = Stats { nr_switches: 7, ..Stats::default() };
        let histograms = HashMap::from([("batch".to_owned(), vec![1, 2, 3])]);
        let text = document(&stats, &histograms, Dialect::Prometheus);
        assert!(text.contains("# TYPE scherzo_switches_total counter\nscherzo_switches_total 7\n"), "{text}");
        assert!(text.ends_with("le=\"+Inf\"} 6\nscherzo_wait_seconds_count{class=\"batch\"} 6\n"), "{text}");
    }
}
