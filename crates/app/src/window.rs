//! The window: three views, and pages pushed over them.

use std::cell::OnceCell;
use std::rc::Rc;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{gio, glib};
use scherzo_api::client::ClientState;

use crate::model::overview::Way;
use crate::pages::{ComparePage, DiagnosisPage, HistoryPage, OverviewPage, StatisticsPage};
use crate::service::Service;
use crate::window_state::{SEEN_ON, WindowState};

mod imp {
    use super::{
        AdwApplicationWindowImpl, ApplicationWindowImpl, CompositeTemplate, HistoryPage, ObjectImpl, ObjectImplExt,
        ObjectSubclass, ObjectSubclassExt, OnceCell, OverviewPage, Rc, Service, StatisticsPage, WidgetImpl, WindowImpl,
        WindowImplExt, WindowState, glib,
    };
    use gtk::prelude::StaticTypeExt;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate)]
    #[template(file = "window.ui")]
    pub struct Window {
        #[template_child]
        pub(super) navigation: TemplateChild<adw::NavigationView>,
        #[template_child]
        pub(super) stack: TemplateChild<adw::ViewStack>,
        #[template_child]
        pub(super) overview: TemplateChild<OverviewPage>,
        #[template_child]
        pub(super) statistics: TemplateChild<StatisticsPage>,
        #[template_child]
        pub(super) history: TemplateChild<HistoryPage>,
        pub(super) service: OnceCell<Service>,
        pub(super) remembered: OnceCell<Rc<WindowState>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Window {
        const NAME: &'static str = "ScherzoWindow";
        type Type = super::Window;
        type ParentType = adw::ApplicationWindow;

        fn class_init(class: &mut Self::Class) {
            OverviewPage::ensure_type();
            StatisticsPage::ensure_type();
            HistoryPage::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for Window {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().add_actions();
        }
    }

    impl WidgetImpl for Window {}

    impl WindowImpl for Window {
        fn close_request(&self) -> glib::Propagation {
            self.obj().leave();
            self.parent_close_request()
        }
    }

    impl ApplicationWindowImpl for Window {}
    impl AdwApplicationWindowImpl for Window {}
}

use gtk::CompositeTemplate;

glib::wrapper! {
    /// The window.
    pub struct Window(ObjectSubclass<imp::Window>)
        @extends adw::ApplicationWindow, gtk::ApplicationWindow, gtk::Window, gtk::Widget,
        @implements gio::ActionGroup, gio::ActionMap, gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget,
                    gtk::Native, gtk::Root, gtk::ShortcutManager;
}

impl Window {
    pub(crate) fn new(app: &impl IsA<gtk::Application>, service: &Service) -> Self {
        let window: Self = glib::Object::builder().property("application", app).build();
        let imp = window.imp();
        let remembered = Rc::new(WindowState::load("window.ini"));
        window.set_default_size(remembered.size().0, remembered.size().1);
        window.set_maximized(remembered.flag("maximized"));
        imp.overview.bind(service, &remembered);
        imp.statistics.bind(service);
        imp.history.bind(service);
        // The window is new.
        let _ = imp.service.set(service.clone());
        let _ = imp.remembered.set(remembered);
        service.follow(&window, Self::update);
        ComparePage::restore_after_accident(service, window.upcast_ref());
        window
    }

    fn add_actions(&self) {
        let view = gio::ActionEntry::builder("show-view")
            .parameter_type(Some(glib::VariantTy::STRING))
            .activate(|window: &Self, _, view| window.show_view(view.and_then(glib::Variant::str).unwrap_or_default()))
            .build();
        let diagnose = gio::ActionEntry::builder("diagnose").activate(|window: &Self, _, _| window.diagnose()).build();
        let compare = gio::ActionEntry::builder("compare").activate(|window: &Self, _, _| window.compare()).build();
        let export = gio::ActionEntry::builder("export")
            .activate(|window: &Self, _, _| window.imp().statistics.export())
            .build();
        let turn_on = gio::ActionEntry::builder("turn-on")
            .activate(|window: &Self, _, _| window.imp().overview.go(Way::TurnOn))
            .build();
        self.add_action_entries([view, diagnose, compare, export, turn_on]);
    }

    /// Shows one of the views, or pushes one of the pages.
    pub(crate) fn show_view(&self, view: &str) {
        match view {
            "diagnosis" => self.diagnose(),
            "compare" => self.compare(),
            "overview" | "statistics" | "history" => {
                self.pop_to_views();
                self.imp().stack.set_visible_child_name(view);
            }
            _ => {}
        }
    }

    fn pop_to_views(&self) {
        self.imp().navigation.pop_to_tag("views");
    }

    /// Shows the page of this type: pops back to it if it is open, else pushes a new one.
    fn open<P: IsA<adw::NavigationPage>>(&self, page: impl FnOnce(&Service) -> P) {
        let navigation = &self.imp().navigation;
        let pages = navigation.navigation_stack();
        let opened = pages.iter::<adw::NavigationPage>().flatten().find(ObjectExt::is::<P>);
        if let Some(opened) = opened {
            navigation.pop_to_page(&opened);
        } else if let Some(service) = self.imp().service.get() {
            navigation.push(&page(service));
        }
    }

    fn diagnose(&self) {
        self.open(DiagnosisPage::new);
    }

    fn compare(&self) {
        self.open(ComparePage::new);
    }

    fn update(&self, state: &ClientState) {
        let is_up = state.current().is_some();
        for action in ["diagnose", "compare", "turn-on"] {
            if let Some(action) = self.lookup_action(action).and_downcast::<gio::SimpleAction>() {
                action.set_enabled(is_up);
            }
        }
        if state.current().is_some_and(|service| service.enabled)
            && let Some(remembered) = self.imp().remembered.get().filter(|remembered| !remembered.flag(SEEN_ON))
        {
            remembered.set_flag(SEEN_ON, true);
        }
    }

    /// Closes the window even while a dialog is open: `close` would close the dialog instead.
    pub(crate) fn quit(&self) {
        self.leave();
        self.destroy();
    }

    fn leave(&self) {
        // Leaving the page ends a comparison, which then restores the state of before.
        self.pop_to_views();
        self.remember();
    }

    fn remember(&self) {
        if let Some(remembered) = self.imp().remembered.get() {
            remembered.set_size(self.default_size(), self.is_maximized());
        }
    }
}
