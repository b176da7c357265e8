//! The history in days, the newest first.

use scherzo_api::catalogue;
use scherzo_api::client::Entry;
use scherzo_api::types::HistoryEvent;

/// An entry as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Seconds since 1970.
    pub(crate) time_s: u64,
    pub(crate) icon: &'static str,
    /// Worth a second look.
    pub(crate) is_trouble: bool,
    pub(crate) text: String,
}

/// Entries of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

/// The newest `nr_lines` entries by day; `day_of` names the day of a time where the reader is.
pub(crate) fn days(entries: &[Entry], nr_lines: usize, day_of: impl Fn(u64) -> String) -> Vec<Day> {
    let mut days: Vec<Day> = Vec::new();
    for line in entries.iter().rev().take(nr_lines).map(line) {
        let name = day_of(line.time_s);
        match days.last_mut() {
            Some(day) if day.name == name => day.lines.push(line),
            _ => days.push(Day { name, lines: vec![line] }),
        }
    }
    days
}

fn line(entry: &Entry) -> Line {
    let event = entry.event.parse::<HistoryEvent>().ok();
    let is_trouble = matches!(
        event,
        Some(HistoryEvent::NotLoaded | HistoryEvent::Ejected | HistoryEvent::Quarantined | HistoryEvent::Reverted)
    );
    let icon = match event {
        Some(HistoryEvent::Loaded) => "app-running-symbolic",
        Some(HistoryEvent::TurnedOn | HistoryEvent::TurnedOff | HistoryEvent::Unloaded) => "app-off-symbolic",
        _ if is_trouble => "app-problem-symbolic",
        Some(HistoryEvent::Configured) => "app-settings-symbolic",
        _ => "app-mode-symbolic",
    };
    // An event of a newer service shows as its id.
    let text = event.map_or_else(|| format!("{}.", entry.event), |event| catalogue::event_text(event, &entry.details));
    Line { time_s: entry.time_s, icon, is_trouble, text }
}

#[cfg(test)]
mod tests {
    use scherzo_api::details::Details;

    use super::*;

    fn entries() -> Vec<Entry> {
        let entry = |time_s, event: &str, details| Entry { time_s, event: event.into(), details };
        let ejected = Details::from([("seconds".into(), 9.into()), ("reason".into(), "battery-low".into())]);
        vec![
            entry(10, "turned-on", Details::new()),
            entry(90_000, "ejected", ejected),
            entry(90_001, "sang", Details::new()),
        ]
    }

    #[test]
    fn the_newest_day_comes_first_and_its_newest_entry_in_it() {
        let days = days(&entries(), 10, |time_s| format!("day {}", time_s / 86_400));
        assert_eq!(days.iter().map(|day| day.name.as_str()).collect::<Vec<_>>(), ["day 1", "day 0"]);
        let texts: Vec<_> = days[0].lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["sang.", "Ended after 9 s. The battery is low."]);
        assert!(days[0].lines[1].is_trouble && !days[1].lines[0].is_trouble);
    }

    #[test]
    fn only_so_many_are_shown() {
        let days = days(&entries(), 1, |_| String::new());
        assert_eq!(days.iter().map(|day| day.lines.len()).sum::<usize>(), 1);
    }
}
