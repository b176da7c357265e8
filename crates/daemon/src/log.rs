//! Log lines for the journal: level as the prefix that systemd understands.
//!
//! ERROR means a bug, WARN something that a person should look at, INFO every change of state with its reason, DEBUG
//! the steps between.

use std::fmt;
use std::sync::OnceLock;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// Changes what is logged while the service runs.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Starts logging to standard error.
pub fn start(verbose: bool) {
    let (filter, handle) = reload::Layer::new(targets(if verbose { Level::DEBUG } else { Level::INFO }));
    let to_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let lines = layer().with_writer(std::io::stderr).with_ansi(false).event_format(Lines { to_journal });
    tracing_subscriber::registry().with(filter).with(lines).init();
    // Logging is started once.
    let _ = FILTER.set(handle);
}

fn targets(ours: Level) -> Targets {
    let others = LevelFilter::from_level(ours.min(Level::WARN));
    Targets::new().with_default(others).with_target("scherzo_daemon", LevelFilter::from_level(ours))
}

/// The level as syslog(3) calls it.
#[must_use]
pub fn level() -> &'static str {
    let of = |targets: &Targets| NAMES.iter().find(|(level, _)| targets.would_enable("scherzo_daemon", level));
    let found = FILTER.get().and_then(|filter| filter.with_current(of).ok().flatten());
    found.map_or("info", |(_, name)| name)
}

/// Sets the level by a name of syslog(3); `None` if there is no such level.
#[must_use]
pub fn set_level(name: &str) -> Option<()> {
    let level = match name {
        "emerg" | "alert" | "crit" | "err" => Level::ERROR,
        "warning" => Level::WARN,
        "notice" | "info" => Level::INFO,
        "debug" => Level::DEBUG,
        _ => return None,
    };
    FILTER.get()?.reload(targets(level)).ok()
}

/// The most talkative first.
const NAMES: [(Level, &str); 4] =
    [(Level::DEBUG, "debug"), (Level::INFO, "info"), (Level::WARN, "warning"), (Level::ERROR, "err")];

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
