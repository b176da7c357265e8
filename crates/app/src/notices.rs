//! Toasts of a window, and calls of the service whose failure is shown as a toast.

use std::cell::RefCell;
use std::future::Future;

use adw::prelude::*;
use gtk::glib;
use scherzo_api::Error;
use scherzo_api::catalogue::NO_POLKIT;
use scherzo_i18n::{gettext, known};

use crate::service::Service;

thread_local! {
    /// The toast that offers to undo the last choice.
    static UNDO: RefCell<glib::WeakRef<adw::Toast>> = RefCell::default();
}

/// The toast overlay of a window, as a weak reference.
#[derive(Clone, Debug)]
pub(crate) struct Notices(glib::WeakRef<adw::ToastOverlay>);

impl Notices {
    /// Of the window that a widget is in; its content is the overlay.
    pub(crate) fn over(widget: &impl IsA<gtk::Widget>) -> Option<Self> {
        let window = widget.root().and_downcast::<adw::ApplicationWindow>()?;
        Some(Self(window.content().and_downcast::<adw::ToastOverlay>()?.downgrade()))
    }

    /// Shows a text as a toast.
    pub(crate) fn say(&self, text: &str) {
        self.add(adw::Toast::builder().title(text).use_markup(false).build());
    }

    /// Shows a text as a toast with an Undo button. An earlier such toast is dismissed: toasts queue up, so the visible one
    /// would undo something else than the last choice.
    pub(crate) fn offer_undo(&self, text: &str, undo: impl Fn() + 'static) {
        let toast = adw::Toast::builder().title(text).use_markup(false).button_label(gettext("_Undo")).build();
        toast.connect_button_clicked(move |_| undo());
        Self::end_offer();
        UNDO.replace(toast.downgrade());
        self.add(toast);
    }

    /// Dismisses the offer to undo the last choice, once another choice has taken its place.
    pub(crate) fn end_offer() {
        if let Some(earlier) = UNDO.take().upgrade() {
            earlier.dismiss();
        }
    }

    fn add(&self, toast: adw::Toast) {
        if let Some(overlay) = self.0.upgrade() {
            overlay.add_toast(toast);
        }
    }

    /// Awaits a call. If it fails, shows why, and has all controls show the service's state again.
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

/// An error as a sentence: translated if the text is known beforehand, else as the service has sent it.
pub(crate) fn error_text(error: &Error) -> String {
    match error {
        // Not a refusal by polkit: polkit is missing, and the text says what to do.
        Error::AccessDenied(text) if text == NO_POLKIT => known(text),
        Error::AccessDenied(_) | Error::InteractiveAuthorizationRequired(_) => {
            gettext("You are not allowed to do that")
        }
        error if error.is_unreachable() => gettext("The Scherzo service cannot be reached"),
        // The service's constant sentences are in the translators' template.
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
