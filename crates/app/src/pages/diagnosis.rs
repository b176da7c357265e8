//! What was found on this computer, and a report to send.

use std::cell::{Cell, RefCell};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, glib};
use scherzo_api::catalogue;
use scherzo_api::client::{ClientState, DiagnosisFinding, Link};
use scherzo_i18n::gettext;

use super::plain_row;
use crate::config::VERSION;
use crate::model::format::with_commands;
use crate::model::report::{self, Weight};
use crate::notices::{Notices, error_text};
use crate::service::Service;

mod imp {
    use super::{
        Cell, CompositeTemplate, DiagnosisFinding, NavigationPageImpl, ObjectImpl, ObjectImplExt, ObjectSubclass,
        ObjectSubclassExt, RefCell, Service, TemplateChild, WidgetImpl, glib,
    };
    use gtk::glib::Properties;
    use gtk::glib::subclass::object::DerivedObjectProperties;
    use gtk::prelude::*;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate, Properties)]
    #[template(file = "diagnosis.ui")]
    #[properties(wrapper_type = super::DiagnosisPage)]
    pub struct DiagnosisPage {
        #[template_child]
        pub(super) stack: TemplateChild<gtk::Stack>,
        #[template_child]
        pub(super) failure: TemplateChild<adw::StatusPage>,
        #[template_child]
        pub(super) summary: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub(super) copy: TemplateChild<gtk::Button>,
        #[template_child]
        pub(super) again: TemplateChild<gtk::Button>,
        #[property(get, construct_only)]
        pub(super) service: RefCell<Option<Service>>,
        pub(super) has_looked: Cell<bool>,
        pub(super) findings: RefCell<Vec<DiagnosisFinding>>,
        pub(super) rows: RefCell<Vec<adw::ActionRow>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for DiagnosisPage {
        const NAME: &'static str = "ScherzoDiagnosisPage";
        type Type = super::DiagnosisPage;
        type ParentType = adw::NavigationPage;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    #[glib::derived_properties]
    impl ObjectImpl for DiagnosisPage {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().connect_buttons();
            if let Some(service) = self.obj().service() {
                service.follow(&*self.obj(), super::DiagnosisPage::look_first);
            }
        }
    }

    impl WidgetImpl for DiagnosisPage {}
    impl NavigationPageImpl for DiagnosisPage {}
}

glib::wrapper! {
    /// The diagnosis.
    pub struct DiagnosisPage(ObjectSubclass<imp::DiagnosisPage>)
        @extends adw::NavigationPage, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl DiagnosisPage {
    pub(crate) fn new(service: &Service) -> Self {
        glib::Object::builder().property("service", service).build()
    }

    fn connect_buttons(&self) {
        let this = self.downgrade();
        self.imp().copy.connect_clicked(move |_| {
            if let Some(page) = this.upgrade() {
                page.copy();
            }
        });
        let this = self.downgrade();
        self.imp().again.connect_clicked(move |_| {
            if let Some(page) = this.upgrade() {
                page.look();
            }
        });
    }

    /// Diagnoses as soon as it is known whether the service runs, which an app that starts at this page does not know yet.
    fn look_first(&self, state: &ClientState) {
        if state.link != Link::Connecting && !self.imp().has_looked.replace(true) {
            self.look();
        }
    }

    /// Asks the service to look.
    fn look(&self) {
        let Some(service) = self.service() else { return };
        self.imp().again.set_sensitive(false);
        let this = self.downgrade();
        glib::spawn_future_local(async move {
            let findings = service.client().diagnose().await;
            let Some(page) = this.upgrade() else { return };
            page.imp().again.set_sensitive(true);
            match findings {
                Ok(findings) => page.show(report::sorted(findings)),
                Err(error) => {
                    page.imp().failure.set_description(Some(&with_commands(&error_text(&error))));
                    page.imp().stack.set_visible_child_name("failure");
                    page.imp().copy.set_sensitive(false);
                }
            }
        });
    }

    fn show(&self, findings: Vec<DiagnosisFinding>) {
        let imp = self.imp();
        for row in imp.rows.take() {
            imp.summary.remove(&row);
        }
        imp.summary.set_title(&report::summary(&findings));
        for finding in &findings {
            let row = row(finding);
            imp.summary.add(&row);
            imp.rows.borrow_mut().push(row);
        }
        imp.findings.replace(findings);
        imp.copy.set_sensitive(true);
        imp.stack.set_visible_child_name("findings");
    }

    fn copy(&self) {
        let (Some(service), Some(notices)) = (self.service(), Notices::over(self)) else { return };
        let os = glib::os_info("PRETTY_NAME").unwrap_or_else(|| "Linux".into());
        let text = report::text(&service.state().service, &self.imp().findings.borrow(), VERSION, &os);
        self.clipboard().set_text(&text);
        notices.say(&gettext("Report copied"));
    }
}

fn row(finding: &DiagnosisFinding) -> adw::ActionRow {
    let weight = Weight::of(&finding.severity);
    let row = plain_row(&catalogue::finding_text(&finding.text, &finding.details), "");
    row.set_title_selectable(true);
    let icon = gtk::Image::from_icon_name(weight.icon());
    icon.add_css_class(weight.style());
    icon.update_property(&[gtk::accessible::Property::Label(&weight.name())]);
    icon.set_tooltip_text(Some(&weight.name()));
    row.add_prefix(&icon);
    row
}
