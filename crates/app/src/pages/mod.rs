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

use adw::prelude::*;
use gtk::glib;
use scherzo_api::Error;
use scherzo_api::catalogue::NO_POLKIT;
use scherzo_i18n::{gettext, known};

use crate::model::format::with_commands;
use crate::window::Window;

/// The window that a widget is in.
fn window_of(widget: &impl IsA<gtk::Widget>) -> Option<Window> {
    widget.root().and_downcast()
}

/// An error in the reader's language where that is known beforehand, else in the service's words.
pub(crate) fn error_text(error: &Error) -> String {
    match error {
        // Nobody has said no, and something can be done about it.
        Error::AccessDenied(text) if text == NO_POLKIT => known(text),
        Error::AccessDenied(_) | Error::InteractiveAuthorizationRequired(_) => {
            gettext("You are not allowed to do that")
        }
        error if error.is_unreachable() => gettext("The Scherzo service cannot be reached"),
        // Those of the service's sentences that never vary are known to translators.
        error => known(&error.to_string()),
    }
}

/// A row whose texts are shown as they are, whatever signs are in them, but for commands.
fn plain_row(title: &str, subtitle: &str) -> adw::ActionRow {
    adw::ActionRow::builder().title(with_commands(title)).subtitle(with_commands(subtitle)).build()
}

/// A time as the reader's clock and language have it; empty if it is out of this world.
fn local_time(time_s: u64, format: &str) -> String {
    let time = i64::try_from(time_s).ok().and_then(|time_s| glib::DateTime::from_unix_local(time_s).ok());
    time.and_then(|time| time.format(format).ok()).map(String::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_one_that_nobody_could_decide() {
        let refused = "You are not allowed to do that";
        assert_eq!(error_text(&Error::AccessDenied("No.".into())), refused);
        assert_eq!(error_text(&Error::InteractiveAuthorizationRequired("Ask.".into())), refused);
        assert!(error_text(&Error::AccessDenied(NO_POLKIT.into())).contains("start polkit"));
        assert_eq!(error_text(&Error::Busy("Try again.".into())), "Try again.");
    }
}
