//! The application: one window, its actions, its command line, its notifications.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::ControlFlow;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{gio, glib};
use scherzo_api::client::{Bus, ClientState, TELL_AFTER};
use scherzo_i18n::{fill, gettext};

use crate::config::{APP_ID, RESOURCES, VERSION};
use crate::preferences::Preferences;
use crate::service::Service;
use crate::window::Window;

const ACCELERATORS: &[(&str, &[&str])] = &[
    ("app.quit", &["<Control>q"]),
    ("app.preferences", &["<Control>comma"]),
    ("window.close", &["<Control>w"]),
    ("win.show-view('overview')", &["<Alt>1"]),
    ("win.show-view('statistics')", &["<Alt>2"]),
    ("win.show-view('history')", &["<Alt>3"]),
    ("win.diagnose", &["<Control>d"]),
    ("win.compare", &["<Control>k"]),
    ("win.export", &["<Control>e"]),
];
/// What `--view` takes.
const VIEWS: &[&str] = &["overview", "statistics", "history", "diagnosis", "compare"];
const EJECTED: &str = "ejected";

mod imp {
    use super::{
        APP_ID, AdwApplicationImpl, ApplicationExt, ApplicationImpl, ApplicationImplExt, Bus, Cell, ControlFlow,
        EJECTED, GtkApplicationImpl, ObjectImpl, ObjectSubclass, ObjectSubclassExt, OnceCell, RefCell, Service,
        VERSION, glib,
    };

    #[derive(Debug, Default)]
    pub struct Application {
        pub(super) service: OnceCell<Service>,
        pub(super) on_session_bus: Cell<bool>,
        /// How many ejections were noted.
        pub(super) nr_noted: Cell<u64>,
        /// Whether the last ejection was announced, and that was not taken back.
        pub(super) is_told: Cell<bool>,
        /// The timer after which the last ejection is announced, if it lasts.
        pub(super) pending: RefCell<Option<glib::SourceId>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Application {
        const NAME: &'static str = "ScherzoApplication";
        type Type = super::Application;
        type ParentType = adw::Application;
    }

    impl ObjectImpl for Application {}

    impl ApplicationImpl for Application {
        fn handle_local_options(&self, options: &glib::VariantDict) -> ControlFlow<glib::ExitCode> {
            if options.contains("version") {
                println!("scherzo {VERSION}");
                return ControlFlow::Break(glib::ExitCode::SUCCESS);
            }
            self.on_session_bus.set(options.contains("session"));
            self.obj().open_view(options)
        }

        fn startup(&self) {
            self.parent_startup();
            gtk::Window::set_default_icon_name(APP_ID);
            let bus = if self.on_session_bus.get() { Bus::Session } else { Bus::System };
            match Service::start(bus) {
                Ok(service) => {
                    self.obj().set_up(&service);
                    // Startup comes once.
                    let _ = self.service.set(service);
                }
                Err(problem) => {
                    glib::g_critical!("scherzo", "cannot start a thread: {problem}");
                    self.obj().quit();
                }
            }
        }

        fn activate(&self) {
            self.parent_activate();
            self.obj().present_window();
        }

        /// Nothing would come of pressing a notification of an application that has ended.
        fn shutdown(&self) {
            if self.is_told.take() {
                self.obj().withdraw_notification(EJECTED);
            }
            self.parent_shutdown();
        }
    }

    impl GtkApplicationImpl for Application {}
    impl AdwApplicationImpl for Application {}
}

glib::wrapper! {
    /// The application.
    pub struct Application(ObjectSubclass<imp::Application>)
        @extends adw::Application, gtk::Application, gio::Application,
        @implements gio::ActionGroup, gio::ActionMap;
}

impl Application {
    pub(crate) fn new() -> Self {
        let app: Self = glib::Object::builder()
            .property("application-id", APP_ID)
            .property("resource-base-path", RESOURCES)
            .build();
        let option = |name: &str, kind, text: &str, argument: Option<&str>| {
            app.add_main_option(name, 0.into(), glib::OptionFlags::NONE, kind, text, argument);
        };
        option("version", glib::OptionArg::None, &gettext("Print the version and end"), None);
        let views = gettext("Open at overview, statistics, history, diagnosis or compare");
        option("view", glib::OptionArg::String, &views, Some("VIEW"));
        let session = gettext("For developers: use the session bus, where scherzod --simulate serves");
        option("session", glib::OptionArg::None, &session, None);
        app.set_option_context_summary(Some(&gettext(
            "Shows what the Scherzo scheduler does, and lets you turn it on and choose how it works.",
        )));
        app.set_option_context_description(Some(&gettext("The same in a terminal: scherzoctl --help")));
        app
    }

