//! The language of the person, for every program that talks to people: gettext, through the system's own library.
//!
//! A program calls [`init`] first thing in `main`. Strings are marked where they stand: `gettext("…")`,
//! `ngettext("…", "…", n)`, `pgettext("context", "…")`; arguments go in with [`fill`]. Strings in constants are marked
//! with [`gettext_noop`] and translated where they are shown. Without [`init`] everything stays English.

mod end;

use std::fmt::Display;
use std::path::PathBuf;

pub use end::why_and_until;
use gettextrs::LocaleCategory;
pub use gettextrs::{gettext, ngettext, npgettext, pgettext};
use scherzo_api::catalogue;
pub use scherzo_api::catalogue::gettext_noop;

/// The domain of all our messages; catalogues are called `scherzo.mo`.
pub const DOMAIN: &str = "scherzo";

/// Takes the language from the environment, also for [`scherzo_api::catalogue`].
///
/// Does nothing in a process with several threads. What cannot be set up leaves English.
pub fn init() {
    if !is_single_threaded() {
        return;
    }
    // SAFETY: setlocale must not run while another thread reads the locale, and there is no other thread.
    #[allow(unsafe_code)]
    let locale = unsafe { gettextrs::setlocale(LocaleCategory::LcAll, "") };
    let bound = locale.is_some()
        && gettextrs::bindtextdomain(DOMAIN, data_dir().join("locale")).is_ok()
        && gettextrs::bind_textdomain_codeset(DOMAIN, "UTF-8").is_ok()
        && gettextrs::textdomain(DOMAIN).is_ok();
    if bound {
        catalogue::translate_with(known);
    }
}

/// The translation of a text that comes from elsewhere, such as a message of the service; if translators do not know it,
/// the text itself.
#[must_use]
pub fn known(text: &str) -> String {
    // The translation of nothing is the catalogue's header.
    if text.is_empty() { String::new() } else { gettext(text) }
}

fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Where catalogues and icons are, in `locale` and `icons`: `SCHERZO_DATADIR` if it was set when this was built, for those
/// who move it, else beside the directory of this program, such as `/usr/share`.
#[must_use]
pub fn data_dir() -> PathBuf {
    let built_for = option_env!("SCHERZO_DATADIR").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.ancestors().nth(2)?.join("share"));
    built_for.or_else(beside).unwrap_or_else(|| "/usr/share".into())
}

/// A (translated) message with its arguments in place: `fill(&gettext("Cannot run {program}."), &[("program", &name)])`.
#[must_use]
pub fn fill(template: &str, arguments: &[(&str, &dyn Display)]) -> String {
    let argument =
        |wanted: &str| arguments.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string());
    catalogue::fill_with(template, argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found_by_name() {
        assert_eq!(fill("{b} after {a}, {c}", &[("a", &1), ("b", &"two")]), "two after 1, ?");
    }

    #[test]
    fn threads_keep_english() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                init();
                assert_eq!(gettext("Automatic"), "Automatic");
            });
        });
    }
}
