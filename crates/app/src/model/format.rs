//! Quantities and texts as people read them.

use gtk::glib;
use scherzo_i18n::{fill, gettext};

/// A duration in the largest unit that keeps it above one: `850 µs`, `1.2 ms`, `3 s`.
#[must_use]
pub(crate) fn duration_us(us: u64) -> String {
    let (value, unit) = match us {
        0..1_000 => return fill(&gettext("{number} µs"), &[("number", &us)]),
        1_000..1_000_000 => (us as f64 / 1e3, gettext("{number} ms")),
        _ => (us as f64 / 1e6, gettext("{number} s")),
    };
    fill(&unit, &[("number", &short(value))])
}

/// A share of 1 as a percentage.
#[must_use]
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let number = if percent > 0.0 && percent < 10.0 { format!("{percent:.1}") } else { format!("{percent:.0}") };
    fill(&gettext("{number} %"), &[("number", &number)])
}

/// A rate: `1,200 per second`.
#[must_use]
pub(crate) fn per_second(rate: f64) -> String {
    fill(&gettext("{number} per second"), &[("number", &short(rate))])
}

/// A number of bytes.
#[must_use]
pub(crate) fn bytes(bytes: u64) -> String {
    fill(&gettext("{number} MiB"), &[("number", &short(bytes as f64 / f64::from(1 << 20)))])
}

/// At most three significant digits below a thousand, whole above.
#[must_use]
pub(crate) fn short(value: f64) -> String {
    let nr_decimals =
        if value == 0.0 || value >= 99.95 || value.fract() == 0.0 { 0 } else { usize::from(value < 9.995) + 1 };
    let text = format!("{value:.nr_decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A text as markup. What the service puts between backquotes, a command to type, looks as in a terminal.
#[must_use]
pub(crate) fn with_commands(text: &str) -> String {
    let text = glib::markup_escape_text(text);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        // An odd number of backquotes marks no commands: all are literal.
        return text.into();
    }
    let marked = |(nth, part): (usize, &&str)| if nth % 2 == 1 { format!("<tt>{part}</tt>") } else { (*part).into() };
    parts.iter().enumerate().map(marked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_the_unit_that_fits() {
        assert_eq!(duration_us(0), "0 µs");
        assert_eq!(duration_us(999), "999 µs");
        assert_eq!(duration_us(1_234), "1.23 ms");
        assert_eq!(duration_us(64_000), "64 ms");
        assert_eq!(duration_us(2_500_000), "2.5 s");
    }

    #[test]
    fn small_shares_keep_a_decimal() {
        assert_eq!(percent(0.004), "0.4 %");
        assert_eq!(percent(0.714), "71 %");
        assert_eq!(percent(0.0), "0 %");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.25, 9.0, 12.345, 1234.5].map(short), ["0", "0.25", "9", "12.3", "1234"]);
    }

    #[test]
    fn commands_look_as_in_a_terminal() {
        assert_eq!(with_commands("Stop it: `systemctl stop scx`."), "Stop it: <tt>systemctl stop scx</tt>.");
        assert_eq!(with_commands("`a < b` & `c`"), "<tt>a &lt; b</tt> &amp; <tt>c</tt>");
        assert_eq!(with_commands("a ` alone"), "a ` alone");
    }
}
