//! Statistics as metrics: OpenMetrics text, and the older text format of Prometheus, which is what the textfile collector
//! of its node exporter reads. They differ in how the type of a counter is told, and in what a histogram must have.

use std::collections::HashMap;
use std::fmt::Write as _;

use scherzo_api::stats::Stats;

/// Statistics that rise and fall; all others only count up while a scheduler stays loaded.
const GAUGES: &[&str] = &[
    "uptime_ns",
    "load_us",
    "nr_cpus",
    "nr_online_cpus",
    "nr_running",
    "nr_waiting",
    "nr_custody",
    "nr_tasks",
    "nr_max_batch",
    "nr_pooled",
    "threshold_milli",
    "fifo_by_itself",
    "resident_bytes",
    "process_resident_bytes",
];
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
    for key in Stats::KEYS {
        // The histograms say more.
        if !key.starts_with("wait_") {
            metric(&mut text, key, stats.get(key).unwrap_or_default(), dialect);
        }
    }
    gauge(&mut text, "scherzo_user_share_ratio", stats.user_share);
    waits(&mut text, histograms, dialect);
    if dialect == Dialect::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

/// Writing into a string cannot fail.
fn metric(text: &mut String, key: &str, value: u64, dialect: Dialect) {
    let (name, value) = in_base_units(key, value);
    if GAUGES.contains(&key) {
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
fn in_base_units(key: &str, value: u64) -> (String, f64) {
    let value = value as f64;
    if let Some(stem) = key.strip_suffix("_ns") {
        (format!("scherzo_{stem}_seconds"), value / NS_PER_S)
    } else if let Some(stem) = key.strip_suffix("_us") {
        (format!("scherzo_{stem}_seconds"), value / US_PER_S)
    } else {
        (format!("scherzo_{}", key.replace("nr_", "")), value)
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
        // In OpenMetrics there is none without a sum, and a sum is not known.
        if dialect == Dialect::Prometheus {
            let _ = writeln!(text, "scherzo_wait_seconds_count{{class=\"{class}\"}} {nr_so_far}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_statistics() {
        assert!(GAUGES.iter().all(|key| Stats::KEYS.contains(key)));
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
