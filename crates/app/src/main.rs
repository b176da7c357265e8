//! `scherzo`, the app: what runs and why, how long tasks wait, and who decides.
//!
//! ```text
//! ScherzoApplication                 actions, command line, notifications
//! └ ScherzoWindow                    AdwNavigationView, toasts
//!   ├ AdwViewStack
//!   │ ├ ScherzoOverviewPage          what runs and why; on, off, modes
//!   │ ├ ScherzoStatisticsPage        live charts
//!   │ └ ScherzoHistoryPage           what happened
//!   ├ ScherzoDiagnosisPage           pushed
//!   ├ ScherzoComparePage             pushed
//!   └ ScherzoPreferences             a dialog
//! ```
//!
//! [`model`] computes what is shown and needs no display; [`service`] is the only bridge to the client's thread. Widgets
//! show the model and call the service. A control always shows the service's state, not the state that was requested.

mod application;
mod application_chooser;
mod config;
mod model;
mod notices;
mod pages;
mod preferences;
mod quick_access_group;
mod rule_row;
mod rules_group;
mod service;
mod session_bus;
mod widgets;
mod window;
mod window_state;

use gtk::glib;
use gtk::prelude::*;

use application::Application;

fn main() -> glib::ExitCode {
    scherzo_i18n::init();
    if let Err(problem) = gtk::gio::resources_register_include!("scherzo.gresource") {
        eprintln!("scherzo: the program is damaged: {problem}");
        return glib::ExitCode::FAILURE;
    }
    glib::set_application_name("Scherzo");
    Application::new().run()
}
