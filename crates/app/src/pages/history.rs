//! What happened, by day.

use std::cell::{Cell, OnceCell, RefCell};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, glib};
use scherzo_api::client::{ClientState, Entry, Topic, Watch};

use super::{local_time, plain_row};
use crate::model::history::{Day, Line, days};
use crate::service::Service;

/// Entries shown at first, and more with each press of the button.
const NR_LINES: usize = 100;

mod imp {
    use super::{
        BinImpl, Cell, CompositeTemplate, Entry, NR_LINES, ObjectImpl, ObjectImplExt, ObjectSubclass,
        ObjectSubclassExt, OnceCell, RefCell, Service, TemplateChild, Topic, Watch, WidgetImpl, WidgetImplExt, glib,
    };
    use gtk::prelude::*;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate)]
    #[template(file = "history.ui")]
    pub struct HistoryPage {
        #[template_child]
        pub(super) stack: TemplateChild<gtk::Stack>,
        #[template_child]
        pub(super) days: TemplateChild<gtk::Box>,
        #[template_child]
        pub(super) more: TemplateChild<gtk::Button>,
        pub(super) service: OnceCell<Service>,
        pub(super) nr_lines: Cell<usize>,
        pub(super) shown: RefCell<Vec<Entry>>,
        watch: RefCell<Option<Watch>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for HistoryPage {
        const NAME: &'static str = "ScherzoHistoryPage";
        type Type = super::HistoryPage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for HistoryPage {
        fn constructed(&self) {
            self.parent_constructed();
            self.nr_lines.set(NR_LINES);
            let this = self.obj().downgrade();
            self.more.connect_clicked(move |_| {
                if let Some(page) = this.upgrade() {
                    page.show_more();
                }
            });
        }
    }

    impl WidgetImpl for HistoryPage {
        fn map(&self) {
            self.parent_map();
            self.watch.replace(self.service.get().map(|service| service.client().watch(Topic::History)));
        }

        fn unmap(&self) {
            self.watch.take();
            self.parent_unmap();
        }
    }

    impl BinImpl for HistoryPage {}
}

glib::wrapper! {
    /// The third view.
    pub struct HistoryPage(ObjectSubclass<imp::HistoryPage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl HistoryPage {
    /// Shows this service from now on.
    pub(crate) fn bind(&self, service: &Service) {
        // A page is bound once.
        let _ = self.imp().service.set(service.clone());
        service.follow(self, Self::update);
    }

    fn update(&self, state: &ClientState) {
        let imp = self.imp();
        let name = match (state.history.is_empty(), state.current().is_some()) {
            (false, _) => "days",
            (true, true) => "empty",
            (true, false) => "unknown",
        };
        imp.stack.set_visible_child_name(name);
        if *imp.shown.borrow() != state.history {
            imp.shown.replace(state.history.clone());
            self.show();
        }
    }

    fn show_more(&self) {
        self.imp().nr_lines.set(self.imp().nr_lines.get() + NR_LINES);
        self.show();
    }

    fn show(&self) {
        let imp = self.imp();
        while let Some(day) = imp.days.first_child() {
            imp.days.remove(&day);
        }
        let entries = imp.shown.borrow();
        for day in days(&entries, imp.nr_lines.get(), |time_s| local_time(time_s, "%A, %x")) {
            imp.days.append(&group(&day));
        }
        imp.more.set_visible(entries.len() > imp.nr_lines.get());
    }
}

fn group(day: &Day) -> adw::PreferencesGroup {
    let group = adw::PreferencesGroup::builder().title(glib::markup_escape_text(&day.name)).build();
    for line in &day.lines {
        group.add(&row(line));
    }
    group
}

fn row(line: &Line) -> adw::ActionRow {
    let row = plain_row(&line.text, &local_time(line.time_s, "%X"));
    row.set_title_selectable(true);
    let icon = gtk::Image::from_icon_name(line.icon);
    icon.set_accessible_role(gtk::AccessibleRole::Presentation);
    if line.is_trouble {
        icon.add_css_class("warning");
    }
    row.add_prefix(&icon);
    row
}
