//! The pages of the window, each with its template beside it.

mod compare;
mod diagnosis;
mod history;
mod overview;
mod statistics;

pub(crate) use compare::ComparePage;
pub(crate) use diagnosis::DiagnosisPage;
pub(crate) use history::HistoryPage;
pub(crate) use overview::OverviewPage;
pub(crate) use statistics::StatisticsPage;

use gtk::glib;

use crate::model::format::with_commands;

/// A row whose texts are not markup, except that commands between backquotes look as in a terminal.
fn plain_row(title: &str, subtitle: &str) -> adw::ActionRow {
    adw::ActionRow::builder().title(with_commands(title)).subtitle(with_commands(subtitle)).build()
}

/// A local time in the user's language; empty if it is out of range.
fn local_time(time_s: u64, format: &str) -> String {
    let time = i64::try_from(time_s).ok().and_then(|time_s| glib::DateTime::from_unix_local(time_s).ok());
    time.and_then(|time| time.format(format).ok()).map(String::from).unwrap_or_default()
}
