//! `scherzoctl history`.

use std::time::Duration;

use futures_util::StreamExt;
use scherzo_api::catalogue;
use scherzo_api::details::{self, Details};
use scherzo_api::names::{BUS_NAME, OBJECT_PATH};
use scherzo_i18n::gettext;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};
use zbus::fdo::{DBusProxy, PropertiesProxy};

use crate::cli::HistoryOptions;
use crate::client::CommandClient;
use crate::failure::{Failure, Kind};
use crate::output::{self, Output};
use crate::patience;
use crate::status;
use crate::times;

/// As many as fit a screen.
const NR_ENTRIES: u32 = 20;
/// Wait after a change, so that changes that come together are read together.
const SETTLE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq)]
struct PrintedEntry {
    /// Seconds since 1970.
    time_s: u64,
    event: String,
    details: Details,
}

impl PrintedEntry {
    /// An event of a newer service shows as its id.
    fn text(&self) -> String {
        let known = self.event.parse();
        known.map_or_else(|_| format!("{}.", self.event), |event| catalogue::event_text(event, &self.details))
    }

    fn document(&self) -> Value {
        let details = status::arguments(&self.details);
        json!({"time": self.time_s, "event": self.event, "details": details, "text": self.text()})
    }
}

pub(crate) async fn show(client: &CommandClient, output: &Output, options: &HistoryOptions) -> Result<(), Failure> {
    let followed = if options.follow { Some(Changes::listen(client).await?) } else { None };
    let all = read(client).await?;
    let recent: Vec<_> = all.iter().filter(|entry| options.since.is_none_or(|since| entry.time_s >= since)).collect();
    // With --since there is no limit unless one is given.
    let nr_wanted = options.entries.unwrap_or(if options.since.is_some() { 0 } else { NR_ENTRIES });
    let nr_left_out = if nr_wanted == 0 { 0 } else { recent.len().saturating_sub(nr_wanted as usize) };
    print(output, options, &recent[nr_left_out..]);
    match followed {
        Some(changes) => follow(client, output, options, changes, all).await,
        None => Ok(()),
    }
}

/// Prints what is added, until a signal ends it.
async fn follow(
    client: &CommandClient,
    output: &Output,
    options: &HistoryOptions,
    mut changes: Changes,
    mut known: Vec<PrintedEntry>,
) -> Result<(), Failure> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    loop {
        tokio::select! {
            news = changes.next() => news?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
        match read(client).await {
            Ok(now) => {
                let added = added(&known, &now);
                if !added.is_empty() {
                    print(output, options, &added.iter().collect::<Vec<_>>());
                }
                known = now;
            }
            // The history continues when the service returns.
            Err(failure) if failure.kind() == Kind::Unreachable => {
                output.note(&gettext("The service has ended; waiting for it to return."));
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Signals that come with new entries: a property has changed, or the service was started.
struct Changes {
    properties: zbus::fdo::PropertiesChangedStream,
    owners: zbus::fdo::NameOwnerChangedStream,
}

impl Changes {
    async fn listen(client: &CommandClient) -> Result<Self, Failure> {
        let listen = async {
            // A proxy that remembered properties would start the service by asking for them.
            let properties = PropertiesProxy::builder(&client.bus).destination(BUS_NAME).path(OBJECT_PATH);
            let properties = properties.build().await?.receive_properties_changed().await?;
            let registry = DBusProxy::new(&client.bus).await?;
            let owners = registry.receive_name_owner_changed_with_args(&[(0, BUS_NAME)]).await?;
            Ok(Self { properties, owners })
        };
        patience::read(listen).await
    }

    async fn next(&mut self) -> Result<(), Failure> {
        let is_open = tokio::select! {
            change = self.properties.next() => change.is_some(),
            owner = self.owners.next() => owner.is_some(),
        };
        tokio::time::sleep(SETTLE).await;
        if is_open { Ok(()) } else { Err(Failure::new(Kind::Failure, gettext("The bus is gone."))) }
    }
}

/// Everything that is kept, the oldest first.
async fn read(client: &CommandClient) -> Result<Vec<PrintedEntry>, Failure> {
    let entries = patience::read(async { Ok(client.running().await?.get_history(0).await?) }).await?;
    let entry = |(time_s, event, wire)| PrintedEntry { time_s, event, details: details::from_wire(&wire) };
    Ok(entries.into_iter().map(entry).collect())
}

/// The entries at the end of `now` that `before` does not have. The service may have dropped older entries from any place,
/// but never reorders them.
fn added<'a>(before: &[PrintedEntry], now: &'a [PrintedEntry]) -> &'a [PrintedEntry] {
    let mut before = before.iter();
    let nr_known = now.iter().take_while(|entry| before.any(|known| known == *entry)).count();
    &now[nr_known..]
}

fn print(output: &Output, options: &HistoryOptions, entries: &[&PrintedEntry]) {
    if output.json {
        let entries: Vec<Value> = entries.iter().map(|entry| entry.document()).collect();
        output::document(Map::from_iter([("history".to_owned(), json!(entries))]));
        return;
    }
    for entry in entries {
        output::line(&format!("{}  {}", times::text(entry.time_s, options.utc), entry.text()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time_s: u64, event: &str) -> PrintedEntry {
        PrintedEntry { time_s, event: event.into(), details: Details::new() }
    }

    #[test]
    fn newer_events_show_as_they_are() {
        assert_eq!(entry(0, "moved").text(), "moved.");
    }

    #[test]
    fn what_was_added_is_at_the_end() {
        let all = [entry(1, "loaded"), entry(2, "mode"), entry(2, "mode"), entry(3, "unloaded"), entry(3, "loaded")];
        assert_eq!(added(&all[..2], &all), &all[2..], "an equal one counts");
        assert_eq!(added(&all[..3], &all[1..]), &all[3..], "the oldest has left");
        let without_second = [all[0].clone(), all[3].clone(), all[4].clone()];
        assert_eq!(added(&all[..4], &without_second), &all[4..], "one in the middle has left");
        assert_eq!(added(&all, &all), &[]);
        assert_eq!(added(&[], &all), &all);
    }
}
