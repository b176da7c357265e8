//! `scherzoctl monitor`: the service's own statistics signal, once per second; a picture in a terminal, lines elsewhere.

use std::collections::HashMap;

use futures_util::StreamExt;
use scherzo_api::histogram::Histogram;
use scherzo_api::names::{BUS_NAME, OBJECT_PATH};
use scherzo_api::stats::Stats;
use scherzo_api::{SchedulerProxy, Snapshot, StatsUpdatedStream};
use scherzo_i18n::{gettext, gettext_noop};
use scherzo_wire::layout::Class;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use unicode_width::UnicodeWidthStr;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream, PropertiesChangedStream, PropertiesProxy};

use crate::client::CommandClient;
use crate::failure::{Failure, Kind};
use crate::output::{self, Output, left, right};
use crate::patience;
use crate::screen::{Screen, picture};
use crate::stats::{micros, numbers};
use crate::status;

/// Classes whose waits people ask about; the others are few.
const SHOWN: [Class; 2] = [Class::Interactive, Class::Batch];
/// Ctrl-Z.
const SUSPEND: SignalKind = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
/// Lines between two headings.
const HEADING_EVERY: usize = 22;

pub(crate) async fn run(client: &CommandClient, output: &Output) -> Result<(), Failure> {
    // Registered before the loop: a signal that arrives while an answer is awaited is kept until the next iteration.
    let [mut interrupt, mut terminate, mut suspend] =
        [listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, listen(SUSPEND)?];
    let Followed { mut shown, scheduler, mut updates, mut changes, mut owners } =
        patience::read(Followed::open(client)).await?;
    let mut view = LastSecond::open(output);
    view.tell_state(output, &shown);
    loop {
        tokio::select! {
            Some(update) = updates.next() => {
                let stats = Stats::from_wire(update.args()?.stats());
                let waits = patience::read(histograms(&scheduler)).await.unwrap_or_default();
                view.update(&shown, stats, waits);
            }
            Some(_) = changes.next() => {
                // If the service does not answer, NameOwnerChanged follows, or the next change is read.
                let Ok(now) = patience::read(client.snapshot()).await else { continue };
                if now.state != shown.state {
                    view.forget();
                    view.tell_state(output, &now);
                }
                shown = now;
            }
            owner = owners.next() => {
                let Some(owner) = owner else { return Err(Failure::new(Kind::Failure, gettext("The bus is gone."))) };
                view.forget();
                if owner.args()?.new_owner().is_none() {
                    view.tell_end();
                } else {
                    shown = patience::read(subscribe(client, &scheduler)).await?;
                    view.tell_state(output, &shown);
                }
            }
            // Ctrl-Z: the shell gets the main screen back while this program is stopped.
            _ = suspend.recv() => {
                view.leave();
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)
                    .map_err(|error| Failure::new(Kind::Failure, error.to_string()))?;
                view.come_back();
                view.tell_state(output, &shown);
            }
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    Ok(signal(kind)?)
}

type ClassHistograms = HashMap<String, Histogram>;

/// What was waited since loading; nothing if the scheduler has just ended.
async fn histograms(scheduler: &SchedulerProxy<'_>) -> Result<ClassHistograms, Failure> {
    let wire = scheduler.get_wait_histogram().await.unwrap_or_default();
    Ok(wire.into_iter().map(|(class, counts)| (class, Histogram::from_slice(&counts))).collect())
}

/// What the service sends, and what it was like when that began.
struct Followed {
    shown: Snapshot,
    scheduler: SchedulerProxy<'static>,
    updates: StatsUpdatedStream,
    changes: PropertiesChangedStream,
    owners: NameOwnerChangedStream,
}

impl Followed {
    async fn open(client: &CommandClient) -> Result<Self, Failure> {
        // Not started by asking: without a service there is nothing to show.
        client.running().await?;
        let scheduler = client.scheduler().await?;
        let updates = scheduler.receive_stats_updated().await?;
        let properties = PropertiesProxy::builder(&client.bus).destination(BUS_NAME).path(OBJECT_PATH).build().await?;
        let changes = properties.receive_properties_changed().await?;
        let registry = DBusProxy::new(&client.bus).await?;
        let owners = registry.receive_name_owner_changed_with_args(&[(0, BUS_NAME)]).await?;
        let shown = subscribe(client, &scheduler).await?;
        Ok(Self { shown, scheduler, updates, changes, owners })
    }
}

async fn subscribe(client: &CommandClient, scheduler: &SchedulerProxy<'_>) -> Result<Snapshot, Failure> {
    scheduler.subscribe().await?;
    client.snapshot().await
}

/// How it is shown.
enum Display {
    Documents,
    /// So many lines since the last heading.
    Lines(usize),
    Screen(Screen),
}

/// The last second, from two readings.
struct LastSecond {
    display: Display,
    earlier: Option<(Stats, ClassHistograms)>,
}

impl LastSecond {
    fn open(output: &Output) -> Self {
        let display = match output {
            Output { json: true, .. } => Display::Documents,
            Output { can_redraw: true, .. } => Display::Screen(Screen::open()),
            Output { .. } => Display::Lines(0),
        };
        Self { display, earlier: None }
    }

    fn leave(&self) {
        if let Display::Screen(screen) = &self.display {
            screen.close();
        }
    }

    fn come_back(&mut self) {
        self.forget();
        if let Display::Screen(screen) = &self.display {
            screen.reopen();
        }
    }

    /// Forgets the last reading, which rates must not be computed from any more.
    fn forget(&mut self) {
        self.earlier = None;
        if let Display::Lines(nr_lines) = &mut self.display {
            *nr_lines = 0;
        }
    }

    fn tell_state(&self, output: &Output, now: &Snapshot) {
        match &self.display {
            Display::Documents => output::document(Map::from_iter([
                ("state".to_owned(), json!(now.state)),
                ("reason".to_owned(), json!(now.reason)),
            ])),
            Display::Lines(_) => {
                let state = output.mark(now.known_state(), &format!("*{}*", now.state));
                output::line(&format!("{state}: {}", now.why()));
            }
            Display::Screen(screen) => screen.draw(&picture(&status::plain(now), now, None)),
        }
    }

    fn tell_end(&self) {
        let ended = gettext("The service has ended; waiting for it to return.");
        match &self.display {
            // Its state is told when it is back.
            Display::Documents => {}
            Display::Lines(_) => output::line(&ended),
            Display::Screen(screen) => screen.draw(&picture(&ended, &Snapshot::default(), None)),
        }
    }

    fn update(&mut self, shown: &Snapshot, stats: Stats, waits: ClassHistograms) {
        if let Some((before, waited)) = &self.earlier
            && stats.uptime_ns > before.uptime_ns
        {
            let second = Second::between(before, &stats, waited, &waits);
            match &mut self.display {
                Display::Documents => output::document(second.document(shown, &stats)),
                Display::Lines(nr_lines) => {
                    if nr_lines.is_multiple_of(HEADING_EVERY) {
                        output::line(&heading());
                    }
                    output::line(&second.line(shown));
                    *nr_lines += 1;
                }
                Display::Screen(screen) => screen.draw(&picture(&status::plain(shown), shown, Some(&second))),
            }
        }
        self.earlier = Some((stats, waits));
    }
}

/// Headings of the columns, the first on the left, with their least width.
const COLUMNS: [(&str, usize); 9] = [
    (gettext_noop("mode"), 12),
    // Translators: heading of a column: how many tasks run.
    (gettext_noop("running"), 7),
    // Translators: heading of a column: switches from task to task per second.
    (gettext_noop("switches/s"), 10),
    // Translators: heading of a column: share of decisions made by user space.
    (gettext_noop("user %"), 6),
    // Translators: heading of a column: how often a CPU became idle per second.
    (gettext_noop("idle/s"), 6),
    // Translators: heading of a column: 99th percentile of the time that interactive tasks waited.
    (gettext_noop("wait p99: interactive"), 21),
    // Translators: heading of a column: 99th percentile of the time that batch tasks waited.
    (gettext_noop("batch"), 7),
    // Translators: heading of a column: share of a CPU that the engine takes itself.
    (gettext_noop("engine CPU"), 10),
    // Translators: heading of a column: page faults.
    (gettext_noop("faults"), 6),
];

fn heading() -> String {
    row(&COLUMNS.map(|(heading, _)| gettext(heading)))
}

fn row(cells: &[String; COLUMNS.len()]) -> String {
    let widths = COLUMNS.map(|(heading, least)| gettext(heading).width().max(least));
    let mut cells = cells.iter().zip(widths);
    let first = cells.next().map(|(cell, width)| left(cell, width));
    first.into_iter().chain(cells.map(|(cell, width)| right(cell, width))).collect::<Vec<_>>().join("  ")
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Second {
    pub(crate) nr_running: u64,
    pub(crate) switches_per_s: f64,
    pub(crate) user_share: f64,
    pub(crate) idle_entries_per_s: f64,
    /// What was waited in this second.
    pub(crate) waits: Vec<(Class, Histogram)>,
    pub(crate) engine_cpu_share: f64,
    /// Since the scheduler was loaded.
    pub(crate) nr_page_faults: u64,
}

impl Second {
    fn between(before: &Stats, now: &Stats, waited: &ClassHistograms, waits: &ClassHistograms) -> Self {
        let seconds = (now.uptime_ns - before.uptime_ns) as f64 / 1e9;
        let rate = |read: fn(&Stats) -> u64| read(now).saturating_sub(read(before)) as f64 / seconds;
        let contended = rate(|stats| stats.nr_contended_batch);
        let in_between = |class: Class| {
            let all = |waits: &ClassHistograms| waits.get(class.name()).copied().unwrap_or_default();
            (class, all(waits).since(&all(waited)))
        };
        Self {
            nr_running: now.nr_running,
            switches_per_s: rate(|stats| stats.nr_switches),
            user_share: if contended > 0.0 {
                (rate(|stats| stats.nr_submitted_batch) / contended).min(1.0)
            } else {
                1.0
            },
            idle_entries_per_s: rate(|stats| stats.nr_idle_entries),
            waits: SHOWN.map(in_between).to_vec(),
            engine_cpu_share: rate(|stats| stats.engine_cpu_ns) / 1e9,
            nr_page_faults: now.nr_page_faults,
        }
    }

    fn p99_us(&self, class: Class) -> u64 {
        let found = self.waits.iter().find(|(known, _)| *known == class);
        found.map_or(0, |(_, histogram)| histogram.percentile_us(990))
    }

    fn line(&self, shown: &Snapshot) -> String {
        row(&[
            shown.mode.clone(),
            self.nr_running.to_string(),
            format!("{:.0}", self.switches_per_s),
            format!("{:.1}", self.user_share * 100.0),
            format!("{:.0}", self.idle_entries_per_s),
            micros(self.p99_us(Class::Interactive)),
            micros(self.p99_us(Class::Batch)),
            format!("{:.2} %", self.engine_cpu_share * 100.0),
            self.nr_page_faults.to_string(),
        ])
    }

    fn document(&self, shown: &Snapshot, stats: &Stats) -> Map<String, Value> {
        let second = json!({
            "switches_per_s": self.switches_per_s,
            "user_share": self.user_share,
            "idle_entries_per_s": self.idle_entries_per_s,
            "wait_interactive_p99_us": self.p99_us(Class::Interactive),
            "wait_batch_p99_us": self.p99_us(Class::Batch),
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

    fn waits(counts: &[u64]) -> ClassHistograms {
        ClassHistograms::from([("interactive".to_owned(), Histogram::from_slice(counts))])
    }

    #[test]
    fn a_second_is_the_difference() {
        let before = Stats { uptime_ns: 1_000_000_000, nr_switches: 100, engine_cpu_ns: 0, ..Stats::default() };
        let now = Stats {
            uptime_ns: 3_000_000_000,
            nr_switches: 500,
            engine_cpu_ns: 20_000_000,
            nr_contended_batch: 10,
            nr_submitted_batch: 9,
            ..Stats::default()
        };
        let second = Second::between(&before, &now, &waits(&[0, 0, 50]), &waits(&[0, 0, 50, 0, 7]));
        assert!((second.switches_per_s - 200.0).abs() < 1e-9);
        assert!((second.engine_cpu_share - 0.01).abs() < 1e-9);
        assert!((second.user_share - 0.9).abs() < 1e-9);
        assert_eq!(second.p99_us(Class::Interactive), 16);
        assert_eq!(second.p99_us(Class::Batch), 0);
    }

    #[test]
    fn lines_stay_under_their_heading() {
        let second = Second::between(
            &Stats::default(),
            &Stats { uptime_ns: 1, ..Stats::default() },
            &ClassHistograms::new(),
            &ClassHistograms::new(),
        );
        let line = second.line(&Snapshot { mode: "interactive".into(), ..Snapshot::default() });
        assert_eq!(line.chars().count(), heading().chars().count());
    }
}
