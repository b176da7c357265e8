//! `scherzoctl history`.

use scherzo_api::catalogue;
use scherzo_api::details::{self, Details};
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::patience;
use crate::status;

pub(crate) async fn show(client: &Client, output: &Output, nr_entries: u32) -> Result<(), Failure> {
    let entries = patience::read(async { Ok(client.running().await?.get_history(nr_entries).await?) }).await?;
    let entries = entries.iter().map(|(time_s, event, wire)| (*time_s, event.as_str(), details::from_wire(wire)));
    if output.json {
        let entries: Vec<Value> = entries.map(|(time_s, event, details)| document(time_s, event, &details)).collect();
        output::document(Map::from_iter([("history".to_owned(), json!(entries))]));
    } else {
        for (time_s, event, details) in entries {
            output::line(&format!("{}  {}", utc(time_s), text(event, &details)));
        }
    }
    Ok(())
}

/// An event of a newer service shows as its id.
fn text(event: &str, details: &Details) -> String {
    event.parse().map_or_else(|_| format!("{event}."), |known| catalogue::event_text(known, details))
}

fn document(time_s: u64, event: &str, details: &Details) -> Value {
    json!({"time": time_s, "event": event, "details": status::arguments(details), "text": text(event, details)})
}

/// `2026-03-01 17:05:09 UTC`, by the days-from-civil algorithm run backwards.
fn utc(time_s: u64) -> String {
    let (days, second) = (time_s / 86_400, time_s % 86_400);
    // Years begin in March here, so that the leap day is the last; day 0 is 0000-03-01.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_772_384_709), "2026-03-01 17:05:09 UTC");
    }

    #[test]
    fn newer_events_show_as_they_are() {
        assert_eq!(text("moved", &Details::new()), "moved.");
    }
}
