//! What is said over the pages of a window, and calls of the service whose failure is said there.

use std::cell::RefCell;
use std::future::Future;

use adw::prelude::*;
use gtk::glib;
use scherzo_api::Error;
use scherzo_api::catalogue::NO_POLKIT;
use scherzo_i18n::{gettext, known};

use crate::service::Service;

thread_local! {
    /// What offers to take the last choice back.
    static UNDO: RefCell<glib::WeakRef<adw::Toast>> = RefCell::default();
}

/// Where a window says things. It holds neither the window nor the page.
#[derive(Clone, Debug)]
pub(crate) struct Notices(glib::WeakRef<adw::ToastOverlay>);

impl Notices {
    /// Those of the window that a widget is in. The window's content is what toasts lie over.
    pub(crate) fn over(widget: &impl IsA<gtk::Widget>) -> Option<Self> {
        let window = widget.root().and_downcast::<adw::ApplicationWindow>()?;
        Some(Self(window.content().and_downcast::<adw::ToastOverlay>()?.downgrade()))
    }

    /// Says it, briefly.
    pub(crate) fn say(&self, text: &str) {
        self.add(adw::Toast::builder().title(text).use_markup(false).build());
    }

    /// Says it, and offers to take it back. An earlier offer ends: toasts wait for each other, and the one that is seen
    /// would take back something else than what was done last.
    pub(crate) fn offer_undo(&self, text: &str, undo: impl Fn() + 'static) {
        let toast = adw::Toast::builder().title(text).use_markup(false).button_label(gettext("_Undo")).build();
        toast.connect_button_clicked(move |_| undo());
        if let Some(earlier) = UNDO.replace(toast.downgrade()).upgrade() {
            earlier.dismiss();
        }
        self.add(toast);
    }

    fn add(&self, toast: adw::Toast) {
        if let Some(overlay) = self.0.upgrade() {
            overlay.add_toast(toast);
        }
    }

    /// Does it and says so if it fails; then all controls show again what is.
    pub(crate) fn act(&self, service: &Service, call: impl Future<Output = Result<(), Error>> + 'static) {
        let (notices, service) = (self.clone(), service.clone());
        glib::spawn_future_local(async move {
            if let Err(error) = call.await {
                notices.say(&error_text(&error));
                service.emit_by_name::<()>("changed", &[]);
            }
        });
    }
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
