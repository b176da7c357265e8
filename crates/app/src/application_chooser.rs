//! A dialog to pick one of the installed applications.

use std::cell::OnceCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, gio, glib};

type Chosen = Box<dyn Fn(&str)>;

mod imp {
    use super::{
        AdwDialogImpl, Chosen, CompositeTemplate, ObjectImpl, ObjectImplExt, ObjectSubclass, ObjectSubclassExt,
        OnceCell, TemplateChild, WidgetImpl, glib,
    };
    use gtk::subclass::prelude::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "application_chooser.ui")]
    pub struct ApplicationChooser {
        #[template_child]
        pub(super) search: TemplateChild<gtk::SearchEntry>,
        #[template_child]
        pub(super) list: TemplateChild<gtk::ListBox>,
        pub(super) chosen: OnceCell<Chosen>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ApplicationChooser {
        const NAME: &'static str = "ScherzoApplicationChooser";
        type Type = super::ApplicationChooser;
        type ParentType = adw::Dialog;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ApplicationChooser {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().fill();
            self.obj().connect_search();
        }
    }

    impl WidgetImpl for ApplicationChooser {}
    impl AdwDialogImpl for ApplicationChooser {}
}

glib::wrapper! {
    /// The dialog.
    pub struct ApplicationChooser(ObjectSubclass<imp::ApplicationChooser>)
        @extends adw::Dialog, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget, gtk::ShortcutManager;
}

impl ApplicationChooser {
    /// Calls `chosen` with a desktop id, if one is chosen.
    pub(crate) fn new(chosen: impl Fn(&str) + 'static) -> Self {
        let dialog: Self = glib::Object::new();
        // The dialog is new.
        let _ = dialog.imp().chosen.set(Box::new(chosen));
        dialog
    }

    fn fill(&self) {
        let mut applications: Vec<_> = gio::AppInfo::all().into_iter().filter(AppInfoExt::should_show).collect();
        applications.sort_by_cached_key(|info| info.display_name().to_lowercase());
        for info in applications {
            if let Some(id) = info.id() {
                self.imp().list.append(&self.row(&info, &id));
            }
        }
    }

    fn row(&self, info: &gio::AppInfo, id: &str) -> adw::ActionRow {
        let row = adw::ActionRow::builder().use_markup(false).activatable(true).build();
        row.set_title(&info.display_name());
        let icon = info.icon().unwrap_or_else(|| gio::ThemedIcon::new("application-x-executable").upcast());
        let image = gtk::Image::builder().gicon(&icon).pixel_size(32).build();
        image.set_accessible_role(gtk::AccessibleRole::Presentation);
        row.add_prefix(&image);
        let (this, id) = (self.downgrade(), id.to_owned());
        row.connect_activated(move |_| {
            let Some(dialog) = this.upgrade() else { return };
            if let Some(chosen) = dialog.imp().chosen.get() {
                chosen(&id);
            }
            dialog.close();
        });
        row
    }

    fn connect_search(&self) {
        let imp = self.imp();
        let search = imp.search.downgrade();
        imp.list.set_filter_func(move |row| {
            let wanted = search.upgrade().map(|search| search.text().to_lowercase()).unwrap_or_default();
            row.downcast_ref::<adw::ActionRow>().is_some_and(|row| row.title().to_lowercase().contains(&wanted))
        });
        let list = imp.list.downgrade();
        imp.search.connect_search_changed(move |_| {
            if let Some(list) = list.upgrade() {
                list.invalidate_filter();
            }
        });
        // The entry takes Escape for itself.
        let dialog = self.downgrade();
        imp.search.connect_stop_search(move |_| {
            if let Some(dialog) = dialog.upgrade() {
                dialog.close();
            }
        });
        imp.search.set_key_capture_widget(Some(self));
    }
}
