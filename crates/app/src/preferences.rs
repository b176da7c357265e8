//! Automation: which rules choose the mode when nobody does.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, glib};
use scherzo_api::Error;
use scherzo_api::catalogue;
use scherzo_api::client::ClientState;
use scherzo_api::types::{Mode, RequestedMode, Seat};

use crate::model::automation;
use crate::notices::{Notices, error_text};
use crate::quick_access_group::QuickAccessGroup;
use crate::rules_group::RulesGroup;
use crate::service::Service;

mod imp {
    use super::{
        AdwDialogImpl, AdwDialogImplExt, CompositeTemplate, ObjectImpl, ObjectImplExt, ObjectSubclass,
        ObjectSubclassExt, PreferencesDialogImpl, QuickAccessGroup, RefCell, RulesGroup, Service, TemplateChild,
        WidgetImpl, glib,
    };
    use gtk::glib::Properties;
    use gtk::glib::subclass::object::DerivedObjectProperties;
    use gtk::prelude::*;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate, Properties)]
    #[template(file = "preferences.ui")]
    #[properties(wrapper_type = super::Preferences)]
    pub struct Preferences {
        #[template_child]
        pub(super) automatic: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub(super) battery: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub(super) profiles: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub(super) rules: TemplateChild<RulesGroup>,
        #[template_child]
        pub(super) start: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub(super) default_mode: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) follow_power_source: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) battery_mode: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) follow_low_battery: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) choice_ends_with_source: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) follow_power_profile: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) follow_profile_changes: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) drive_power_profile: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) modes_plugged_in: TemplateChild<adw::ExpanderRow>,
        #[template_child]
        pub(super) power_saver_mode: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) balanced_mode: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) performance_mode: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) modes_on_battery: TemplateChild<adw::ExpanderRow>,
        #[template_child]
        pub(super) power_saver_mode_on_battery: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) balanced_mode_on_battery: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) performance_mode_on_battery: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) follow_holds: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) boot_delay: TemplateChild<gtk::SpinButton>,
        #[template_child]
        pub(super) scheduler: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub(super) kernel_engine: TemplateChild<adw::SwitchRow>,
        #[property(get, construct_only)]
        pub(super) service: RefCell<Option<Service>>,
        /// The delay is sent once its number has stayed for a moment.
        pub(super) pending: RefCell<Option<glib::SourceId>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Preferences {
        const NAME: &'static str = "ScherzoPreferences";
        type Type = super::Preferences;
        type ParentType = adw::PreferencesDialog;

        fn class_init(class: &mut Self::Class) {
            QuickAccessGroup::ensure_type();
            RulesGroup::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    #[glib::derived_properties]
    impl ObjectImpl for Preferences {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().set_up();
        }
    }

    impl WidgetImpl for Preferences {}

    impl AdwDialogImpl for Preferences {
        fn closed(&self) {
            self.obj().send_pending_delay();
            self.parent_closed();
        }
    }

    impl PreferencesDialogImpl for Preferences {}
}

glib::wrapper! {
    /// The preferences.
    pub struct Preferences(ObjectSubclass<imp::Preferences>)
        @extends adw::PreferencesDialog, adw::Dialog, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget, gtk::ShortcutManager;
}

/// The delay is sent when its number has not changed for this time.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(600);

impl Preferences {
    pub(crate) fn new(service: &Service) -> Self {
        glib::Object::builder().property("service", service).build()
    }