    /// Opens the view named on the command line, in the instance that runs already or in this one.
    fn open_view(&self, options: &glib::VariantDict) -> ControlFlow<glib::ExitCode> {
        let Ok(Some(view)) = options.lookup::<String>("view") else { return ControlFlow::Continue(()) };
        if !VIEWS.contains(&view.as_str()) {
            let problem = gettext("there is no view {view}; there are {views}");
            eprintln!("scherzo: {}", fill(&problem, &[("view", &view), ("views", &VIEWS.join(", "))]));
            return ControlFlow::Break(glib::ExitCode::FAILURE);
        }
        if let Err(problem) = self.register(gio::Cancellable::NONE) {
            eprintln!("scherzo: {problem}");
            return ControlFlow::Break(glib::ExitCode::FAILURE);
        }
        self.activate_action("show", Some(&view.to_variant()));
        if self.is_remote() { ControlFlow::Break(glib::ExitCode::SUCCESS) } else { ControlFlow::Continue(()) }
    }

    fn set_up(&self, service: &Service) {
        let quit = gio::ActionEntry::builder("quit").activate(|app: &Self, _, _| app.close_window()).build();
        let about = gio::ActionEntry::builder("about").activate(|app: &Self, _, _| app.show_about()).build();
        let preferences =
            gio::ActionEntry::builder("preferences").activate(|app: &Self, _, _| app.show_preferences()).build();
        let show = gio::ActionEntry::builder("show")
            .parameter_type(Some(glib::VariantTy::STRING))
            .activate(|app: &Self, _, view| {
                if let (Some(window), Some(view)) = (app.present_window(), view.and_then(glib::Variant::str)) {
                    window.show_view(view);
                }
            })
            .build();
        self.add_action_entries([quit, about, preferences, show]);
        for (action, accelerators) in ACCELERATORS {
            self.set_accels_for_action(action, accelerators);
        }
        service.follow(self, Self::note_ejections);
    }

    fn present_window(&self) -> Option<Window> {
        let window = match self.active_window().and_downcast::<Window>() {
            Some(window) => window,
            None => Window::new(self, self.imp().service.get()?),
        };
        window.present();
        Some(window)
    }

    /// Quits through the window, so that a comparison under way restores what it has changed.
    fn close_window(&self) {
        match self.windows().into_iter().find_map(|window| window.downcast::<Window>().ok()) {
            Some(window) => window.quit(),
            None => self.quit(),
        }
    }

    fn show_preferences(&self) {
        if let (Some(window), Some(service)) = (self.present_window(), self.imp().service.get()) {
            Preferences::new(service).present(Some(&window));
        }
    }

    fn show_about(&self) {
        let about = adw::AboutDialog::from_appdata(&format!("{RESOURCES}/{APP_ID}.metainfo.xml"), Some(VERSION));
        about.set_version(VERSION);
        about.set_copyright(&gettext("© 2026 The Scherzo contributors"));
        // Translators: put your names here, one per line; they are shown in the about dialog.
        let translators = gettext("translator-credits");
        if translators != "translator-credits" {
            about.set_translator_credits(&translators);
        }
        about.present(self.active_window().as_ref());
    }

    /// Announces each ejection once, if it lasts, and takes that back when it is over.
    fn note_ejections(&self, state: &ClientState) {
        let imp = self.imp();
        if state.current().is_some() && state.lasting_exit().is_none() && imp.is_told.replace(false) {
            self.withdraw_notification(EJECTED);
        }
        if imp.nr_noted.replace(state.nr_exits) >= state.nr_exits {
            return;
        }
        let this = self.downgrade();
        let timer = glib::timeout_add_local_once(TELL_AFTER, move || {
            if let Some(app) = this.upgrade() {
                app.imp().pending.take();
                app.tell_ejection();
            }
        });
        if let Some(earlier) = imp.pending.replace(Some(timer)) {
            earlier.remove();
        }
    }

    /// Sends a notification, unless the app's window is active and shows it anyway.
    fn tell_ejection(&self) {
        let Some(state) = self.imp().service.get().map(Service::state) else { return };
        let is_seen = self.active_window().is_some_and(|window| window.is_active());
        let Some(exit) = state.lasting_exit().filter(|_| !is_seen) else { return };
        let notification = gio::Notification::new(&gettext("Scherzo has stopped working"));
        let text = gettext("{why} The kernel's own scheduler has taken over.");
        notification.set_body(Some(&fill(&text, &[("why", &exit.why())])));
        notification.set_default_action_and_target_value("app.show", Some(&"diagnosis".to_variant()));
        self.send_notification(Some(EJECTED), &notification);
        self.imp().is_told.set(true);
    }
}
