//! Log lines for the journal: level as the prefix that systemd understands.
//!
//! ERROR means a bug, WARN something that a person should look at, INFO every change of state with its reason, DEBUG
//! the steps between.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging to standard error.
pub fn start(verbose: bool) {
    let ours = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let filter = Targets::new().with_default(LevelFilter::WARN).with_target("scherzo_daemon", ours);
    let to_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let lines = layer().with_writer(std::io::stderr).with_ansi(false).event_format(Lines { to_journal });
    tracing_subscriber::registry().with(lines).with(filter).init();
}

struct Lines {
    to_journal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = *event.metadata().level();
        if self.to_journal {
            write!(to, "<{}>", priority(level))?;
        } else {
            write!(to, "{level:5} ")?;
        }
        context.format_fields(to.by_ref(), event)?;
        writeln!(to)
    }
}

/// Priorities of sd-daemon(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}
