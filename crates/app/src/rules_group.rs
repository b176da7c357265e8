//! Which mode applications ask for while they run, by rules of the person's own.
//!
//! `scherzoctl applications watch`, a service of the session, goes by them; what is shown is the file that it reads.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, gio, glib};
use scherzo_api::catalogue;
use scherzo_api::types::{Mode, RequestedMode};
use scherzo_i18n::{fill, gettext};
use scherzo_rules::{Places, Problem};

use crate::application_chooser::ApplicationChooser;

/// What a new rule asks for.
const USUAL: RequestedMode = RequestedMode::Mode(Mode::Interactive);

mod imp {
    use super::{
        CompositeTemplate, ObjectImpl, ObjectImplExt, ObjectSubclass, ObjectSubclassExt, PreferencesGroupImpl, RefCell,
        TemplateChild, WidgetImpl, WidgetImplExt, glib,
    };
    use gtk::prelude::*;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate)]
    #[template(file = "rules_group.ui")]
    pub struct RulesGroup {
        #[template_child]
        pub(super) add: TemplateChild<gtk::Button>,
        #[template_child]
        pub(super) none: TemplateChild<adw::ActionRow>,
        pub(super) rows: RefCell<Vec<adw::ComboRow>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for RulesGroup {
        const NAME: &'static str = "ScherzoRulesGroup";
        type Type = super::RulesGroup;
        type ParentType = adw::PreferencesGroup;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for RulesGroup {
        fn constructed(&self) {
            self.parent_constructed();
            let this = self.obj().downgrade();
            self.add.connect_clicked(move |_| {
                if let Some(group) = this.upgrade() {
                    group.choose();
                }
            });
        }
    }

    impl WidgetImpl for RulesGroup {
        fn map(&self) {
            self.parent_map();
            self.obj().show();
        }
    }

    impl PreferencesGroupImpl for RulesGroup {}
}

glib::wrapper! {
    /// The rules.
    pub struct RulesGroup(ObjectSubclass<imp::RulesGroup>)
        @extends adw::PreferencesGroup, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl RulesGroup {
    fn show(&self) {
        let imp = self.imp();
        let (rules, problems) = match Places::of_this_person() {
            Ok(places) => places.read(),
            Err(problem) => (scherzo_rules::Rules::new(), vec![problem.to_string()]),
        };
        for row in imp.rows.take() {
            self.remove(&row);
        }
        for (application, mode) in &rules {
            let row = self.row(application, *mode);
            self.add(&row);
            imp.rows.borrow_mut().push(row);
        }
        imp.none.set_visible(rules.is_empty());
        if let Some(problem) = problems.first() {
            self.tell(problem);
        }
    }

    fn row(&self, application: &str, mode: RequestedMode) -> adw::ComboRow {
        let (name, icon) = known_application(application);
        let titles = Mode::ALL.map(|mode| catalogue::translated(catalogue::mode_title(RequestedMode::Mode(mode))));
        let titles = gtk::StringList::new(&titles.each_ref().map(|title| &**title));
        let row = adw::ComboRow::builder().use_markup(false).model(&titles).build();
        row.set_title(&name);
        row.set_selected(Mode::ALL.iter().position(|known| RequestedMode::Mode(*known) == mode).unwrap_or(0) as u32);
        let image = gtk::Image::builder().gicon(&icon).pixel_size(32).build();
        image.set_accessible_role(gtk::AccessibleRole::Presentation);
        row.add_prefix(&image);
        let remove = gtk::Button::builder().icon_name("edit-delete-symbolic").valign(gtk::Align::Center).build();
        remove.add_css_class("flat");
        remove.set_tooltip_text(Some(&fill(&gettext("Remove {application}"), &[("application", &name)])));
        row.add_suffix(&remove);
        let (this, key) = (self.downgrade(), application.to_owned());
        row.connect_selected_notify(move |row| {
            if let (Some(group), Some(mode)) = (this.upgrade(), Mode::ALL.get(row.selected() as usize)) {
                group.change(|places| places.change(&key, Some(RequestedMode::Mode(*mode))));
            }
        });
        let (this, key) = (self.downgrade(), application.to_owned());
        remove.connect_clicked(move |_| {
            if let Some(group) = this.upgrade() {
                group.change(|places| places.remove(&key));
                group.show();
            }
        });
        row
    }

    fn choose(&self) {
        let this = self.downgrade();
        let chooser = ApplicationChooser::new(move |application| {
            if let Some(group) = this.upgrade() {
                group.change(|places| places.change(application, Some(USUAL)));
                group.show();
            }
        });
        chooser.present(Some(self));
    }

    fn change(&self, change: impl FnOnce(&Places) -> Result<(), Problem>) {
        if let Err(problem) = Places::of_this_person().and_then(|places| change(&places)) {
            self.tell(&problem.to_string());
        }
    }

    fn tell(&self, problem: &str) {
        if let Some(dialog) =
            self.ancestor(adw::PreferencesDialog::static_type()).and_downcast::<adw::PreferencesDialog>()
        {
            dialog.add_toast(adw::Toast::builder().title(problem).use_markup(false).build());
        }
    }
}

/// Name and icon of a desktop id or of the path of an executable.
fn known_application(application: &str) -> (String, gio::Icon) {
    let id = format!("{application}.desktop");
    let info = gio::AppInfo::all().into_iter().find(|info| info.id().is_some_and(|known| known == id));
    let icon = info.as_ref().and_then(gio::prelude::AppInfoExt::icon);
    let name = info.map_or_else(|| application.to_owned(), |info| info.display_name().into());
    (name, icon.unwrap_or_else(|| gio::ThemedIcon::new("application-x-executable").upcast()))
}
