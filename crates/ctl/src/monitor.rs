//! `scherzoctl monitor`: the service's own statistics signal, once per second.

use std::collections::HashMap;

use futures_util::StreamExt;
use scherzo_api::histogram::Histogram;
use scherzo_api::names::BUS_NAME;
use scherzo_api::stats::Stats;
use scherzo_api::{SchedulerProxy, Snapshot};
use scherzo_wire::layout::Class;
use serde_json::{Map, Value, json};
use zbus::fdo::DBusProxy;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::stats::{micros, numbers};

/// Lines between two headings: a screenful.
const HEADING_EVERY: usize = 22;

pub(crate) async fn run(client: &Client, output: &Output) -> Result<(), Failure> {
    let mut shown = client.snapshot().await?;
    let scheduler = client.scheduler().await?;
    let mut updates = scheduler.receive_stats_updated().await?;
    let mut changes = SchedulerProxy::new(&client.bus).await?.receive_state_changed().await;
    let mut owners = DBusProxy::new(&client.bus).await?.receive_name_owner_changed_with_args(&[(0, BUS_NAME)]).await?;
    scheduler.subscribe().await?;
    let mut view = View::default();
    tell_state(output, &shown);
    loop {
        tokio::select! {
            Some(update) = updates.next() => {
                let stats = Stats::from_wire(update.args()?.stats());
                let waits = histograms(&scheduler).await;
                view.update(output, &shown, stats, waits);
            }
            Some(_) = changes.next() => {
                let now = Snapshot::read(&client.bus).await.unwrap_or_default();
                if now.state != shown.state {
                    tell_state(output, &now);
                    view = View::default();
                }
                shown = now;
            }
            Some(owner) = owners.next() => {
                if owner.args()?.new_owner().is_none() {
                    output::line("The service has ended; waiting for it to return.");
                    view = View::default();
                } else {
                    scheduler.subscribe().await?;
                }
            }
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

fn tell_state(output: &Output, now: &Snapshot) {
    if output.json {
        output::document(Map::from_iter([
            ("state".to_owned(), json!(now.state)),
            ("reason".to_owned(), json!(now.reason)),
        ]));
    } else {
        output::line(&format!("{}: {}", output.mark(now.known_state(), &now.state), now.why()));
    }
}

type Waits = HashMap<String, Histogram>;

/// What was waited since loading; nothing if the scheduler has just ended.
async fn histograms(scheduler: &SchedulerProxy<'_>) -> Waits {
    let wire = scheduler.get_wait_histogram().await.unwrap_or_default();
    wire.into_iter().map(|(class, counts)| (class, Histogram::from_slice(&counts))).collect()
}

/// The last second, from two readings.
#[derive(Default)]
struct View {
    earlier: Option<(Stats, Waits)>,
    nr_lines: usize,
}

impl View {
    fn update(&mut self, output: &Output, shown: &Snapshot, stats: Stats, waits: Waits) {
        if let Some((before, waited)) = &self.earlier
            && stats.uptime_ns > before.uptime_ns
        {
            let second = Second::between(before, &stats, waited, &waits);
            if output.json {
                output::document(second.document(shown, &stats));
            } else {
                if self.nr_lines.is_multiple_of(HEADING_EVERY) {
                    output::line(HEADING);
                }
                output::line(&second.line(shown));
            }
            self.nr_lines += 1;
        }
        self.earlier = Some((stats, waits));
    }
}

const HEADING: &str =
    "mode          running  switches/s  user %  idle/s  wait p99: interactive    batch  engine CPU  faults";

#[derive(Debug, PartialEq)]
struct Second {
    nr_running: u64,
    switches_per_s: f64,
    user_share: f64,
    idle_entries_per_s: f64,
    wait_interactive_p99_us: u64,
    wait_batch_p99_us: u64,
    engine_cpu_share: f64,
    nr_page_faults: u64,
}

impl Second {
    fn between(before: &Stats, now: &Stats, waited: &Waits, waits: &Waits) -> Self {
        let seconds = (now.uptime_ns - before.uptime_ns) as f64 / 1e9;
        let rate = |read: fn(&Stats) -> u64| read(now).saturating_sub(read(before)) as f64 / seconds;
        let contended = rate(|stats| stats.nr_contended_batch);
        let p99 = |class: Class| {
            let earlier = waited.get(class.name()).copied().unwrap_or_default();
            waits.get(class.name()).map_or(0, |histogram| histogram.since(&earlier).percentile_us(990))
        };
        Self {
            nr_running: now.nr_running,
            switches_per_s: rate(|stats| stats.nr_switches),
            user_share: if contended > 0.0 { (rate(|stats| stats.nr_handed_batch) / contended).min(1.0) } else { 1.0 },
            idle_entries_per_s: rate(|stats| stats.nr_idle_entries),
            wait_interactive_p99_us: p99(Class::Interactive),
            wait_batch_p99_us: p99(Class::Batch),
            engine_cpu_share: rate(|stats| stats.engine_cpu_ns) / 1e9,
            nr_page_faults: now.nr_page_faults,
        }
    }

    fn line(&self, shown: &Snapshot) -> String {
        format!(
            "{:12}  {:>7}  {:>10.0}  {:>6.1}  {:>6.0}  {:>21}  {:>7}  {:>8.2} %  {:>6}",
            shown.mode,
            self.nr_running,
            self.switches_per_s,
            self.user_share * 100.0,
            self.idle_entries_per_s,
            micros(self.wait_interactive_p99_us),
            micros(self.wait_batch_p99_us),
            self.engine_cpu_share * 100.0,
            self.nr_page_faults,
        )
    }

    fn document(&self, shown: &Snapshot, stats: &Stats) -> Map<String, Value> {
        let second = json!({
            "switches_per_s": self.switches_per_s,
            "user_share": self.user_share,
            "idle_entries_per_s": self.idle_entries_per_s,
            "wait_interactive_p99_us": self.wait_interactive_p99_us,
            "wait_batch_p99_us": self.wait_batch_p99_us,
            "engine_cpu_share": self.engine_cpu_share,
        });
        Map::from_iter([
            ("state".to_owned(), json!(shown.state)),
            ("mode".to_owned(), json!(shown.mode)),
            ("preemption".to_owned(), json!(shown.preemption)),
            ("last_second".to_owned(), second),
            ("stats".to_owned(), Value::Object(numbers(stats))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(counts: &[u64]) -> Waits {
        Waits::from([("interactive".to_owned(), Histogram::from_slice(counts))])
    }

    #[test]
    fn a_second_is_the_difference() {
        let before = Stats { uptime_ns: 1_000_000_000, nr_switches: 100, engine_cpu_ns: 0, ..Stats::default() };
        let now = Stats {
            uptime_ns: 3_000_000_000,
            nr_switches: 500,
            engine_cpu_ns: 20_000_000,
            nr_contended_batch: 10,
            nr_handed_batch: 9,
            ..Stats::default()
        };
        let second = Second::between(&before, &now, &waits(&[0, 0, 50]), &waits(&[0, 0, 50, 0, 7]));
        assert!((second.switches_per_s - 200.0).abs() < 1e-9);
        assert!((second.engine_cpu_share - 0.01).abs() < 1e-9);
        assert!((second.user_share - 0.9).abs() < 1e-9);
        assert_eq!(second.wait_interactive_p99_us, 16);
        assert_eq!(second.wait_batch_p99_us, 0);
    }

    #[test]
    fn lines_stay_under_their_heading() {
        let second = Second::between(
            &Stats::default(),
            &Stats { uptime_ns: 1, ..Stats::default() },
            &Waits::new(),
            &Waits::new(),
        );
        let line = second.line(&Snapshot { mode: "interactive".into(), ..Snapshot::default() });
        assert_eq!(line.chars().count(), HEADING.chars().count());
    }
}
