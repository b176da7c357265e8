//! The rules for applications: what each one requests while it runs.
//!
//! `scherzoctl applications watch`, a service of the session, follows the rules; this group shows the file that it reads.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, gio, glib};
use scherzo_api::types::{Mode, RequestedMode};
use scherzo_rules::{ApplicationRule, ApplicationRules, Places, Problem};

use crate::application_chooser::ApplicationChooser;
use crate::model::follower::{Follower, UNIT};
use crate::rule_row::rule_row;
use crate::session_bus::Place;

/// The session's own systemd.
const SYSTEMD: Place<'_> = Place {
    name: "org.freedesktop.systemd1",
    path: "/org/freedesktop/systemd1",
    interface: "org.freedesktop.systemd1.Manager",
};

/// What a new rule asks for.
const USUAL: RequestedMode = RequestedMode::Mode(Mode::Interactive);

/// How often, and how many times, to look whether systemd has done what it was asked for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
const MAX_LOOKS: u32 = 100;

mod imp {
    use super::{
        Cell, CompositeTemplate, Follower, ObjectImpl, ObjectImplExt, ObjectSubclass, ObjectSubclassExt,
        PreferencesGroupImpl, RefCell, TemplateChild, WidgetImpl, WidgetImplExt, glib,
    };
    use gtk::prelude::*;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate)]
    #[template(file = "rules_group.ui")]
    pub struct RulesGroup {
        #[template_child]
        pub(super) add: TemplateChild<gtk::Button>,
        #[template_child]
        pub(super) follow: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) none: TemplateChild<adw::ActionRow>,
        /// What is shown of the service that goes by the rules; nothing until systemd has answered.
        pub(super) follower: Cell<Option<Follower>>,
        pub(super) is_changing: Cell<bool>,
        pub(super) offers_foreground: Cell<bool>,
        pub(super) rows: RefCell<Vec<adw::ExpanderRow>>,
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
            let this = self.obj().downgrade();
            self.follow.connect_active_notify(move |row| {
                if let Some(group) = this.upgrade() {
                    group.set_following(row.is_active());
                }
            });
        }
    }

    impl WidgetImpl for RulesGroup {
        fn map(&self) {
            self.parent_map();
            self.obj().show(None);
            self.obj().look_at_follower();
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
    /// Whether the service can put applications in front.
    pub(crate) fn offer_foreground(&self, offers: bool) {
        if self.imp().offers_foreground.replace(offers) != offers && self.is_mapped() {
            self.show(None);
        }
    }

    /// Shows all rules, with what can be changed in the one for `open`.
    fn show(&self, open: Option<&str>) {
        let imp = self.imp();
        let (rules, problems) = match Places::of_this_person() {
            Ok(places) => places.read(),
            Err(problem) => (ApplicationRules::new(), vec![problem.to_string()]),
        };
        for row in imp.rows.take() {
            self.remove(&row);
        }
        for (application, rule) in &rules {
            let row = self.row(application, *rule);
            row.set_expanded(open.is_some_and(|open| open == application));
            self.add(&row);
            imp.rows.borrow_mut().push(row);
        }
        imp.none.set_visible(rules.is_empty());
        if let Some(problem) = problems.first() {
            self.tell(problem);
        }
    }

    fn row(&self, application: &str, rule: ApplicationRule) -> adw::ExpanderRow {
        let (this, key) = (self.downgrade(), application.to_owned());
        let change =
            move |rule| this.upgrade().is_some_and(|group| group.change(|places| places.change(&key, Some(rule))));
        let (this, key) = (self.downgrade(), application.to_owned());
        rule_row(application, rule, self.imp().offers_foreground.get(), change, move |button| {
            if let Some(group) = this.upgrade() {
                group.remove_rule(&key, button);
            }
        })
    }

    /// The button that was pressed goes away with its row, so the focus moves to the row that takes its place, or to the button
    /// that adds one.
    fn remove_rule(&self, application: &str, pressed: &gtk::Button) {
        let imp = self.imp();
        let position = imp.rows.borrow().iter().position(|row| pressed.is_ancestor(row)).unwrap_or(0);
        self.change(|places| places.remove(application));
        // Before the rows go: GTK would move a focus that was in one of them, later.
        imp.add.grab_focus();
        self.show(None);
        let next = imp.rows.borrow().get(position).or(imp.rows.borrow().last()).cloned();
        if let Some(row) = next {
            row.grab_focus();
        }
    }

    fn choose(&self) {
        let this = self.downgrade();
        let chooser = ApplicationChooser::new(move |application| {
            if let Some(group) = this.upgrade() {
                let is_first = group.imp().rows.borrow().is_empty();
                let key = application.strip_suffix(".desktop").unwrap_or(application);
                // A rule that is there already is shown as it is.
                if !Places::of_this_person().is_ok_and(|places| places.read().0.contains_key(key)) {
                    group.change(|places| places.change(application, Some(USUAL.into())));
                }
                group.show(Some(key));
                // The first rule turns on the service that follows rules.
                let can_follow = group.imp().follower.get().is_some_and(Follower::is_usable);
                if is_first && can_follow && !group.imp().rows.borrow().is_empty() {
                    group.imp().follow.set_active(true);
                }
            }
        });
        chooser.present(Some(self));
    }

    /// Whether it worked; if not, the person is told.
    fn change(&self, change: impl FnOnce(&Places) -> Result<(), Problem>) -> bool {
        let changed = Places::of_this_person().and_then(|places| change(&places));
        if let Err(problem) = &changed {
            self.tell(&problem.to_string());
        }
        changed.is_ok()
    }

    fn look_at_follower(&self) {
        let this = self.clone();
        glib::spawn_future_local(async move {
            let follower = look_at_follower().await;
            if !this.imp().is_changing.get() {
                this.show_follower(follower);
            }
        });
    }

    fn show_follower(&self, follower: Follower) {
        let imp = self.imp();
        // Set first, so that the changes below do not count as the user's.
        imp.follower.set(Some(follower));
        imp.follow.set_subtitle(&follower.explanation());
        imp.follow.set_sensitive(follower.is_usable());
        imp.follow.set_active(follower == Follower::On);
    }

    /// Enables or disables the service for this and all later sessions. The row stays sensitive meanwhile, since it would
    /// lose the keyboard focus otherwise; the last choice counts.
    fn set_following(&self, mut on: bool) {
        let imp = self.imp();
        let is_new = |follower: Follower| follower.is_usable() && (follower == Follower::On) != on;
        if imp.is_changing.get() || !imp.follower.get().is_some_and(is_new) {
            return;
        }
        imp.is_changing.set(true);
        let this = self.clone();
        glib::spawn_future_local(async move {
            let (changed, follower) = loop {
                let answer = (follow(on).await, look_at_follower().await);
                if answer.0.is_err() || this.imp().follow.is_active() == on {
                    break answer;
                }
                on = !on;
            };
            this.show_follower(follower);
            this.imp().is_changing.set(false);
            if let Err(mut problem) = changed {
                gio::DBusError::strip_remote_error(&mut problem);
                this.tell(problem.message());
            }
        });
    }

    fn tell(&self, problem: &str) {
        if let Some(dialog) =
            self.ancestor(adw::PreferencesDialog::static_type()).and_downcast::<adw::PreferencesDialog>()
        {
            dialog.add_toast(adw::Toast::builder().title(problem).use_markup(false).build());
        }
    }
}

/// What systemd says of the service of the session.
async fn look_at_follower() -> Follower {
    let file_state = SYSTEMD.call("GetUnitFileState", &(UNIT,).to_variant()).await;
    let file_state = file_state.map(|answer| answer.child_value(0).get::<String>().unwrap_or_default());
    let active_state = active_state().await.unwrap_or_default();
    Follower::of(file_state.as_deref(), &active_state)
}

async fn active_state() -> Result<String, glib::Error> {
    of_unit("ActiveState").await
}

/// The id of the unit's queued job; 0 if there is none.
async fn nr_of_job() -> Result<u32, glib::Error> {
    of_unit::<(u32, glib::variant::ObjectPath)>("Job").await.map(|(number, _)| number)
}

async fn of_unit<T: glib::variant::FromVariant>(property: &str) -> Result<T, glib::Error> {
    let answer = SYSTEMD.call("LoadUnit", &(UNIT,).to_variant()).await?;
    let path = answer.child_value(0);
    let path = path.str().unwrap_or_default();
    Place { name: SYSTEMD.name, path, interface: "org.freedesktop.systemd1.Unit" }.property(property).await
}

/// As `systemctl --user enable --now` and `disable --now` do.
async fn follow(on: bool) -> Result<(), glib::Error> {
    if on {
        SYSTEMD.call("EnableUnitFiles", &(vec![UNIT], false, false).to_variant()).await?;
    } else {
        SYSTEMD.call("DisableUnitFiles", &(vec![UNIT], false).to_variant()).await?;
    }
    SYSTEMD.call("Reload", &().to_variant()).await?;
    SYSTEMD.call(if on { "StartUnit" } else { "StopUnit" }, &(UNIT, "replace").to_variant()).await?;
    // systemd has only queued the job; the next look is to see its result.
    for _ in 0..MAX_LOOKS {
        if nr_of_job().await? == 0 {
            break;
        }
        glib::timeout_future(BETWEEN_LOOKS).await;
    }
    Ok(())
}
