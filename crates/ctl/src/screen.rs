//! What `scherzoctl monitor` shows in a terminal: one picture, drawn anew every second.

use std::fmt::Display;
use std::io::{self, Stdout, Write};

use scherzo_api::Snapshot;
use scherzo_api::histogram::{Histogram, bounds_us};
use scherzo_i18n::{fill, gettext};
use scherzo_wire::layout::{Class, NR_WAIT_BUCKETS};

use crate::monitor::Second;
use crate::stats::micros;

/// Characters of the longest bar.
const BAR_WIDTH: usize = 22;
/// Eighths of a full block.
const BLOCKS: [&str; 9] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// The alternate screen of the terminal; dropping it restores the main screen.
pub(crate) struct Screen {
    terminal: Stdout,
}

impl Screen {
    /// Switches to the alternate screen, hides the cursor and turns off line wrapping.
    pub(crate) fn open() -> Self {
        let screen = Self { terminal: io::stdout() };
        screen.reopen();
        screen
    }

    /// After [`Screen::close`].
    pub(crate) fn reopen(&self) {
        self.write("\x1b[?1049h\x1b[?25l\x1b[?7l");
    }

    /// Restores the main screen, the cursor and line wrapping.
    pub(crate) fn close(&self) {
        self.write("\x1b[?7h\x1b[?25h\x1b[?1049l");
    }

    /// Replaces the picture; what does not fit the terminal's height is left out.
    pub(crate) fn draw(&self, lines: &[String]) {
        let height = rustix::termios::tcgetwinsize(&self.terminal).map_or(usize::MAX, |size| size.ws_row.into());
        let shown = &lines[..lines.len().min(height.max(1))];
        self.write(&format!("\x1b[H{}\x1b[K\x1b[J", shown.join("\x1b[K\r\n")));
    }

    /// Errors are ignored: the terminal may have been closed.
    fn write(&self, text: &str) {
        let mut terminal = self.terminal.lock();
        let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

/// The picture of a second, below a sentence or two about the state.
pub(crate) fn picture(prose: &str, shown: &Snapshot, second: Option<&Second>) -> Vec<String> {
    let mut lines: Vec<String> = prose.lines().map(str::to_owned).collect();
    lines.push(String::new());
    if let Some(second) = second {
        lines.extend(numbers(second));
        lines.push(String::new());
        lines.extend(histograms(&second.waits));
    } else if shown.kernel_ops.is_empty() {
        lines.push(gettext("Nothing is measured while the kernel's own scheduler runs."));
    } else {
        lines.push(gettext("Measuring …"));
    }
    lines.extend([String::new(), gettext("Ctrl-C ends.")]);
    lines
}

fn numbers(second: &Second) -> [String; 2] {
    let per_s = |number: f64| format!("{number:.0}");
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let tasks: [(&str, &dyn Display); 3] = [
        ("switches", &per_s(second.switches_per_s)),
        ("idle", &per_s(second.idle_entries_per_s)),
        ("running", &second.nr_running),
    ];
    let engine: [(&str, &dyn Display); 3] = [
        ("cpu", &percent(second.engine_cpu_share)),
        ("share", &percent(second.user_share)),
        ("faults", &second.nr_page_faults),
    ];
    [
        // Translators: idle is how often a CPU became idle per second.
        fill(&gettext("{switches} switches/s, {idle} idle/s, {running} tasks on a CPU"), &tasks),
        // Translators: share is that of the contended batch work that the engine, not the kernel side, decides.
        fill(&gettext("Engine: {cpu} % of a CPU, decides {share} % of batch work, {faults} page faults"), &engine),
    ]
}

/// One row per bucket that either class has, one column per class.
fn histograms(waits: &[(Class, Histogram)]) -> Vec<String> {
    let used = |bucket: &usize| waits.iter().any(|(_, histogram)| histogram.counts[*bucket] > 0);
    let (first, last) = ((0..NR_WAIT_BUCKETS).find(used), (0..NR_WAIT_BUCKETS).rev().find(used));
    let (Some(first), Some(last)) = (first, last) else { return vec![gettext("Nobody waited for a CPU.")] };
    let heading = |(class, histogram): &(Class, Histogram)| {
        let text = format!("{}, p99 {}", class.name(), micros(histogram.percentile_us(990)));
        format!("{:>8} {text:BAR_WIDTH$} ", "")
    };
    let mut lines = vec![gettext("Waits for a CPU in the last second:")];
    lines.push(format!("{:>9}  {}", "", waits.iter().map(heading).collect::<String>().trim_end()));
    for bucket in first..=last {
        let cells: String = waits.iter().map(|(_, histogram)| cell(histogram, bucket)).collect();
        lines.push(format!("{:>9}  {}", label(bucket), cells.trim_end()));
    }
    lines
}

fn label(bucket: usize) -> String {
    match bounds_us(bucket) {
        (_, Some(high)) => format!("< {}", micros(high)),
        (low, None) => format!("≥ {}", micros(low)),
    }
}

/// The count, then a bar as long as its part of the class's longest.
fn cell(histogram: &Histogram, bucket: usize) -> String {
    let count = histogram.counts[bucket];
    let most = histogram.counts.iter().max().copied().unwrap_or_default().max(1);
    // A count above zero has a visible bar.
    let eighths = (u128::from(count) * BAR_WIDTH as u128 * 8).div_ceil(u128::from(most)) as usize;
    let bar = BLOCKS[8].repeat(eighths / 8) + BLOCKS[eighths % 8];
    let number = if count == 0 { String::new() } else { count.to_string() };
    format!("{number:>8} {bar:BAR_WIDTH$} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(interactive: &[u64], batch: &[u64]) -> Second {
        let waits = vec![
            (Class::Interactive, Histogram::from_slice(interactive)),
            (Class::Batch, Histogram::from_slice(batch)),
        ];
        Second { waits, switches_per_s: 1234.0, ..Second::default() }
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        let lines = picture("Scherzo is running.", &Snapshot::default(), Some(&second(&[0, 0, 16, 8], &[0, 0, 0, 1])));
        let row = |part: &str| lines.iter().find(|line| line.contains(part)).unwrap().clone();
        assert_eq!(row("< 4 µs").matches('█').count(), BAR_WIDTH);
        assert_eq!(row("< 8 µs").matches('█').count(), BAR_WIDTH / 2 + BAR_WIDTH);
        assert!(row("switches/s").starts_with("1234 "));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("< 2 µs") || line.contains("< 16 µs")), "{lines:#?}");
    }

    #[test]
    fn extremes_have_their_place() {
        let mut counts = [0; NR_WAIT_BUCKETS];
        counts[NR_WAIT_BUCKETS - 1] = u64::MAX;
        let lines = histograms(&second(&counts, &[1]).waits);
        assert!(lines.last().unwrap().trim_start().starts_with('≥'), "{lines:#?}");
        assert_eq!(histograms(&second(&[], &[]).waits), ["Nobody waited for a CPU."]);
        let idle = picture("Scherzo is turned off.", &Snapshot::default(), None);
        assert!(idle.iter().any(|line| line.contains("Nothing is measured")), "{idle:#?}");
    }
}