    fn flags(&self) -> [(&'static str, &adw::SwitchRow); 7] {
        let imp = self.imp();
        [
            ("follow_power_source", &imp.follow_power_source),
            ("follow_low_battery", &imp.follow_low_battery),
            ("choice_ends_with_source", &imp.choice_ends_with_source),
            ("follow_power_profile", &imp.follow_power_profile),
            ("follow_profile_changes", &imp.follow_profile_changes),
            ("drive_power_profile", &imp.drive_power_profile),
            ("follow_holds", &imp.follow_holds),
        ]
    }

    fn modes(&self) -> [(&'static str, &adw::ComboRow); 8] {
        let imp = self.imp();
        [
            ("default_mode", &imp.default_mode),
            ("battery_mode", &imp.battery_mode),
            ("power_saver_mode", &imp.power_saver_mode),
            ("balanced_mode", &imp.balanced_mode),
            ("performance_mode", &imp.performance_mode),
            ("power_saver_mode_on_battery", &imp.power_saver_mode_on_battery),
            ("balanced_mode_on_battery", &imp.balanced_mode_on_battery),
            ("performance_mode_on_battery", &imp.performance_mode_on_battery),
        ]
    }

    fn set_up(&self) {
        let titles = Mode::ALL.map(|mode| catalogue::translated(catalogue::mode_title(RequestedMode::Mode(mode))));
        let titles = gtk::StringList::new(&titles.each_ref().map(|title| &**title));
        for (key, row) in self.modes() {
            row.set_model(Some(&titles));
            let this = self.downgrade();
            row.connect_selected_notify(move |row| {
                let Some((page, service)) = this.upgrade().and_then(|page| Some((page.clone(), page.service()?)))
                else {
                    return;
                };
                let chosen = Mode::ALL.get(row.selected() as usize).copied();
                let known = automation::mode(&service.state().service, key);
                if let Some(mode) = chosen.filter(|_| known.is_some() && known != Some(row.selected())) {
                    page.configure(key, zbus::Str::from_static(mode.name()).into());
                }
            });
        }
        for (key, row) in self.flags() {
            let this = self.downgrade();
            row.connect_active_notify(move |row| {
                let Some((page, service)) = this.upgrade().and_then(|page| Some((page.clone(), page.service()?)))
                else {
                    return;
                };
                if automation::flag(&service.state().service, key).is_some_and(|known| known != row.is_active()) {
                    page.configure(key, row.is_active().into());
                }
            });
        }
        let this = self.downgrade();
        self.imp().boot_delay.connect_value_changed(move |_| {
            if let Some(page) = this.upgrade() {
                page.send_delay_soon();
            }
        });
        self.connect_engine();
        if let Some(service) = self.service() {
            service.follow(self, Self::update);
        }
    }

    fn connect_engine(&self) {
        let this = self.downgrade();
        self.imp().kernel_engine.connect_active_notify(move |row| {
            let Some((page, service)) = this.upgrade().and_then(|page| Some((page.clone(), page.service()?))) else {
                return;
            };
            let (wanted, known) = (Seat::from(row.is_active()), Seat::from_name(&service.state().service.engine));
            if known.is_some_and(|known| known != wanted) {
                page.change(async move { service.client().set_engine(wanted).await });
            }
        });
    }

    fn send_delay_soon(&self) {
        let this = self.downgrade();
        let timer = glib::timeout_add_local_once(PAUSE, move || {
            if let Some(page) = this.upgrade() {
                page.imp().pending.take();
                page.send_delay();
            }
        });
        if let Some(earlier) = self.imp().pending.replace(Some(timer)) {
            earlier.remove();
        }
    }

    /// Sends a number that was entered just before the dialog was closed. If that fails, the window shows why.
    fn send_pending_delay(&self) {
        let Some(timer) = self.imp().pending.take() else { return };
        timer.remove();
        let (notices, service, delay_s) = (self.notices(), self.service(), self.new_delay_s());
        if let (Some(notices), Some(service), Some(delay_s)) = (notices, service, delay_s) {
            let client = service.client();
            notices.act(&service, async move { client.configure("boot_delay_s", delay_s).await });
        }
    }

    /// The window's notices, also when the dialog is closed already.
    fn notices(&self) -> Option<Notices> {
        Notices::over(self).or_else(|| Notices::over(&gtk::Application::default().active_window()?))
    }

    fn send_delay(&self) {
        if let Some(delay_s) = self.new_delay_s() {
            self.configure("boot_delay_s", delay_s.into());
        }
    }

    /// The delay that was chosen, if it is another than the service's.
    fn new_delay_s(&self) -> Option<u32> {
        let known = automation::number(&self.service()?.state().service, "boot_delay_s")?;
        Some(self.imp().boot_delay.value_as_int() as u32).filter(|delay_s| *delay_s != known)
    }

    /// Changes a setting.
    fn configure(&self, key: &'static str, value: zbus::Variant<'static>) {
        let Some(service) = self.service() else { return };
        self.change(async move { service.client().configure(key, value).await });
    }

    /// Awaits a change. If it fails, shows why, and has the control show the old value again.
    fn change(&self, call: impl Future<Output = Result<(), Error>> + 'static) {
        let this = self.downgrade();
        glib::spawn_future_local(async move {
            if let (Err(error), Some(page)) = (call.await, this.upgrade()) {
                let toast = adw::Toast::builder().title(error_text(&error)).use_markup(false).build();
                page.add_toast(toast);
                if let Some(service) = page.service() {
                    page.update(&service.state());
                }
            }
        });
    }

    fn update(&self, state: &ClientState) {
        let imp = self.imp();
        let service = &state.service;
        for group in [&imp.automatic, &imp.battery, &imp.profiles, &imp.start, &imp.scheduler] {
            group.set_sensitive(state.current().is_some());
        }
        for (key, row) in self.modes() {
            let place = automation::mode(service, key);
            row.set_sensitive(place.is_some());
            if let Some(place) = place {
                row.set_selected(place);
            }
        }
        for (key, row) in self.flags() {
            let flag = automation::flag(service, key);
            row.set_sensitive(flag.is_some());
            row.set_active(flag.unwrap_or_default());
        }
        // What cannot be changed is not offered.
        imp.scheduler.set_visible(!service.is_of_0_1_0);
        imp.rules.offer_foreground(!service.is_of_0_1_0);
        let seat = Seat::from_name(&service.engine);
        imp.kernel_engine.set_sensitive(seat.is_some());
        imp.kernel_engine.set_active(seat == Some(Seat::Kernel));
        // A number that is being entered is not overwritten: neither before it counts, when the button still has the old one and would show
        // that again, nor before it is sent.
        let is_shown = |delay_s: &u32| imp.boot_delay.value_as_int() as u32 == *delay_s;
        let delay_s = automation::number(service, "boot_delay_s").filter(|delay_s| !is_shown(delay_s));
        if let Some(delay_s) = delay_s.filter(|_| imp.pending.borrow().is_none()) {
            imp.boot_delay.set_value(delay_s.into());
        }
        imp.battery_mode.set_sensitive(imp.follow_power_source.is_active());
        for row in [&imp.modes_plugged_in, &imp.modes_on_battery] {
            row.set_sensitive(imp.follow_power_profile.is_active());
        }
    }
}
