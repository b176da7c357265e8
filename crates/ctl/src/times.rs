//! Moments as people write and read them: in local time.

use chrono::{DateTime, Days, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc};

const FORMAT: &str = "%Y-%m-%d %H:%M:%S";

/// The error message of [`parse`].
const TAKEN: &str =
    "give a time such as \"2026-03-01 17:05\", \"17:05\", today, yesterday, 30min, 2h, 3d or @SECONDS since 1970";

/// The error message of [`parse_span`].
const SPANS_TAKEN: &str = "give a time such as 90s, 30min, 2h or 3d, of a week at most";
const WEEK_S: i64 = 604_800;

/// `2026-03-01 17:05:09`, in local time or UTC.
pub(crate) fn text(time_s: u64, is_utc: bool) -> String {
    let moment = i64::try_from(time_s).ok().and_then(|time_s| DateTime::from_timestamp(time_s, 0)).unwrap_or_default();
    if is_utc {
        moment.format(&format!("{FORMAT} UTC")).to_string()
    } else {
        moment.with_timezone(&Local).format(FORMAT).to_string()
    }
}

/// Seconds since 1970 of a moment that a person names.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    parse_at(text, &Local::now()).ok_or_else(|| TAKEN.to_owned())
}

/// Seconds of a span of time such as `2h`, for which something is to last: up to a week, which is the service's limit.
pub(crate) fn parse_span(text: &str) -> Result<u32, String> {
    let seconds = ago(text.trim()).filter(|seconds| (1..=WEEK_S).contains(seconds));
    let seconds = seconds.filter(|_| text.trim().starts_with(|letter: char| letter.is_ascii_digit()));
    seconds.and_then(|seconds| u32::try_from(seconds).ok()).ok_or_else(|| SPANS_TAKEN.to_owned())
}

fn parse_at<Zone: TimeZone>(text: &str, now: &DateTime<Zone>) -> Option<u64> {
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        return seconds.parse().ok();
    }
    if let Some(seconds) = ago(text) {
        return now.timestamp().checked_sub(seconds).map(|time_s| u64::try_from(time_s).unwrap_or_default());
    }
    let moment = now.timezone().from_local_datetime(&local(text, now.naive_local())?).earliest()?;
    u64::try_from(moment.with_timezone(&Utc).timestamp()).ok()
}

/// A date, a time of today, or both.
fn local(text: &str, now: NaiveDateTime) -> Option<NaiveDateTime> {
    let (today, midnight) = (now.date(), NaiveTime::MIN);
    match text {
        "now" => return Some(now),
        "today" => return Some(today.and_time(midnight)),
        "yesterday" => return Some(today.checked_sub_days(Days::new(1))?.and_time(midnight)),
        _ => {}
    }
    let date = |text: &str| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    if let Some((day, time)) = text.split_once([' ', 'T']) {
        return Some(date(day)?.and_time(time_of_day(time)?));
    }
    date(text).map(|day| day.and_time(midnight)).or_else(|| Some(today.and_time(time_of_day(text)?)))
}

fn time_of_day(text: &str) -> Option<NaiveTime> {
    ["%H:%M:%S", "%H:%M"].iter().find_map(|format| NaiveTime::parse_from_str(text, format).ok())
}

/// Seconds in `2h`, `-2h` and `2 h ago`.
fn ago(text: &str) -> Option<i64> {
    let text = text.trim_start_matches('-').trim_end_matches("ago").trim_end();
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let unit_s = match unit.trim() {
        "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::FixedOffset;

    #[test]
    fn times_are_dates() {
        assert_eq!(text(0, true), "1970-01-01 00:00:00 UTC");
        assert_eq!(text(951_782_400, true), "2000-02-29 00:00:00 UTC");
        assert_eq!(text(1_772_384_709, true), "2026-03-01 17:05:09 UTC");
    }

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, seconds) in [("2h", 7_200), ("90 s", 90), ("30min", 1_800), ("7d", 604_800), ("1w", 604_800)] {
            assert_eq!(parse_span(text), Ok(seconds), "{text}");
        }
        for senseless in ["", "0s", "2", "-2h", "8d", "@5", "soon", "99999999999999999999h"] {
            assert!(parse_span(senseless).is_err(), "{senseless}");
        }
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        let zone = FixedOffset::east_opt(3_600).unwrap();
        // 2026-03-01 18:05:09 where one is an hour ahead.
        let now = zone.timestamp_opt(1_772_384_709, 0).unwrap();
        let parse = |text: &str| parse_at(text, &now);
        let midnight = 1_772_384_709 - (18 * 3_600 + 5 * 60 + 9);
        assert_eq!(parse("@17"), Some(17));
        for same in ["2h", "-2h", "2 h ago", "120min", "2 hours ago"] {
            assert_eq!(parse(same), Some(1_772_384_709 - 7_200), "{same}");
        }
        for same in ["today", "2026-03-01", "00:00", "2026-03-01 00:00:00", "2026-03-01T00:00"] {
            assert_eq!(parse(same), Some(midnight), "{same}");
        }
        assert_eq!(parse("yesterday"), Some(midnight - 86_400));
        assert_eq!(parse("17:30"), Some(midnight + 17 * 3_600 + 1_800));
        for senseless in ["", "soon", "2x", "2026-13-01", "25:00", "-", "@x", "99999999999999999999h"] {
            assert_eq!(parse(senseless), None, "{senseless}");
        }
    }
}
