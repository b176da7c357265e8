//! Until when what was chosen lasts.

use chrono::{DateTime, Local, TimeZone};
use scherzo_api::Snapshot;
use scherzo_api::types::Reason;

use crate::{fill, gettext};

/// Why the mode is what it is, and, if someone chose it for a time, until when.
#[must_use]
pub fn why_and_until(service: &Snapshot) -> String {
    let why = service.why();
    let until_s = i64::try_from(service.requested_mode_until).unwrap_or_default();
    match DateTime::from_timestamp(until_s, 0) {
        Some(until) if until_s != 0 && service.reason == Reason::Choice.name() => {
            let time = near(&until.with_timezone(&Local), &Local::now());
            // Translators: {why} is the sentence "It was chosen by hand."; {time} is a time of day, or a date and a time.
            fill(&gettext("{why} It lasts until {time}."), &[("why", &why), ("time", &time)])
        }
        _ => why,
    }
}

/// The time of day, with the date if that is another one.
fn near<Zone: TimeZone<Offset: std::fmt::Display>>(until: &DateTime<Zone>, now: &DateTime<Zone>) -> String {
    let format = if until.date_naive() == now.date_naive() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    until.format(format).to_string()
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;

    #[test]
    fn a_date_is_told_if_it_is_not_today() {
        let at = |day, hour| Utc.with_ymd_and_hms(2026, 3, day, hour, 5, 0).unwrap();
        assert_eq!(near(&at(1, 17), &at(1, 9)), "17:05");
        assert_eq!(near(&at(2, 0), &at(1, 23)), "2026-03-02 00:05");
    }

    #[test]
    fn only_a_choice_ends() {
        let choice = Snapshot { reason: "choice".into(), requested_mode_until: 4_000_000_000, ..Snapshot::default() };
        assert!(why_and_until(&choice).contains("lasts until 2096-10-0"), "{}", why_and_until(&choice));
        for without in [
            Snapshot { reason: "hold".into(), ..choice.clone() },
            Snapshot { requested_mode_until: 0, ..choice.clone() },
        ] {
            assert_eq!(why_and_until(&without), without.why());
        }
    }
}
